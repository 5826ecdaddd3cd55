#include "layer_support/part_copies.hpp"

#include <algorithm>

#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "layer_support/passes.hpp"

namespace crema {
namespace {

/// Parts of one pass: pointers travel to a kernel as arguments, whose room is limited.
constexpr int kMostParts = 16;

/// Body for the units of the rows of some parts, part by part: units of E, in which all offsets and
/// lengths are whole.
template <class E>
struct CopyParts {
  struct Part {
    E* at;
    int64_t units, offset;  // in a row
    int64_t begin;          // of the numbers of its units, which are those of rows * units
    FastDivision by_units;
  };
  Part parts[kMostParts];
  int count;
  int64_t row;  // units of a row of the whole
  E* whole;
  bool joins;

  CREMA_FUNCTOR void operator()(int64_t number) const {
    int k = 0;
    while (k + 1 < count && number >= parts[k + 1].begin) ++k;
    const Part& part = parts[k];
    const int64_t within = number - part.begin;
    const auto at = part.by_units.divide(within);
    E* const place = whole + at.quotient * row + part.offset + at.remainder;
    if (joins) {
      *place = part.at[within];
    } else {
      part.at[within] = *place;
    }
  }
};

template <class E>
void copy_in_units(const ComputeDevice& device, const PartRows* parts, int count, int64_t rows,
                   int64_t row_bytes, std::byte* whole, bool joins) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(E));
  CopyParts<E> body = {};
  int64_t all = 0;
  for (int k = 0; k < count; ++k) {
    const int64_t units = parts[k].bytes / kBytes;
    body.parts[k] = {reinterpret_cast<E*>(parts[k].part), units, parts[k].offset / kBytes, all,
                     FastDivision(units, rows * units + 1)};
    all += rows * units;
  }
  body.count = count;
  body.row = row_bytes / kBytes;
  body.whole = reinterpret_cast<E*>(whole);
  body.joins = joins;
  for_each(device, all, kElementGrain, body);
}

}  // namespace

void copy_parts(const ComputeDevice& device, const std::vector<PartRows>& given, int64_t rows,
                int64_t row_bytes, std::byte* whole, bool joins) {
  std::vector<PartRows> parts = given;
  std::erase_if(parts, [](const PartRows& part) { return part.bytes == 0; });
  if (rows == 0) return;
  for (size_t first = 0; first < parts.size(); first += kMostParts) {
    const int count = static_cast<int>(std::min(parts.size() - first, size_t{kMostParts}));
    const auto address = [](const std::byte* at) {
      return static_cast<int64_t>(reinterpret_cast<uintptr_t>(at));
    };
    int64_t bits = row_bytes | address(whole);
    for (int k = 0; k < count; ++k) {
      const PartRows& part = parts[first + static_cast<size_t>(k)];
      bits |= part.bytes | part.offset | address(part.part);
    }
    const auto copy_as = [&]<class E>(E) {
      if (bits % static_cast<int64_t>(sizeof(E)) != 0) return false;
      copy_in_units<E>(device, &parts[first], count, rows, row_bytes, whole, joins);
      return true;
    };
    // The widest unit in which all is whole.
    static_cast<void>(copy_as(PackWords{}) || copy_as(uint32_t{}) || copy_as(uint16_t{}) ||
                      copy_as(uint8_t{}));
  }
}

}  // namespace crema
