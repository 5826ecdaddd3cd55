// Layout: how the elements of a tensor lie in memory, and their types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "crema/shape.hpp"

namespace crema {

enum class DType : uint8_t { f32, f64, bf16, f16, u8, i32, i64 };

/// Bytes of one element.
size_t size_of(DType dtype);
std::string_view to_string(DType dtype);

/// 16-bit brain float: the upper half of an f32, rounded to nearest even.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value);
  explicit operator float() const;
};

/// IEEE 754 half precision, rounded to nearest even; overflow becomes infinity.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

/// How the elements of a logical (N, C, spatial...) shape lie in memory. Formats other than
/// `contiguous` exist for rank 3 and up only.
///   contiguous     N, C, spatial...
///   channels_last  N, spatial..., C
///   blocked8/16    N, ceil(C/b), spatial..., b: channels in blocks of b = 8 or 16, the last block
///                  padded with zeros. What vector convolution kernels like. Whoever writes a
///                  blocked tensor keeps the padding zero.
enum class Format : uint8_t { contiguous, channels_last, blocked8, blocked16 };

std::string_view to_string(Format format);
/// Channels a block: 8 or 16, and 1 for the other formats.
int64_t block_of(Format format);
/// Elements of memory that `shape` takes in `format`, padding included. Overflow is an Error.
int64_t storage_count(const Shape& shape, Format format);

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<bfloat16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<float16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}

enum class DeviceType : uint8_t { cpu, cuda };

/// Element type, memory format, and the side that computes with a tensor. Every tensor has one of
/// its own: in one layer, activations may be bf16, statistics f32 and indices i32.
struct Layout {
  DType dtype = DType::f32;
  Format format = Format::contiguous;
  DeviceType device = DeviceType::cpu;

  bool operator==(const Layout&) const = default;
};

/// "bf16 channels_last"; the type is left out where it is f32.
std::string to_string(const Layout& layout);

}  // namespace crema
