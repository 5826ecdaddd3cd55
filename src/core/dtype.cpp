// Element types and memory formats: names, sizes, and the 16-bit floating point types.
#include <bit>

#include "core/checked.hpp"
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

int64_t block_of(Format format) {
  return format == Format::blocked8 ? 8 : format == Format::blocked16 ? 16 : 1;
}

int64_t storage_count(const Shape& shape, Format format) {
  if (format == Format::contiguous) return shape.count();
  require(shape.rank() >= 3, "format ", to_string(format), " needs a shape of rank 3 or more, not ",
          shape.str(), "; use contiguous");
  const int64_t block = block_of(format);
  const int64_t channels = shape[1];
  if (channels % block == 0) return shape.count();
  Shape padded = shape;
  padded.set(1, checked_multiply(channels / block + 1, block, "padded channels"));
  return padded.count();
}

bfloat16::bfloat16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  // NaNs keep their upper payload and become quiet: rounding could carry one into infinity.
  const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = word + 0x7fffu + ((word >> 16) & 1u);
  bits = static_cast<uint16_t>((nan ? word | 0x00400000u : rounded) >> 16);
}

bfloat16::operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }

float16::float16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (word >> 16) & 0x8000u;
  const uint32_t magnitude = word & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {  // NaN: made quiet
    half = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520 and up round to infinity
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal from 2^-14 on: rebias, round in place
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {
    // Subnormal: adding 0.5 lets the float adder shift and round to units of 2^-24.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - 0x3f000000u;
  }
  bits = static_cast<uint16_t>(sign | half);
}

float16::operator float() const {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, or a NaN with its payload, made quiet
    const uint32_t quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude >= 0x0400u) {
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  }
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

}  // namespace crema
