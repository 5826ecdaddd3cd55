// Several processes train what one process trains on their batches together.
#include <gmock/gmock.h>

#include "parallel/processes.hpp"

namespace crema::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFlat =
    "layer { name: 'x' type: 'InnerProduct' bottom: 'data' top: 'x' inner_product_param { "
    "num_output: 5 weight_filler { type: 'xavier' } } } ";
constexpr const char* kLeNet =
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
    "num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } } "
    "layer { name: 'pool' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { kernel_size: 2 "
    "stride: 2 } } "
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'p' top: 'ip' inner_product_param { "
    "num_output: 700 weight_filler { type: 'xavier' } } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip' top: 'ip' } "
    // More than the first bucket holds.
    "layer { name: 'wide' type: 'InnerProduct' bottom: 'ip' top: 'x' inner_product_param { "
    "num_output: 900 weight_filler { type: 'xavier' } } } ";
constexpr const char* kShared =
    "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' param { name: 'w' } param { "
    "name: 'b' } inner_product_param { num_output: 72 weight_filler { type: 'xavier' } } } "
    "layer { name: 'tanh' type: 'TanH' bottom: 'a' top: 'a' } "
    "layer { name: 'again' type: 'InnerProduct' bottom: 'a' top: 'x' param { name: 'w' } param { "
    "name: 'b' } inner_product_param { num_output: 72 } } ";
// The state of each sample goes on to the next batch.
constexpr const char* kLstm =
    "layer { name: 'rows' type: 'Reshape' bottom: 'data' top: 'rows' reshape_param { shape { dim: "
    "0 dim: 12 dim: 6 } } } "
    "layer { name: 'steps' type: 'Permute' bottom: 'rows' top: 'steps' permute_param { order: 1 "
    "order: 0 order: 2 } } "
    "layer { name: 'slice' type: 'Slice' bottom: 'steps' top: 'one' top: 'rest' slice_param { "
    "axis: 2 slice_point: 1 } } "
    "layer { name: 'ones' type: 'Power' bottom: 'one' top: 'ones' power_param { scale: 0 shift: 1 "
    "} } "
    "layer { name: 'cont' type: 'Reshape' bottom: 'ones' top: 'cont' reshape_param { shape { dim: "
    "0 dim: 0 } } } "
    "layer { name: 'lstm' type: 'LSTM' bottom: 'rest' bottom: 'cont' top: 'lstm' recurrent_param "
    "{ num_output: 4 weight_filler { type: 'xavier' } bias_filler { } } } "
    "layer { name: 'back' type: 'Permute' bottom: 'lstm' top: 'x' permute_param { order: 1 order: "
    "0 order: 2 } } ";
constexpr const char* kNorm =
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { "
    "num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } } "
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'c' top: 'c' batch_norm_param { sync: true } } "
    "layer { name: 'scale' type: 'Scale' bottom: 'c' top: 'c' scale_param { bias_term: true } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'c' top: 'x' } ";

class TrainingTest : public ProcessesTest {
 protected:
  struct Run {
    std::string name, layers, settings;
  };
  /// In f64, where nothing but rounding is left of a difference.
  void expect_as_one(int processes, const std::vector<Run>& runs) {
    std::string words = "--f64";
    for (const Run& run : runs) {
      const std::string file = solver(run.name, run.layers, run.settings);
      words += text(" ", file, " ", folder_ / run.name);
    }
    const ProcessesOutput output = train(processes, words);
    ASSERT_EQ(output.status, 0) << output.text;
    for (const Run& run : runs) {
      const auto expected = of_one_process<double>(folder_ / (run.name + ".prototxt"));
      const auto first = parameters<double>(run.name, 0);
      EXPECT_LT(difference(first, expected), 1e-12) << run.name;
      for (int rank = 1; rank < processes; ++rank)
        EXPECT_EQ(parameters<double>(run.name, rank), first) << run.name << ", rank " << rank;
    }
  }
};

TEST_F(TrainingTest, TwoTrainAsOneOnTheWholeBatch) {
  expect_as_one(2, {{"lenet", kLeNet, "momentum: 0.9"},
                    {"shared", kShared, ""},
                    {"lstm", kLstm, "momentum: 0.5"},
                    {"norm", kNorm, "momentum: 0.9"},
                    {"passes", kNorm, "iter_size: 2"},
                    {"clipped", kFlat, "clip_gradients: 0.05"}});
}

TEST_F(TrainingTest, RulesAreThoseOfOneProcess) {
  std::vector<Run> runs;
  for (const char* const rule :
       {"Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam", "AdamW", "LAMB", "Lion", "LARS"}) {
    const bool has_momentum = rule != std::string("AdaGrad") && rule != std::string("RMSProp");
    runs.push_back({rule, kFlat,
                    text("type: '", rule, "' weight_decay: 0.01 max_iter: 3 ",
                         has_momentum ? "momentum: 0.9" : "")});
  }
  expect_as_one(3, runs);
}

TEST_F(TrainingTest, FourTrainAsOne) {
  expect_as_one(4, {{"norm4", kNorm, "momentum: 0.9"}, {"average", kFlat, "ema_decay: 0.5"}});
}

TEST_F(TrainingTest, BitsAreEqualOnAllRanksAndFromRunToRun) {
  const std::string file = solver("bits", kLeNet, "momentum: 0.9 snapshot_after_train: false");
  const std::string half =
      solver("half", kLeNet, "momentum: 0.9 gradient_type: BF16 snapshot_after_train: false");
  const auto run = [&](const std::string& out) {
    const ProcessesOutput output =
        train(3, text(file, " ", folder_ / out, " ", half, " ", folder_ / (out + "_half")));
    EXPECT_EQ(output.status, 0) << output.text;
  };
  run("one");
  run("two");
  const auto expected = of_one_process<float>(file);
  for (const std::string kind : {"", "_half"}) {
    const auto first = parameters<float>("one" + kind, 0);
    EXPECT_LT(difference(first, expected), kind.empty() ? 1e-6 : 1e-3);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(parameters<float>("one" + kind, rank), first) << rank;
      EXPECT_EQ(parameters<float>("two" + kind, rank), first) << rank;
    }
  }
  EXPECT_NE(parameters<float>("one_half", 0), parameters<float>("one", 0));
}

