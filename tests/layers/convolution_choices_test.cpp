// Which library computes a convolution: times and choices of the tuner, and when they count again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "core/simd.hpp"
#include "core/tuner.hpp"
#include "support/layer_test.hpp"
#include "support/net_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

using ::testing::HasSubstr;

LayerCase make(const std::string& settings, Shape bottom) {
  return {.layer = text("layer { type: 'Convolution' convolution_param { ", settings,
                        " weight_filler { type: 'uniform' min: -0.5 max: 0.5 } } }"),
          .bottoms = {uniform(std::move(bottom))}};
}

/// Makes the times of a file those of a machine at rest, which later runs do not measure again.
void settle(const std::string& file) {
  Tuner tuner;
  tuner.load(file);
  for (const Tuner::Time& time : tuner.all("")) {
    TunedTime settled = time;
    if (settled.is_open()) settled.state = TimeState::settled;
    tuner.keep(time.problem, read_tuning_file(file).at(time.problem).workload, time.candidate, 0,
               settled);
  }
  ASSERT_TRUE(tuner.save(file));
}

// What a run decided is part of its snapshot: a resumed one must not decide anew.
TEST(ConvolutionLayer, TakesWhatWasDecided) {
  if (simd_level() < SimdLevel::avx2)
    GTEST_SKIP() << "needs AVX2, for two libraries to choose of: run on a processor that has it";
  const Input input = uniform({1, 16, 6, 6});
  LayerCase c = make("num_output: 16 kernel_size: 3", input.shape);
  const std::vector<Option> options = LayerRun(c, {.engine = "tuned"}).options();
  const auto blocked = std::find_if(options.begin(), options.end(), [](const Option& option) {
    return block_of(option.bottoms[0].format) > 1 && block_of(option.tops[0].format) > 1;
  });
  ASSERT_NE(blocked, options.end());
  LayerRun run(c, {.engine = "tuned", .option = static_cast<int>(blocked - options.begin())});
  Tuner& tuner = run.context().tuner();
  ASSERT_EQ(tuner.choices().size(), 3U) << "forward and both backward passes";
  for (const std::string& choice :
       {std::string("winograd F(4x4,3x3)"), text("direct ", to_string(simd_level()))}) {
    for (const auto& [problem, candidate] : tuner.choices()) {
      EXPECT_THAT(problem, HasSubstr("1x16>16,k3x3"));
      EXPECT_THAT(problem, HasSubstr(" of 6x6"));
      for (const Tuner::Time& time : tuner.all(problem)) {
        if (time.candidate.starts_with(choice)) tuner.choose(problem, time.candidate);
      }
    }
    run.reshape({input});
    const std::string detail = run.kernel().detail();
    for (const char* pass : {"forward ", "backward-data ", "backward-weights "}) {
      EXPECT_THAT(detail, HasSubstr(pass + choice));
    }
  }
}

// A fully convolutional net meets images of any size: problems of about the same size are computed
// alike, and nothing is measured for them. A later process does the same by the saved times.
TEST(ConvolutionLayer, SimilarSizesAreComputedAlike) {
  if (simd_level() < SimdLevel::avx2)
    GTEST_SKIP() << "needs AVX2, for libraries to choose of: run on a processor that has it";
  const LayerCase c = make("num_output: 16 kernel_size: 3 pad: 1", {1, 16, 16, 16});
  const TempFolder folder;
  const std::string file = folder.path("tuning");
  LayerRun run(c, {.engine = "tuned"}), truth(c, {.engine = "reference"});
  Tuner& tuner = run.context().tuner();
  for (const Shape& shape : {Shape{1, 16, 15, 17}, Shape{1, 16, 16, 18}, Shape{1, 16, 14, 15}}) {
    ASSERT_TRUE(tuner.save(file));
    for (LayerRun* each : {&run, &truth}) {
      each->reshape({uniform(shape)});
      each->forward();
    }
    EXPECT_FALSE(tuner.has_news()) << shape.str();
    expect_close(run.top(0), truth.top(0), {.absolute = 1e-4, .relative = 2e-5}, shape.str());
  }
  ASSERT_EQ(tuner.choices().size(), 4U * 3) << "what is computed alike is decided too";

  settle(file);
  LayerRun later(c, {.engine = "tuned", .tuning_file = file});
  Tuner& its_tuner = later.context().tuner();
  later.reshape({uniform({1, 16, 14, 15})});
  EXPECT_FALSE(its_tuner.has_news());
  for (const auto& [problem, candidate] : its_tuner.choices()) {
    if (problem.ends_with("14x15")) {
      EXPECT_EQ(tuner.choices().at(problem), candidate) << problem;
    }
  }

  for (const Shape& shape : {Shape{1, 16, 8, 8}, Shape{2, 16, 15, 17}}) {
    ASSERT_TRUE(tuner.save(file));
    run.reshape({uniform(shape)});
    EXPECT_TRUE(tuner.has_news()) << shape.str() << " is another problem";
  }
}

