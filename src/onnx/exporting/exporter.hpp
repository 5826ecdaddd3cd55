// An exporter writes one type of layers as nodes of ONNX:
//
//   void export_relu(const ExportedLayer& layer, GraphBuilder& graph) {
//     const double slope = layer.param().relu_param().negative_slope();
//     if (slope == 0) graph.add("Relu", {layer.input(0)}, {}, layer.output(0));
//     else graph.add("LeakyRelu", {layer.input(0)}, {{"alpha", slope}}, layer.output(0));
//   }
//
// It computes what the layer computes in phase TEST. It throws an Error for settings that it cannot
// express; the driver collects these, with the layers' names.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "crema/layer.hpp"
#include "onnx/exporting/graph_builder.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {

/// A layer, set up in the shapes that are exported, and the names of its ends.
class ExportedLayer {
 public:
  ExportedLayer(const Layer& layer, Names inputs, std::vector<Shape> bottoms, Names outputs,
                std::vector<Shape> tops);

  const Layer& layer() const { return layer_; }
  const LayerParameter& param() const { return layer_.param(); }
  size_t bottoms() const { return inputs_.size(); }
  size_t tops() const { return outputs_.size(); }
  /// The value that stands for bottom i, and the name that top i has to get.
  const std::string& input(size_t i = 0) const { return inputs_[i]; }
  const std::string& output(size_t i = 0) const { return outputs_[i]; }
  const Shape& bottom(size_t i = 0) const { return bottoms_[i]; }
  const Shape& top(size_t i = 0) const { return tops_[i]; }
  size_t weights() const { return layer_.params().size(); }
  /// The values of parameter i as FLOAT, also those of a net of f64: few runtimes compute in
  /// DOUBLE.
  Array weight(size_t i) const;
  const Shape& weight_shape(size_t i) const { return layer_.params()[i]->shape(); }
  std::vector<double> weight_values(size_t i) const { return weight(i).doubles(); }
  /// The values of bottom i where they are always the same, such as those of prior boxes; else
  /// null.
  const Array* known(size_t i) const {
    return i < known_.size() && known_[i] ? &*known_[i] : nullptr;
  }
  void set_known(std::vector<std::optional<Array>> known) { known_ = std::move(known); }

 private:
  const Layer& layer_;
  Names inputs_, outputs_;
  std::vector<Shape> bottoms_, tops_;
  std::vector<std::optional<Array>> known_;
};

using Exporter = void (*)(const ExportedLayer& layer, GraphBuilder& graph);

class ExporterTable {
 public:
  static const ExporterTable& instance();
  /// Error if the type has one.
  void add(std::string_view type, Exporter exporter);
  /// Null if there is none.
  Exporter find(std::string_view type) const;
  std::vector<std::string> types() const;
  /// Why layers of the type cannot be exported, "" if nothing is known of it: data layers, losses
  /// and measures.
  std::string why_not(std::string_view type) const;

 private:
  ExporterTable();
  std::map<std::string, Exporter, std::less<>> exporters_;
  std::map<std::string, std::string, std::less<>> refused_;
};

}  // namespace crema::onnx
