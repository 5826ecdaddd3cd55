// crema test: scores trained weights on a net's test data.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "analysis/confusion.hpp"
#include "core/carried_state.hpp"
#include "core/json.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "crema/parameter_arena.hpp"
#include "model/text_format.hpp"
#include "model/weights_origin.hpp"
#include "proto/net.pb.h"
#include "solver/named_sizes.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/confusion_report.hpp"
#include "tools/detection_report.hpp"
#include "tools/flags.hpp"
#include "tools/record_pass.hpp"
#include "tools/required_data.hpp"
#include "tools/text.hpp"

DEFINE_bool(confusion, false,
            "Print the accuracy and the IoU of each class, and which classes it was taken for.");
DEFINE_string(
    scores, "",
    "The blob of class scores. Of classify: Default: the net's output. Of test: Default: what its "
    "Accuracy or SoftmaxWithLoss layer reads. Of detect: With --boxes.");
DEFINE_string(ap_version, "Integral",
              "How average precision of detections is computed: 11point, MaxIntegral or Integral.");
DEFINE_bool(per_class, false, "Log the average precision of each class.");

namespace crema::tools {
namespace {

/// Outputs with an axis for the batch and more values than that, features mostly and no scores, get
/// one line: a screen is full by then.
constexpr int64_t kMostLines = 40;

/// Mean, least and greatest of many values.
struct Spread {
  double sum = 0, amount = 0;
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  int64_t count = 0;

  void add(double value, const Share& share = {}) {
    // 0 times a value that is not finite is none.
    if (share.factor != 0) sum += share.factor * value;
    amount += share.amount;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    ++count;
  }
  /// 0 where nothing counts.
  double mean() const { return amount > 0 ? sum / amount : 0; }
  std::string str() const { return text("mean ", mean(), ", min ", least, ", max ", greatest); }
};

/// What all batches gave of one output.
struct Scores {
  /// `rows`: their number differs from batch to batch.
  Scores(std::string output, bool rows) : name(std::move(output)), in_one_line(rows) {}

  void add(int batch, const Tensor& values, const RecordPass& pass) {
    shape = values.shape();
    // Also if a later batch alone is that large. Values of one axis, as the accuracies of classes,
    // are scores each.
    in_one_line = in_one_line || (shape.rank() > 1 && shape.count() > kMostLines);
    const Shares shares = pass.shares(name, shape);
    of_records = shares.of_records();
    Spread of_batch;
    means.resize(std::max(means.size(), static_cast<size_t>(values.count())));
    for (int64_t i = 0; i < values.count(); ++i) {
      const double value = values.at(i);
      const Share share = shares(i);
      if (of_records && share.amount == 0) continue;
      of_batch.add(value);
      spread.add(value);
      means[static_cast<size_t>(i)].add(value, share);
      if (!in_one_line) LOG(INFO) << "Batch " << batch << ", " << printable(name) << " = " << value;
    }
    if (of_batch.count == 0) {
      LOG(INFO) << "Batch " << batch << ", " << printable(name) << " (" << shape.str()
                << "): no values";
    } else if (in_one_line) {
      LOG(INFO) << "Batch " << batch << ", " << printable(name) << " (" << shape.str()
                << "): " << of_batch.str();
    }
  }

  /// `batches` as large as most.
  void log(double batches, float weight) const {
    if (spread.count == 0) {
      LOG(INFO) << printable(name) << " (" << shape.str() << "): no values in any batch";
      return;
    }
    if (in_one_line) {
      const double sum = spread.sum / batches;  // of a batch
      LOG(INFO) << printable(name) << " (" << shape.str() << "): " << spread.str()
                << (weight != 0 ? text(" (sum ", sum, " * ", weight, " = ", weight * sum, " loss)")
                                : "");
      return;
    }
    for (const Spread& of_index : means) {
      const double mean = of_index.mean();
      LOG(INFO) << printable(name) << " = " << mean
                << (weight != 0 ? text(" (* ", weight, " = ", weight * mean, " loss)") : "");
    }
  }

  /// The means of its values, or of all together where they are many.
  std::string json() const {
    if (spread.count == 0) return "[]";
    if (in_one_line) {
      return text("{\"mean\": ", json_number(spread.mean()),
                  ", \"min\": ", json_number(spread.least),
                  ", \"max\": ", json_number(spread.greatest), "}");
    }
    std::vector<std::string> values;
    for (const Spread& of_index : means) values.push_back(json_number(of_index.mean()));
    return text("[", joined(values), "]");
  }