// Times outlived a change of the kernels that they were of.
TEST(ConvolutionLayer, TimesOfAnotherRevisionAreNotUsed) {
  if (simd_level() < SimdLevel::avx2)
    GTEST_SKIP() << "needs AVX2, for several libraries: run on a processor that has it";
  const NetParameter net = net_param(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 16 dim: 12 dim: 12 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y"
        convolution_param { num_output: 16 kernel_size: 3 pad: 1 } })");
  const TempFolder folder;
  const std::string file = folder.path("tuning");
  {
    Context context({.tuning_file = file});
    const Net first(net, context);
  }
  // As a build wrote it whose direct kernels were others, with times that would win.
  settle(file);
  std::ifstream in(file);
  std::string content, line;
  std::map<std::string, double> others;  // times of the other libraries
  int stale = 0;
  while (std::getline(in, line)) {
    // The seconds come first, the problem and its candidate last.
    const size_t tab = line.starts_with("problem") ? std::string::npos : line.find('\t');
    if (const size_t at = line.find("|direct "); at != std::string::npos) {
      const size_t revision = line.find(" @");
      ASSERT_NE(revision, std::string::npos) << line;
      line = text("1e-9", line.substr(tab, revision - tab), " @0");
      ++stale;
    } else if (tab != std::string::npos) {
      others[line.substr(line.rfind('\t') + 1)] = std::stod(line);
    }
    content += line + '\n';
  }
  ASSERT_GT(stale, 0);
  ASSERT_FALSE(others.empty());
  std::ofstream(file) << content;

  const auto times_of = [](const Tuner& tuner) {
    std::map<std::string, double> times;
    for (const Tuner::Time& time : tuner.all("convolution ")) {
      times[text(time.problem, "|", time.candidate)] = time.seconds;
    }
    return times;
  };
  Context context({.tuning_file = file});
  const Net later(net, context);
  const auto times = times_of(context.tuner());
  for (const auto& [key, seconds] : others) EXPECT_EQ(times.at(key), seconds) << key;
  int measured = 0;
  for (const auto& [key, seconds] : times) {
    if (key.find("|direct ") == std::string::npos || key.ends_with(" @0")) continue;
    EXPECT_GT(seconds, 1e-9) << key;
    ++measured;
  }
  EXPECT_GT(measured, 0) << "direct kernels are timed anew";
}

// Decisions for one algorithm say nothing about a layer that asks for another.
TEST(ConvolutionLayer, DecidesForEachAlgorithm) {
  const auto problems = [](const char* algorithm) {
    LayerRun run(make(text("num_output: 16 kernel_size: 3 conv_algorithm: '", algorithm, "'"),
                      {1, 16, 6, 6}),
                 {.engine = "tuned"});
    return run.context().tuner().choices();
  };
  const auto any = problems("auto");
  for (const auto& [problem, candidate] : problems("direct")) {
    EXPECT_EQ(any.count(problem), 0U) << problem;
  }
}

}  // namespace
}  // namespace crema::test
