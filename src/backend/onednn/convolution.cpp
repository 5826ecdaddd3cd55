#include "backend/onednn/convolution.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backend/onednn/onednn.hpp"
#include "core/parallel.hpp"
#include "crema/error.hpp"

namespace crema::onednn {

namespace {

using Dims = dnnl::memory::dims;
using ForwardDesc = dnnl::convolution_forward::primitive_desc;
using BackwardDataDesc = dnnl::convolution_backward_data::primitive_desc;
using BackwardWeightsDesc = dnnl::convolution_backward_weights::primitive_desc;

constexpr std::string_view kWinograd = "winograd ";

/// The problem in oneDNN's terms.
struct Descs {
  explicit Descs(const ConvolutionProblem& p)
      : source(describe(p.source, DType::f32, p.source_format)),
        target(describe(p.target, DType::f32, p.target_format)),
        bias(p.bias ? describe(Shape{p.target[1]}, DType::f32, Format::contiguous)
                    : dnnl::memory::desc()),
        stride(p.stride.begin(), p.stride.end()),
        pad_begin(p.pad.begin(), p.pad.end()) {
    // oneDNN counts the gaps between taps, and wants the far padding that is really read.
    for (size_t i = 0; i < p.kernel.size(); ++i) {
      const int axis = static_cast<int>(i) + 2;
      dilation.push_back(p.dilation[i] - 1);
      const int64_t extent = p.dilation[i] * (p.kernel[i] - 1) + 1;
      pad_end.push_back((p.target[axis] - 1) * p.stride[i] + extent - p.source[axis] - p.pad[i]);
    }
    weights_shape = p.weights();
    if (p.groups > 1) {
      std::vector<int64_t> dims = weights_shape.dims();
      dims[0] /= p.groups;
      dims.insert(dims.begin(), p.groups);
      weights_shape = Shape(std::move(dims));
    }
    weights = describe_any(weights_shape, DType::f32);
  }

  dnnl::memory::desc plain_weights() const {
    return describe(weights_shape, DType::f32, Format::contiguous);
  }

  dnnl::memory::desc source, target, bias, weights;
  Dims stride, dilation, pad_begin, pad_end;
  Shape weights_shape;
};

Iterable<dnnl::convolution_forward> forward_desc(const ConvolutionProblem& p, const Descs& d,
                                                 dnnl::algorithm algorithm,
                                                 const dnnl::primitive_attr& attr) {
  const auto kind =
      p.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
  if (!p.bias) {
    return make_iterable<dnnl::convolution_forward>(attr, kind, algorithm, d.source, d.weights,
                                                    d.target, d.stride, d.dilation, d.pad_begin,
                                                    d.pad_end);
  }
  return make_iterable<dnnl::convolution_forward>(attr, kind, algorithm, d.source, d.weights,
                                                  d.bias, d.target, d.stride, d.dilation,
                                                  d.pad_begin, d.pad_end);
}

Iterable<dnnl::convolution_backward_data> backward_data_desc(const Descs& d,
                                                             dnnl::algorithm algorithm,
                                                             const ForwardDesc& forward) {
  return make_backward_iterable<dnnl::convolution_backward_data>(
      attributes(), forward, algorithm, d.source, d.weights, d.target, d.stride, d.dilation,
      d.pad_begin, d.pad_end);
}

Iterable<dnnl::convolution_backward_weights> backward_weights_desc(const ConvolutionProblem& p,
                                                                   const Descs& d,
                                                                   dnnl::algorithm algorithm,
                                                                   const ForwardDesc& forward) {
  if (!p.bias) {
    return make_backward_iterable<dnnl::convolution_backward_weights>(
        attributes(), forward, algorithm, d.source, d.weights, d.target, d.stride, d.dilation,
        d.pad_begin, d.pad_end);
  }
  return make_backward_iterable<dnnl::convolution_backward_weights>(
      attributes(), forward, algorithm, d.source, d.weights, d.bias, d.target, d.stride, d.dilation,
      d.pad_begin, d.pad_end);
}

/// Calls visit(primitive descriptor, name) for each implementation until it returns true.
template <class P, class Visit>
void walk(Iterable<P> found, dnnl::algorithm algorithm, const Visit& visit) {
  const bool winograd = algorithm == dnnl::algorithm::convolution_winograd;
  do {
    const std::string name = (winograd ? std::string(kWinograd) : "") + found.desc.impl_info_str();
    if (visit(found.desc, name)) return;
  } while (found.desc.next_impl());
}

template <class Visit>
void walk(const ConvolutionProblem& p, ConvolutionPass pass, dnnl::algorithm algorithm,
          const Visit& visit) {
  const Descs d(p);
  if (pass == ConvolutionPass::forward) {
    const auto attr = attributes_with_tail(p.adds, p.relu);
    return walk(forward_desc(p, d, algorithm, attr), algorithm, visit);
  }
  const auto forward = forward_desc(p, d, algorithm, attributes());
  if (pass == ConvolutionPass::backward_data) {
    return walk(backward_data_desc(d, algorithm, forward.desc), algorithm, visit);
  }
  walk(backward_weights_desc(p, d, algorithm, forward.desc), algorithm, visit);
}

bool without_vectors(std::string_view name) {
  return name.find("ref") != std::string_view::npos ||
         name.find("simple") != std::string_view::npos;
}

/// The instructions that a kernel of oneDNN's own was written for: "avx2" of "jit_1x1:avx2"; "" for
/// those that stand on its GEMM.
std::string_view isa_of(std::string_view name) {
  if (name.find("gemm:jit") != std::string_view::npos) return {};
  const size_t colon = name.find(':');
  return colon == std::string_view::npos ? std::string_view() : name.substr(colon + 1);
}

constexpr std::string_view kStaging = "onednn staging";

/// Memory of the thread for weights in an implementation's layout, beside its scratch memory.
void* staging(size_t bytes) {
  thread_local Buffer buffer;
  return buffer.reserve(bytes);
}

size_t round_up_to_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Weights in the layout that the implementation wants.
class OwnWeights {
 public:
  OwnWeights(const ConvolutionProblem& p, const dnnl::memory::desc& own) : training_(p.training) {
    const dnnl::memory::desc plain = Descs(p).plain_weights();
    if (same_layout(own, plain)) return;
    reorder_ = Reorder(plain, own);
    derived_ = DerivedWeights(layout_name(own), own.get_size());
  }

