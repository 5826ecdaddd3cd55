// cuDNN's graphs, and its plans for a device that is only described: what the library would run on
// an H200, without one. Engines that it compiles when it plans need a driver, and are not asked
// for.
#include <gtest/gtest.h>

#if CREMA_BUILT_WITH_CUDA

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "backend/cuda/micro_batches.hpp"
#include "backend/h200.hpp"
#include "crema/error.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

class DnnPlansOfH200 : public testing::Test {
 protected:
  static DnnPlans& plans() {
    static DnnPlans made(DnnDevice::described(test::kH200));
    return made;
  }

  /// The ways of a pass, each of which can be made within the limit.
  static std::vector<DnnWay> ways(const DnnConvolutionProblem& problem, DnnPass pass,
                                  const DnnRules& rules = {}) {
    std::string why;
    std::vector<DnnWay> found = dnn_ways(plans(), problem, pass, rules, why);
    EXPECT_FALSE(found.empty()) << problem.family() << ": " << why;
    return found;
  }
};

DnnConvolutionProblem image_problem(DType dtype, int64_t channels, int64_t size, int64_t outputs,
                                    int64_t kernel, int64_t stride, int64_t pad) {
  const int64_t out = (size + 2 * pad - kernel) / stride + 1;
  return {.dtype = dtype,
          .images = 32,
          .channels = channels,
          .outputs = outputs,
          .input = {size, size},
          .output = {out, out},
          .kernel = {kernel, kernel},
          .stride = {stride, stride},
          .pad = {pad, pad},
          .dilation = {1, 1}};
}

TEST(DnnGraph, AllDescriptorsAreMadeWithoutADevice) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    const DnnTensor x = dnn_channels_last(1, type, {8, 64, 28, 28});
    const DnnTensor w = dnn_channels_last(2, type, {128, 64, 3, 3});
    const DnnTensor y = dnn_channels_last(3, type, {8, 128, 28, 28});
    const DnnTensor bias = dnn_channels_last(4, type, {1, 128, 1, 1});
    const DnnTensor z = dnn_channels_last(5, type, {8, 128, 28, 28});
    const DnnTensor a = dnn_between(6, y), b = dnn_between(7, y), c = dnn_between(8, y);
    const DnnWindow window{{1, 1}, {1, 1}, {1, 1}};
    EXPECT_EQ(x.strides, (std::vector<int64_t>{64 * 28 * 28, 1, 64 * 28, 64}));
    DnnGraph all, other;
    all.convolve(DnnPass::forward, window, x, w, a);
    all.add(a, z, b);
    all.add(b, bias, c);
    all.relu(c, 0.1, y);
    std::vector<DnnDescriptor> tensors;
    EXPECT_EQ(all.describe(tensors).size(), 4U);
    EXPECT_EQ(tensors.size(), 8U);
    other.convolve(DnnPass::data, window, x, w, y);
    EXPECT_EQ(other.describe(tensors).size(), 1U);
    EXPECT_NE(all.key(), other.key());
    DnnGraph behind, leaky;
    const DnnTensor made = dnn_channels_last(9, type, x.dims), product = dnn_between(10, x);
    for (const auto& [graph, slope] : {std::pair(&behind, 0.0), {&leaky, 0.1}}) {
      graph->convolve(DnnPass::data, window, product, w, y);
      graph->relu_gradient(product, made, slope, x);
      EXPECT_EQ(graph->describe(tensors).size(), 2U);
      EXPECT_EQ(tensors.size(), 5U);
    }
    EXPECT_NE(behind.key(), leaky.key());
    DnnGraph weights;
    weights.convolve(DnnPass::weights, window, x, w, y);
    EXPECT_EQ(weights.describe(tensors).size(), 1U);
  }
}

TEST(DnnGraph, ErrorsCarryTheWordsOfTheLibrary) {
  DnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  expect_error([&] { tensor.finalize(); }, {"cuDNN failed in finalizing", "BAD_PARAM"});
}

TEST_F(DnnPlansOfH200, EveryPassOfResNetHasOnes) {
  struct One {
    int64_t channels, size, outputs, kernel, stride, pad;
  };
  const One all[] = {{64, 56, 64, 1, 1, 0},     {64, 56, 64, 3, 1, 1},   {64, 56, 256, 1, 1, 0},
                     {128, 56, 128, 3, 2, 1},   {256, 56, 512, 1, 2, 0}, {512, 28, 256, 1, 1, 0},
                     {1024, 14, 2048, 1, 2, 0}, {512, 7, 512, 3, 1, 1},  {20, 12, 50, 5, 1, 0}};
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    for (const One& c : all) {
      DnnConvolutionProblem problem =
          image_problem(type, c.channels, c.size, c.outputs, c.kernel, c.stride, c.pad);
      for (const bool ends : {false, true}) {
        problem.bias = problem.adds = ends;
        if (ends) problem.relu = 0;
        for (const DnnPass pass : {DnnPass::forward, DnnPass::data, DnnPass::weights}) {
          SCOPED_TRACE(text(problem.family(), to_string(pass)));
          const std::vector<DnnWay> found = ways(problem, pass);
          std::set<std::string> names;
          for (const DnnWay& way : found) {
            EXPECT_TRUE(names.insert(way.str()).second) << way.str() << " twice";
            EXPECT_TRUE(way.candidate->notes().same_every_time);
            EXPECT_TRUE(way.candidate->notes().keeps_f32());
          }
          EXPECT_EQ(found[0].fused, ends && pass == DnnPass::forward);
        }
      }
    }
  }
}

