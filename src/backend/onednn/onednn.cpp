#include "backend/onednn/onednn.hpp"

#include <limits>
#include <new>
#include <sstream>

#include "crema/error.hpp"
#include "crema/random.hpp"

namespace crema::onednn {

namespace {

using Tag = dnnl::memory::format_tag;

constexpr int kMinTagged = 3;  // formats other than contiguous start at this rank
constexpr int kMaxTagged = 5;
constexpr int kMaxRank = 6;
constexpr size_t kAlignment = 64;

dnnl::memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      return dnnl::memory::data_type::f16;
    case DType::u8:
      return dnnl::memory::data_type::u8;
    case DType::i32:
      return dnnl::memory::data_type::s32;
    case DType::f64:
    case DType::i64:
      break;
  }
  throw Error("oneDNN has no type ", to_string(dtype), "; convert to f32");
}

Tag contiguous_tag(int rank) {
  constexpr Tag kTags[kMaxRank] = {Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde, Tag::abcdef};
  return kTags[rank - 1];
}

Tag tag_of(int rank, Format format) {
  if (format == Format::contiguous) return contiguous_tag(rank);
  constexpr int kRanks = kMaxTagged - kMinTagged + 1;
  constexpr Tag kLast[kRanks] = {Tag::acb, Tag::acdb, Tag::acdeb};
  constexpr Tag kBlocked8[kRanks] = {Tag::aBc8b, Tag::aBcd8b, Tag::aBcde8b};
  constexpr Tag kBlocked16[kRanks] = {Tag::aBc16b, Tag::aBcd16b, Tag::aBcde16b};
  if (rank < kMinTagged || rank > kMaxTagged)
    throw Error("oneDNN has no ", to_string(format), " layout for rank ", rank, "; use contiguous");
  const int index = rank - kMinTagged;
  if (format == Format::channels_last) return kLast[index];
  return format == Format::blocked8 ? kBlocked8[index] : kBlocked16[index];
}

void* thread_scratch(size_t bytes) {
  thread_local Buffer buffer;
  return buffer.reserve(bytes);
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

std::string version() {
  const dnnl::version_t* v = dnnl::version();
  return text("oneDNN ", v->major, ".", v->minor, ".", v->patch);
}

bool has_avx512() {
  static const bool found = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto wanted = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
    return (isa & wanted) == wanted;
  }();
  return found;
}

Format preferred_blocked() { return has_avx512() ? Format::blocked16 : Format::blocked8; }

dnnl::memory::dims to_dims(const Shape& shape) { return shape.dims(); }

dnnl::memory::desc describe(const Shape& shape, DType dtype, Format format) {
  if (shape.rank() == 0) return {{1}, data_type(dtype), Tag::a};
  if (shape.rank() > kMaxRank)
    throw Error("oneDNN takes up to ", kMaxRank, " axes, not ", shape.rank(), " (", shape.str(),
                ")");
  return {to_dims(shape), data_type(dtype), tag_of(shape.rank(), format)};
}

dnnl::memory::desc describe(const Tensor& tensor) {
  return describe(tensor.shape(), tensor.dtype(), tensor.format());
}

dnnl::memory::desc describe_any(const Shape& shape, DType dtype) {
  return {to_dims(shape), data_type(dtype), Tag::any};
}

bool same_layout(const dnnl::memory::desc& a, const dnnl::memory::desc& b) { return a == b; }

std::string layout_name(const dnnl::memory::desc& desc) {
  std::ostringstream name;
  name << "onednn " << desc.get_size();
#if DNNL_VERSION_MAJOR >= 3
  name << ' ' << static_cast<int>(desc.get_data_type());
  for (const auto& list :
       {desc.get_dims(), desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs()}) {
    for (const auto value : list) name << ' ' << value;
    name << ';';
  }
#else
  // The descriptor is a C structure.
  name << ' ' << stream_id({reinterpret_cast<const char*>(&desc.data), sizeof(desc.data)});
#endif
  return name.str();
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::primitive_attr attributes_with_tail(bool adds, std::optional<float> slope) {
  dnnl::primitive_attr attr = attributes();
  dnnl::post_ops post;
  if (adds) post.append_sum(1.0F);
  if (slope) {
    // Some of its convolutions multiply by slope 0 what is negative: NaN for -inf. Clipping does
    // not.
    const bool clips = *slope == 0.0F;
    const auto kind = clips ? dnnl::algorithm::eltwise_clip : dnnl::algorithm::eltwise_relu;
    const float beta = clips ? std::numeric_limits<float>::infinity() : 0.0F;
#if DNNL_VERSION_MAJOR >= 3
    post.append_eltwise(kind, *slope, beta);
#else
    post.append_eltwise(1.0F, kind, *slope, beta);
#endif
  }
  if (post.len() > 0) attr.set_post_ops(post);
  return attr;
}

std::string explain(const dnnl::error& error) {
  if (error.status == dnnl_unimplemented) return version() + " has no implementation for it";
  if (error.status == dnnl_out_of_memory) return version() + " ran out of memory";
  return text(version(), ": ", error.what());
}

Operation::Operation(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc,
                     const std::vector<Argument>& arguments)
    : primitive_(primitive), implementation_(desc.impl_info_str()) {
  const auto add = [&](int id, const dnnl::memory::desc& layout) {
    memories_.push_back(dnnl::memory(layout, cpu_engine(), DNNL_MEMORY_NONE));
    arguments_.push_back({id, memories_.back().get()});
  };
  for (const Argument& argument : arguments) add(argument.id, argument.desc);
  const dnnl::memory::desc scratch = desc.scratchpad_desc();
  scratch_bytes_ = scratch.get_size();
  if (scratch_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, scratch);
}

void Operation::run(std::initializer_list<const void*> pointers) {
  const size_t expected = memories_.size() - (scratch_bytes_ > 0 ? 1 : 0);
  if (pointers.size() != expected)
    throw Error("oneDNN operation ", implementation_, " takes ", expected, " pointers, not ",
                pointers.size());
  try {
    size_t i = 0;
    for (const void* pointer : pointers) memories_[i++].set_data_handle(const_cast<void*>(pointer));
    if (scratch_bytes_ > 0) memories_[i].set_data_handle(thread_scratch(scratch_bytes_));
    dnnl::stream& stream = cpu_stream();
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()),
                               arguments_.data()),
        "could not execute a primitive");
    stream.wait();
  } catch (const dnnl::error& error) {
    throw Error("oneDNN operation ", implementation_, " failed: ", explain(error));
  }
}

Reorder::Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add) {
  try {
    dnnl::primitive_attr attr = attributes();
    if (add) {
      dnnl::post_ops post;
      post.append_sum(1.0F);
      attr.set_post_ops(post);
    }
    const dnnl::reorder::primitive_desc desc(cpu_engine(), from, cpu_engine(), to, attr);
    operation_ = Operation(dnnl::reorder(desc), desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  } catch (const dnnl::error& error) {
    throw Error("a change of layout failed: ", explain(error));
  }
}

void* Buffer::reserve(size_t bytes) {
  if (bytes > bytes_) {
    release();
    data_ = ::operator new (bytes, std::align_val_t{kAlignment});
    bytes_ = bytes;
  }
  return data_;
}

void Buffer::release() {
  if (data_ != nullptr) ::operator delete (data_, std::align_val_t{kAlignment});
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace crema::onednn
