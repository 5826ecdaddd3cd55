#include "monitor/events.hpp"

#include <chrono>
#include <map>
#include <optional>

#include "core/parse_number.hpp"
#include "core/utf8.hpp"
#include "model/text_format.hpp"
#include "monitor/histograms.hpp"

namespace crema {
namespace tb = tensorboard;
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void add_scalar(tb::Event& event, const std::string& tag, double value) {
  tb::Summary::Value& added = *event.mutable_summary()->add_value();
  added.set_tag(as_utf8(tag));
  added.set_simple_value(static_cast<float>(value));
}

std::string parameter_tag(const ValueHistogram& one) {
  return text(one.gradient() ? "gradients/" : "weights/", one.layer(), "/", one.parameter());
}

tb::Event hparams_event(const char* tag, tb::HParamsPluginData data) {
  tb::Event event;
  tb::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  data.set_version(0);
  tb::SummaryMetadata::PluginData& plugin = *value.mutable_metadata()->mutable_plugin_data();
  plugin.set_plugin_name("hparams");
  plugin.set_content(data.SerializeAsString());
  // Readers want a value: a tensor without elements.
  value.mutable_tensor()->set_dtype(tb::DT_FLOAT);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim();
  return event;
}

/// Whether a table of runs has a column for the setting: those of the solver, without names of
/// files, and batch sizes.
bool is_hyperparameter(const std::string& name) {
  if (name.starts_with("net.")) return name.ends_with(".batch_size");
  return name != "net" && name != "train_net" && name != "test_net" && name != "weights" &&
         name != "snapshot_prefix" && name != "display";
}

std::string settings_text(const LayerParameter& layer) {
  constexpr size_t kMost = 2000;
  LayerParameter rest = layer;
  rest.clear_name();
  rest.clear_type();
  rest.clear_bottom();
  rest.clear_top();
  std::string said = prototxt_of(rest);
  if (said.size() > kMost) said.resize(kMost);
  return said;
}

}  // namespace

std::string test_tag(int net) { return net == 0 ? "test" : text("test", net); }

tb::Event scalar_event(const RunRecord& record) {
  tb::Event event;
  if (record.kind() == RunRecord::TEST) {
    const std::string tag = test_tag(record.net());
    if (record.has_test_loss()) add_scalar(event, tag + "_loss", record.test_loss());
    const std::map<std::string, double> outputs(record.outputs().begin(), record.outputs().end());
    for (const auto& [name, value] : outputs) add_scalar(event, tag + "/" + name, value);
    for (const RunRecord::Class& one : record.classes()) {
      const std::string name = one.name().empty() ? text(one.label()) : one.name();
      add_scalar(event, tag + "/" + one.output() + "/" + name, one.average_precision());
    }
    return event;
  }
  const auto add = [&](bool has, const char* name, double value) {
    if (has) add_scalar(event, text("train/", name), value);
  };
  add(record.has_loss(), "loss", record.loss());
  add(record.has_smoothed_loss(), "smoothed_loss", record.smoothed_loss());
  add(record.has_rate(), "rate", record.rate());
  add(record.has_images_per_second(), "images_per_second", record.images_per_second());
  add(record.has_data_wait(), "data_wait", record.data_wait());
  add(record.has_gradient_norm(), "gradient_norm", record.gradient_norm());
  add(record.has_memory(), "memory", record.memory());
  add(record.has_seconds(), "seconds", record.seconds());
  add(record.has_epoch(), "epoch", record.epoch());
  const std::map<std::string, double> outputs(record.outputs().begin(), record.outputs().end());
  for (const auto& [name, value] : outputs) add_scalar(event, "train/output/" + name, value);
  return event;
}

tb::Event histogram_of_run(const std::vector<ValueHistogram>& histograms) {
  tb::Event event;
  for (const ValueHistogram& one : histograms) {
    if (one.counts_size() == 0) continue;
    tb::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(as_utf8(parameter_tag(one)));
    *value.mutable_histo() = histogram_event(one);
  }
  return event;
}

