// Runners: one net in several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "crema/net.hpp"
#include "crema/parameter_arena.hpp"
#include "support/expect_error.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

/// Everything that a pass may fuse, derive or keep: BatchNorm in the weights, a residual sum, a
/// ReLU in front of a maximum, pooling and a product.
constexpr const char* kNet = R"(
  name: 'shared'
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 12 dim: 12 } } }
  layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1'
          convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
  layer { name: 'bn' type: 'BatchNorm' bottom: 'c1' top: 'c1' }
  layer { name: 'scale' type: 'Scale' bottom: 'c1' top: 'c1' scale_param { bias_term: true } }
  layer { name: 'relu' type: 'ReLU' bottom: 'c1' top: 'c1' }
  layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2'
          convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }
  layer { name: 'sum' type: 'Eltwise' bottom: 'c2' bottom: 'c1' top: 'sum' }
  layer { name: 'relu2' type: 'ReLU' bottom: 'sum' top: 'sum' }
  layer { name: 'pool' type: 'Pooling' bottom: 'sum' top: 'pool'
          pooling_param { kernel_size: 2 stride: 2 } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'pool' top: 'ip'
          inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }
  layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' })";

/// A sequence of 5 steps, which starts anew with each pass.
constexpr const char* kSequence = R"(
  name: 'sequence'
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 5 dim: 2 dim: 6 } } }
  layer { name: 'cont' type: 'ContinuationIndicator' top: 'cont'
          continuation_indicator_param { time_step: 5 batch_size: 2 } }
  layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'lstm'
          recurrent_param { num_output: 7 weight_filler { type: 'xavier' } } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'lstm' top: 'ip'
          inner_product_param { num_output: 10 axis: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' softmax_param { axis: 2 } })";

/// Attention, which reads the parts of a Slice where they lie.
constexpr const char* kAttention = R"(
  name: 'attention'
  layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 5 dim: 8 } } }
  layer { name: 'qkv' type: 'InnerProduct' bottom: 'x' top: 'qkv'
          inner_product_param { num_output: 36 axis: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'cut' type: 'Slice' bottom: 'qkv' top: 'q' top: 'k' top: 'v' slice_param { axis: 2 } }
  layer { name: 'heads' type: 'Attention' bottom: 'q' bottom: 'k' bottom: 'v' top: 'heads'
          attention_param { num_heads: 2 } }
  layer { name: 'ip' type: 'InnerProduct' bottom: 'heads' top: 'ip'
          inner_product_param { num_output: 10 axis: 2 weight_filler { type: 'xavier' } } }
  layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' softmax_param { axis: 2 } })";

void fill_input(Net& net, int image) {
  Tensor& x = net.input("x");
  float* const values = x.overwrite<float>();
  for (int64_t i = 0; i < x.count(); ++i)
    values[i] = static_cast<float>((i * 7 + image * 13) % 23) / 23 - 0.5F;
}

using Answer = std::vector<float>;

Answer answer(Net& net, int image) {
  fill_input(net, image);
  net.forward();
  const Tensor output = net.output("prob");
  const auto values = output.values<float>();
  return {values.begin(), values.end()};
}

/// The answers for images 0, 1, ..., each by one of the runners, which run side by side.
std::vector<Answer> answers_of_threads(std::vector<Net>& runners, int images) {
  std::vector<Answer> found(static_cast<size_t>(images));
  const auto count = static_cast<int>(runners.size());
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (int image = t; image < images; image += count)
        found[static_cast<size_t>(image)] = answer(runners[static_cast<size_t>(t)], image);
    });
  }
  threads.clear();
  return found;
}

/// Multiplies the weights of layer 'ip' by -1.
void negate_a_layer(Net& net) {
  NetParameter weights;
  net.save(weights);
  for (LayerParameter& layer : *weights.mutable_layer()) {
    if (layer.name() != "ip") continue;
    for (float& value : *layer.mutable_blobs(0)->mutable_data()) value *= -1;
  }
  net.load_weights(weights);
}

class RunnerThreads : public testing::TestWithParam<const char*> {};

