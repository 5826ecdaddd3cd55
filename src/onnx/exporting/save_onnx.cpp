// Export of a net: its layers in their order, each written by the exporter of its type.
#include <algorithm>
#include <optional>
#include <set>

#include "analysis/merge_batch_norm.hpp"
#include "crema/onnx.hpp"
#include "model/origin.hpp"
#include "model/source_map.hpp"
#include "onnx/exporting/exported_net.hpp"
#include "onnx/exporting/exporter.hpp"
#include "onnx/exporting/preprocess.hpp"
#include "onnx/importing/metadata.hpp"
#include "onnx/model_file.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

using namespace onnx;

/// The version of the format that came with the opset.
int64_t ir_version_of(int opset) {
  return opset >= 23 ? 11 : opset >= 21 ? 10 : opset >= 19 ? 9 : opset >= 15 ? 8 : 7;
}

/// `open`: axes whose size is not fixed, with a name.
void write_end(const std::string& name, const Shape& shape, const std::map<int, std::string>& open,
               ValueInfoProto& end) {
  end.set_name(name);
  TypeProto::Tensor& type = *end.mutable_type()->mutable_tensor_type();
  type.set_elem_type(TensorProto::FLOAT);
  type.mutable_shape();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    TensorShapeProto::Dimension& dim = *type.mutable_shape()->add_dim();
    const auto found = open.find(axis);
    if (found != open.end()) {
      dim.set_dim_param(found->second);
    } else {
      dim.set_dim_value(shape[axis]);
    }
  }
}

/// Axes of a value without a fixed size.
std::map<int, std::string> open_axes(const ExportedNet::Value& value) {
  if (value.late_axis >= 0) return {{value.late_axis, value.name + "_count"}};
  if (value.open_batch) return {{0, value.batch_is_input ? "batch" : value.name + "_count"}};
  return {};
}

class Exporting {
 public:
  Exporting(const Net& net, const OnnxOptions& options)
      : options_(options), net_(net, options.dynamic_batch), graph_(options.opset) {}

  ModelProto run(const Net& net, OnnxReport& report) {
    for (const ExportedNet::Value& value : net_.values()) graph_.reserve(value.name);
    for (const int input : net_.inputs()) {
      const ExportedNet::Value& value = net_.values()[static_cast<size_t>(input)];
      write_end(value.name, value.shape, open_axes(value), *graph_.graph().add_input());
    }
    if (options_.preprocess) preprocess(report);
    for (const ExportedNet::Entry& entry : net_.entries()) write(entry, report);
    refuse_problems();
    Names outputs;
    for (const int output : net_.outputs()) outputs.push_back(write_output(output));
    graph_.remove_unused(outputs);
    return model_of(net, report);
  }

 private:
  const ExportedNet::Value& value(int i) const { return net_.values()[static_cast<size_t>(i)]; }

  void preprocess(OnnxReport& report) {
    if (options_.origin == nullptr || !options_.origin->has_transform())
      throw Error(
          "nothing is known of the preprocessing: the weights do not say what they were "
          "trained on; leave the preprocessing out, and do it in front of the model");
    for (const int input : net_.inputs()) {
      if (value(input).shape.rank() != 4) continue;
      graph_.begin_layer("preprocess", value(input).open_batch);
      graph_.alias(value(input).name, add_preprocessing(*options_.origin, value(input).shape,
                                                        value(input).name, graph_));
      report.notes.push_back(text("the first input takes pixels from 0 to 255",
                                  value(input).shape[1] == 1 ? ", gray" : " in the order RGB"));
      const TransformationParameter& transform = options_.origin->transform();
      if (transform.has_mean_file() && transform.mean_value_size() == 0)
        report.notes.push_back(text("of the mean image '", transform.mean_file(),
                                    "', the mean of each channel is subtracted: the weights have "
                                    "no more of it"));
      return;
    }
    throw Error("the net has no input of images, (N, C, H, W), that preprocessing could be for");
  }

  void write(const ExportedNet::Entry& entry, OnnxReport& report) {
    const std::string& type = entry.layer->type();
    const ExporterTable& table = ExporterTable::instance();
    try {
      if (!entry.problem.empty()) throw Error(entry.problem);
      if (entry.is_known) return;
      const Exporter exporter = table.find(type);
      if (exporter == nullptr) {
        const std::string why = table.why_not(type);
        throw Error(why.empty() ? "is of a type that has no form in ONNX" : why);
      }
      Names inputs, outputs;
      std::vector<Shape> bottoms, tops;
      std::vector<std::optional<Array>> known;
      for (const int bottom : entry.bottoms) {
        inputs.push_back(value(bottom).name);
        bottoms.push_back(value(bottom).shape);
        known.push_back(value(bottom).known);
        if (known.back()) need_constant(bottom);
      }
      for (const int top : entry.tops) {
        outputs.push_back(value(top).name);
        tops.push_back(value(top).shape);
      }
      ExportedLayer layer(*entry.layer, std::move(inputs), std::move(bottoms), std::move(outputs),
                          std::move(tops));
      layer.set_known(std::move(known));
      graph_.begin_layer(entry.layer->name(), entry.reads_open_batch);
      const int first = graph_.graph().node_size();
      exporter(layer, graph_);
      graph_.finish_layer();
      for (int i = first; i < graph_.graph().node_size(); ++i) {
        if (graph_.graph().node(i).domain() == "crema")
          report.custom.push_back(text(entry.layer->name(), " (", type, ")"));
      }
    } catch (const Error& error) {
      problems_.push_back(text("layer '", entry.layer->name(), "' (", type, ") ", error.message()));
    }
  }

