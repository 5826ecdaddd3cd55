// describe_run(): what a run is made of.
#include <filesystem>

#include "core/data_source.hpp"
#include "core/device.hpp"
#include "core/utf8.hpp"
#include "model/origin.hpp"
#include "monitor/fingerprint.hpp"
#include "monitor/git_state.hpp"
#include "monitor/host_name.hpp"
#include "monitor/recorder.hpp"
#include "monitor/settings_list.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

std::string device_name(const Context& context) {
  if (!context.on_gpu()) return "CPU";
  std::string why;
  for (const DeviceInfo& device : cuda_devices(why))
    if (device.index == context.device().index) return device.name;
  return text("device ", context.device().index);
}

/// Where the layer has its data from: the first text that a message of it has under a name that
/// says so.
std::string source_of(const LayerParameter& layer) {
  const auto* reflection = layer.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(layer, &fields);
  for (const auto* field : fields) {
    if (field->is_repeated() ||
        field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE)
      continue;
    const auto& settings = reflection->GetMessage(layer, field);
    const auto* source = settings.GetDescriptor()->FindFieldByName("source");
    if (source == nullptr || source->is_repeated() ||
        source->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING)
      continue;
    std::string found = settings.GetReflection()->GetString(settings, source);
    if (!found.empty()) return found;
  }
  return {};
}

void list_data(const Net& net, const char* phase, RunInfo& info) {
  for (const Layer* layer : net.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr) continue;
    RunInfo::Data& data = *info.add_data();
    data.set_layer(as_utf8(layer->name()));
    data.set_phase(phase);
    if (source->records() > 0) data.set_records(static_cast<double>(source->records()));
    if (const std::string path = source_of(layer->param()); !path.empty()) {
      if (std::string found = data_fingerprint(path); !found.empty())
        data.set_fingerprint(std::move(found));
      data.set_source(as_utf8(path));
    }
    if (info.class_names_size() > 0) continue;
    for (const std::string& name : source->class_names()) info.add_class_names(as_utf8(name));
  }
}

}  // namespace

RunInfo describe_run(Solver& solver, const SolverParameter& param) {
  Net& net = solver.net();
  const Context& context = net.context();
  RunInfo info;
  info.set_net(as_utf8(net.name()));
  std::error_code unknown;
  const std::string folder = std::filesystem::current_path(unknown).string();
  info.set_folder(as_utf8(folder));
  info.set_version(program_version());
  if (const auto git = git_state(folder)) *info.mutable_git() = *git;
  info.set_host(host_name());
  info.set_device(device_name(context));
  info.set_threads(context.threads());
  info.set_seed(net.run_state().seed);
  info.set_snapshot_prefix(as_utf8(param.snapshot_prefix()));
  info.set_max_iterations(solver.max_iterations());
  if (const auto epoch = solver.iterations_of_epoch()) info.set_iterations_of_epoch(*epoch);
  list_data(net, "TRAIN", info);
  for (const auto& test : solver.test_nets()) list_data(*test, "TEST", info);
  list_settings(param, net, info);
  return info;
}

}  // namespace crema
