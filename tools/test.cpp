// crema test: scores trained weights on a net's test data.

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "analysis/confusion.hpp"
#include "core/carried_state.hpp"
#include "core/data_source.hpp"
#include "core/json.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "data/records/class_list.hpp"
#include "model/text_file.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"
#include "solver/named_sizes.hpp"
#include "tools/command.hpp"
#include "tools/command_line.hpp"
#include "tools/confusion_report.hpp"
#include "tools/confusion_svg.hpp"
#include "tools/detection_report.hpp"
#include "tools/flags.hpp"
#include "tools/mistakes.hpp"
#include "tools/output_means.hpp"
#include "tools/record_pass.hpp"
#include "tools/required_data.hpp"
#include "tools/terminal.hpp"
#include "tools/text.hpp"

DEFINE_bool(confusion, false,
            "Print how often which class was taken for which, below the lines of the classes.");
DEFINE_string(
    scores, "",
    "The blob of class scores. Of classify: Default: the net's output. Of test: Default: what its "
    "Accuracy or SoftmaxWithLoss layer reads. Of detect: With --boxes.");
DEFINE_string(ap_version, "Integral",
              "How average precision of detections is computed: 11point, MaxIntegral or Integral.");
DEFINE_bool(per_class, false,
            "Log the average precision of each class; of classes that are counted, a line for "
            "each, however many there are.");
DECLARE_bool(verbose);
DEFINE_string(confusion_svg, "",
              "Draw which classes were taken for which: a file in SVG, for screens that are light "
              "or dark.");
DEFINE_string(save_mistakes, "",
              "A new folder for the images whose class the net did not name, with true and "
              "predicted names.");
DECLARE_string(class_names);
DECLARE_bool(rgb);

