// Recurrent layers and attention by cuDNN, in f32, TF32 and 16 bits, agree with the CPU's in f32.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "backend/cuda_test.hpp"

namespace crema::test {
namespace {

struct LibraryCase {
  const char* name;
  LayerCase layer;
  bool takes_f32 = true;
};

void PrintTo(const LibraryCase& one, std::ostream* out) { *out << one.name; }

std::vector<LibraryCase> cases() {
  constexpr int64_t kSteps = 5, kBatch = 3, kInputs = 24, kUnits = 32;
  const auto recurrent = [&](const char* type, const std::string& more, std::vector<double> cont,
                             int states = 0) {
    LayerCase c{
        .layer =
            layer_of(type, text("recurrent_param { num_output: ", kUnits,
                                " weight_filler { type: 'gaussian' std: 0.2 } bias_filler { type: "
                                "'gaussian' std: 0.3 } ",
                                more, " }")),
        .bottoms = {uniform({kSteps, kBatch, kInputs}), given({kSteps, kBatch}, std::move(cont))}};
    const bool both = more.find("bidirectional") != std::string::npos;
    for (int i = 0; i < states; ++i) {
      c.bottoms.push_back(uniform({both ? 2 : 1, kBatch, kUnits}));
      ++c.tops;
    }
    return c;
  };
  std::vector<double> begin(kSteps * kBatch, 1), goes_on = begin, middle = begin;
  std::fill_n(begin.begin(), kBatch, 0.0);
  goes_on[1] = 0;
  middle[7] = 0;
  const auto attention = [](const std::string& more, int64_t queries, int64_t keys,
                            const std::vector<Input>& masks = {}) {
    LayerCase c{.layer = layer_of("Attention", text("attention_param { num_heads: 2 ", more, " }")),
                .bottoms = {uniform({2, queries, 64}, -2, 2), uniform({2, keys, 64}, -2, 2),
                            uniform({2, keys, 64}, -2, 2)}};
    c.bottoms.insert(c.bottoms.end(), masks.begin(), masks.end());
    return c;
  };
  return {
      {"lstm", recurrent("LSTM", "", begin)},
      {"lstm_goes_on", recurrent("LSTM", "", goes_on)},
      {"lstm_of_parts", recurrent("LSTM", "", middle)},
      {"lstm_both", recurrent("LSTM", "bidirectional: true", begin)},
      {"lstm_exposed", recurrent("LSTM", "bidirectional: true expose_hidden: true", goes_on, 2)},
      {"gru", recurrent("GRU", "", begin)},
      {"gru_exposed", recurrent("GRU", "expose_hidden: true", goes_on, 1)},
      {"gru_both_of_parts", recurrent("GRU", "bidirectional: true", middle)},
      {"rnn", recurrent("RNN", "", goes_on)},
      {"rnn_both", recurrent("RNN", "bidirectional: true", begin)},
      {"attention", attention("", 70, 70), false},
      {"attention_causal", attention("causal: true", 70, 70), false},
      {"attention_of_other_keys", attention("scale: 0.2", 33, 130), false},
      {"attention_lengths", attention("", 40, 64, {given({2}, {64, 5})}), false},
      {"attention_causal_lengths", attention("causal: true", 64, 64, {given({2}, {1, 50})}), false},
      {"attention_without_keys", attention("", 40, 64, {given({2}, {0, 5})}), false},
  };
}

class CudaSequences : public testing::TestWithParam<LibraryCase> {};

/// Sums grow with their number.
Tolerance scaled(Tolerance tolerance, const std::vector<double>& values) {
  double most = 1;
  for (const double value : values) most = std::max(most, std::abs(value));
  tolerance.absolute *= most;
  return tolerance;
}

TEST_P(CudaSequences, AgreeWithTheCpu) {
  const std::string why = why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  const LibraryCase& c = GetParam();
  struct Way {
    DType activations;
    Math math;
    Tolerance tolerance;
  };
  for (const Way& way :
       {Way{DType::f32, Math::strict, {1e-4, 1e-4}}, Way{DType::f32, Math::tf32, {5e-3, 5e-3}},
        Way{DType::f16, Math::tf32, {1e-2, 1e-2}}, Way{DType::bf16, Math::tf32, {6e-2, 6e-2}}}) {
    if (way.activations == DType::f32 && !c.takes_f32) continue;
    SCOPED_TRACE(text(to_string(way.activations), " ", to_string(way.math)));
    LayerRun host(c.layer), run(c.layer, {.engine = "cudnn",
                                          .device = DeviceType::cuda,
                                          .arithmetic = {.math = way.math, .deterministic = false},
                                          .activations = way.activations});
    // Attention has passes of its own for what the library refuses.
    EXPECT_THAT(run.kernel().detail(), testing::Not(testing::HasSubstr("own passes")));
    for (const bool again : {false, true}) {  // with the states of the first pass
      SCOPED_TRACE(again ? "second pass" : "first pass");
      host.clear_gradients();
      run.clear_gradients();
      host.forward();
      run.forward();
      for (int i = 0; i < run.num_tops(); ++i)
        expect_close(run.top(i), host.top(i), way.tolerance, text("top ", i));
      host.backward();
      for (int i = 0; i < run.num_tops(); ++i) run.set_top_diff(i, host.top_diff(i));
      run.backward();
      for (int i = 0; i < run.num_bottoms(); ++i) {
        if (!run.layer().can_propagate(i)) continue;
        const std::vector<double> exact = host.bottom_diff(i);
        expect_close(run.bottom_diff(i), exact, scaled(way.tolerance, exact),
                     text("diff of bottom ", i));
      }
      for (int i = 0; i < run.num_params(); ++i) {
        const std::vector<double> exact = host.gradient(i);
        expect_close(run.gradient(i), exact, scaled(way.tolerance, exact), text("gradient ", i));
      }
    }
  }
}

TEST_P(CudaSequences, AreMeasured) {
  const std::string why = why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  const LibraryCase& c = GetParam();
  if (!c.takes_f32) GTEST_SKIP() << "fused attention is chosen by heuristics";
  LayerRun run(
      c.layer,
      {.engine = "cudnn", .device = DeviceType::cuda, .arithmetic = {.deterministic = false}});
  ASSERT_EQ(run.option().choice.size(), 1U);
  EXPECT_THAT(run.kernel().detail(), testing::HasSubstr(run.option().choice[0]));
}

INSTANTIATE_TEST_SUITE_P(Library, CudaSequences, testing::ValuesIn(cases()),
                         [](const testing::TestParamInfo<LibraryCase>& one) {
                           return std::string(one.param.name);
                         });

TEST_F(Cuda, RecurrentLayersSayWhyCudnnDoesNotComputeThem) {
  const auto refuses = [](const std::string& settings, std::vector<Input> bottoms,
                          bool deterministic, std::initializer_list<std::string_view> parts) {
    expect_error(
        [&] {
          LayerRun(
              {.layer = layer_of("GRU", text("recurrent_param { num_output: 4 ", settings, " }")),
               .bottoms = std::move(bottoms)},
              {.engine = "cudnn",
               .device = DeviceType::cuda,
               .arithmetic = {.deterministic = deterministic}});
        },
        parts);
  };
  const Input x = uniform({2, 3, 5}), cont = given({2, 3}, {0, 0, 0, 1, 1, 1});
  refuses("linear_before_reset: false", {x, cont}, false, {"reset gate"});
  refuses("", {x, cont, uniform({3, 2})}, false, {"static input"});
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  refuses("", {x, cont}, true, {"CUBLAS_WORKSPACE_CONFIG", "deterministic: false"});
}

}  // namespace
}  // namespace crema::test