TEST_F(DnnPlansOfH200, GradientsOfReLUsBehindThoseOfConvolutions) {
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    for (const auto& [channels, size, outputs, kernel] :
         {std::array<int64_t, 4>{64, 112, 64, 3}, {256, 28, 512, 3}, {64, 56, 256, 1}}) {
      DnnConvolutionProblem problem =
          image_problem(type, channels, size, outputs, kernel, 1, kernel / 2);
      const std::string plain = problem.family();
      problem.undoes = 0;
      EXPECT_NE(problem.family(), plain);
      SCOPED_TRACE(problem.family());
      // Without a plan that has it, a pass of ours follows.
      const std::vector<DnnWay> found = ways(problem, DnnPass::data);
      EXPECT_TRUE(found[0].fused || type == DType::f32);
      EXPECT_FALSE(std::ranges::all_of(found, &DnnWay::fused));
      for (const DnnPass pass : {DnnPass::forward, DnnPass::weights})
        EXPECT_FALSE(ways(problem, pass)[0].fused);
    }
  }
}

// Branches of GoogLeNet and SqueezeNet: the engine that is likely the fastest one of each pass also
// computes with a result in the rows of what the branches are joined to.
TEST_F(DnnPlansOfH200, ResultsThatAreRangesOfRows) {
  struct One {
    int64_t channels, size, outputs, kernel, row;
  };
  const One all[] = {{192, 28, 64, 1, 256}, {96, 28, 128, 3, 256},  {16, 28, 32, 5, 256},
                     {192, 28, 32, 1, 256}, {480, 14, 192, 1, 512}, {96, 14, 208, 3, 512},
                     {16, 14, 48, 5, 512},  {48, 7, 128, 5, 1024},  {832, 7, 384, 1, 1024},
                     {16, 56, 64, 1, 128},  {16, 56, 64, 3, 128},   {64, 14, 256, 3, 512}};
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    for (const One& c : all) {
      DnnConvolutionProblem problem =
          image_problem(type, c.channels, c.size, c.outputs, c.kernel, 1, c.kernel / 2);
      problem.bias = true;
      problem.relu = 0;
      DnnConvolutionProblem range = problem;
      range.y_row = c.row;
      EXPECT_NE(range.family(), problem.family());
      for (const DnnPass pass : {DnnPass::forward, DnnPass::data, DnnPass::weights}) {
        SCOPED_TRACE(text(range.family(), to_string(pass)));
        std::string why;
        const std::string name = ways(problem, pass)[0].str();
        const auto way = micro_way(plans(), range, pass, {}, name, why);
        ASSERT_TRUE(way) << name << ": " << why;
        EXPECT_EQ(way->str(), name);
        EXPECT_TRUE(micro_can_run(range, *way, {}, why)) << name << ": " << why;
      }
    }
  }
}

TEST_F(DnnPlansOfH200, GroupsDilationAxesAndTransposedOnes) {
  for (const DType type : {DType::bf16, DType::f32}) {
    DnnConvolutionProblem depthwise = image_problem(type, 32, 56, 32, 3, 1, 1);
    depthwise.groups = 32;
    DnnConvolutionProblem grouped = image_problem(type, 64, 27, 128, 5, 1, 2);
    grouped.groups = 2;
    DnnConvolutionProblem dilated = image_problem(type, 64, 33, 64, 3, 1, 2);
    dilated.dilation = {2, 2};
    dilated.output = dilated.input;
    DnnConvolutionProblem volume = image_problem(type, 16, 14, 32, 3, 1, 1);
    for (auto* list : {&volume.input, &volume.output}) list->push_back(8);
    volume.kernel = {3, 3, 1};
    volume.stride = volume.dilation = {1, 1, 1};
    volume.pad = {1, 1, 0};
    DnnConvolutionProblem line = image_problem(type, 16, 64, 32, 3, 1, 1);
    for (auto* list :
         {&line.input, &line.output, &line.kernel, &line.stride, &line.pad, &line.dilation})
      list->pop_back();
    DnnConvolutionProblem point = line;
    for (auto* list :
         {&point.input, &point.output, &point.kernel, &point.stride, &point.pad, &point.dilation})
      list->clear();
    DnnConvolutionProblem transposed = image_problem(type, 32, 56, 64, 4, 2, 1);
    transposed.transposed = transposed.bias = true;
    for (const auto& problem : {depthwise, grouped, dilated, volume, line, point, transposed}) {
      for (const DnnPass pass : {DnnPass::forward, DnnPass::data, DnnPass::weights}) {
        SCOPED_TRACE(text(problem.family(), to_string(pass)));
        ways(problem, pass);
      }
    }
  }
}

