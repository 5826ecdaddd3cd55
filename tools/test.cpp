// crema test: scores trained weights on a net's test data.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include "tools/command.hpp"

DECLARE_string(weights);
DECLARE_bool(strict);
DEFINE_string(model, "", "The net's prototxt.");
DEFINE_int32(iterations, 50, "Batches to run.");

namespace crema::tools {
namespace {

struct Score {
  std::string name;
  int64_t index;
  double sum = 0;
};

int test(const std::vector<std::string>& arguments) {
  require(arguments.empty(), "test takes no argument '", arguments.empty() ? "" : arguments[0],
          "'; give the net with --model=FILE");
  required_flag("model", FLAGS_model);
  required_flag("weights", FLAGS_weights);
  require(FLAGS_iterations > 0, "--iterations ", FLAGS_iterations, " must be at least 1");
  Context context(context_options());
  Net net(FLAGS_model, context, net_options(Phase::test));
  for (const auto& file : split_list(FLAGS_weights)) {
    LOG(INFO) << file << ": " << net.load_weights(file, FLAGS_strict).str();
  }
  LOG(INFO) << "Running for " << FLAGS_iterations << " iterations.";
  std::vector<Score> scores;
  double loss = 0;
  for (int batch = 0; batch < FLAGS_iterations; ++batch) {
    loss += net.forward();
    size_t at = 0;
    for (const auto& name : net.outputs()) {
      const Tensor values = net.output(name);
      for (int64_t i = 0; i < values.count(); ++i, ++at) {
        if (batch == 0) scores.push_back({name, i});
        scores[at].sum += values.at(i);
        LOG(INFO) << "Batch " << batch << ", " << name << " = " << values.at(i);
      }
    }
  }
  LOG(INFO) << "Loss: " << loss / FLAGS_iterations;
  for (const Score& score : scores) {
    const float weight = net.loss_weight(score.name);
    const double mean = score.sum / FLAGS_iterations;
    LOG(INFO) << score.name << " = " << mean
              << (weight != 0 ? concat(" (* ", weight, " = ", weight * mean, " loss)") : "");
  }
  return 0;
}

}  // namespace

const Command kTest = {
    "test",
    {},
    "scores trained weights on a net's test data",
    "  crema test --model=train_val.prototxt --weights=net.caffemodel --iterations=100\n"
    "\n"
    "Runs the net in phase TEST and logs each output of each batch, then their means.",
    {"model", "weights", "strict", "iterations", "gpu", "threads", "engine", "tune", "tuning_file",
     "seed", "fuse", "phase", "level", "stage"},
    test};

}  // namespace crema::tools