  /// Its part of the loss, where it is one.
  double loss(double batches, float weight) const {
    if (weight == 0 || spread.count == 0) return 0;
    if (in_one_line || of_records) return static_cast<double>(weight) * spread.sum / batches;
    double sum = 0;
    for (const Spread& of_index : means) sum += of_index.mean();
    return static_cast<double>(weight) * sum;
  }

  std::string name;
  Shape shape;  // of the last batch
  bool in_one_line = false;
  bool of_records = false;    // the first axis is that of the records
  std::vector<Spread> means;  // of each index, over the batches that have it
  Spread spread;              // of all values
};

/// The scores and labels to count, as the flags or the net say; none where nobody asks for them.
std::optional<ScoredLabels> scored_labels(const NetParameter& param, const NetOptions& options) {
  const bool named = !FLAGS_scores.empty() || !FLAGS_labels.empty();
  if (!FLAGS_confusion && !FLAGS_json && !named) return std::nullopt;
  if (!FLAGS_labels.empty()) required_flag("scores", FLAGS_scores, "BLOB");
  const std::vector<ScoredLabels> found = find_scored_labels(param, options);
  for (const ScoredLabels& pair : found) {
    if (pair.scores != FLAGS_scores) continue;
    if (FLAGS_labels.empty() || pair.labels == FLAGS_labels) return pair;
  }
  if (named) {
    required_flag("labels", FLAGS_labels, "BLOB");
    return ScoredLabels{FLAGS_scores, FLAGS_labels};
  }
  if (found.empty()) {
    if (!FLAGS_confusion) return std::nullopt;
    throw Error(
        "--confusion: the net has no Accuracy or SoftmaxWithLoss layer in this phase; name "
        "the blobs with --scores=BLOB --labels=BLOB");
  }
  if (found.size() > 1) {
    std::vector<std::string> others;
    for (const auto& pair : found) others.push_back("'" + pair.scores + "'");
    others.pop_back();
    LOG(INFO) << "Classes are counted by '" << found.back().scores << "'; --scores=BLOB takes "
              << joined(others, " or ") << " instead";
  }
  return found.back();
}

/// The batches that --iterations asks for; none: each record once. A program that is called by the
/// published name runs as many as the published one.
std::optional<int> asked_iterations() {
  const bool is_given = !gflags::GetCommandLineFlagInfoOrDie("iterations").is_default;
  if (!is_given && !called_as_caffe()) return std::nullopt;
  return FLAGS_iterations;
}

/// The names of the classes that the weights were trained with go into the net's message, which
/// gives them to data layers over folders of classes.
void take_class_names(const std::vector<std::string>& weights, NetParameter& param) {
  const std::vector<std::string> names = class_names_of_weights(weights);
  if (names.empty()) return;
  param.mutable_origin()->mutable_class_name()->Assign(names.begin(), names.end());
}

/// What the outputs add to the loss of a batch.
double loss_of_outputs(Net& net, const std::vector<Scores>& outputs) {
  double loss = 0;
  for (const Scores& output : outputs) {
    const auto weight = static_cast<double>(net.loss_weight(output.name));
    if (weight == 0) continue;
    const Tensor values = net.output(output.name);
    for (int64_t i = 0; i < values.count(); ++i) loss += weight * values.at(i);
  }
  return loss;
}

/// The loss of a batch without `part`, which is counted by itself.
double loss_without(double loss, double part) {
  constexpr double kRounding = 1e-12;
  // The outputs bring it in by themselves; what else is in the loss cannot be told.
  if (!std::isfinite(part)) return 0;
  if (!std::isfinite(loss)) return loss;
  const double rest = loss - part;
  return std::abs(rest) <= kRounding * std::abs(loss) ? 0 : rest;
}

/// Says what no further batch completes.
void warn_of_unfinished(const Net& net) {
  for (const Layer* layer : net.layers()) {
    const CarriesState* state = layer->carries_state();
    if (state == nullptr || state->unfinished().empty()) continue;
    LOG(WARNING) << "layer '" << layer->name() << "': " << state->unfinished();
  }
}

int test(const std::vector<std::string>& arguments) {
  refuse_arguments("test", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  const std::optional<int> iterations = asked_iterations();
  if (iterations && *iterations <= 0)
    throw Error("--iterations ", *iterations, " must be at least 1");
  const ApVersion version = ap_version(FLAGS_ap_version, "--ap_version");
  Context context(context_options());
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  NetParameter param;
  SourceMap source;
  read_text_proto(FLAGS_model, param, &source);
  take_class_names(options.weights, param);
  // What --json alone adds shall not fail a net that runs without it.
  const bool asked = FLAGS_confusion || !FLAGS_scores.empty() || !FLAGS_labels.empty();
  std::optional<ScoredLabels> scored;
  const auto count_classes = [&](const auto& counting) {
    try {
      counting();
    } catch (const Error& error) {
      if (asked) throw;
      LOG(WARNING) << "Classes are not counted: " << error.what();
      scored.reset();
    }
  };
  count_classes([&] { scored = scored_labels(param, options); });
  if (scored) options.keep = {scored->scores, scored->labels};
  Net net(param, source, context, std::move(options));
  if (!net.params().segments().empty()) required_flag("weights", FLAGS_weights);
  require_data(net);
  check_named_sizes(net);
  DetectionReport detections(net, version);
  RecordPass pass(net, iterations);
  const bool is_exact = pass.records() > 0;
  std::vector<Scores> scores;
  const std::vector<std::string> rows = row_outputs(net);
  for (const auto& name : net.outputs()) {
    if (!detections.has(name)) scores.emplace_back(name, std::ranges::count(rows, name) != 0);
  }
  Spread rest;  // of the losses
  ConfusionMatrix confusion(FLAGS_confusion);
  for (int batch = 0; pass.next(); ++batch) {
    for (Scores& output : scores) output.add(batch, net.output(output.name), pass);
    rest.add(is_exact ? loss_without(pass.loss(), loss_of_outputs(net, scores)) : pass.loss(),
             pass.share_of_records());
    detections.add(net);
    if (!scored) continue;
    count_classes([&] {
      confusion.add(net.output(scored->scores), net.output(scored->labels), *scored,
                    pass.left_out());
    });
  }
  warn_of_unfinished(net);
  const double whole_batches = pass.whole_batches();
  double loss = rest.mean();
  for (const Scores& output : scores) {
    if (is_exact) loss += output.loss(whole_batches, net.loss_weight(output.name));
  }
  LOG(INFO) << "Loss: " << loss;
  for (const Scores& output : scores) output.log(whole_batches, net.loss_weight(output.name));
  detections.log(FLAGS_per_class);
  if (scored) log_shares(confusion);
  if (FLAGS_confusion && !FLAGS_json) print_confusion(confusion);
  if (FLAGS_json) {
    std::vector<std::string> outputs;
    for (const Scores& output : scores) {
      outputs.push_back(json_string(output.name) + ": " + output.json());
    }
    const std::string records =
        pass.records() > 0 ? text(", \"records\": ", pass.counted_in_all()) : "";
    std::printf("{\"iterations\": %d%s, \"loss\": %s, \"outputs\": {%s}%s%s}\n", pass.batches(),
                records.c_str(), json_number(loss).c_str(), joined(outputs).c_str(),
                detections.json().c_str(), scored ? json_of(confusion, *scored).c_str() : "");
  }
  return 0;
}

}  // namespace

extern const Command kTest = {
    "test",
    "scores trained weights on a net's test data",
    "  crema test --model train_val.prototxt --weights net.caffemodel\n"
    "  crema test --model train_val.prototxt --weights net.caffemodel --confusion\n"
    "  crema test --model train_val.prototxt --weights net.caffemodel --iterations 100\n"
    "\n"
    "Runs the net in phase TEST on its data, each record once: the last batch holds the records\n"
    "that are left, and the means are over records (or labels), not batches. --iterations runs a\n"
    "number of whole batches instead, as published, and goes on with the first records behind the\n"
    "last one; so does data whose records cannot be counted (DummyData, WindowData), 50 by\n"
    "default.\n"
    "\n"
    "Logs each output of each batch, then their means; of outputs of two axes or more that have\n"
    "more than 40 values, and of those whose rows differ in number, mean, least and greatest.\n"
    "\n"
    "--confusion prints, for each class: records (or pixels, for label maps), accuracy,\n"
    "intersection over union, and the classes it was taken for. The counts are exact over all\n"
    "batches; positions of the layer's ignore_label do not count. --json prints all this on\n"
    "standard output; the counts of which class was taken for which only with --confusion.\n"
    "\n"
    "Of an output of DetectionEvaluate the mean average precision over the detections of all\n"
    "batches is logged, computed as --ap_version says; --per_class adds each class. An image that\n"
    "comes again does not count again.",
    {"model",       "weights",    "strict",    "iterations", "confusion", "scores", "labels",
     "json",        "ap_version", "per_class", "gpu",        "threads",   "engine", "tune",
     "tuning_file", "seed",       "plugin",    "fuse",       "phase",     "level",  "stage"},
    test,
    1,
    NetUse::runs};

}  // namespace crema::tools