namespace crema::tools {
namespace {

/// Classes whose lines fill a screen that nobody asked to fill.
constexpr int64_t kMostListed = 40;
/// Up to this many classes, the counts of all pairs take 8 MB.
constexpr int64_t kFewClasses = 1000;

/// Whether a flag asks for the classes to be counted.
bool asks_for_classes() {
  return FLAGS_confusion || !FLAGS_scores.empty() || !FLAGS_labels.empty() ||
         !FLAGS_confusion_svg.empty() || !FLAGS_save_mistakes.empty() || !FLAGS_class_names.empty();
}

/// The scores and labels to count, as the flags or the net say.
std::optional<ScoredLabels> scored_labels(const NetParameter& param, const NetOptions& options) {
  const bool named = !FLAGS_scores.empty() || !FLAGS_labels.empty();
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
    if (!asks_for_classes()) return std::nullopt;
    throw Error(FLAGS_confusion ? "--confusion: " : "classes cannot be counted: ",
                "the net has no Accuracy or SoftmaxWithLoss layer in this phase; name "
                "the blobs with --scores=BLOB --labels=BLOB");
  }
  if (found.size() > 1) {
    std::vector<std::string> others;
    for (const auto& pair : found) others.push_back("'" + pair.scores + "'");
    others.pop_back();
    say(text("Classes are counted by '", found.back().scores, "'; --scores=BLOB takes ",
             joined(others, " or "), " instead"));
  }
  return found.back();
}

/// The batches that --iterations asks for; none: each record once. A program that is called by the
/// published name runs as many as the published one.
std::optional<int> asked_iterations() {
  if (!is_given("iterations") && !called_as_caffe()) return std::nullopt;
  return FLAGS_iterations;
}

/// Draws a line on the terminal where no lines of batches tell how far the test is.
void show_batch(ProgressLine& line, const RecordPass& pass, int batch) {
  if (on_terminal() && line.due(batch + 1 == pass.batches()))
    line.draw(text("batch ", batch + 1, " of ", pass.batches()));
}

/// How many classes the scores have.
int64_t classes_of(Net& net, const ScoredLabels& of) {
  const Shape& shape = net.blob(of.scores).shape();
  if (shape.rank() == 0) return 0;
  return shape[shape.canonical_axis(of.axis)];
}

/// By label: those of --class_names; else of the data; else of the weights. None where nothing has
/// as many names as there are classes.
std::vector<std::string> names_of_classes(const Net& net, const std::vector<std::string>& weights,
                                          int64_t classes) {
  const auto fit = [&](const std::vector<std::string>& names) {
    return static_cast<int64_t>(names.size()) == classes;
  };
  if (!FLAGS_class_names.empty()) {
    std::vector<std::string> names = read_class_list(FLAGS_class_names);
    if (!fit(names))
      throw Error("--class_names=", FLAGS_class_names, " names ", names.size(),
                  " classes, and the scores have ", classes);
    return names;
  }
  for (const Layer* layer : net.layers()) {
    const DataSource* data = layer->data_source();
    if (data == nullptr) continue;
    if (std::vector<std::string> names = data->class_names(); fit(names)) return names;
  }
  if (fit(weights)) return weights;
  return {};
}

/// What the outputs add to the loss of a batch.
double loss_of_outputs(Net& net, const std::vector<OutputMeans>& outputs) {
  double loss = 0;
  for (const OutputMeans& output : outputs) {
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
    say(Severity::warning, text("layer '", layer->name(), "': ", state->unfinished()));
  }
}

/// `lists`: without being asked, too.
void show_classes(const ConfusionReport& report, bool lists) {
  report.log_shares();
  if (FLAGS_json) return;
  const int64_t classes = report.confusion.classes();
  if (FLAGS_confusion || FLAGS_per_class || (lists && classes <= kMostListed)) {
    report.print_classes();
  } else if (lists) {
    say(text("--per_class prints a line for each of the ", classes, " classes"));
  }
  if (FLAGS_confusion) report.print_pairs();
}

int test(const std::vector<std::string>& arguments) {
  refuse_arguments("test", arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  const std::optional<int> iterations = asked_iterations();
  // The published form prints what is published.
  const bool logs_batches = FLAGS_verbose || iterations;
  if (iterations && *iterations <= 0)
    throw Error("--iterations ", *iterations, " must be at least 1");
  if (!FLAGS_confusion_svg.empty()) check_output_file(FLAGS_confusion_svg, "the drawing");
  const ApVersion version = ap_version(FLAGS_ap_version, "--ap_version");
  Context context(context_options());
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  NetParameter param;
  SourceMap source;
  read_net(FLAGS_model, param, &source);
  // Data layers over folders of classes take the names that the weights were trained with.
  const std::vector<std::string> trained =
      class_names_of_nets(files_of_weights(FLAGS_model, FLAGS_weights));
  if (!trained.empty())
    param.mutable_origin()->mutable_class_name()->Assign(trained.begin(), trained.end());
  // What nobody asked for shall not fail a net that runs without it.
  const bool asked = asks_for_classes();
  std::optional<ScoredLabels> scored;
  const auto count_classes = [&](const auto& counting) {
    try {
      counting();
    } catch (const Error& error) {
      if (asked) throw;
      LOG_IF(WARNING, FLAGS_json) << "Classes are not counted: " << error.what();
      scored.reset();
    }
  };
  if (asked || FLAGS_json || !iterations)
    count_classes([&] { scored = scored_labels(param, options); });
  if (scored) options.keep = {scored->scores, scored->labels};
  Net net(param, source, context, std::move(options));
  require_weights(net, FLAGS_model, FLAGS_weights);
  require_data(net);
  check_named_sizes(net);
  DetectionReport detections(net, version);
  RecordPass pass(net, iterations);
  const bool is_exact = pass.records() > 0;
  std::vector<OutputMeans> outputs;
  const std::vector<std::string> rows = row_outputs(net);
  for (const auto& name : net.outputs()) {
    if (!detections.has(name))
      outputs.emplace_back(name, std::ranges::count(rows, name) != 0, logs_batches);
  }
  Spread rest;  // of the losses
  const int64_t classes = scored ? classes_of(net, *scored) : 0;
  if (!FLAGS_confusion_svg.empty() && classes > kMostDrawnClasses)
    throw Error("--confusion_svg draws up to ", kMostDrawnClasses, " classes, and '",
                scored->scores, "' has ", classes);
  const bool asks_pairs = FLAGS_confusion || !FLAGS_confusion_svg.empty();
  ConfusionMatrix confusion(asks_pairs || (!iterations && classes <= kFewClasses));
  const std::vector<std::string> names =
      scored ? names_of_classes(net, trained, classes) : std::vector<std::string>();
  std::optional<Mistakes> mistakes;
  if (!FLAGS_save_mistakes.empty()) mistakes.emplace(net, FLAGS_save_mistakes, names, FLAGS_rgb);
  ProgressLine line;
  for (int batch = 0; pass.next(); ++batch) {
    if (!logs_batches) show_batch(line, pass, batch);
    for (OutputMeans& output : outputs) output.add(batch, net.output(output.name), pass);
    rest.add(is_exact ? loss_without(pass.loss(), loss_of_outputs(net, outputs)) : pass.loss(),
             pass.share_of_records());
    detections.add(net);
    if (!scored) continue;
    count_classes([&] {
      confusion.add(net.output(scored->scores), net.output(scored->labels), *scored,
                    pass.left_out());
    });
    if (mistakes) mistakes->add(net, *scored, pass.left_out());
  }
  line.end();
  warn_of_unfinished(net);
  const double whole_batches = pass.whole_batches();
  double loss = rest.mean();
  for (const OutputMeans& output : outputs) {
    if (is_exact) loss += output.loss(whole_batches, net.loss_weight(output.name));
  }
  say(text("Loss: ", loss));
  for (const OutputMeans& output : outputs) output.log(whole_batches, net.loss_weight(output.name));
  detections.log(FLAGS_per_class);
  const ConfusionReport report{confusion, names};
  if (scored) show_classes(report, !iterations);
  if (!FLAGS_confusion_svg.empty())
    write_text_atomically(FLAGS_confusion_svg, confusion_svg(confusion, names));
  if (mistakes) {
    mistakes->finish();
    say(text(mistakes->count(), mistakes->count() == 1 ? " image" : " images",
             " of another class than the net says: ", printable(FLAGS_save_mistakes)));
  }
  if (FLAGS_json) {
    std::vector<std::string> members;
    for (const OutputMeans& output : outputs) {
      members.push_back(json_string(output.name) + ": " + output.json());
    }
    const std::string records =
        pass.records() > 0 ? text(", \"records\": ", pass.counted_in_all()) : "";
    std::printf("{\"iterations\": %d%s, \"loss\": %s, \"outputs\": {%s}%s%s}\n", pass.batches(),
                records.c_str(), json_number(loss).c_str(), joined(members).c_str(),
                detections.json().c_str(),
                scored ? report.json(*scored, FLAGS_confusion).c_str() : "");
  }
  return 0;
}

}  // namespace

extern const Command kTest = {
    "test",
    "scores trained weights on a net's test data",
    "  crema test --model train_val.prototxt --weights net.caffemodel\n"
    "  crema test --model train_val.prototxt --weights net.caffemodel --confusion \\\n"
    "        --confusion_svg confusion.svg --save_mistakes mistakes/\n"
    "  crema test --model train_val.prototxt --weights net.caffemodel --iterations 100\n"
    "\n"
    "Runs the net in phase TEST on its data, each record once: the last batch holds the records\n"
    "that are left, and the means are over records (or labels), not batches. --iterations runs a\n"
    "number of whole batches instead, as published, and goes on with the first records after the\n"
    "last one; so does data whose records cannot be counted (DummyData, WindowData), 50 by\n"
    "default.\n"
    "\n"
    "Logs the means of all outputs; --verbose and --iterations also each output of each batch. Of\n"
    "outputs of two axes or more that have more than 40 values, and of those whose rows differ in\n"
    "number, these are mean, least and greatest.\n"
    "\n"
    "Of a classifier, each class has a line on standard output: its labels (support; records, or\n"
    "pixels of label maps), how often it was predicted, precision, recall, F1, intersection over\n"
    "union, and the classes it was taken for. With ten classes or more, the share of labels among\n"
    "the best five is logged. The counts are exact over all batches; positions of the layer's\n"
    "ignore_label do not count. With --iterations, and without flags that ask for classes, there\n"
    "are no such lines. Names of classes are those of --class_names, the data, or the weights.\n"
    "\n"
    "--confusion also prints how often which class was taken for which, and --confusion_svg draws\n"
    "it. --save_mistakes writes DIR/TRUE/as_PREDICTED_KEY.jpg (or .png, ...) for each image of\n"
    "another class than the net says, and DIR/mistakes.tsv; raw records need OpenCV, and --rgb\n"
    "where they have red first. --json prints all this on standard output; the counts of which\n"
    "class was taken for which only with --confusion.\n"
    "\n"
    "Of an output of DetectionEvaluate the mean average precision over the detections of all\n"
    "batches is logged, computed as --ap_version says; --per_class adds each class. An image that\n"
    "comes again does not count again.",
    {"model",         "weights",       "strict",     "iterations",  "verbose", "confusion",
     "confusion_svg", "save_mistakes", "rgb",        "class_names", "scores",  "labels",
     "json",          "ap_version",    "per_class",  "gpu",         "threads", "engine",
     "tune",          "tuning_file",   "seed",       "plugin",      "fuse",    "phase",
     "level",         "stage",         "device_jpeg"},
    test,
    1,
    NetUse::runs};

}  // namespace crema::tools
