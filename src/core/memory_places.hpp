// Whether pointers into the memory of devices are those of before, in one comparison.
#pragma once

#include <cstdint>

namespace crema {

/// Another number once a Memory of the process has taken memory of a device, or a Memory that had
/// some is gone, or a piece of one was made. While it is the same, each Memory that was there has
/// its contents at the same place. Any thread may call it.
uint64_t memory_places();

}  // namespace crema
