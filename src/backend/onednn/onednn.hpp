// oneDNN, versions 2.6 and 3: the only folder that knows its API.
//
// oneDNN computes with primitives: descriptors of the tensors (shape, type, memory layout) and an
// operation make a primitive descriptor, for which the library picks an implementation; a primitive
// made from it then runs on pointers. Here stands what every primitive needs; each operation has a
// file pair of its own beside this one.
//
// To add an operation, write `<operation>.hpp` with a class that knows only our types (Shape,
// Format, float*), and `<operation>.cpp` that keeps one Operation a direction:
//
//   std::optional<Operation> make(..., std::string& why) {
//     return attempt(why, [&] {
//       const auto pd = make_desc<dnnl::lrn_forward>(attributes(),
//       dnnl::prop_kind::forward_training, ...); return Operation(dnnl::lrn_forward(pd), pd,
//                        {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
//     });
//   }
//   ...
//   operation.run({x, y});   // pointers in the order of the argument list
//
// The arguments of make_desc are those of version 3's constructor, less engine and attributes;
// version 2 takes the same ones for its operation descriptor, with few exceptions (its lrn and
// batch normalisation know no dst; its pooling with dilation is called pooling_v2): such
// differences are settled by `#if DNNL_VERSION_MAJOR` in the operation's file and nowhere else.
//
// Threads: a primitive is laid out for the number of OpenMP threads at its making and has to run
// with as many. An Operation serves one thread at a time; scratch memory is one piece a thread, as
// large as the neediest operation, for all of them.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crema/scratch_plan.hpp"
#include "crema/shape.hpp"
#include "crema/tensor.hpp"

namespace crema::onednn {

/// The process's CPU engine.
const dnnl::engine& cpu_engine();
/// The calling thread's stream.
dnnl::stream& cpu_stream();
/// "oneDNN 2.6.3".
std::string version();
/// The library drives AVX-512 on this processor.
bool has_avx512();
/// The blocked format that the library's kernels are written for on this processor.
Format preferred_blocked();

/// How a tensor of this shape, type and format lies in memory. Error for ranks above 6 and for
/// types that oneDNN lacks (f64, i64).
dnnl::memory::desc describe(const Shape& shape, DType dtype, Format format);
dnnl::memory::desc describe(const Tensor& tensor);
/// The layout is left to the implementation: for weights.
dnnl::memory::desc describe_any(const Shape& shape, DType dtype);
/// The shape in oneDNN's terms.
dnnl::memory::dims to_dims(const Shape& shape);
bool same_layout(const dnnl::memory::desc& a, const dnnl::memory::desc& b);
/// A name that only equal layouts have.
std::string layout_name(const dnnl::memory::desc& desc);

/// Attributes that every primitive is made with: scratch memory comes from us.
dnnl::primitive_attr attributes();
/// The same; what the target holds is added to the result where `adds`, and y = x < 0 ? slope * x :
/// x applied to it where a slope is given.
dnnl::primitive_attr attributes_with_tail(bool adds, std::optional<float> slope);

/// The primitive descriptor of P, e.g. dnnl::lrn_forward.
template <class P, class... Args>
typename P::primitive_desc make_desc(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(cpu_engine(), args..., attr);
#else
  return typename P::primitive_desc(typename P::desc(args...), attr, cpu_engine());
#endif
}

/// The same for a backward primitive, which needs the descriptor of its forward one.
template <class P, class Hint, class... Args>
typename P::primitive_desc make_backward_desc(const dnnl::primitive_attr& attr, const Hint& forward,
                                              const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(cpu_engine(), args..., forward, attr);
#else
  return typename P::primitive_desc(typename P::desc(args...), attr, cpu_engine(), forward);
#endif
}

/// A primitive descriptor of P whose next_impl() may be called. Version 2 goes on reading the
/// operation's descriptor then, so the two live together; a backward one's `forward` has to live as
/// long.
template <class P>
struct Iterable {
#if DNNL_VERSION_MAJOR < 3
  std::unique_ptr<typename P::desc> operation;
#endif
  typename P::primitive_desc desc;
};

template <class P, class... Args>
Iterable<P> make_iterable(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {typename P::primitive_desc(cpu_engine(), args..., attr)};
#else
  auto operation = std::make_unique<typename P::desc>(args...);
  typename P::primitive_desc desc(*operation, attr, cpu_engine());
  return {std::move(operation), std::move(desc)};
#endif
}

template <class P, class Hint, class... Args>
Iterable<P> make_backward_iterable(const dnnl::primitive_attr& attr, const Hint& forward,
                                   const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {typename P::primitive_desc(cpu_engine(), args..., forward, attr)};
#else
  auto operation = std::make_unique<typename P::desc>(args...);
  typename P::primitive_desc desc(*operation, attr, cpu_engine(), forward);
  return {std::move(operation), std::move(desc)};
#endif
}

/// What went wrong in oneDNN, in words.
std::string explain(const dnnl::error& error);

/// What `body` returns; nullopt, and the reason in `why`, when oneDNN refuses.
template <class Body>
auto attempt(std::string& why, const Body& body) -> std::optional<decltype(body())> {
  try {
    return body();
  } catch (const dnnl::error& error) {
    why = explain(error);
    return std::nullopt;
  }
}

/// A primitive, ready to run on pointers.
class Operation {
 public:
  struct Argument {
    int id;  // DNNL_ARG_*
    dnnl::memory::desc desc;
  };

  Operation() = default;
  Operation(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
            const std::vector<Argument>& arguments);

  /// Computes. Pointer i is that of argument i; what the primitive only reads is not written to.
  /// Error when oneDNN fails.
  void run(std::initializer_list<const void*> pointers);

  explicit operator bool() const { return static_cast<bool>(primitive_); }
  /// The implementation's name, e.g. "jit:avx2".
  const std::string& implementation() const { return implementation_; }
  /// The thread's operations share one piece of scratch memory.
  void plan_scratch(ScratchPlan& plan) const { plan.need("onednn scratchpad", scratch_bytes_); }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;      // the arguments, then the scratch memory if any
  std::vector<dnnl_exec_arg_t> arguments_;  // the same for the C API, which need not allocate
  std::string implementation_;
  size_t scratch_bytes_ = 0;
};

/// Copies between two layouts of one shape, converting the type if they differ.
class Reorder {
 public:
  Reorder() = default;
  /// `add`: adds to the target instead of overwriting it.
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add = false);
  void run(const void* from, void* to) { operation_.run({from, to}); }
  void plan_scratch(ScratchPlan& plan) const { operation_.plan_scratch(plan); }
  explicit operator bool() const { return static_cast<bool>(operation_); }

 private:
  Operation operation_;
};

/// 64-byte aligned floats that grow and never shrink; contents are lost when they grow.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* reserve(size_t bytes);
  size_t bytes() const { return bytes_; }

 private:
  void release();
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace crema::onednn