  const void* get(const ConvolutionWeights& weights) {
    if (!reorder_) return weights.values;
    if (weights.storage == nullptr) {
      void* const own = staging(derived_.bytes());
      reorder_.run(weights.values, own);
      return own;
    }
    return derived_.get(*weights.storage, [&](void* to) { reorder_.run(weights.values, to); });
  }

  size_t kept_bytes() const { return training_ ? 0 : derived_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const {
    if (!reorder_) return;
    reorder_.plan_scratch(plan);
    if (training_) plan.need(kStaging, derived_.bytes());
  }

 private:
  bool training_;
  Reorder reorder_;  // empty: their layout is the plain one
  DerivedWeights derived_;
};

class Forward : public ConvolutionPrimitive {
 public:
  Forward(const ConvolutionProblem& p, const ForwardDesc& pd) : weights_(p, pd.weights_desc()) {
    std::vector<Operation::Argument> arguments = {{DNNL_ARG_SRC, pd.src_desc()},
                                                  {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                                  {DNNL_ARG_DST, pd.dst_desc()}};
    if (p.bias) arguments.push_back({DNNL_ARG_BIAS, pd.bias_desc()});
    operation_ = Operation(dnnl::convolution_forward(pd), pd, arguments);
  }

  void forward(const float* x, const ConvolutionWeights& weights, const float* bias,
               float* y) override {
    const void* own = weights_.get(weights);
    if (bias != nullptr) {
      operation_.run({x, own, y, bias});
    } else {
      operation_.run({x, own, y});
    }
  }

  size_t kept_bytes() const override { return weights_.kept_bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    weights_.plan_scratch(plan);
    operation_.plan_scratch(plan);
  }

 private:
  OwnWeights weights_;
  Operation operation_;
};

class BackwardData : public ConvolutionPrimitive {
 public:
  BackwardData(const ConvolutionProblem& p, const BackwardDataDesc& pd)
      : weights_(p, pd.weights_desc()),
        operation_(dnnl::convolution_backward_data(pd), pd,
                   {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                    {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                    {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}}) {}

  void backward_data(const float* dy, const ConvolutionWeights& weights, float* dx) override {
    operation_.run({dy, weights_.get(weights), dx});
  }

  size_t kept_bytes() const override { return weights_.kept_bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    weights_.plan_scratch(plan);
    operation_.plan_scratch(plan);
  }

 private:
  OwnWeights weights_;
  Operation operation_;
};

class BackwardWeights : public ConvolutionPrimitive {
 public:
  BackwardWeights(const ConvolutionProblem& p, const BackwardWeightsDesc& pd)
      : count_(p.weights().count()),
        outputs_(p.target[1]),
        own_bytes_(round_up_to_line(pd.diff_weights_desc().get_size())) {
    const dnnl::memory::desc own = pd.diff_weights_desc(), plain = Descs(p).plain_weights();
    std::vector<Operation::Argument> arguments = {{DNNL_ARG_SRC, pd.src_desc()},
                                                  {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                                                  {DNNL_ARG_DIFF_WEIGHTS, own}};
    if (p.bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, pd.diff_bias_desc()});
    operation_ = Operation(dnnl::convolution_backward_weights(pd), pd, arguments);
    if (same_layout(own, plain)) return;
    write_ = Reorder(own, plain);
    add_ = Reorder(own, plain, true);
  }

