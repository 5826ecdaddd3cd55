// Where values lie in a range, on one thread of the CPU.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crema {

/// The i with least <= values[i] <= most, rising. Its memory is kept from call to call.
class IndexList {
 public:
  std::span<const int32_t> find(std::span<const int32_t> values, int32_t least, int32_t most);

 private:
  std::vector<int32_t> indices_;
};

}  // namespace crema
