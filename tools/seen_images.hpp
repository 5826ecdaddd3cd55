// The images of a net's batches as people see them: what the net's data layer gives, with mean and
// scale taken back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "proto/evaluation.pb.h"

namespace crema {
class DataSource;
}

namespace crema::tools {

class SeenImages {
 public:
  /// Of the first layer with data whose first top is (N, C, H, W). `rgb`: raw records have red
  /// first; those with the keys that convert-cifar writes have in any case.
  SeenImages(Net& net, bool rgb);

  /// Whether the net has such a layer.
  bool any() const { return data_ != nullptr; }
  /// Sample `index` of the last batch, made smaller where a side is longer than `longest`: image,
  /// size, key and record. Blobs of three channels or more are in colours, others gray.
  Evaluation::Picture picture(Net& net, int64_t index, int longest) const;

 private:
  struct Plane {
    std::vector<double> mean;  // one, or one a pixel
  };
  bool is_red_first(int64_t index) const;

  const DataSource* data_ = nullptr;
  std::string top_;
  bool rgb_ = false, is_database_ = false;
  double scale_ = 1;
  std::vector<Plane> means_;  // by channel; none: 0
  int64_t height_ = 0, width_ = 0;
};

/// Pixels of a class each, (height, width), made smaller by leaving some out.
std::vector<uint8_t> smaller_classes(const std::vector<uint8_t>& classes, int64_t height,
                                     int64_t width, int longest, int64_t& new_height,
                                     int64_t& new_width);

}  // namespace crema::tools