  void backward_weights(const float* x, const float* dy, bool add_weights, float* dweights,
                        bool add_bias, float* dbias) override {
    // The primitive overwrites: what is to be added, or lies in its own layout, is staged.
    const bool stage_weights = write_ || add_weights, stage_bias = dbias != nullptr && add_bias;
    auto* const stage = static_cast<float*>(staging(staged_bytes()));
    float* const weights = stage_weights ? stage : dweights;
    float* const bias = stage_bias ? stage + own_bytes_ / sizeof(float) : dbias;
    if (dbias != nullptr) {
      operation_.run({x, dy, weights, bias});
    } else {
      operation_.run({x, dy, weights});
    }
    if (write_) {
      (add_weights ? add_ : write_).run(weights, dweights);
    } else if (add_weights) {
      add(weights, dweights, count_);
    }
    if (stage_bias) add(bias, dbias, outputs_);
  }

  void plan_scratch(ScratchPlan& plan) const override {
    operation_.plan_scratch(plan);
    write_.plan_scratch(plan);
    add_.plan_scratch(plan);
    plan.need(kStaging, staged_bytes());
  }

 private:
  size_t staged_bytes() const { return own_bytes_ + static_cast<size_t>(outputs_) * sizeof(float); }

  static void add(const float* from, float* to, int64_t count) {
    parallel_for(count, kElementGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] += from[i];
    });
  }

  int64_t count_, outputs_;
  size_t own_bytes_;
  Operation operation_;
  Reorder write_, add_;  // empty where the gradient lies plainly
};

}  // namespace

std::string Convolutions::revision() const {
  constexpr int kOurs = 1;  // to be counted up with changes to the primitives above
  return text(version(), ".", kOurs);
}

std::vector<std::string> Convolutions::implementations(const ConvolutionProblem& problem,
                                                       ConvolutionPass pass,
                                                       ConvolutionAlgorithm algorithm,
                                                       std::string& why) const {
  std::vector<std::string> names;
  const auto collect = [&](dnnl::algorithm kind) {
    // Each ISA has its own version of much the same kernels: those for the best one will do.
    std::string best_isa;
    attempt(why, [&] {
      walk(problem, pass, kind, [&](const auto&, const std::string& name) {
        if (without_vectors(name)) return false;
        if (!isa_of(name).empty()) {
          if (best_isa.empty()) best_isa = isa_of(name);
          if (isa_of(name) != best_isa) return false;
        }
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        return false;
      });
      return true;
    });
  };
  if (algorithm != ConvolutionAlgorithm::winograd) collect(dnnl::algorithm::convolution_direct);
  if (algorithm != ConvolutionAlgorithm::direct) collect(dnnl::algorithm::convolution_winograd);
  if (names.empty() && why.empty()) why = version() + " has only plain loops for it";
  return names;
}

std::unique_ptr<ConvolutionPrimitive> Convolutions::make(const ConvolutionProblem& problem,
                                                         ConvolutionPass pass,
                                                         const std::string& implementation) const {
  const auto algorithm = implementation.starts_with(kWinograd)
                             ? dnnl::algorithm::convolution_winograd
                             : dnnl::algorithm::convolution_direct;
  std::unique_ptr<ConvolutionPrimitive> made;
  const auto take = [&](const auto& desc) {
    using Desc = std::decay_t<decltype(desc)>;
    if constexpr (std::is_same_v<Desc, ForwardDesc>) {
      made = std::make_unique<Forward>(problem, desc);
    } else if constexpr (std::is_same_v<Desc, BackwardDataDesc>) {
      made = std::make_unique<BackwardData>(problem, desc);
    } else {
      made = std::make_unique<BackwardWeights>(problem, desc);
    }
  };
  std::string why;
  attempt(why, [&] {
    walk(problem, pass, algorithm, [&](const auto& desc, const std::string& name) {
      if (name == implementation) take(desc);
      return made != nullptr;
    });
    return true;
  });
  if (made == nullptr)
    throw Error("convolution ", problem.key(), " ", to_string(pass), ": ", version(),
                " has no implementation '", implementation, "' here", why.empty() ? "" : ": ", why);
  return made;
}

}  // namespace crema::onednn
