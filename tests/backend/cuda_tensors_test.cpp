// CUDA engines of layers that move, join, reduce and multiply tensors.
#include "backend/cuda_test.hpp"

namespace crema::test {
namespace {

std::vector<EngineCase> cases() {
  const Input images = uniform({2, 6, 7, 9});
  const std::string relu = layer_of("ReLU");
  const auto inner = [&](const std::string& settings) {
    return layer_of(
        "InnerProduct",
        text("inner_product_param { num_output: 37 weight_filler { type: 'gaussian' std: "
             "0.3 } bias_filler { type: 'gaussian' } ",
             settings, " }"));
  };
  return {
      {"concat_channels",
       "cuda",
       {.layer = layer_of("Concat"), .bottoms = {images, uniform({2, 3, 7, 9})}}},
      {"concat_batch",
       "cuda",
       {.layer = layer_of("Concat", "concat_param { axis: 0 }"), .bottoms = {images, images}}},
      {"flatten", "cuda", {.layer = layer_of("Flatten"), .bottoms = {images}}},
      {"split", "cuda", {.layer = layer_of("Split"), .bottoms = {images}, .tops = 3}},
      {"inner_product", "cuda", {.layer = inner(""), .bottoms = {images}}, kSums},
      {"inner_product_transposed",
       "cuda",
       {.layer = inner("transpose: true"), .bottoms = {images}, .tail = {relu}},
       kSums},
      {"inner_product_relu",
       "cuda",
       {.layer = inner(""), .bottoms = {images}, .tail = {relu}},
       kSums},
      {"inner_product_plain",
       "cuda",
       {.layer = inner("bias_term: false"), .bottoms = {images}},
       kSums},
      {"argmax",
       "cuda",
       {.layer = layer_of("ArgMax", "argmax_param { top_k: 3 out_max_val: true }"),
        .bottoms = {images}}},
      {"argmax_axis",
       "cuda",
       {.layer = layer_of("ArgMax", "argmax_param { axis: 1 }"), .bottoms = {images}}},
      {"batch_reindex",
       "cuda",
       {.layer = layer_of("BatchReindex"), .bottoms = {images, labels({7}, 2)}}},
      {"crop",
       "cuda",
       {.layer = layer_of("Crop", "crop_param { axis: 1 offset: 1 }"),
        .bottoms = {images, uniform({1, 4, 5, 6})}}},
      {"embed",
       "cuda",
       {.layer = layer_of(
            "Embed",
            "embed_param { input_dim: 7 num_output: 300 weight_filler { type: 'gaussian' } "
            "bias_filler { type: 'gaussian' } }"),
        .bottoms = {labels({9, 40}, 7)}},
       kSums},
      {"filter",
       "cuda",
       {.layer = layer_of("Filter"),
        .bottoms = {uniform({4, 6, 7, 9}), uniform({4}), given({4}, {0, 1, 1, 0})},
        .tops = 2}},
      {"parameter",
       "cuda",
       {.layer = layer_of("Parameter", "parameter_param { shape { dim: 5 dim: 7 } }")}},
      {"reduction_sum", "cuda", {.layer = layer_of("Reduction"), .bottoms = {images}}, kSums},
      {"reduction_rows",
       "cuda",
       {.layer = layer_of("Reduction", "reduction_param { operation: ASUM axis: 2 coeff: 0.5 }"),
        .bottoms = {images}},
       kSums},
      {"reduction_mean",
       "cuda",
       {.layer = layer_of("Reduction", "reduction_param { operation: MEAN axis: -1 }"),
        .bottoms = {images}},
       kSums},
      {"reduction_long",
       "cuda",
       {.layer = layer_of("Reduction", "reduction_param { operation: SUMSQ axis: 1 }"),
        .bottoms = {uniform({2, 70001})}},
       kSums},
      {"reshape",
       "cuda",
       {.layer = layer_of("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }"),
        .bottoms = {images}}},
      {"tile", "cuda", {.layer = layer_of("Tile", "tile_param { tiles: 3 }"), .bottoms = {images}}},
      {"tile_last",
       "cuda",
       {.layer = layer_of("Tile", "tile_param { axis: 3 tiles: 5 }"), .bottoms = {images}}},
  };
}

INSTANTIATE_TEST_SUITE_P(Tensors, CudaEngine, testing::ValuesIn(cases()), name_of_case);

}  // namespace
}  // namespace crema::test
