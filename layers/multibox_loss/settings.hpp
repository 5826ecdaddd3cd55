// The settings of MultiBoxLoss, checked.
#pragma once

#include <cstdint>

#include "layer_support/boxes.hpp"
#include "layer_support/matching.hpp"
#include "layers/multibox_loss/mining.hpp"
#include "proto/layer.pb.h"

namespace crema {

struct MultiBoxSettings {
  int64_t classes = 0;
  int64_t background = 0;  // its class; `classes` if there is none
  int64_t locations = 1;   // predicted at each prior: 1, or one a class
  bool agnostic = false;   // every true box has the label object_label
  int32_t object_label = 1;
  bool softmax = true;    // else logistic
  bool smooth_l1 = true;  // else squares
  double location_weight = 1;
  Matching matching;
  bool by_priors = true;  // what true boxes are matched with; else the predicted boxes
  BoxCoder coder;
  bool inside_only = false;  // no loss for edges of matched boxes that lie outside of the image
  bool uses_difficult = true;
  bool ignores_difficult = false;  // priors matched with difficult boxes have no loss
  Mining mining;
  bool suppresses_priors = false;  // else predicted boxes

  explicit MultiBoxSettings(const MultiBoxLossParameter& param);

  bool mines() const { return mining.kind != Mining::Kind::none; }
  bool hard() const { return mining.kind == Mining::Kind::hard_examples; }
  /// Whether estimates of losses can do to choose examples.
  bool may_estimate() const { return softmax && mines() && !hard() && !mining.suppression; }
};

}  // namespace crema
