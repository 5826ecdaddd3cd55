#include "crema/parameter_arena.hpp"

#include "core/checked.hpp"
#include "core/memory.hpp"

namespace crema {
namespace {

// 64 bytes of f32: every segment starts on a cache line, and vector loops meet no shared one.
constexpr int64_t kSegmentUnit = 16;

}  // namespace

void ParameterArena::build(std::vector<Segment> owners, DType dtype, bool with_gradients) {
  if (dtype != DType::f32 && dtype != DType::f64)
    throw Error("parameters are kept in f32 or f64, not in ", to_string(dtype));
  int64_t end = 0;
  for (Segment& segment : owners) {
    segment.offset = end;
    segment.count = segment.parameter->shape().count();
    const int64_t padded = checked_add(segment.count, kSegmentUnit - 1, "parameters of a net");
    end = checked_add(end, padded / kSegmentUnit * kSegmentUnit, "parameters of a net");
  }
  segments_ = std::move(owners);
  size_ = end;
  dtype_ = dtype;
  data_ = Tensor(Shape{size_}, dtype);
  data_.bind(std::make_shared<Memory>(data_.bytes()));
  diff_ = with_gradients ? data_ : Tensor(Shape{0}, dtype);
  if (with_gradients) diff_.bind(std::make_shared<Memory>(diff_.bytes()));
  for (const Segment& segment : segments_) {
    Parameter& parameter = *segment.parameter;
    const auto place = [&](const Tensor& arena) {
      Tensor piece(parameter.shape(), dtype);
      piece.bind(Memory::segment(
          arena.memory(), static_cast<size_t>(segment.offset) * size_of(dtype), piece.bytes()));
      return piece;
    };
    Tensor values = place(data_);
    // What a layer gave its parameter while it was set up moves along.
    if (!parameter.data.memory()->is_untouched()) values.copy_from(parameter.data);
    Tensor gradient = with_gradients ? place(diff_) : Tensor(Shape{0}, dtype);
    parameter.attach(std::make_shared<ParameterStorage>(std::move(values), std::move(gradient)));
  }
}

void ParameterArena::settle_gradients() {
  if (!diff_.has_memory()) return;
  for (const Segment& segment : segments_) {
    if (segment.parameter->needs_gradient) segment.parameter->gradient();
  }
}

}  // namespace crema