TEST_F(TrainingTest, PassesOfOneProcessEqualProcesses) {
  // The random numbers of dropout too.
  const std::string layers =
      text(kFlat, "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'x' }");
  // Of equal records, so that it does not matter who takes which.
  Records records = counting_records(6, 2, 6, 6);
  for (auto& record : records) record.second = records.front().second;
  write_database(folder_ / "equal", records);
  const std::string two =
      solver("two", layers, "batch_semantics: PER_PROCESS snapshot_after_train: false", "equal", 3);
  const std::string one =
      solver("one", layers, "batch_semantics: PER_PROCESS iter_size: 2 snapshot_after_train: false",
             "equal", 3);
  const ProcessesOutput output = train(2, text("--f64 ", two, " ", folder_ / "two"));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_LT(difference(parameters<double>("two", 0), of_one_process<double>(one)), 1e-12);
}

TEST_F(TrainingTest, MeansOfWeightsOfOneStepAreMeansOfGradients) {
  const std::string settings = "snapshot_after_train: false ";
  const std::string file = solver("gradients", kFlat, settings);
  std::string words = "--f64";
  for (const char* const mode : {"LOCAL", "GOSSIP"})
    words += text(" ", solver(mode, kFlat, text(settings, "parallel_mode: ", mode)), " ",
                  folder_ / mode);
  const ProcessesOutput output = train(2, words);
  ASSERT_EQ(output.status, 0) << output.text;
  const auto expected = of_one_process<double>(file);
  for (const std::string mode : {"LOCAL", "GOSSIP"})
    EXPECT_LT(difference(parameters<double>(mode, 1), expected), 1e-12) << mode;
}

TEST_F(TrainingTest, WeightsDifferBetweenMeansAndSnapshotsHaveTheMean) {
  const std::string kept = "snapshot_after_train: true max_iter: 6 average_every: 4 ";
  const std::string local = solver("local", kFlat, kept + "parallel_mode: LOCAL");
  const std::string ring =
      solver("ring", kFlat, "snapshot_after_train: false parallel_mode: GOSSIP max_iter: 5");
  const std::string cube = solver("cube", kFlat,
                                  "snapshot_after_train: false parallel_mode: GOSSIP max_iter: 5 "
                                  "gossip_partners: HYPERCUBE");
  const ProcessesOutput output =
      train(4, text("--f64 ", local, " ", folder_ / "local", " ", ring, " ", folder_ / "ring", " ",
                    cube, " ", folder_ / "cube"));
  ASSERT_EQ(output.status, 0) << output.text;
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(parameters<double>("local", rank), parameters<double>("local", 0));
  for (const std::string name : {"ring", "cube"}) {
    const double apart = difference(parameters<double>(name, 1), parameters<double>(name, 0));
    EXPECT_GT(apart, 1e-9) << name;  // none of them has the mean of all
    EXPECT_LT(apart, 0.1) << name;
    // Who met last has the same.
    const int partner = name == "ring" ? 3 : 2;
    EXPECT_EQ(parameters<double>(name, partner), parameters<double>(name, 0)) << name;
  }
}

