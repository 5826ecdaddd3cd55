// Databases with boxes, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/boxes/annotation.hpp"
#include "proto/detection.pb.h"
#include "support/database.hpp"

namespace crema::test {

/// A black image (C, H, W) of bytes, with one white rectangle (in whole pixels); its boxes are
/// relative.
inline AnnotatedDatum rectangle(int height, int width, const Box& white,
                                const std::vector<LabeledBox>& boxes, int channels = 3) {
  AnnotatedDatum annotated;
  annotated.set_type(AnnotatedDatum::BBOX);
  Datum& datum = *annotated.mutable_datum();
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_label(-1);
  std::string& pixels = *datum.mutable_data();
  pixels.assign(static_cast<size_t>(channels * height * width), '\0');
  for (int c = 0; c < channels; ++c)
    for (auto h = static_cast<int>(white.top); h < static_cast<int>(white.bottom); ++h)
      for (auto w = static_cast<int>(white.left); w < static_cast<int>(white.right); ++w)
        pixels[static_cast<size_t>((c * height + h) * width + w)] = '\xff';
  set_boxes(boxes, annotated);
  return annotated;
}

/// The same with the rectangle as its one box.
inline AnnotatedDatum boxed_rectangle(int height, int width, const Box& white, int label = 1) {
  return rectangle(height, width, white,
                   {{.label = label, .box = to_relative(white, {height, width})}});
}

inline Records annotated_records(const std::vector<AnnotatedDatum>& all) {
  Records records;
  for (size_t i = 0; i < all.size(); ++i) {
    char key[32];
    std::snprintf(key, sizeof key, "%08zu", i);
    records.emplace_back(key, all[i].SerializeAsString());
  }
  return records;
}

}  // namespace crema::test
