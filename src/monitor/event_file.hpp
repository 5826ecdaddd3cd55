// Event files of TensorBoard: records of
//   uint64 length, uint32 masked CRC-32C of the length, the event, uint32 masked CRC-32C of it,
// little endian. The first event has the version of the format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/append_file.hpp"
#include "proto/tensorboard/tensorboard.pb.h"

namespace crema {

/// The bytes of a record.
std::string event_record(std::string_view event);
/// The events of a file, without a last one that is cut off and those that are damaged. Error if
/// the file cannot be read.
std::vector<tensorboard::Event> read_events(const std::string& path);

class EventFile {
 public:
  /// Makes events.out.tfevents.<secs>.<host>.<process> in the folder, later by name than those that
  /// are there, and writes the version. Returns 0 or an errno.
  int open(const std::string& folder);
  /// Adds the event; the present time is its wall_time. Returns 0 or an errno.
  int append(int64_t step, tensorboard::Event& event);

 private:
  AppendFile file_;
};

}  // namespace crema