  /// A value that is always the same becomes an initialiser when it is read first.
  void need_constant(int i) {
    if (constants_.insert(i).second) graph_.initializer(value(i).name, *value(i).known);
  }

  void refuse_problems() const {
    if (problems_.empty()) return;
    if (problems_.size() == 1) throw Error(problems_[0]);
    throw Error(problems_.size(), " layers cannot be exported:\n  ", joined(problems_, "\n  "));
  }

  /// The name of the output.
  std::string write_output(int output) {
    const ExportedNet::Value& end = value(output);
    if (end.known) need_constant(output);
    std::string name = end.name;
    const std::string from = graph_.resolved(name);
    // An output has to be what a node gives.
    const bool is_input = std::ranges::find(net_.inputs(), output) != net_.inputs().end();
    if (from != name || end.known || is_input) {
      graph_.begin_layer(name, end.open_batch);
      if (end.known || is_input) name = graph_.new_name(end.name + "_output");
      NodeProto& node = *graph_.graph().add_node();
      node.set_op_type("Identity");
      node.set_name(graph_.new_name(name + "/Identity"));
      node.add_input(from);
      node.add_output(name);
    }
    write_end(name, end.shape, open_axes(end), *graph_.graph().add_output());
    return name;
  }

  ModelProto model_of(const Net& net, OnnxReport& report) {
    ModelProto model;
    model.set_ir_version(ir_version_of(options_.opset));
    const std::string program = program_version();
    const size_t space = program.find(' ');
    model.set_producer_name(program.substr(0, space));
    if (space != std::string::npos) model.set_producer_version(program.substr(space + 1));
    OperatorSetIdProto& opset = *model.add_opset_import();
    opset.set_domain("");
    opset.set_version(options_.opset);
    if (graph_.has_custom()) {
      OperatorSetIdProto& own = *model.add_opset_import();
      own.set_domain("crema");
      own.set_version(1);
    }
    for (const auto& [domain, version] : net_.other_domains()) {
      OperatorSetIdProto& other = *model.add_opset_import();
      other.set_domain(domain);
      other.set_version(version);
    }
    graph_.graph().set_name(net.name().empty() ? "net" : net.name());
    model.mutable_graph()->Swap(&graph_.graph());
    if (options_.origin != nullptr) {
      Origin origin = *options_.origin;
      if (options_.preprocess) {
        // The model does it: who reads the metadata must not do it again.
        origin.clear_transform();
        origin.clear_channel_mean();
      }
      add_origin(origin, model);
      add_preprocessing_metadata(origin, model);
    }
    for (const std::string& note : net_.notes()) report.notes.push_back(note);
    return model;
  }

  const OnnxOptions& options_;
  ExportedNet net_;
  GraphBuilder graph_;
  std::vector<std::string> problems_;
  std::set<int> constants_;
};

/// The net with BatchNorm, Scale and Bias in the weights beside them.
Net folded(const Net& net, OnnxReport& report) {
  NetParameter weights;
  net.save(weights);
  const MergedNet merged = merge_batch_norm(net_message(net), SourceMap(), weights, net.context(),
                                            {.phase = Phase::test});
  for (const MergedNet::Entry& entry : merged.entries) {
    if (entry.into.empty() || !entry.why.empty())
      report.notes.push_back(text("layer '", entry.layer, "' (", entry.type, ") ",
                                  entry.into.empty() ? "is not folded" : "is folded in part", ": ",
                                  entry.why));
  }
  Net result(merged.net, net.context(), {.phase = Phase::test, .fuse = false});
  result.load_weights(merged.weights);
  return result;
}

}  // namespace

OnnxReport save_onnx(const Net& net, const std::string& path, const OnnxOptions& options) {
  if (net.phase() != Phase::test)
    throw Error("net '", net.name(), "' is of phase TRAIN; build it with Phase::test to export it");
  OnnxReport report;
  if (options.fold) {
    const Net merged = folded(net, report);
    write_model(path, Exporting(merged, options).run(merged, report));
  } else {
    write_model(path, Exporting(net, options).run(net, report));
  }
  return report;
}

}  // namespace crema
