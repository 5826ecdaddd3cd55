#include "core/transpose.hpp"

#include <algorithm>

namespace crema {

template <class E>
void transpose(const E* from, int64_t from_stride, E* to, int64_t to_stride, int64_t rows,
               int64_t columns) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

template void transpose<uint8_t>(const uint8_t*, int64_t, uint8_t*, int64_t, int64_t, int64_t);
template void transpose<uint16_t>(const uint16_t*, int64_t, uint16_t*, int64_t, int64_t, int64_t);
template void transpose<uint32_t>(const uint32_t*, int64_t, uint32_t*, int64_t, int64_t, int64_t);
template void transpose<uint64_t>(const uint64_t*, int64_t, uint64_t*, int64_t, int64_t, int64_t);

}  // namespace crema
