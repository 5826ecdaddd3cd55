// What losses and tests of a net say of its predictions.
#pragma once

#include <string>
#include <vector>

#include "analysis/layer_graph.hpp"

namespace crema {

/// Whether the layer is a loss, or measures something for tests or logs: a net for inference does
/// without it.
bool is_loss(const LayerParameter& layer);
bool is_measure(const LayerParameter& layer);

/// Whether layers of this type make boxes of scores.
bool makes_boxes(const std::string& type);

/// A prediction that a loss or a test reads.
struct PredictionHead {
  int value = -1;        // of the graph
  int target = -1;       // of the graph: what it is compared with; -1: nothing
  LayerParameter layer;  // the loss or the test
  double weight = 0;     // of the loss; 0 for a test
};

/// The heads of the graph, and those of losses that are in `training` alone, the layers of phase
/// TRAIN. Boxes that the graph makes itself take the place of their loss.
std::vector<PredictionHead> heads_of(const LayerGraph& graph, const NetParameter& training);

/// The heads without those that only help the training of others: losses of less weight against
/// the same target. `dropped`: the losses that were left out.
std::vector<PredictionHead> main_heads(std::vector<PredictionHead> heads,
                                       std::vector<std::string>& dropped);

/// The layers that make the outputs of inference of a head, as probabilities of scores. Empty where
/// the prediction is the output. Names that `taken` has get another ending. `several`: the net has
/// other heads, too. Error for a loss of boxes whose settings do not suffice.
std::vector<LayerParameter> output_layers(const PredictionHead& head, const LayerGraph& graph,
                                          std::vector<std::string>& taken, bool several);

}  // namespace crema
