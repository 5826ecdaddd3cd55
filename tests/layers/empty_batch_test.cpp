// A batch of no images passes through every room: there is nothing to compute, gradients are zero,
// and what is stored stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/layer_test.hpp"

namespace crema::test {
namespace {

using testing::Each;

struct EmptyCase {
  const char* name;
  LayerCase layer;
};

void PrintTo(const EmptyCase& empty_case, std::ostream* out) { *out << empty_case.name; }

std::vector<EmptyCase> empty_cases() {
  const Input images = uniform({0, 8, 6, 5});
  const auto of = [&](const char* name, const std::string& settings, std::vector<Input> bottoms) {
    return EmptyCase{name, {.layer = text("layer { ", settings, " }"), .bottoms = bottoms}};
  };
  const std::string fillers = "weight_filler { type: 'xavier' } ";
  return {
      of("ArgMax", "type: 'ArgMax' argmax_param { axis: 1 }", {images}),
      of("Arithmetic", "type: 'Arithmetic' arithmetic_param { operation: MUL }",
         {images, uniform({8, 1, 1})}),
      of("BatchNorm", "type: 'BatchNorm'", {images}),
      of("BatchReindex", "type: 'BatchReindex'", {images, labels({0}, 1)}),
      of("Bias", "type: 'Bias'", {images}),
      of("Concat", "type: 'Concat'", {images, images}),
      of("Convolution",
         "type: 'Convolution' convolution_param { num_output: 8 kernel_size: 3 pad: 1 " + fillers +
             "}",
         {images}),
      of("Crop", "type: 'Crop' crop_param { offset: 1 }", {images, uniform({0, 1, 2, 2})}),
      of("CumSum", "type: 'CumSum' cumsum_param { axis: 1 }", {images}),
      of("CumSumOfNone", "type: 'CumSum' cumsum_param { axis: 0 }", {images}),
      of("Dropout", "type: 'Dropout'", {images}),
      of("Eltwise", "type: 'Eltwise'", {images, images}),
      of("EltwiseMax", "type: 'Eltwise' eltwise_param { operation: MAX }", {images, images}),
      of("Embed", "type: 'Embed' embed_param { input_dim: 4 num_output: 3 " + fillers + "}",
         {labels({0, 5}, 4)}),
      of("Expand", "type: 'Expand' expand_param { dim: 3 dim: -1 }", {uniform({0, 1, 5})}),
      of("Filter", "type: 'Filter'", {images, uniform({0})}),
      of("Flatten", "type: 'Flatten'", {images}),
      of("Gather", "type: 'Gather' gather_param { axis: 1 }", {images, labels({3}, 8)}),
      of("GatherNone", "type: 'Gather' gather_param { axis: 1 }", {uniform({2, 3}), uniform({0})}),
      of("GridSample", "type: 'GridSample'", {images, uniform({0, 2, 3, 2})}),
      of("GridSampleOfNoPoints", "type: 'GridSample'",
         {uniform({2, 3, 4, 5}), uniform({2, 0, 3, 2})}),
      of("Im2col", "type: 'Im2col' convolution_param { kernel_size: 3 }", {images}),
      of("InnerProduct",
         "type: 'InnerProduct' inner_product_param { num_output: 3 " + fillers + "}", {images}),
      of("LRN", "type: 'LRN'", {images}),
      of("LRNWithinChannel", "type: 'LRN' lrn_param { norm_region: WITHIN_CHANNEL }", {images}),
      of("MVN", "type: 'MVN'", {images}),
      of("Pad", "type: 'Pad' pad_param { begin: 2 end: 1 mode: REFLECT }", {images}),
      of("PReLU", "type: 'PReLU'", {images}),
      of("PReLUShared", "type: 'PReLU' prelu_param { channel_shared: true }", {images}),
      of("PoolingAverage", "type: 'Pooling' pooling_param { pool: AVE kernel_size: 2 }", {images}),
      of("PoolingMax", "type: 'Pooling' pooling_param { pool: MAX kernel_size: 2 }", {images}),
      of("PoolingVolumes", "type: 'Pooling' pooling_param { kernel_size: 2 }",
         {uniform({0, 8, 4, 6, 5})}),
      of("Reduce", "type: 'Reduce' reduce_param { axis: 1 operation: LOG_SUM_EXP }", {images}),
      of("RMSNorm", "type: 'RMSNorm'", {images}),
      of("TopK", "type: 'TopK' topk_param { k: 2 axis: 1 }", {images}),
      of("Where", "type: 'Where'", {labels({0, 8, 1, 1}, 2), images, uniform({5})}),
      of("ReLU", "type: 'ReLU'", {images}),
      of("Reduction", "type: 'Reduction' reduction_param { operation: MEAN }", {images}),
      of("Reshape", "type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 } }", {images}),
      of("Scale", "type: 'Scale' scale_param { bias_term: true }", {images}),
      of("SPP", "type: 'SPP' spp_param { pyramid_height: 2 }", {images}),
      of("Sigmoid", "type: 'Sigmoid'", {images}),
      of("Softmax", "type: 'Softmax'", {images}),
      of("Split", "type: 'Split' top: 'a' top: 'b'", {images}),
      of("TanH", "type: 'TanH'", {images}),
      of("ContrastiveLoss", "type: 'ContrastiveLoss'", {images, images, labels({0}, 2)}),
      of("StridedSlice",
         "type: 'StridedSlice' strided_slice_param { axis: 3 begin: 4 end: -9 step: -2 }",
         {images}),
      of("StridedSliceOfNone",
         "type: 'StridedSlice' strided_slice_param { axis: 1 begin: 2 end: 2 }", {uniform({2, 3})}),
      of("Tile", "type: 'Tile' tile_param { tiles: 3 }", {images}),
      of("EuclideanLoss", "type: 'EuclideanLoss'", {images, images}),
      of("HingeLoss", "type: 'HingeLoss'", {uniform({0, 3}), labels({0}, 3)}),
      of("InfogainLoss", "type: 'InfogainLoss'",
         {uniform({0, 3}), labels({0}, 3), uniform({3, 3})}),
      of("MultinomialLogisticLoss", "type: 'MultinomialLogisticLoss'",
         {uniform({0, 3}), labels({0}, 3)}),
      of("SigmoidCrossEntropyLoss", "type: 'SigmoidCrossEntropyLoss'", {images, images}),
      of("SoftmaxWithLoss", "type: 'SoftmaxWithLoss'", {uniform({0, 3}), labels({0}, 3)}),
  };
}

class EmptyBatch : public testing::TestWithParam<EmptyCase> {};

TEST_P(EmptyBatch, PassesThrough) {
  const LayerCase& layer = GetParam().layer;
  const int options = static_cast<int>(LayerRun(layer, {.engine = ""}).options().size());
  for (const char* engine : {"reference", ""}) {
    for (int option = 0; option < (*engine ? 1 : options); ++option) {
      SCOPED_TRACE(text("engine '", engine, "', option ", option));
      LayerRun run(layer, {.engine = engine, .option = option});
      run.forward();
      for (int i = 0; i < run.num_tops(); ++i) {
        if (run.top_blob(i).count() > 0) {
          EXPECT_THAT(run.top(i), Each(0));
        }
      }
      run.backward();
      for (int i = 0; i < run.num_params(); ++i) {
        EXPECT_EQ(run.param(i), run.param_values(i)) << "parameter " << i;
        EXPECT_THAT(run.gradient(i), Each(0)) << "parameter " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rooms, EmptyBatch, testing::ValuesIn(empty_cases()),
                         [](const auto& empty) { return std::string(empty.param.name); });

}  // namespace
}  // namespace crema::test
