// CUDA engines of layers of sequences: recurrent ones, attention, CTC and CRF.
#include "backend/cuda_test.hpp"

namespace crema::test {
namespace {

std::vector<EngineCase> cases() {
  const auto recurrent = [&](const char* type, const std::string& more) {
    return layer_of(type,
                    text("recurrent_param { num_output: 37 weight_filler { type: 'gaussian' std: "
                         "0.3 } bias_filler { type: 'gaussian' } ",
                         more, " }"));
  };
  const std::vector<double> begins = {0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1};
  const Input queries = uniform({2, 70, 8}), keys = uniform({2, 45, 8}),
              values = uniform({2, 45, 6});
  // Recursions: labels of three sequences, and where these begin and end.
  const Input scores = uniform({40, 3, 37}, -3, 3);
  const Input ctc_labels = given({3, 5}, {1, 1, 7, 36, 2, 5, 9, -1, -1, -1, 3, 3, 3, 4, 4});
  std::vector<double> parts(120, 1), ends(120, 1);
  for (const size_t at : {0, 1, 2, 31, 62, 64}) parts[at] = 0;
  for (size_t at = 0; at < 120; ++at) ends[at] = at >= 3 && at < 45 + 30 * (at % 3) ? 1 : 0;
  const Input begins_of_parts = given({40, 3}, parts), ends_of_sequences = given({40, 3}, ends);
  const auto chain = [&](const char* type, const std::string& more) {
    return layer_of(type, text("crf_loss_param { transition_filler { type: 'gaussian' std: 2 } "
                               "boundary_term: true boundary_filler { type: 'gaussian' } } ",
                               more));
  };
  return {
      {"lstm",
       "cuda",
       {.layer = recurrent("LSTM", ""),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       kSums},
      {"lstm_exposed",
       "cuda",
       {.layer = recurrent("LSTM", "expose_hidden: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({1, 3, 37}),
                    uniform({1, 3, 37})},
        .tops = 3},
       kSums},
      {"lstm_bidirectional",
       "cuda",
       {.layer = recurrent("LSTM", "bidirectional: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       kSums},
      {"gru",
       "cuda",
       {.layer = recurrent("GRU", "expose_hidden: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({1, 3, 37})},
        .tops = 2},
       kSums},
      {"gru_reset_first",
       "cuda",
       {.layer = recurrent("GRU", "linear_before_reset: false bidirectional: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       kSums},
      {"lstm_unit",
       "cuda",
       {.layer = layer_of("LSTMUnit"),
        .bottoms = {uniform({1, 3, 37}), uniform({1, 3, 148}), given({1, 3}, {1, 0, 1})},
        .tops = 2}},
      {"rnn",
       "cuda",
       {.layer = recurrent("RNN", ""),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({3, 2})}},
       kSums},
      {"rnn_bidirectional",
       "cuda",
       {.layer = recurrent("RNN", "bidirectional: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins)}},
       kSums},
      {"rnn_exposed",
       "cuda",
       {.layer = recurrent("RNN", "expose_hidden: true"),
        .bottoms = {uniform({5, 3, 7}), given({5, 3}, begins), uniform({1, 3, 37})},
        .tops = 2},
       kSums},
      {"attention",
       "cuda",
       {.layer = layer_of("Attention", "attention_param { num_heads: 2 }"),
        .bottoms = {queries, keys, values, labels({2, 45}, 2)}},
       kSums},
      {"attention_causal",
       "cuda",
       {.layer = layer_of("Attention",
                          "attention_param { num_heads: 2 causal: true dropout_ratio: 0.3 }"),
        .bottoms = {queries, keys, values}},
       kSums},
      {"crf_loss",
       "cuda",
       {.layer = chain("CRFLoss", ""), .bottoms = {scores, labels({40, 3}, 37)}, .tops = 2},
       kSums},
      {"crf_loss_parts",
       "cuda",
       {.layer = chain("CRFLoss", "loss_param { ignore_label: 4 }"),
        .bottoms = {scores, labels({40, 3}, 37), begins_of_parts},
        .tops = 2},
       kSums},
      {"crf_loss_far",
       "cuda",
       {.layer = layer_of("CRFLoss"),
        .bottoms = {given({2, 1, 2}, {0, -3000, -20000, 0}), given({2, 1}, {1, 1})},
        .params = {{0, -5000, -1000, -4000}}},
       kSums},
      {"crf_decoder",
       "cuda",
       {.layer = chain("CRFDecoder", ""), .bottoms = {scores, begins_of_parts}}},
      {"ctc_loss", "cuda", {.layer = layer_of("CTCLoss"), .bottoms = {scores, ctc_labels}}, kSums},
      {"ctc_loss_not_merged",
       "cuda",
       {.layer =
            layer_of("WarpCTCLoss", "ctc_loss_param { ctc_merge_repeated: false output_delay: 2 }"),
        .bottoms = {scores, ctc_labels}},
       kSums},
      {"ctc_loss_indicators",
       "cuda",
       {.layer = layer_of("CTCLoss"),
        .bottoms = {scores, ends_of_sequences, given({2, 3}, {1, 5, 3, 1, -1, 0})}},
       kSums},
      // More states and classes than a block has threads.
      {"ctc_loss_long",
       "cuda",
       {.layer = layer_of("CTCLoss"),
        .bottoms = {uniform({330, 2, 5}, -3, 3), labels({2, 150}, 4)}},
       kSums},
      {"crf_loss_wide",
       "cuda",
       {.layer = chain("CRFLoss", ""),
        .bottoms = {uniform({4, 2, 300}, -3, 3), labels({4, 2}, 300)},
        .tops = 2},
       kSums},
      {"ctc_greedy_decoder",
       "cuda",
       {.layer = layer_of("CTCGreedyDecoder"),
        .bottoms = {labels({700, 3, 3}, 2), labels({700, 3}, 2), labels({4, 3}, 2)},
        .tops = 3},
       kSums},
  };
}

INSTANTIATE_TEST_SUITE_P(Sequences, CudaEngine, testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace crema::test
