// Folds layers that scale and shift channels into the convolutions and inner products beside them:
//
//   y = s (W x + b) + t  is  W' = s W, b' = s b + t        a layer behind
//   y = W (s x + t) + b  is  W' = W s, b' = b + W t        a layer before
//
// for a net that only runs forward. s and t are taken from the layer itself, by running it in f64,
// so each form of BatchNorm's parameters, Scale and Bias are folded alike.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"
#include "proto/net.pb.h"

namespace crema {

struct MergedNet {
  /// A layer of the kinds that can be folded.
  struct Entry {
    std::string layer, type;
    std::string into;  // the layer that computes it now; "": it is still there
    std::string why;   // why it is still there, or what of it is
  };

  NetParameter net;      // without weights
  NetParameter weights;  // all layers, f32
  std::vector<Entry> entries;
  /// Greatest difference between outputs of both nets, relative to the greatest value of the
  /// output. Of Accuracy and ArgMax it is that of the scores they read.
  double difference = 0;

  int merged() const;
};

/// Merges the net with weights of a file. The net is the one of phase TEST, of level and stages in
/// `options`. Both nets run once on random inputs (labels: zeros), or on the records of their data
/// layers. Error if weights of a layer are missing, and if outputs differ by more than `tolerance`,
/// or are not finite.
MergedNet merge_batch_norm(const NetParameter& net, const SourceMap& source,
                           const std::string& weights, Context& context, NetOptions options,
                           double tolerance = 1e-4);
/// The same with weights in memory.
MergedNet merge_batch_norm(const NetParameter& net, const SourceMap& source,
                           const NetParameter& weights, Context& context, NetOptions options,
                           double tolerance = 1e-4);

}  // namespace crema
