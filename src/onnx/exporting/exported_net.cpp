#include "onnx/exporting/exported_net.hpp"

#include <algorithm>

#include "crema/error.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

/// The shape of the first version of the blob.
Shape shape_of_input(const std::vector<NetValue>& values, const std::string& name) {
  for (const NetValue& value : values) {
    if (value.name == name) return value.shape;
  }
  throw Error("the net has no value for its input '", name, "'");
}

/// In phase TEST, a layer in place that changes nothing.
bool changes_nothing(const LayerParameter& param) {
  if (param.bottom_size() != 1 || param.top_size() != 1 || param.bottom(0) != param.top(0))
    return false;
  if (param.type() == "Dropout") return param.dropout_param().scale_train();
  return param.type() == "SpatialDropout" || param.type() == "Split";
}

/// Whether the values of the tops do not depend on the values of any bottom.
bool is_constant(const LayerParameter& param) {
  if (param.type() == "DummyData") {
    return std::ranges::all_of(param.dummy_data_param().data_filler(),
                               [](const auto& filler) { return filler.type() == "constant"; });
  }
  return param.type() == "PriorBox" || param.type() == "PriorBoxClustered" ||
         param.type() == "ContinuationIndicator" || param.type() == "Parameter";
}

bool gives_detections(const std::string& type) { return type.ends_with("DetectionOutput"); }

}  // namespace

NetParameter net_message(const Net& net) {
  NetParameter message;
  message.set_name(net.name());
  const std::vector<NetValue> values = net.values();
  const std::vector<Net::SavedLayer> saved = net.saved_layers();
  const std::vector<Layer*>& layers = net.layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    LayerParameter& param = *message.add_layer();
    param = layers[i]->param();
    param.clear_blobs();
    param.clear_include();
    param.clear_exclude();
    param.clear_phase();
    if (!saved[i].name.empty()) param.set_name(saved[i].name);
    for (ParamSpec& spec : *param.mutable_param()) spec.clear_noise();
    if (!layers[i]->is_input()) continue;
    param.mutable_input_param()->clear_shape();
    for (const std::string& top : param.top()) {
      BlobShape& shape = *param.mutable_input_param()->add_shape();
      const Shape present = shape_of_input(values, top);
      shape.mutable_dim()->Assign(present.dims().begin(), present.dims().end());
    }
  }
  return message;
}

ExportedNet::ExportedNet(const Net& net, bool dynamic_batch) {
  const std::vector<Layer*>& layers = net.layers();
  if (layers.empty()) throw Error("net '", net.name(), "' has no layers to export");
  NetOptions options{.phase = Phase::test, .dtype = layers[0]->dtype(), .fuse = false};
  options.keep_all = true;
  options.graphs = false;
  // The parameters are read alone, also by this other net.
  options.share_params_with = const_cast<Net*>(&net);
  plain_ = std::make_unique<Net>(net_message(net), net.context(), options);
  connect(net);
  name_values();
  const std::vector<Shape> present = shapes();
  for (size_t i = 0; i < values_.size(); ++i) values_[i].shape = present[i];
  if (dynamic_batch) open_batches();
  follow_late_shapes();
  compute_known();
}

void ExportedNet::connect(const Net& net) {
  std::map<std::string, int> current;
  std::map<std::string, size_t> version;
  const std::vector<Layer*>& layers = net.layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerParameter& param = layers[i]->param();
    if (changes_nothing(param)) {
      ++version[param.top(0)];
      continue;
    }
    Entry entry;
    entry.layer = layers[i];
    for (const std::string& bottom : param.bottom()) {
      const auto found = current.find(bottom);
      if (found == current.end()) throw Error("the blob '", bottom, "' has no maker");
      entry.bottoms.push_back(found->second);
    }
    for (const std::string& top : param.top()) {
      const int value = static_cast<int>(values_.size());
      values_.emplace_back();
      versions_.emplace_back(top, version[top]++);
      current[top] = value;
      entry.tops.push_back(value);
      if (layers[i]->is_input()) inputs_.push_back(value);
    }
    if (layers[i]->is_input()) continue;
    const OnnxOperatorParameter& foreign = param.onnx_operator_param();
    if (!foreign.domain().empty() && foreign.domain() != "ai.onnx")
      domains_[foreign.domain()] = foreign.opset();
    entries_.push_back(std::move(entry));
    layer_of_entry_.push_back(i);
  }
  for (const std::string& output : net.outputs()) {
    const auto found = current.find(output);
    // An input that nobody reads is an output of the net; a model needs none of it.
    if (found == current.end() || std::ranges::count(inputs_, found->second) > 0) continue;
    outputs_.push_back(found->second);
  }
}

