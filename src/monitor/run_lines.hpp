// The lines of metrics.jsonl and histograms.jsonl: what is whole of them, from where the last
// reading stopped, and which records hold.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "proto/run.pb.h"

namespace crema {

/// Behind a whole line of a file; the default is its beginning.
struct LinePlace {
  uint64_t file = 0;   // the inode; 0: nothing is read
  int64_t offset = 0;  // bytes
  int lines = 0;       // before it
  std::string before;  // the last bytes before it, by which the file is known again
};

/// Calls body(line) for each whole line behind the place, and moves the place behind the last one.
/// What has no end of a line, as a killed writer leaves it, is left for the next call. Nothing is
/// called where the file is missing, and for a device. Error if it cannot be read.
void read_lines(const std::string& path, LinePlace& place,
                const std::function<void(std::string_view)>& body);
/// Whether the file has another beginning than when it was read to the place, as behind a run that
/// went on in it: all of it has to be read again.
bool is_another_file(const std::string& path, const LinePlace& place);

/// Whether the record makes others void.
bool goes_back(const RunRecord& record);
/// Whether `later` makes a record before it void. A START does so with all. A RESUME does so with
/// what the run that goes on makes again, or has to do without: a TEST of its iteration, ends, and
/// everything later. START, RESUME and NOTE stay.
bool makes_void(const RunRecord& later, RunRecord::Kind kind, int iteration);

}  // namespace crema
