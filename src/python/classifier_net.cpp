// Rewrites a net, with or without layers of data and losses, as a classifier: Input layers for
// samples and labels, a loss in TRAIN, probabilities in TEST, as many scores as there are classes.
#include "python/classifier_net.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"
#include "proto/net.pb.h"
#include "python/errors.hpp"
#include "python/messages.hpp"

namespace crema::python {
namespace {

struct Names {
  std::string data, label, scores, probabilities;
};

bool is_loss(const LayerParameter& layer) {
  return layer.bottom_size() > 1 && layer.type().find("Loss") != std::string::npos;
}

/// Layers that the Input layers, or nothing, take the place of.
bool is_left_out(const LayerParameter& layer) {
  const bool is_source = layer.bottom_size() == 0 && layer.type() != "Parameter";
  return is_source || layer.type() == "Accuracy" || layer.type() == "Silence";
}

/// The blob that holds the samples: that of the first source, or else the first one that no layer
/// makes.
std::string data_of(const NetParameter& net) {
  std::set<std::string> made;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() == 0 && layer.type() != "Parameter" && layer.top_size() > 0)
      return layer.top(0);
    for (const std::string& bottom : layer.bottom()) {
      if (made.count(bottom) == 0) return bottom;
    }
    made.insert(layer.top().begin(), layer.top().end());
  }
  throw Error("the net has no layer that reads its samples; begin with one with bottom: 'data'");
}

std::string label_of(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (is_loss(layer)) return layer.bottom(1);
  }
  for (const LayerParameter& layer : net.layer()) {
    if (layer.bottom_size() == 0 && layer.top_size() > 1) return layer.top(1);
  }
  return "label";
}

/// A name of no blob and no layer yet, from `name` on.
std::string free_name(const NetParameter& net, std::string name) {
  const auto is_taken = [&] {
    return std::ranges::any_of(net.layer(), [&](const LayerParameter& layer) {
      return layer.name() == name || std::ranges::count(layer.top(), name) > 0 ||
             std::ranges::count(layer.bottom(), name) > 0;
    });
  };
  while (is_taken()) name += '_';
  return name;
}

LayerParameter& add_layer(NetParameter& net, const std::string& type, const std::string& top) {
  LayerParameter& layer = *net.add_layer();
  layer.set_name(top);
  layer.set_type(type);
  layer.add_top(top);
  return layer;
}

void add_input(NetParameter& net, const std::string& top, const std::vector<int64_t>& dims) {
  BlobShape& shape = *add_layer(net, "Input", top).mutable_input_param()->add_shape();
  for (const int64_t dim : dims) shape.add_dim(dim);
}

/// The layers that remain, and the scores.
void keep_layers(const NetParameter& given, Names& names, NetParameter& net) {
  for (const LayerParameter& layer : given.layer()) {
    if (is_left_out(layer)) continue;
    if (is_loss(layer) && names.scores.empty()) names.scores = layer.bottom(0);
    LayerParameter& kept = *net.add_layer();
    kept = layer;
    kept.clear_blobs();
    if (is_loss(layer)) {
      kept.clear_include();
      kept.clear_exclude();
      kept.add_include()->set_phase(TRAIN);
    }
  }
  auto& layers = *net.mutable_layer();
  if (names.scores.empty() && !layers.empty()) {
    const LayerParameter& last = *layers.rbegin();
    if (last.top_size() == 0) throw Error("the last layer of the net has no top; end with scores");
    names.scores = last.type() == "Softmax" ? last.bottom(0) : last.top(0);
  }
  // The probabilities have a layer of their own.
  const auto is_softmax = [&](const LayerParameter& layer) {
    return layer.type() == "Softmax" && layer.bottom_size() == 1 && layer.bottom(0) == names.scores;
  };
  layers.erase(std::remove_if(layers.begin(), layers.end(), is_softmax), layers.end());
}

/// Gives the layer that makes the scores `classes` outputs.
void set_classes(NetParameter& net, std::string blob, uint32_t classes) {
  for (int i = net.layer_size() - 1; i >= 0; --i) {
    LayerParameter& layer = *net.mutable_layer(i);
    if (std::ranges::count(layer.top(), blob) == 0) continue;
    if (layer.type() == "InnerProduct")
      return layer.mutable_inner_product_param()->set_num_output(classes);
    if (layer.type() == "Convolution")
      return layer.mutable_convolution_param()->set_num_output(classes);
    if (layer.bottom_size() != 1) break;
    blob = layer.bottom(0);
  }
  throw Error("blob '", blob, "', from which the scores of the classes come, is no top of an ",
              "InnerProduct or Convolution; end the net with one, whose num_output becomes the "
              "number of classes");
}

/// (prototxt, name of the samples, of the labels, of the probabilities). `dims`: of a batch.
nb::tuple classifier_net(const nb::bytes& source, const std::string& kind,
                         const std::vector<int64_t>& dims, uint32_t classes) {
  Names names;
  const std::string bytes = string_of(source);
  std::string prototxt;
  {
    const nb::gil_scoped_release release;
    NetParameter given, net;
    SourceMap map;
    read_message(bytes, kind, given, map);
    upgrade_net(given, map);
    names.data = data_of(given);
    names.label = label_of(given);
    if (given.has_name()) net.set_name(given.name());
    if (given.has_precision()) net.set_precision(given.precision());
    add_input(net, names.data, dims);
    add_input(net, names.label, {dims[0]});
    net.mutable_layer(1)->add_include()->set_phase(TRAIN);
    keep_layers(given, names, net);
    set_classes(net, names.scores, classes);
    if (!std::ranges::any_of(net.layer(), is_loss)) {
      LayerParameter& loss = add_layer(net, "SoftmaxWithLoss", free_name(net, "loss"));
      loss.add_bottom(names.scores);
      loss.add_bottom(names.label);
      loss.add_include()->set_phase(TRAIN);
    }
    names.probabilities = free_name(net, "prob");
    LayerParameter& softmax = add_layer(net, "Softmax", names.probabilities);
    softmax.add_bottom(names.scores);
    softmax.add_include()->set_phase(TEST);
    prototxt = prototxt_of(net);
  }
  return nb::make_tuple(prototxt, names.data, names.label, names.probabilities);
}

}  // namespace

void bind_classifier_net(nb::module_& module) {
  module.def("classifier_net", classifier_net, nb::arg("source"), nb::arg("kind"), nb::arg("dims"),
             nb::arg("classes"));
}

}  // namespace crema::python