void ExportedNet::name_values() {
  std::map<std::string, int> last;
  for (size_t i = 0; i < values_.size(); ++i) last[versions_[i].first] = static_cast<int>(i);
  std::set<std::string> taken;
  for (const int input : inputs_) {
    Value& value = values_[static_cast<size_t>(input)];
    value.name = versions_[static_cast<size_t>(input)].first;
    taken.insert(value.name);
  }
  const auto take = [&](std::string name) {
    const std::string base = name;
    for (int i = 2; !taken.insert(name).second; ++i) name = text(base, "_", i);
    return name;
  };
  for (const auto& [blob, i] : last) {
    Value& value = values_[static_cast<size_t>(i)];
    if (value.name.empty() && !taken.contains(blob)) value.name = take(blob);
  }
  for (const Entry& entry : entries_) {
    for (const int top : entry.tops) {
      Value& value = values_[static_cast<size_t>(top)];
      if (!value.name.empty()) continue;
      const std::string& blob = versions_[static_cast<size_t>(top)].first;
      value.name = take(text(blob, "_", entry.layer->name()));
    }
  }
  for (const int output : outputs_) {
    const Value& value = values_[static_cast<size_t>(output)];
    const std::string& blob = versions_[static_cast<size_t>(output)].first;
    if (value.name != blob)
      notes_.push_back(text("the output '", blob, "' is called '", value.name,
                            "', since an input has its name"));
  }
}

std::vector<Shape> ExportedNet::shapes() {
  std::map<std::string, std::vector<Blob*>> blobs;
  std::vector<Shape> result;
  for (const auto& [blob, version] : versions_) {
    auto& versions = blobs[blob];
    if (versions.empty()) versions = plain_->blob_versions(blob);
    if (version >= versions.size())
      throw Error("the blob '", blob, "' has ", versions.size(), " versions, not ", version + 1);
    result.push_back(versions[version]->shape());
  }
  return result;
}

void ExportedNet::open_batches() {
  const auto reshape = [&](int64_t more) {
    for (const int input : inputs_) {
      const Value& value = values_[static_cast<size_t>(input)];
      Shape shape = value.shape;
      if (shape.rank() == 0)
        throw Error("the input '", value.name,
                    "' is a scalar, which has no batch to leave open; export a fixed batch");
      shape.set(0, shape[0] + more);
      plain_->reshape_input(versions_[static_cast<size_t>(input)].first, shape);
    }
    plain_->reshape();
  };
  std::vector<Shape> larger;
  try {
    reshape(1);
    larger = shapes();
  } catch (const Error& error) {
    throw Error("the net takes no other batch, so that it cannot be left open: ", error.what());
  }
  reshape(0);
  const int64_t batch = inputs_.empty() ? 0 : values_[static_cast<size_t>(inputs_[0])].shape[0];
  const auto open = [&](int i) {
    Value& value = values_[static_cast<size_t>(i)];
    const Shape& other = larger[static_cast<size_t>(i)];
    if (other == value.shape) return true;
    if (other.rank() != value.shape.rank()) return false;
    for (int axis = 1; axis < other.rank(); ++axis) {
      if (other[axis] != value.shape[axis]) return false;
    }
    value.open_batch = true;
    value.batch_is_input = value.shape[0] == batch && other[0] == batch + 1;
    return true;
  };
  for (const int input : inputs_) open(input);
  for (Entry& entry : entries_) {
    for (const int top : entry.tops) {
      if (!open(top))
        entry.problem = text("needs a batch of a fixed size: another batch changes other axes of '",
                             values_[static_cast<size_t>(top)].name, "' than axis 0");
    }
  }
}

void ExportedNet::follow_late_shapes() {
  for (Entry& entry : entries_) {
    bool late = entry.layer->top_shapes() == TopShapes::from_values;
    for (const int bottom : entry.bottoms) {
      const Value& value = values_[static_cast<size_t>(bottom)];
      if (value.late_axis >= 0 && !entry.tops.empty())
        entry.problem = text("reads '", value.name, "', whose number of boxes is not known before");
      // A size that follows from values goes on to what is computed of it.
      if (value.open_batch) {
        entry.reads_open_batch = true;
        late = late || !value.batch_is_input;
      }
    }
    if (!late) continue;
    for (const int top : entry.tops) {
      Value& value = values_[static_cast<size_t>(top)];
      if (value.shape.rank() == 0) continue;
      if (gives_detections(entry.layer->type())) {
        value.late_axis = 2;
      } else if (!value.open_batch) {
        value.open_batch = true;
      }
    }
  }
}

void ExportedNet::know(Value& value, const std::pair<std::string, size_t>& version) {
  const Tensor& data = plain_->blob_versions(version.first)[version.second]->data;
  std::vector<double> values(static_cast<size_t>(data.count()));
  for (int64_t i = 0; i < data.count(); ++i) values[static_cast<size_t>(i)] = data.at(i);
  value.known = Array::of_doubles(TensorProto::FLOAT, data.shape(), values);
}

void ExportedNet::compute_known() {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    const LayerParameter& param = entry.layer->param();
    const auto is_known = [&](int value) {
      return values_[static_cast<size_t>(value)].known.has_value();
    };
    const bool follows = !entry.bottoms.empty() && !entry.tops.empty() &&
                         entry.layer->params().empty() &&
                         entry.layer->top_shapes() == TopShapes::fixed && param.type() != "Noise" &&
                         std::ranges::all_of(entry.bottoms, is_known);
    if (!follows && !is_constant(param)) continue;
    if (std::ranges::any_of(
            entry.tops, [&](int top) { return values_[static_cast<size_t>(top)].open_batch; })) {
      entry.problem = "needs a batch of a fixed size: its values are constants of the model";
      continue;
    }
    plain_->forward(layer_of_entry_[i], layer_of_entry_[i]);
    for (const int top : entry.tops)
      know(values_[static_cast<size_t>(top)], versions_[static_cast<size_t>(top)]);
    entry.is_known = true;
  }
}

}  // namespace crema::onnx
