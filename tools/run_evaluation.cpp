#include "tools/run_evaluation.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>

#include "analysis/device_times.hpp"
#include "analysis/draw.hpp"
#include "core/data_source.hpp"
#include "core/device.hpp"
#include "core/utf8.hpp"
#include "model/snapshot_file.hpp"
#include "model/weights_origin.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/evaluated_classes.hpp"
#include "tools/evaluated_detections.hpp"
#include "tools/output_means.hpp"
#include "tools/record_pass.hpp"
#include "tools/required_data.hpp"
#include "tools/seen_images.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Each output that has a few values.
void keep_means(const std::vector<OutputMeans>& outputs, Evaluation& evaluation) {
  constexpr size_t kMostValues = 16;
  for (const OutputMeans& output : outputs) {
    if (output.spread.count == 0 || output.in_one_line || output.means.size() > kMostValues)
      continue;
    for (size_t i = 0; i < output.means.size(); ++i) {
      const std::string name =
          output.means.size() == 1 ? output.name : text(output.name, "[", i, "]");
      (*evaluation.mutable_outputs())[as_utf8(name)] = output.means[i].mean();
    }
  }
}

std::string device_words(const Context& context) {
  if (!context.on_gpu()) return "CPU";
  std::string why;
  for (const DeviceInfo& device : cuda_devices(why)) {
    if (device.index == context.device().index) return device.name;
  }
  return "GPU";
}

int64_t records_of(const Net& net) {
  for (Layer* layer : net.layers()) {
    const DataSource* data = layer->data_source();
    if (data != nullptr && data->records() > 0) return data->records();
  }
  return 0;
}

}  // namespace

std::optional<RunWeights> weights_of_run(const RunFiles& run,
                                         std::vector<std::string>* passed_over) {
  constexpr std::array<const char*, 6> kNames = {"best.caffemodel",     "best.caffemodel.h5",
                                                 "last_ema.caffemodel", "last_ema.caffemodel.h5",
                                                 "last.caffemodel",     "last.caffemodel.h5"};
  RunWeights weights;
  std::set<std::string> own;  // checksums; none in a folder of an earlier version
  for (const RunRecord& event : run.events) {
    if (event.has_weights_checksum()) own.insert(event.weights_checksum());
  }
  const auto take = [&](const fs::path& path, const std::string& name) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    if (!own.empty() && !own.contains(checksum_of_weights(path.string()))) {
      if (passed_over != nullptr) {
        std::error_code failed;
        const fs::path target = fs::weakly_canonical(path, failed);
        passed_over->push_back(text(
            "'", name, "' ", target == path || failed ? "" : text("('", target.string(), "') "),
            "is not a file that this run wrote: its checksum is in no record of the run. Another "
            "run with the same snapshot_prefix may have replaced it"));
      }
      return false;
    }
    weights.file = path.string();
    weights.name = name;
    weights.bytes = status.st_size;
    weights.time = static_cast<double>(status.st_mtim.tv_sec) +
                   static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
    const Origin origin = origin_of_weights(weights.file);
    if (origin.has_iteration()) weights.iteration = origin.iteration();
    return true;
  };
  const fs::path folder = run.folder;
  for (const char* name : kNames) {
    if (!take(folder / "snapshots" / name, text("snapshots/", name))) continue;
    weights.is_best = std::string(name).starts_with("best");
    return weights;
  }
  for (auto event = run.events.rbegin(); event != run.events.rend(); ++event) {
    if (event->weights().empty()) continue;
    if (!take(folder / event->weights(), event->weights())) continue;
    if (weights.iteration < 0) weights.iteration = event->iteration();
    return weights;
  }
  return std::nullopt;
}

bool is_up_to_date(const RunFiles& run, const RunWeights& weights, const EvaluationBounds& bounds) {
  if (!run.evaluation) return false;
  const Evaluation& evaluation = *run.evaluation;
  const bool is_enough = evaluation.asked_records() >= bounds.records && !evaluation.is_cut();
  const bool is_all =
      evaluation.records_of_data() > 0 && evaluation.records() >= evaluation.records_of_data();
  // The fraction of a second may be lost in the file.
  return evaluation.weights() == weights.name && evaluation.weights_bytes() == weights.bytes &&
         std::abs(evaluation.weights_time() - weights.time) < 1e-3 && (is_enough || is_all);
}