TEST_F(DnnPlansOfH200, ImagesOfFewChannelsAreDeepened) {
  for (const DType type : {DType::bf16, DType::f32}) {
    DnnConvolutionProblem problem = image_problem(type, 3, 224, 64, 7, 2, 3);
    // Its gradient is asked for: the pixels stay where they are.
    EXPECT_FALSE(ways(problem, DnnPass::forward)[0].deep);
    problem.ends_here = true;
    for (const DnnPass pass : {DnnPass::forward, DnnPass::weights}) {
      const std::vector<DnnWay> found = ways(problem, pass);
      EXPECT_TRUE(found.front().deep);
      EXPECT_FALSE(found.back().deep) << "both are measured";
    }
    problem.contiguous_source = true;
    for (const DnnPass pass : {DnnPass::forward, DnnPass::weights}) {
      for (const DnnWay& way : ways(problem, pass)) EXPECT_TRUE(way.deep);
    }
    const DepthMap map = dnn_weights_map(problem, true);
    EXPECT_EQ(map.deep_channels, type == DType::f32 ? 12U : 16U);
    EXPECT_EQ(map.deep_taps, (DepthMap::Extents{1, 4, 4}));
  }
  std::string why;
  DnnConvolutionProblem wide = image_problem(DType::bf16, 64, 56, 64, 3, 1, 1);
  wide.contiguous_source = wide.ends_here = true;
  EXPECT_TRUE(dnn_ways(plans(), wide, DnnPass::forward, {}, why).empty());
}

TEST_F(DnnPlansOfH200, PlansKnowTheirScratchMemory) {
  DnnConvolutionProblem problem = image_problem(DType::bf16, 64, 56, 64, 3, 1, 1);
  problem.bias = true;
  for (const DnnPass pass : {DnnPass::forward, DnnPass::data, DnnPass::weights}) {
    std::string why;
    const DnnWay way = ways(problem, pass)[0];
    ASSERT_NE(way.candidate->plan(why), nullptr) << why;
    const DnnConvolution convolution(problem, way);
    EXPECT_GE(convolution.scratch_bytes(), way.candidate->plan(why)->workspace());
    if (pass == DnnPass::weights) {
      EXPECT_GE(convolution.scratch_bytes(), 64U * 64 * 9 * size_of(way.gradient));
    }
  }
}

TEST_F(DnnPlansOfH200, TheLimitIsForAllScratchMemory) {
  DnnConvolutionProblem problem = image_problem(DType::bf16, 3, 224, 64, 7, 2, 3);
  problem.ends_here = problem.contiguous_source = true;
  std::string why;
  const DnnWay way = ways(problem, DnnPass::forward)[0];
  ASSERT_TRUE(way.deep);
  const size_t bytes = DnnConvolution(problem, way).scratch_bytes();
  EXPECT_GT(bytes, way.candidate->plan(why)->workspace());
  EXPECT_TRUE(dnn_can_run(problem, way, {.workspace_limit = bytes}, why)) << why;
  EXPECT_FALSE(dnn_can_run(problem, way, {.workspace_limit = bytes - 1}, why));
  EXPECT_NE(why.find("workspace_limit"), std::string::npos) << why;
}

TEST_F(DnnPlansOfH200, ABatchGoesInPiecesWhereTheLimitKeepsItOut) {
  DnnConvolutionProblem problem = image_problem(DType::bf16, 3, 224, 64, 7, 2, 3);
  problem.ends_here = problem.contiguous_source = true;
  for (const DnnPass pass : {DnnPass::forward, DnnPass::weights}) {
    const std::vector<DnnWay> whole = ways(problem, pass);
    EXPECT_TRUE(micro_ways(plans(), problem, pass, {}, whole).empty()) << "none is kept out";
    const DnnRules small = {.workspace_limit =
                                DnnConvolution(problem, whole[0]).scratch_bytes() / 3};
    const std::vector<MicroWay> found = micro_ways(plans(), problem, pass, small, whole);
    ASSERT_FALSE(found.empty());
    for (const MicroWay& way : found) {
      std::string why;
      EXPECT_GE(way.pieces, 4);
      EXPECT_TRUE(micro_can_run(problem, way, small, why)) << why;
      EXPECT_LE(MicroBatches(problem, way).scratch_bytes(), small.workspace_limit);
      const auto named = micro_way(plans(), problem, pass, small, way.str(), why);
      ASSERT_TRUE(named) << way.str() << ": " << why;
      EXPECT_EQ(named->str(), way.str());
      // Of another batch, which has no such pieces.
      DnnConvolutionProblem odd = problem;
      odd.images = 7;
      EXPECT_FALSE(micro_way(plans(), odd, pass, small, way.str(), why));
    }
  }
}

