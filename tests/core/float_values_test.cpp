#include "core/float_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/expect_error.hpp"
#include "support/fake_device.hpp"

namespace crema::test {
namespace {

constexpr DType kStored[] = {DType::f32, DType::bf16, DType::f16};

template <class T>
struct Doubled {
  ValuesIn<T> x;
  ValuesOut<T> y;
  void operator()(const PackAt<T>& at) const { at.store(at.load(x) + at.load(x), y); }
};

/// Memory of that type which begins `shift` bytes behind a multiple of 16, and ends with marks.
struct Buffer {
  DType dtype;
  size_t shift, count;
  std::vector<PackWords> words;

  Buffer(DType type, size_t shift_by, size_t elements)
      : dtype(type), shift(shift_by), count(elements), words(elements / 2 + 4) {
    std::memset(words.data(), 0x55, words.size() * sizeof(PackWords));
  }
  char* at() { return reinterpret_cast<char*>(words.data()) + shift; }
  void set(size_t i, double value) {
    dispatch_any_float(dtype, [&]<class S>(S) {
      const S stored = convert_value<S>(value);
      std::memcpy(at() + i * sizeof(S), &stored, sizeof(S));
    });
  }
  double get(size_t i) { return element_as_double(dtype, at(), static_cast<int64_t>(i)); }
  bool is_marked_around() {
    const char* const all = reinterpret_cast<const char*>(words.data());
    const size_t end = shift + count * size_of(dtype);
    for (size_t i = 0; i < words.size() * sizeof(PackWords); ++i) {
      if ((i < shift || i >= end) && all[i] != 0x55) return false;
    }
    return true;
  }
};

TEST(Packs, ReadAndWriteWhatIsThereAndNothingElse) {
  for (const DType from : kStored) {
    for (const DType to : kStored) {
      for (const size_t count : {1U, 7U, 8U, 9U, 24U, 29U}) {
        for (const size_t shift : {0U, 2U, 4U, 8U}) {
          if (shift == 2 && std::max(size_of(from), size_of(to)) > 2) continue;
          SCOPED_TRACE(text(to_string(from), " ", to_string(to), " ", count, " ", shift));
          Buffer x(from, shift, count), y(to, shift, count);
          for (size_t i = 0; i < count; ++i) x.set(i, 0.3 * static_cast<double>(i) - 2);
          const ValuesIn<float> in(x.at(), stored_as<float>(from));
          const ValuesOut<float> out(y.at(), stored_as<float>(to));
          EXPECT_EQ(aligned(in, out), shift == 0);
          each_pack<float>(static_cast<int64_t>(count), aligned(in, out), Doubled<float>{in, out});
          Buffer expected(to, 0, 1);
          for (size_t i = 0; i < count; ++i) {
            expected.set(0, 2 * x.get(i));
            EXPECT_EQ(y.get(i), expected.get(0)) << i;
            EXPECT_EQ(static_cast<double>(in[static_cast<int64_t>(i)]), x.get(i));
          }
          EXPECT_TRUE(y.is_marked_around());
        }
      }
    }
  }
}

TEST(Packs, OfF64AreSingleValues) {
  std::vector<double> x = {1, 2, 3}, y(3);
  each_pack<double>(
      3, true, Doubled<double>{{x.data(), Stored::as_computed}, {y.data(), Stored::as_computed}});
  EXPECT_EQ(y, (std::vector<double>{2, 4, 6}));
}

TEST(ValuesOut, RoundsAsConversionsDo) {
  for (const DType to : kStored) {
    Buffer y(to, 0, 1), expected(to, 0, 1);
    const ValuesOut<float> out(y.at(), stored_as<float>(to));
    for (const float value : {1.00390625F, -3e-8F, 70000.0F, 0.1F, -65519.0F, 5e-39F,
                              std::numeric_limits<float>::infinity()}) {
      out[0] = value;
      expected.set(0, static_cast<double>(value));
      EXPECT_EQ(y.get(0), expected.get(0)) << value;
      EXPECT_EQ(static_cast<double>(static_cast<float>(out[0])), expected.get(0)) << value;
    }
    out[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(y.get(0)));
  }
}

TEST(ValuesIn, RefuseIntegers) {
  expect_error([] { stored_as<float>(DType::i32); }, {"f32", "i32"});
}

}  // namespace
}  // namespace crema::test