void remove_writers(NetParameter& param) {
  auto& layers = *param.mutable_layer();
  layers.erase(
      std::remove_if(layers.begin(), layers.end(),
                     [](const LayerParameter& layer) { return layer.type() == "HDF5Output"; }),
      layers.end());
  for (LayerParameter& layer : layers) {
    if (layer.detection_output_param().has_save_output_param())
      layer.mutable_detection_output_param()->clear_save_output_param();
  }
}

Evaluation evaluate_run(const RunFiles& run, const RunWeights& weights, Context& context,
                        const EvaluationBounds& bounds) {
  const Clock::time_point start = Clock::now();
  Evaluation evaluation;
  const RunRecord* best = run.best();
  int number = best != nullptr ? best->net() : 0;
  if (number >= static_cast<int>(run.test_net_texts.size())) number = 0;
  if (run.test_net_texts.empty()) throw Error("the run has no test net");
  NetParameter param;
  SourceMap source;
  read_net((fs::path(run.folder) / text("test_net_", number, ".prototxt")).string(), param,
           &source);
  remove_writers(param);
  // Data layers over folders of classes take the names that the weights were trained with.
  std::vector<std::string> trained = class_names_of_weights(weights.file);
  if (trained.empty()) trained.assign(run.info.class_names().begin(), run.info.class_names().end());
  if (!trained.empty())
    param.mutable_origin()->mutable_class_name()->Assign(trained.begin(), trained.end());
  NetOptions options;
  options.phase = Phase::test;
  options.weights = {weights.file};
  options.need_all_weights = true;
  EvaluatedClasses classes(param, options);
  EvaluatedDetections detections(param);
  options.keep = classes.blobs();
  for (const std::string& blob : detections.blobs()) options.keep.push_back(blob);
  Net net(param, source, context, std::move(options));
  require_data(net);
  const SeenImages images(net, bounds.rgb);
  detections.begin(net);
  classes.begin(net, trained);
  RecordPass pass(net, RecordPass::Sample{bounds.records});
  std::vector<OutputMeans> outputs;
  const std::vector<std::string> rows = row_outputs(net);
  for (const std::string& name : net.outputs()) {
    if (!detections.has(name))
      outputs.emplace_back(name, std::ranges::count(rows, name) != 0, false);
  }
  int64_t counted = 0;
  for (int batch = 0; pass.next(); ++batch) {
    for (OutputMeans& output : outputs) output.add(batch, net.output(output.name), pass);
    classes.add(net, pass, images);
    detections.add(net, pass, images);
    counted += pass.records() > 0 ? pass.counted() : 0;
    if (seconds_since(start) > bounds.seconds && batch + 1 < pass.batches()) {
      evaluation.set_is_cut(true);
      break;
    }
  }
  keep_means(outputs, evaluation);
  classes.finish(evaluation);
  detections.finish(evaluation);
  evaluation.set_weights(weights.name);
  evaluation.set_weights_bytes(weights.bytes);
  evaluation.set_weights_time(weights.time);
  if (weights.iteration >= 0) evaluation.set_iteration(weights.iteration);
  evaluation.set_is_best(weights.is_best);
  evaluation.set_net(number);
  evaluation.set_asked_records(bounds.records);
  evaluation.set_records(counted);
  evaluation.set_records_of_data(records_of(net));
  evaluation.set_seconds(seconds_since(start));
  return evaluation;
}

LayerTable layer_table(Net& net, const NetParameter& param) {
  LayerTable table;
  table.set_net(as_utf8(net.name()));
  const Context& context = net.context();
  table.set_device(device_words(context));
  table.set_threads(context.threads());
  const std::vector<NetValue> values = net.values();
  double parameters = 0;
  for (const LayerSummary& layer : net.summary()) {
    LayerTable::Layer& row = *table.add_layers();
    row.set_name(as_utf8(layer.name));
    row.set_type(layer.type);
    row.set_parameters(static_cast<double>(layer.params));
    parameters += static_cast<double>(layer.params);
    if (!layer.fused_into.empty()) {
      row.set_fused_into(as_utf8(layer.fused_into));
      continue;
    }
    row.set_engine(layer.engine);
    row.set_detail(layer.detail);
    row.set_operations(layer.flops.forward + layer.flops.backward);
    double bytes = 0;
    for (const int top : layer.tops)
      bytes += static_cast<double>(values[static_cast<size_t>(top)].bytes);
    row.set_memory(bytes);
    if (layer.tops.empty()) continue;
    const Shape& shape = values[static_cast<size_t>(layer.tops[0])].shape;
    for (int axis = 0; axis < shape.rank(); ++axis) row.add_shape(shape[axis]);
  }
  table.set_parameters(parameters);
  const MemoryPlan memory = net.memory();
  table.set_planned_bytes(
      static_cast<double>(memory.activations + memory.parameters + memory.engines));
  NetOptions state;
  state.phase = net.phase();
  DrawOptions drawing;
  drawing.state = state;
  drawing.net = &net;
  table.set_drawing(draw_net_as_svg(param, drawing));
  return table;
}

