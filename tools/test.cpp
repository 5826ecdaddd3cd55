// crema test: scores trained weights on a net's test data.
#include <glog/logging.h>

#include <algorithm>
#include <cmath>

#include "core/split_list.hpp"
#include "crema/parameter_arena.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// Outputs with an axis for the batch and more values than that, features mostly and no scores, get
/// one line: a screen is full by then.
constexpr int64_t kMostLines = 40;

/// Mean, least and greatest of many values.
struct Spread {
  double sum = 0;
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  int64_t count = 0;

  void add(double value) {
    sum += value;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    ++count;
  }
  std::string str() const {
    return concat("mean ", sum / static_cast<double>(count), ", min ", least, ", max ", greatest);
  }
};

/// What all batches gave of one output.
struct Scores {
  explicit Scores(std::string output) : name(std::move(output)) {}

  void add(int batch, const Tensor& values) {
    shape = values.shape();
    // For all batches alike, whatever their size. Values of one axis, as the accuracies of classes,
    // are scores each.
    if (batch == 0) in_one_line = shape.rank() > 1 && shape.count() > kMostLines;
    if (in_one_line) {
      Spread of_batch;
      for (int64_t i = 0; i < values.count(); ++i) {
        of_batch.add(values.at(i));
        spread.add(values.at(i));
      }
      LOG(INFO) << "Batch " << batch << ", " << name << " (" << shape.str()
                << "): " << of_batch.str();
      return;
    }
    sums.resize(static_cast<size_t>(values.count()));
    for (int64_t i = 0; i < values.count(); ++i) {
      sums[static_cast<size_t>(i)] += values.at(i);
      LOG(INFO) << "Batch " << batch << ", " << name << " = " << values.at(i);
    }
  }

  void log(int batches, float weight) const {
    if (in_one_line) {
      const double sum = spread.sum / batches;  // of a batch
      LOG(INFO) << name << " (" << shape.str() << "): " << spread.str()
                << (weight != 0
                        ? concat(" (sum ", sum, " * ", weight, " = ", weight * sum, " loss)")
                        : "");
      return;
    }
    for (const double sum : sums) {
      const double mean = sum / batches;
      LOG(INFO) << name << " = " << mean
                << (weight != 0 ? concat(" (* ", weight, " = ", weight * mean, " loss)") : "");
    }
  }

  std::string name;
  Shape shape;  // of the last batch
  bool in_one_line = false;
  std::vector<double> sums;  // of each value, where a line each is printed
  Spread spread;             // of all values, otherwise
};

int test(const std::vector<std::string>& arguments) {
  refuse_arguments(kTest, arguments, "give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  if (FLAGS_iterations <= 0) throw Error("--iterations ", FLAGS_iterations, " must be at least 1");
  Context context(context_options());
  NetOptions options = net_options(Phase::test);
  options.weights = split_list(FLAGS_weights);
  options.strict = FLAGS_strict;
  Net net(FLAGS_model, context, std::move(options));
  if (!net.params().segments().empty()) required_flag("weights", FLAGS_weights);
  LOG(INFO) << "Running for " << FLAGS_iterations << " iterations.";
  std::vector<Scores> scores;
  for (const auto& name : net.outputs()) scores.emplace_back(name);
  double loss = 0;
  for (int batch = 0; batch < FLAGS_iterations; ++batch) {
    loss += net.forward();
    for (Scores& output : scores) output.add(batch, net.output(output.name));
  }
  LOG(INFO) << "Loss: " << loss / FLAGS_iterations;
  for (const Scores& output : scores) output.log(FLAGS_iterations, net.loss_weight(output.name));
  return 0;
}

}  // namespace

const Command kTest = {
    "test",
    {},
    "scores trained weights on a net's test data",
    "  crema test --model train_val.prototxt --weights net.caffemodel --iterations 100\n"
    "\n"
    "Runs the net in phase TEST and logs each output of each batch, then their means; of outputs "
    "of\n"
    "two axes or more that have more than 40 values mean, least and greatest.",
    {"model", "weights", "strict", "iterations", "gpu", "threads", "engine", "tune", "tuning_file",
     "seed", "plugin", "fuse", "phase", "level", "stage"},
    test};

}  // namespace crema::tools
