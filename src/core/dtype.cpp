// Element types and memory formats: names, sizes, and the 16-bit floating point types.
#include <iterator>

#include "core/checked.hpp"
#include "core/convert.hpp"
#include "crema/tensor.hpp"

namespace crema {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t bytes;
};

// In the order of the enums.
constexpr TypeInfo kTypes[] = {{"f32", 4}, {"f64", 8}, {"bf16", 2}, {"f16", 2},
                               {"u8", 1},  {"i32", 4}, {"i64", 8}};
constexpr std::string_view kFormats[] = {"contiguous", "channels_last", "blocked8", "blocked16"};

template <class Table, class Enum>
const auto& entry(const Table& table, Enum value, const char* what) {
  const auto index = static_cast<size_t>(value);
  if (index >= std::size(table)) throw Error(what, " ", index, " does not exist");
  return table[index];
}

}  // namespace

size_t size_of(DType dtype) { return entry(kTypes, dtype, "element type").bytes; }

std::string_view to_string(DType dtype) { return entry(kTypes, dtype, "element type").name; }

std::string_view to_string(Format format) { return entry(kFormats, format, "memory format"); }

std::string to_string(const Layout& layout) {
  const std::string format(to_string(layout.format));
  return layout.dtype == DType::f32 ? format : text(to_string(layout.dtype), " ", format);
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