TEST_F(DnnPlansOfH200, AnEngineIsFoundByItsName) {
  const DnnConvolutionProblem bounds = image_problem(DType::bf16, 64, 14, 64, 3, 1, 1);
  DnnConvolutionProblem fewer = bounds;
  fewer.images = 7;
  fewer.relu = 0;
  for (const DnnPass pass : {DnnPass::forward, DnnPass::data, DnnPass::weights}) {
    std::string why;
    const DnnWay of_bounds = ways(bounds, pass)[0];
    const size_t before = plans().queries();
    const auto found = dnn_way(plans(), fewer, pass, {}, of_bounds.str(), why);
    ASSERT_TRUE(found) << of_bounds.str() << ": " << why;
    EXPECT_EQ(found->str(), of_bounds.str());
    EXPECT_TRUE(dnn_can_run(fewer, *found, {}, why)) << why;
    EXPECT_EQ(plans().queries(), before);
  }
  std::string why;
  EXPECT_FALSE(dnn_way(plans(), bounds, DnnPass::forward, {}, "forward engine 999999", why));
  EXPECT_FALSE(dnn_way(plans(), bounds, DnnPass::forward, {}, "exact forward 1", why));
}

TEST_F(DnnPlansOfH200, AForgottenPlanIsMadeAgainAndARunKeepsIts) {
  const DnnConvolutionProblem problem = image_problem(DType::bf16, 64, 28, 64, 3, 1, 1);
  const DnnWay way = ways(problem, DnnPass::forward)[0];
  const DnnConvolution convolution(problem, way);
  std::string why;
  const std::weak_ptr<const DnnPlan> first = way.candidate->plan(why);
  way.candidate->forget();
  EXPECT_FALSE(first.expired());
  EXPECT_EQ(way.candidate->workspace(why), convolution.scratch_bytes());
  EXPECT_NE(way.candidate->plan(why), first.lock());
}

TEST_F(DnnPlansOfH200, GraphsThatWereUsedLastAreKept) {
  DnnPlans few(DnnDevice::described(test::kH200));
  DnnConvolutionProblem problem = image_problem(DType::bf16, 16, 8, 16, 1, 1, 0);
  std::string why;
  const std::string name = dnn_ways(few, problem, DnnPass::forward, {}, why).at(0).str();
  for (size_t i = 0; i < DnnPlans::kMostGraphs + 20; ++i) {
    problem.images = static_cast<int64_t>(i) + 1;
    ASSERT_TRUE(dnn_way(few, problem, DnnPass::forward, {}, name, why)) << why;
  }
  EXPECT_EQ(few.graphs(), DnnPlans::kMostGraphs);
}

TEST_F(DnnPlansOfH200, RoundedGradientsAndTheLastResortComeLater) {
  const DnnConvolutionProblem problem = image_problem(DType::bf16, 64, 28, 64, 3, 1, 1);
  std::string why;
  for (const DnnWay& way : ways(problem, DnnPass::weights)) EXPECT_EQ(way.gradient, DType::f32);
  const auto rounded =
      dnn_ways(plans(), problem, DnnPass::weights, {}, why, DnnSearch::rounded_gradients);
  EXPECT_FALSE(rounded.empty()) << why;
  for (const DnnWay& way : rounded) EXPECT_EQ(way.gradient, DType::bf16);
  for (const DnnPass pass : {DnnPass::forward, DnnPass::data, DnnPass::weights}) {
    for (const DnnWay& way : dnn_ways(plans(), problem, pass, {}, why, DnnSearch::last_resort))
      EXPECT_TRUE(way.candidate->notes().same_every_time) << way.str();
  }
}

TEST_F(DnnPlansOfH200, TheLibraryIsAskedOnce) {
  const DnnConvolutionProblem problem = image_problem(DType::f16, 24, 20, 40, 3, 1, 1);
  ways(problem, DnnPass::data);
  const size_t before = plans().queries();
  ways(problem, DnnPass::data, {.deterministic = false});
  EXPECT_EQ(plans().queries(), before);
}

}  // namespace
}  // namespace crema

#else

TEST(DnnGraph, AllDescriptorsAreMadeWithoutADevice) {
  GTEST_SKIP() << "needs a build with CUDA: configure with CREMA_CUDA=ON";
}

#endif
