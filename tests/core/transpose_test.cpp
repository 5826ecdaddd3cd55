#include "core/transpose.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/simd.hpp"

namespace crema::test {
namespace {

template <class E>
void check(int64_t rows, int64_t columns) {
  const int64_t from_stride = columns + 3, to_stride = rows + 2;
  std::vector<E> from(static_cast<size_t>(rows * from_stride)),
      to(static_cast<size_t>(columns * to_stride), E{7}), expected = to;
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<E>(i * 31 + 11);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      expected[static_cast<size_t>(j * to_stride + i)] =
          from[static_cast<size_t>(i * from_stride + j)];
    }
  }
  transpose(from.data(), from_stride, to.data(), to_stride, rows, columns);
  ASSERT_EQ(to, expected) << rows << " x " << columns;  // with what lies between the rows
}

TEST(Transpose, EverySizeAndType) {
  for (const SimdLevel level :
       {SimdLevel::baseline, SimdLevel::sse4, SimdLevel::avx2, SimdLevel::avx512}) {
    SCOPED_TRACE(to_string(level));
    const SimdLimit limit(level);
    for (int64_t rows = 0; rows < 37; ++rows) {
      for (int64_t columns = 0; columns < 37; ++columns) {
        check<uint8_t>(rows, columns);
        check<uint16_t>(rows, columns);
        check<uint32_t>(rows, columns);
        check<uint64_t>(rows, columns);
      }
    }
  }
}

}  // namespace
}  // namespace crema::test