namespace {

/// Milliseconds of each step, in the order of the net's.
struct StepMilliseconds {
  std::vector<std::vector<double>> forward, backward;
  int passes = 0;
};

StepMilliseconds time_steps(Net& net, double seconds) {
  constexpr int kMostPasses = 10;
  const Clock::time_point start = Clock::now();
  StepMilliseconds times;
  for (int pass = -1; pass < kMostPasses; ++pass) {
    net.run_state().iteration = static_cast<uint64_t>(pass + 1);
    net.clear_gradients();
    // The first one takes memory and fills caches. Sources may give it other shapes.
    const auto timed = [&](std::vector<std::vector<double>>& all, size_t step, const auto& run) {
      const Clock::time_point begin = Clock::now();
      run();
      const double ms = seconds_since(begin) * 1e3;
      if (pass < 0) return;
      all.resize(std::max(all.size(), step + 1));
      all[step].push_back(ms);
    };
    for (size_t s = 0; s < net.steps().size(); ++s)
      timed(times.forward, s, [&] { net.forward_step(s); });
    for (size_t s = net.steps().size(); s-- > 0;) {
      if (net.steps()[s].backward) timed(times.backward, s, [&] { net.backward_step(s); });
    }
    if (pass >= 0) ++times.passes;
    if (pass >= 0 && seconds_since(start) > seconds) break;
  }
  return times;
}

/// Adds what steps take to the rows of their layers.
void add_times(const Net& net, const std::vector<double>& forward,
               const std::vector<double>& backward, LayerTable& table) {
  double all_forward = 0, all_backward = 0;
  for (size_t s = 0; s < net.steps().size(); ++s) {
    const NetStep& step = net.steps()[s];
    const double to = s < forward.size() ? forward[s] : 0;
    const double from = s < backward.size() ? backward[s] : 0;
    all_forward += to;
    all_backward += from;
    if (step.layer < 0 || step.layer >= table.layers_size()) continue;
    LayerTable::Layer& row = *table.mutable_layers(step.layer);
    row.set_forward_ms(row.forward_ms() + to);
    if (step.backward) row.set_backward_ms(row.backward_ms() + from);
  }
  table.set_forward_ms(all_forward);
  table.set_backward_ms(all_backward);
}

}  // namespace

LayerTable time_layers(const RunFiles& run, const std::optional<RunWeights>& weights,
                       Context& context, const EvaluationBounds& bounds) {
  NetParameter param;
  SourceMap source;
  read_net((fs::path(run.folder) / "net.prototxt").string(), param, &source);
  remove_writers(param);
  NetOptions options;
  options.phase = Phase::train;
  if (weights) options.weights = {weights->file};
  Net net(param, source, context, std::move(options));
  if (!net.inputs().empty()) return layer_table(net, param);
  if (context.on_gpu()) {
    DeviceTiming timing;
    const DeviceTimes times = time_on_device(net, timing);
    LayerTable table = layer_table(net, param);
    add_times(net, times.forward, times.backward, table);
    table.set_passes(timing.iterations);
    return table;
  }
  const StepMilliseconds times = time_steps(net, bounds.seconds / 4);
  LayerTable table = layer_table(net, param);
  const auto medians = [](const std::vector<std::vector<double>>& all) {
    std::vector<double> values;
    for (const auto& one : all) values.push_back(median(one));
    return values;
  };
  add_times(net, medians(times.forward), medians(times.backward), table);
  table.set_passes(times.passes);
  return table;
}

}  // namespace crema::tools
