// What a pass over many records tells: how far it is, and at its end what was wrong with them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace crema {

/// Told after every record how many are done, of how many. Called in the caller's thread.
using ConvertProgress = std::function<void(int64_t done, int64_t total)>;

struct ConvertReport {
  int64_t written = 0;
  int64_t bad = 0;  // records left out
  /// One message a bad record, each with its file and line; the first kMostProblems of them.
  std::vector<std::string> problems;
  static constexpr size_t kMostProblems = 1000;
  /// What is no error here but may be one in training, a line each.
  std::vector<std::string> warnings;
};

}  // namespace crema
