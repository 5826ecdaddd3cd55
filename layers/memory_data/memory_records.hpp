// Records that a program gives: serialized Datum messages in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema/memory_data.hpp"
#include "data/records/record_source.hpp"

namespace crema {

/// Records with their numbers, from 0, as keys.
std::shared_ptr<RecordSource> open_memory(std::vector<std::string> records);

/// A Datum of each image; see MemoryData::set_images(). Error for tensors that are no images, of
/// several types, or not as many as labels.
std::vector<std::string> records_of(const std::vector<Tensor>& images, const Tensor& labels,
                                    ImageAxes axes);

}  // namespace crema
