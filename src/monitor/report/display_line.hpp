// A display of metrics.jsonl, read without the message: a long run has a million of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crema {

struct DisplayLine {
  int iteration = -1;
  // Absent where the line lacks them.
  std::optional<double> epoch, time, wall, loss, smoothed_loss, rate, images_per_second, data_wait,
      gradient_norm, memory, seconds;
  std::vector<std::pair<std::string, double>> outputs;
};

/// Reads the line of a RunRecord of kind TRAIN into `out`, whose memory is used again. False for
/// what is no such line, or has fields that are not known here: the message then reads it.
bool read_display(std::string_view line, DisplayLine& out);

}  // namespace crema