tb::Event graph_event(const Net& net) {
  std::map<std::string, Shape> shapes;
  for (const NetValue& value : net.values()) shapes[value.name] = value.shape;
  tb::GraphDef graph;
  graph.mutable_versions()->set_producer(22);
  std::map<std::string, std::string> made_by;  // the last one so far, as in-place layers need it
  for (const Layer* layer : net.layers()) {
    const LayerParameter& param = layer->param();
    tb::NodeDef& node = *graph.add_node();
    node.set_name(as_utf8(layer->name()));
    node.set_op(layer->type());
    for (const std::string& bottom : param.bottom()) {
      const auto found = made_by.find(bottom);
      node.add_input(as_utf8(found == made_by.end() ? bottom : found->second));
    }
    tb::AttrValue output_shapes;
    for (int i = 0; i < param.top_size(); ++i) {
      made_by[param.top(i)] = i == 0 ? layer->name() : text(layer->name(), ":", i);
      tb::TensorShapeProto& shape = *output_shapes.mutable_list()->add_shape();
      const auto found = shapes.find(param.top(i));
      if (found == shapes.end()) continue;
      for (int axis = 0; axis < static_cast<int>(found->second.rank()); ++axis)
        shape.add_dim()->set_size(found->second[axis]);
    }
    if (param.top_size() > 0) (*node.mutable_attr())["_output_shapes"] = output_shapes;
    (*node.mutable_attr())["settings"].set_s(settings_text(param));
  }
  tb::Event event;
  event.set_graph_def(graph.SerializeAsString());
  return event;
}

tb::Event start_event() {
  tb::Event event;
  event.mutable_session_log()->set_status(tb::SessionLog::START);
  return event;
}

tb::Event experiment_event(const RunInfo& info, const std::vector<std::string>& outputs) {
  tb::HParamsPluginData data;
  tb::Experiment& experiment = *data.mutable_experiment();
  experiment.set_time_created_secs(now());
  for (const RunInfo::Setting& setting : info.settings()) {
    if (!is_hyperparameter(setting.name())) continue;
    tb::HParamInfo& one = *experiment.add_hparam_infos();
    one.set_name(as_utf8(setting.name()));
    one.set_type(parse_number<double>(setting.value()) ? tb::HParamInfo::DATA_TYPE_FLOAT64
                                                       : tb::HParamInfo::DATA_TYPE_STRING);
  }
  std::vector<std::string> tags = {"train/smoothed_loss"};
  tags.insert(tags.end(), outputs.begin(), outputs.end());
  for (const std::string& tag : tags)
    experiment.add_metric_infos()->mutable_name()->set_tag(as_utf8(tag));
  return hparams_event("_hparams_/experiment", std::move(data));
}

tb::Event session_event(const RunInfo& info) {
  tb::HParamsPluginData data;
  tb::SessionStartInfo& session = *data.mutable_session_start_info();
  session.set_group_name(as_utf8(info.name()));
  session.set_start_time_secs(now());
  for (const RunInfo::Setting& setting : info.settings()) {
    if (!is_hyperparameter(setting.name())) continue;
    auto& value = (*session.mutable_hparams())[as_utf8(setting.name())];
    if (const auto number = parse_number<double>(setting.value())) {
      value.set_number_value(*number);
    } else {
      value.set_string_value(as_utf8(setting.value()));
    }
  }
  return hparams_event("_hparams_/session_start_info", std::move(data));
}

tb::Event session_end_event(bool succeeded) {
  tb::HParamsPluginData data;
  tb::SessionEndInfo& end = *data.mutable_session_end_info();
  end.set_status(succeeded ? tb::SessionEndInfo::STATUS_SUCCESS
                           : tb::SessionEndInfo::STATUS_FAILURE);
  end.set_end_time_secs(now());
  return hparams_event("_hparams_/session_end_info", std::move(data));
}

void add_text_value(const std::string& tag, const std::string& words, tb::Event& event) {
  tb::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_tensor()->set_dtype(tb::DT_STRING);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value.mutable_tensor()->add_string_val(as_utf8(words));
}

}  // namespace crema