TEST_F(TrainingTest, TestsAreOverAllProcesses) {
  const std::string file = solver("tested", kNorm, "test_iter: 4 test_interval: 2 momentum: 0.9");
  const ProcessesOutput output = train(2, text("--f64 ", file, " ", folder_ / "tested"));
  ASSERT_EQ(output.status, 0) << output.text;
  Context context({.threads = 1, .tune = false});
  Solver one(file, context, {.dtype = DType::f64});
  int tests = 0;
  one.on_test = [&](const TestReport& report) {
    ++tests;
    for (const TestReport::Output& of : report.outputs) {
      const std::string line = text("test ", report.iteration, " ", of.name, " ");
      const size_t place = output.text.find(line);
      ASSERT_NE(place, std::string::npos) << line << " is not in " << output.text;
      EXPECT_NEAR(std::stod(output.text.substr(place + line.size())), of.value, 1e-9);
    }
  };
  one.on_iteration = [&](const IterationReport& report) {
    const std::string line = text("loss ", report.iteration, " ");
    const size_t place = output.text.find(line);
    ASSERT_NE(place, std::string::npos) << line;
    EXPECT_NEAR(std::stod(output.text.substr(place + line.size())), report.loss, 1e-9);
  };
  one.solve();
  EXPECT_EQ(tests, 3);
}

TEST_F(TrainingTest, ASnapshotOfTwoGoesOnInThreeAndInOne) {
  const std::string whole = solver("whole", kNorm, "momentum: 0.9 max_iter: 8 snapshot: 2");
  const auto until = [&](int iterations) {
    return solver("resumed", kNorm, text("momentum: 0.9 snapshot: 2 max_iter: ", iterations));
  };
  ProcessesOutput output = train(2, text("--f64 ", until(3), " ", folder_ / "a"));
  ASSERT_EQ(output.status, 0) << output.text;
  output = train(3, text("--f64 --resume ", until(5), " ", folder_ / "b"));
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("had 2 processes")) << output.text;
  EXPECT_TRUE(output.says("loss 3 ") && !output.says("loss 2 ")) << output.text;
  Context context({.threads = 1, .tune = false});
  Solver last(until(8), context, {.dtype = DType::f64});
  EXPECT_THAT(last.resume(), HasSubstr("_iter_5.solverstate"));
  last.solve();
  const Tensor& values = last.net().params().data();
  const std::vector<double> found(values.values<double>().begin(), values.values<double>().end());
  EXPECT_LT(difference(found, of_one_process<double>(whole)), 1e-12);
}

TEST_F(TrainingTest, AStoppedRunOfTwoGoesOnWithTheStatesOfItsLayers) {
  const std::string settings = "momentum: 0.9 snapshot: 2 ";
  const std::string file = solver("carried", kLstm, settings);
  const ProcessesOutput stopped =
      train(2, text("--f64 --by=poll --rank=1 --at=1 ", file, " ", folder_ / "half"));
  ASSERT_EQ(stopped.status, 0) << stopped.text;
  EXPECT_TRUE(stopped.says("ended at 2")) << stopped.text;
  const ProcessesOutput resumed = train(2, text("--f64 --resume ", file, " ", folder_ / "resumed"));
  ASSERT_EQ(resumed.status, 0) << resumed.text;
  const std::string whole = solver("unbroken", kLstm, settings);
  const ProcessesOutput unbroken = train(2, text("--f64 ", whole, " ", folder_ / "unbroken"));
  ASSERT_EQ(unbroken.status, 0) << unbroken.text;
  EXPECT_EQ(parameters<double>("resumed", 1), parameters<double>("unbroken", 1));
}

}  // namespace
}  // namespace crema::test
