// The first images of a test's last batch, beside what the net says of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

struct TestPictures {
  /// (height, width, 3): the images side by side, smaller where a side is above 128 pixels, each
  /// with its values stretched from black to white. Where the net compares scores with labels, a
  /// frame is green where they agree and red where they do not; else gray.
  std::vector<uint8_t> pixels;
  int height = 0, width = 0;
  /// A table in Markdown: number, label, prediction and its probability. "" without scores.
  std::string table;
};

/// Behind a pass of a test net with SolverOptions::keep_scores. None where no data layer has images
/// of one or three channels. At most `most` images.
std::optional<TestPictures> pictures_of_test(Net& net, const std::vector<std::string>& class_names,
                                             int64_t most = 8);

}  // namespace crema