// The first passes of all threads derive weights at the same time, at the start and where new
// weights are loaded.
TEST_P(RunnerThreads, GiveTheAnswersOfTheNet) {
  Context context({.threads = 1});
  Net net(net_param(GetParam()), context, {.phase = Phase::test});
  constexpr int kImages = 24, kThreads = 4;
  std::vector<Net> runners;
  for (int t = 0; t < kThreads; ++t) runners.push_back(net.runner());
  std::vector<Answer> before;
  for (const bool loads : {false, true}) {
    if (loads) negate_a_layer(net);
    const std::vector<Answer> found = answers_of_threads(runners, kImages);
    std::vector<Answer> expected;
    for (int image = 0; image < kImages; ++image) expected.push_back(answer(net, image));
    EXPECT_EQ(found, expected);
    EXPECT_NE(found[0], found[1]);
    EXPECT_NE(found, before);
    before = found;
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, RunnerThreads, testing::Values(kNet, kSequence, kAttention),
                         [](const auto& net) {
                           return net.index == 0   ? "Images"
                                  : net.index == 1 ? "Sequences"
                                                   : "Attention";
                         });

TEST(Runner, SharesParametersAndHasActivationsOfItsOwn) {
  Context context({.threads = 1});
  std::optional<Net> net(std::in_place, net_param(kNet), context, NetOptions{.phase = Phase::test});
  const Answer before = answer(*net, 0);
  Net runner = net->runner();
  EXPECT_EQ(runner.memory().parameters, 0U);
  for (size_t l = 0; l < net->layers().size(); ++l) {
    const auto &own = runner.layers()[l]->params(), &theirs = net->layers()[l]->params();
    ASSERT_EQ(own.size(), theirs.size());
    EXPECT_NE(runner.layers()[l], net->layers()[l]);
    // What is derived from weights belongs to their storage.
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_EQ(own[i]->storage(), theirs[i]->storage()) << net->layers()[l]->name();
  }
  EXPECT_EQ(runner.memory().activations, net->memory().activations);
  EXPECT_NE(&runner.input("x"), &net->input("x"));
  EXPECT_EQ(runner.steps().size(), net->steps().size());
  // Another size, for one of them alone.
  runner.reshape_input("x", {5, 3, 12, 12});
  answer(runner, 0);
  EXPECT_EQ(runner.output("prob").shape(), (Shape{5, 10}));
  EXPECT_EQ(net->output("prob").shape(), (Shape{2, 10}));
  runner.reshape_input("x", {2, 3, 12, 12});
  EXPECT_EQ(answer(runner, 0), before);
  // What is loaded into one is in all.
  negate_a_layer(*net);
  const Answer after = answer(*net, 0);
  EXPECT_NE(after, before);
  EXPECT_EQ(answer(runner, 0), after);
  // The graph lives as long as a runner.
  net.reset();
  EXPECT_EQ(answer(runner, 0), after);
  EXPECT_EQ(answer(runner, 0), after);
}

/// An Input layer with this top.
std::string input(const std::string& top, const std::string& shape) {
  return "layer { name: '" + top + "' type: 'Input' top: '" + top + "' input_param { shape { " +
         shape + " } } } ";
}

/// Expects an Error with these parts for runners of the net.
void expect_no_runner(const std::string& prototxt, std::initializer_list<std::string_view> parts,
                      NetOptions options = {.phase = Phase::test}) {
  Context context;
  const Net net(net_param(prototxt), context, options);
  expect_error([&] { net.runner(); }, parts);
}

TEST(Runner, NetsThatChangeMoreThanActivationsHaveNone) {
  const std::string x = input("x", "dim: 2 dim: 3");
  expect_no_runner(kNet, {"'shared'", "trains", "phase test"}, {});
  expect_no_runner(
      "layer { name: 'data' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 2 } } }",
      {"layer 'data' (DummyData)", "inputs"});
  expect_no_runner("name: 'noisy' " + x +
                       "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' "
                       "param { noise { std: 0.1 } } inner_product_param { num_output: 2 } }",
                   {"net 'noisy'", "noise", "param"});
  for (const std::string settings :
       {"phase: TRAIN", "batch_norm_param { use_global_stats: false }"}) {
    expect_no_runner(
        x + "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' " + settings + " }",
        {"layer 'bn' (BatchNorm)", "statistics", "phase test"});
  }
  expect_no_runner(x + "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' }",
                   {"layer 'bn' (BatchNorm)", "statistics", "phase test"},
                   {.phase = Phase::train, .backward = NetOptions::Backward::no});
}

TEST(Runner, NetsThatWriteFilesOrCountHaveNone) {
  const TempFolder folder;
  const std::string boxes = input("l", "dim: 1 dim: 4") + input("c", "dim: 1 dim: 2") +
                            input("p", "dim: 1 dim: 2 dim: 4");
  const auto detection = [&](const std::string& more) {
    return boxes +
           "layer { name: 'd' type: 'DetectionOutput' bottom: 'l' bottom: 'c' bottom: 'p' "
           "top: 'd' detection_output_param { num_classes: 2 nms_param { } " +
           more + " } }";
  };
  const std::string map =
      folder.write("map.prototxt", "item { name: 'a' label: 0 } item { name: 'b' label: 1 }");
  const std::string sizes = folder.write("sizes.txt", "image 10 10\n");
  expect_no_runner(detection("save_output_param { output_directory: '" + folder.path("out") +
                             "' output_format: 'VOC' label_map_file: '" + map +
                             "' name_size_file: '" + sizes + "' }"),
                   {"layer 'd' (DetectionOutput)", "files of its detections"});
  expect_no_runner(input("d", "dim: 1 dim: 1 dim: 2 dim: 7") +
                       input("t", "dim: 1 dim: 1 dim: 2 dim: 8") +
                       "layer { name: 'e' type: 'DetectionEvaluate' bottom: 'd' bottom: 't' top: "
                       "'e' detection_evaluate_param { num_classes: 2 } }",
                   {"layer 'e' (DetectionEvaluate)", "count of images"});
  expect_no_runner(input("x", "dim: 2 dim: 3") + input("y", "dim: 2") +
                       "layer { name: 'o' type: 'HDF5Output' bottom: 'x' bottom: 'y' "
                       "hdf5_output_param { file_name: '" +
                       folder.path("o.h5") + "' } }",
                   {"layer 'o' (HDF5Output)", "file that it writes"});
  Context context;
  const Net writes_nothing(net_param(detection("")), context, {.phase = Phase::test});
  writes_nothing.runner();
}

}  // namespace
}  // namespace crema::test
