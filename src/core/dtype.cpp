// Element types and memory formats: names, sizes, and the 16-bit floating point types.
#include "core/checked.hpp"
#include "core/half.hpp"
#include "crema/tensor.hpp"

namespace crema {

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::u8:
      return 1;
  }
  throw Error("element type ", static_cast<int>(dtype), " does not exist");
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::u8:
      return "u8";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
  }
  throw Error("element type ", static_cast<int>(dtype), " does not exist");
}

std::string_view to_string(Format format) {
  switch (format) {
    case Format::contiguous:
      return "contiguous";
    case Format::channels_last:
      return "channels_last";
    case Format::blocked8:
      return "blocked8";
    case Format::blocked16:
      return "blocked16";
  }
  throw Error("memory format ", static_cast<int>(format), " does not exist");
}

std::string to_string(const Layout& layout) {
  const std::string format(to_string(layout.format));
  return layout.dtype == DType::f32 ? format : concat(to_string(layout.dtype), " ", format);
}

int64_t block_of(Format format) {
  return format == Format::blocked8 ? 8 : format == Format::blocked16 ? 16 : 1;
}

int64_t storage_count(const Shape& shape, Format format) {
  if (format == Format::contiguous) return shape.count();
  if (shape.rank() < 3) {
    throw Error("format ", to_string(format), " needs a shape of rank 3 or more, not ", shape.str(),
                "; use contiguous");
  }
  const int64_t block = block_of(format);
  const int64_t channels = shape[1];
  if (channels % block == 0) return shape.count();
  const int64_t padded = checked_multiply(channels / block + 1, block, "padded channels");
  const int64_t images = checked_multiply(shape[0], padded, "elements with padding");
  return checked_multiply(images, shape.count(2), "elements with padding");
}

bfloat16::bfloat16(float value) : bits(bfloat16_bits(value)) {}

bfloat16::operator float() const { return bfloat16_value(bits); }

float16::float16(float value) : bits(float16_bits(value)) {}

float16::operator float() const { return float16_value(bits); }

}  // namespace crema
