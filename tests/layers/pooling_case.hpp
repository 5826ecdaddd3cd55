// Cases of Pooling for its tests.
#pragma once

#include <string>

#include "support/layer_test.hpp"

namespace crema::test {

inline std::string pooling(const std::string& settings) {
  return text("layer { type: 'Pooling' pooling_param { ", settings, " } }");
}

inline LayerCase images(const std::string& settings, const Shape& shape = {2, 3, 7, 8}) {
  return {.layer = pooling(settings), .bottoms = {uniform(shape)}};
}

inline Shape top_shape(const LayerCase& layer_case) {
  LayerRun run(layer_case);
  return run.top_blob(0).shape();
}

/// Engines and formats that check_engines() finds.
inline constexpr const char* kPoolingFormats[] = {"reference contiguous", "native contiguous",
                                                  "native channels_last", "native blocked8",
                                                  "native blocked16"};

}  // namespace crema::test
