// Layout: element type, memory format and device of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

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

/// The order of the elements of a shape (N, C, spatial...) in memory. Formats other than
/// `contiguous` need rank 3 or more.
///   contiguous     N, C, spatial...
///   channels_last  N, spatial..., C
///   blocked8/16    N, ceil(C / b), spatial..., b: channels in blocks of b = 8 or 16, for vector
///                  kernels. The last block is padded with zeros. Code that writes a blocked tensor
///                  must keep the padding zero.
enum class Format : uint8_t { contiguous, channels_last, blocked8, blocked16 };

std::string_view to_string(Format format);
/// The number of channels in a block: 8 or 16; 1 for the other formats.
int64_t block_of(Format format);
/// The number of elements of `shape` in memory in `format`, with padding. Error if it overflows.
int64_t storage_count(const Shape& shape, Format format);

template <class T>
concept ElementType = std::is_same_v<T, float> || std::is_same_v<T, double> ||
    std::is_same_v<T, bfloat16> || std::is_same_v<T, float16> || std::is_same_v<T, uint8_t> ||
    std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>;
template <ElementType T>
constexpr DType dtype_of() {
  if (std::is_same_v<T, float>) return DType::f32;
  if (std::is_same_v<T, double>) return DType::f64;
  if (std::is_same_v<T, bfloat16>) return DType::bf16;
  if (std::is_same_v<T, float16>) return DType::f16;
  if (std::is_same_v<T, uint8_t>) return DType::u8;
  if (std::is_same_v<T, int32_t>) return DType::i32;
  return DType::i64;
}

enum class DeviceType : uint8_t { cpu, cuda };

/// Element type, memory format, and the device that computes with a tensor. Each tensor has its own
/// layout: in one layer, activations may be bf16, statistics f32 and indices i32.
struct Layout {
  DType dtype = DType::f32;
  Format format = Format::contiguous;
  DeviceType device = DeviceType::cpu;

  bool operator==(const Layout&) const = default;
};

/// Such as "bf16 channels_last". f32 is left out: "contiguous".
std::string to_string(const Layout& layout);

}  // namespace crema
