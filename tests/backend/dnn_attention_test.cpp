// Attention as graphs of cuDNN, and the plans that it has for them on an H200 that is only
// described.
#include <gtest/gtest.h>

#if CREMA_BUILT_WITH_CUDA

#include <set>
#include <utility>

#include "backend/cuda/dnn_attention.hpp"
#include "backend/h200.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

using Pass = DnnAttentionPass;

DnnPlans& plans() {
  static DnnPlans made(DnnDevice::described(test::kH200));
  return made;
}

DnnAttentionProblem problem(DType dtype, int64_t positions, int64_t depth) {
  return {.dtype = dtype,
          .batch = 4,
          .heads = 6,
          .queries = positions,
          .keys = positions,
          .depth = depth,
          .value_depth = depth,
          .trains = true};
}

TEST(DnnAttention, AllDescriptorsAreMadeWithoutADevice) {
  std::set<std::string> keys;
  size_t graphs = 0;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool causal : {false, true}) {
      for (const bool lengths : {false, true}) {
        DnnAttentionProblem p = problem(dtype, 65, 64);
        p.causal = causal;
        p.has_lengths = lengths;
        for (const auto& [pass, direct] :
             {std::pair(Pass::forward, false), {Pass::backward, false}, {Pass::backward, true}}) {
          const DnnGraph graph = dnn_attention_graph(p, pass, direct);
          std::vector<DnnDescriptor> tensors;
          EXPECT_GE(graph.describe(tensors).size(), 7U);
          keys.insert(graph.key());
          ++graphs;
        }
      }
    }
  }
  EXPECT_EQ(keys.size(), graphs);
}

TEST(DnnAttention, RefusesWhatTheLibraryHasNotGot) {
  EXPECT_EQ(dnn_attention_refusal(problem(DType::bf16, 65, 64)), "");
  EXPECT_NE(dnn_attention_refusal(problem(DType::f32, 65, 64)).find("f32"), std::string::npos);
  EXPECT_NE(dnn_attention_refusal(problem(DType::f16, 65, 20)).find("multiple of 8"),
            std::string::npos);
  EXPECT_NE(dnn_attention_refusal(problem(DType::f16, 0, 64)), "");
  std::string why;
  EXPECT_TRUE(
      dnn_attention_ways(plans(), problem(DType::f32, 65, 64), Pass::forward, true, why).empty());
  EXPECT_FALSE(why.empty());
}

TEST(DnnAttention, FaultsOfVersionsAreKnown) {
  DnnAttentionProblem p = problem(DType::bf16, 65, 64);
  const auto is_refused = [&](size_t version, Pass pass) {
    return !dnn_attention_fault(version, p, pass).empty();
  };
  for (const size_t version : {91000, 91001}) {
    EXPECT_TRUE(is_refused(version, Pass::forward));
    EXPECT_TRUE(is_refused(version, Pass::backward));
  }
  // 65 keys fill no tile.
  EXPECT_TRUE(is_refused(91500, Pass::backward));
  EXPECT_FALSE(is_refused(91500, Pass::forward));
  EXPECT_FALSE(is_refused(91501, Pass::backward));
  p = problem(DType::bf16, 256, 64);
  EXPECT_TRUE(is_refused(90501, Pass::backward));
  EXPECT_FALSE(is_refused(90501, Pass::forward));
  EXPECT_FALSE(is_refused(90600, Pass::backward));
  p.has_lengths = true;
  EXPECT_TRUE(is_refused(90900, Pass::backward));
  EXPECT_FALSE(is_refused(91002, Pass::backward));
  p = problem(DType::bf16, 1, 64);
  EXPECT_TRUE(is_refused(92600, Pass::backward));
  EXPECT_FALSE(is_refused(92600, Pass::forward));
  p.causal = true;
  EXPECT_TRUE(is_refused(90900, Pass::forward));
  EXPECT_FALSE(is_refused(91002, Pass::forward));
}

// The names of the engines are in the output of --gtest_output.
TEST(DnnAttention, AnH200HasEnginesForBothPasses) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const int64_t positions : {65, 256}) {
      for (const bool causal : {false, true}) {
        for (const bool lengths : {false, true}) {
          DnnAttentionProblem p = problem(dtype, positions, 64);
          p.causal = causal;
          p.has_lengths = lengths;
          for (const Pass pass : {Pass::forward, Pass::backward}) {
            if (!dnn_attention_fault(cudnnGetVersion(), p, pass).empty()) continue;
            const std::string name =
                text(to_string(dtype), "_", positions, causal ? "_causal" : "",
                     lengths ? "_lengths" : "", pass == Pass::forward ? "_forward" : "_backward");
            SCOPED_TRACE(name);
            std::string why;
            const auto ways = dnn_attention_ways(plans(), p, pass, true, why);
            ASSERT_FALSE(ways.empty()) << why;
            RecordProperty(name, ways[0].str());
            for (const DnnAttentionWay& way : ways)
              EXPECT_TRUE(way.candidate->notes().same_every_time) << way.str();
            // Without the order of sums, there are no fewer.
            EXPECT_GE(dnn_attention_ways(plans(), p, pass, false, why).size(), ways.size());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace crema

#else

TEST(DnnAttention, AllDescriptorsAreMadeWithoutADevice) {
  GTEST_SKIP() << "needs a build with CUDA: configure with CREMA_CUDA=ON";
}

#endif
