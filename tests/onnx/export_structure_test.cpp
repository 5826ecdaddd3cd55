// What models that nets are exported as look like: names, constants, ends, metadata and refusals.
#include <cmath>

#include "crema/registry.hpp"
#include "onnx/exported_model.hpp"
#include "onnx/exporting/exporter.hpp"
#include "proto/layer.pb.h"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using test::ExportedModel;
using test::input_layer;
using Texts = std::vector<std::string>;

const char* const kConvolution =
    "layer { name: 'conv1' type: 'Convolution' bottom: 'x' top: 'conv1' convolution_param { "
    "num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } } ";

std::vector<int64_t> sizes_of(const onnx::ValueInfoProto& end) {
  std::vector<int64_t> sizes;
  for (const auto& dim : end.type().tensor_type().shape().dim())
    sizes.push_back(dim.has_dim_param() ? -1 : dim.dim_value());
  return sizes;
}

TEST(OnnxExport, LayersInPlaceBecomeValuesOfTheirOwn) {
  const ExportedModel model(input_layer("dim: 2 dim: 3 dim: 5 dim: 5") + kConvolution +
                            "layer { name: 'relu1' type: 'ReLU' bottom: 'conv1' top: 'conv1' } "
                            "layer { name: 'drop1' type: 'Dropout' bottom: 'conv1' top: 'conv1' } "
                            "layer { name: 'sig1' type: 'Sigmoid' bottom: 'conv1' top: 'conv1' }");
  test::expect_single_assignment(model.graph());
  EXPECT_EQ(model.operators(), (Texts{"Conv", "Relu", "Sigmoid"}));
  EXPECT_EQ(model.node("Conv").output(0), "conv1_conv1");
  EXPECT_EQ(model.node("Relu").output(0), "conv1_relu1");
  EXPECT_EQ(model.node("Sigmoid").input(0), "conv1_relu1");
  EXPECT_EQ(model.node("Sigmoid").output(0), "conv1") << "the last version has the blob's name";
  EXPECT_EQ(model.node("Conv").name(), "conv1");
  EXPECT_EQ(model.node("Conv").input(1), "conv1.weight");
  EXPECT_EQ(model.constant("conv1.weight").shape(), (Shape{4, 3, 3, 3}));
  EXPECT_EQ(model.ints("Conv", "pads"), (std::vector<int64_t>{1, 1, 1, 1}));
  ASSERT_EQ(model.graph().input_size(), 1);
  EXPECT_EQ(model.graph().input(0).name(), "x");
  EXPECT_EQ(sizes_of(model.graph().input(0)), (std::vector<int64_t>{2, 3, 5, 5}));
  ASSERT_EQ(model.graph().output_size(), 1);
  EXPECT_EQ(model.graph().output(0).name(), "conv1");
  EXPECT_EQ(sizes_of(model.graph().output(0)), (std::vector<int64_t>{2, 4, 5, 5}));
}

TEST(OnnxExport, NormsOverAnOpenBatchHoldNoSizeOfIt) {
  const std::string net = input_layer("dim: 2 dim: 3") +
                          "layer { name: 'n' type: 'LayerNorm' bottom: 'x' top: 'y' "
                          "layer_norm_param { axis: 0 scale_term: false bias_term: false } }";
  const ExportedModel open(net, {.opset = 17, .dynamic_batch = true});
  for (const auto& constant : open.graph().initializer())
    EXPECT_EQ(std::ranges::count(constant.dims(), 2), 0) << constant.name();
  const ExportedModel fixed(net, {.opset = 17});
  EXPECT_EQ(fixed.operators(), Texts{"LayerNormalization"});
}

// 5 / 6 in f32 lies below: 6 times it is 5 in f32, and less in f64.
TEST(OnnxExport, FactorsOfAnOpenBatchGiveTheSizeInAnyPrecision) {
  const ExportedModel model(input_layer("dim: 1 dim: 2 dim: 6 dim: 6") +
                                "layer { name: 'r' type: 'Interp' bottom: 'x' top: 'y' "
                                "interp_param { height: 5 width: 9 } }",
                            {.opset = 17, .dynamic_batch = true});
  const std::vector<double> factors = model.constant(model.node("Resize").input(2)).doubles();
  ASSERT_EQ(factors.size(), 4U);
  EXPECT_EQ(std::floor(factors[2] * 6), 5);
  EXPECT_EQ(std::floor(static_cast<float>(factors[2]) * 6.0F), 5);
  EXPECT_EQ(std::floor(factors[3] * 6), 9);
  EXPECT_NEAR(factors[2], 5.0 / 6, 1e-7);
}

TEST(OnnxExport, ParametersAreThoseOfTheNet) {
  std::vector<float> weights;
  const ExportedModel model(
      input_layer("dim: 1 dim: 3 dim: 4 dim: 4") + kConvolution, {}, [&](Net& net) {
        const Tensor& data = net.layer("conv1").params()[0]->data;
        weights.assign(data.values<float>().begin(), data.values<float>().end());
      });
  const auto exported = model.constant("conv1.weight");
  const auto values = exported.values<float>();
  ASSERT_EQ(values.size(), weights.size());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), weights.begin()));
}

TEST(OnnxExport, VersionsFollowTheOpset) {
  const std::string net =
      input_layer("dim: 1 dim: 2") + "layer { name: 'y' type: 'TanH' bottom: 'x' top: 'y' }";
  const std::map<int, int64_t> versions{{13, 7}, {17, 8}, {21, 10}, {23, 11}};
  for (const auto& [opset, ir] : versions) {
    const ExportedModel model(net, {.opset = opset});
    EXPECT_EQ(model.model.ir_version(), ir) << "opset " << opset;
    ASSERT_EQ(model.model.opset_import_size(), 1);
    EXPECT_EQ(model.model.opset_import(0).version(), opset);
    EXPECT_EQ(model.model.producer_name(), "crema");
  }
  expect_error([&] { ExportedModel(net, {.opset = 12}); }, {"opset 12", "13 to 23"});
  expect_error([&] { ExportedModel(net, {.opset = 24}); }, {"opset 24"});
}

TEST(OnnxExport, AllLayersThatCannotBeExportedAreNamedAtOnce) {
  expect_error(
      [] {
        ExportedModel(
            input_layer("dim: 2 dim: 3") + input_layer("dim: 2", "label") +
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'x' bottom: 'label' top: 'l' } "
            "layer { name: 'acc' type: 'Accuracy' bottom: 'x' bottom: 'label' top: 'a' } "
            "layer { name: 'noise' type: 'Noise' bottom: 'x' top: 'n' noise_param { std: 1 } }");
      },
      {"3 layers", "'loss' (SoftmaxWithLoss)", "'acc' (Accuracy)", "'noise' (Noise)", "in_test",
       "crema deploy"});
}

TEST(OnnxExport, ANetOfPhaseTrainIsRefused) {
  Context context;
  const Net net(test::net_param(input_layer("dim: 1 dim: 2") +
                                "layer { name: 'y' type: 'TanH' bottom: 'x' top: 'y' }"),
                context, {.phase = Phase::train});
  expect_error([&] { save_onnx(net, "never.onnx"); }, {"phase TRAIN", "Phase::test"});
}

TEST(OnnxExport, OpenBatch) {
  const std::string net =
      input_layer("dim: 2 dim: 3 dim: 4 dim: 4") + kConvolution +
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'conv1' top: 'fc' inner_product_param { "
      "num_output: 5 } } "
      "layer { name: 're' type: 'Reshape' bottom: 'fc' top: 're' reshape_param { shape { dim: 0 "
      "dim: 5 dim: 1 } } }";
  const ExportedModel model(net, {.dynamic_batch = true});
  EXPECT_EQ(sizes_of(model.graph().input(0)), (std::vector<int64_t>{-1, 3, 4, 4}));
  EXPECT_EQ(model.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(sizes_of(model.graph().output(0)), (std::vector<int64_t>{-1, 5, 1}));
  const auto shape = model.constant(model.node("Reshape").input(1)).integers();
  EXPECT_EQ(shape[0], -1) << "the present batch is in a constant";
  expect_error(
      [&] {
        ExportedModel(input_layer("dim: 2 dim: 3") +
                          "layer { name: 'turn' type: 'Permute' bottom: 'x' top: 'y' permute_param "
                          "{ order: 1 order: 0 } }",
                      {.dynamic_batch = true});
      },
      {"'turn' (Permute)", "fixed size"});
}

TEST(OnnxExport, PoolingHasPadsAtTheEnds) {
  // 8 cells, kernel 3, stride 2: Caffe rounds up to 4 windows, of which the last needs one cell
  // more.
  const auto pooling = [](const char* settings) {
    return ExportedModel(
        input_layer("dim: 1 dim: 1 dim: 8 dim: 8") +
        "layer { name: 'pool' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { " + settings +
        " } }");
  };
  const ExportedModel maximum = pooling("pool: MAX kernel_size: 3 stride: 2");
  EXPECT_EQ(maximum.ints("MaxPool", "pads"), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(sizes_of(maximum.graph().output(0)), (std::vector<int64_t>{1, 1, 4, 4}));
  const ExportedModel average = pooling("pool: AVE kernel_size: 3 stride: 2");
  EXPECT_EQ(average.operators(), (Texts{"Pad", "AveragePool", "Mul"}));
  const auto factors = average.constant("pool.cells").doubles();
  ASSERT_EQ(factors.size(), 16U);
  EXPECT_NEAR(factors[0], 1, 1e-7);
  EXPECT_NEAR(factors[3], 1.5, 1e-6) << "the last window of the first row has 6 of 9 cells";
  EXPECT_NEAR(factors[15], 2.25, 1e-6);
  EXPECT_EQ(pooling("pool: AVE kernel_size: 2 stride: 2").operators(), Texts{"AveragePool"});
  EXPECT_EQ(pooling("pool: AVE global_pooling: true").operators(), Texts{"GlobalAveragePool"});
}

TEST(OnnxExport, TheThirdParameterOfBatchNormIsItsDivisor) {
  const auto mean_for = [](float factor) {
    const ExportedModel model(input_layer("dim: 1 dim: 2 dim: 1 dim: 1") +
                                  "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' }",
                              {}, [&](Net& net) {
                                auto& params = net.layer("bn").params();
                                params[0]->data.fill(6);
                                params[1]->data.fill(8);
                                params[2]->data.fill(static_cast<double>(factor));
                              });
    const auto& node = model.node("BatchNormalization");
    return std::pair(model.constant(node.input(3)).at(1), model.constant(node.input(4)).at(1));
  };
  EXPECT_EQ(mean_for(2), std::pair(3.0, 4.0));
  EXPECT_EQ(mean_for(0), std::pair(0.0, 0.0)) << "nothing was summed up";
}

TEST(OnnxExport, PriorBoxesAreConstants) {
  const ExportedModel model(
      input_layer("dim: 1 dim: 3 dim: 8 dim: 8") + kConvolution +
      "layer { name: 'prior' type: 'PriorBox' bottom: 'conv1' bottom: 'x' top: 'prior' "
      "prior_box_param { min_size: 4 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } } "
      "layer { name: 'half' type: 'Power' bottom: 'prior' top: 'half' power_param { scale: 0.5 } "
      "}");
  ASSERT_EQ(model.graph().output_size(), 1);
  EXPECT_EQ(model.operators(), Texts{"Identity"}) << "of the map, the size alone is read";
  const auto values = model.constant("half").doubles();
  ASSERT_EQ(values.size(), 2U * 64 * 4);
  EXPECT_NEAR(values[0], 0.5 * (0.5 - 2) / 8, 1e-6) << "xmin of the first box, halved";
  EXPECT_NEAR(values.back(), 0.1, 1e-6) << "half of the last variance";
}

TEST(OnnxExport, RecurrentLayersAreOperatorsWhereSequencesGoOn) {
  const std::string lstm =
      "layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'y' recurrent_param { "
      "num_output: 3 weight_filler { type: 'uniform' min: -1 max: 1 } } }";
  const ExportedModel whole(
      input_layer("dim: 4 dim: 2 dim: 5") +
      "layer { name: 'cont' type: 'ContinuationIndicator' bottom: 'x' top: 'cont' } " + lstm);
  EXPECT_EQ(whole.operators(), (Texts{"LSTM", "Squeeze"}));
  EXPECT_EQ(whole.constant("lstm.W").shape(), (Shape{1, 12, 5}));
  const ExportedModel stepwise(input_layer("dim: 4 dim: 2 dim: 5") +
                               input_layer("dim: 4 dim: 2", "cont") + lstm);
  test::expect_single_assignment(stepwise.graph());
  const Texts operators = stepwise.operators();
  EXPECT_EQ(std::ranges::count(operators, "LSTM"), 0);
  EXPECT_EQ(std::ranges::count(operators, "Sigmoid"), 4) << "one for each step";
}

TEST(OnnxExport, GatesAreReordered) {
  const ExportedModel model(
      input_layer("dim: 2 dim: 1 dim: 1") +
          "layer { name: 'cont' type: 'ContinuationIndicator' bottom: 'x' top: 'cont' } "
          "layer { name: 'lstm' type: 'LSTM' bottom: 'x' bottom: 'cont' top: 'y' recurrent_param "
          "{ num_output: 1 } }",
      {}, [](Net& net) {
        float* const weights = net.layer("lstm").params()[0]->data.overwrite<float>();
        for (int i = 0; i < 4; ++i) weights[i] = static_cast<float>(i + 1);  // i, f, o, g
      });
  EXPECT_EQ(model.constant("lstm.W").doubles(), (std::vector<double>{1, 3, 2, 4})) << "i, o, f, c";
}

TEST(OnnxExport, LayersWithoutAnOperatorAreOfTheDomainCrema) {
  const ExportedModel model(
      input_layer("dim: 1 dim: 8 dim: 4 dim: 4") + input_layer("dim: 2 dim: 5", "rois") +
      "layer { name: 'ps' type: 'PSROIPooling' bottom: 'x' bottom: 'rois' top: 'y' "
      "psroi_pooling_param { spatial_scale: 0.5 output_dim: 2 group_size: 2 } }");
  const auto& node = model.node("PSROIPooling");
  EXPECT_EQ(node.domain(), "crema");
  std::map<std::string, double> attributes;
  for (const auto& one : node.attribute())
    attributes[one.name()] = one.type() == onnx::AttributeProto::FLOAT
                                 ? static_cast<double>(one.f())
                                 : static_cast<double>(one.i());
  EXPECT_EQ(attributes, (std::map<std::string, double>{
                            {"group_size", 2}, {"output_dim", 2}, {"spatial_scale", 0.5}}));
  ASSERT_EQ(model.model.opset_import_size(), 2);
  EXPECT_EQ(model.model.opset_import(1).domain(), "crema");
  EXPECT_EQ(model.report.custom, Texts{"ps (PSROIPooling)"});
}

TEST(OnnxExport, FoldedNetsHaveNoBatchNorm) {
  const std::string net =
      input_layer("dim: 1 dim: 3 dim: 4 dim: 4") + kConvolution +
      "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv1' top: 'conv1' } "
      "layer { name: 'scale' type: 'Scale' bottom: 'conv1' top: 'conv1' scale_param { bias_term: "
      "true } }";
  const auto change = [](Net& built) {
    auto& params = built.layer("bn").params();
    params[1]->data.fill(4);
    params[2]->data.fill(1);
  };
  EXPECT_EQ(ExportedModel(net, {}, change).operators(),
            (Texts{"Conv", "BatchNormalization", "Mul", "Add"}));
  EXPECT_EQ(ExportedModel(net, {.fold = true}, change).operators(), Texts{"Conv"});
}

TEST(OnnxExport, PreprocessingIsMetadataOrNodes) {
  const std::string net = input_layer("dim: 1 dim: 3 dim: 4 dim: 4") + kConvolution;
  Origin origin;
  for (const float mean : {104.0F, 117.0F, 123.0F})
    origin.mutable_transform()->add_mean_value(mean);
  origin.mutable_transform()->set_scale(0.5F);
  origin.add_class_name("cat");
  origin.add_class_name("a \"dog\"");
  const ExportedModel plain(net, {.origin = &origin});
  EXPECT_EQ(plain.operators(), Texts{"Conv"});
  EXPECT_EQ(plain.metadata("crema.mean"), "[104, 117, 123]");
  EXPECT_EQ(plain.metadata("crema.scale"), "0.5");
  EXPECT_EQ(plain.metadata("crema.channels"), "BGR");
  EXPECT_EQ(plain.metadata("crema.labels"), "[\"cat\", \"a \\\"dog\\\"\"]");
  const ExportedModel nodes(net, {.origin = &origin, .preprocess = true});
  EXPECT_EQ(nodes.operators(), (Texts{"Gather", "Sub", "Mul", "Conv"}));
  EXPECT_EQ(nodes.metadata("crema.mean"), "none") << "who reads it would subtract it twice";
  EXPECT_EQ(nodes.metadata("crema.origin").find("mean_value"), std::string::npos);
  EXPECT_EQ(nodes.node("Gather").input(0), "x");
  EXPECT_EQ(nodes.report.notes,
            Texts{"the first input takes pixels from 0 to 255 in the order RGB"});
  expect_error([&] { ExportedModel(net, {.preprocess = true}); }, {"preprocessing"});
}

TEST(OnnxExport, PreprocessingSaysWhatItHasOfAMeanImage) {
  Origin origin;
  origin.mutable_transform()->set_mean_file("mean.binaryproto");
  origin.add_channel_mean(33);
  const ExportedModel model(input_layer("dim: 1 dim: 1 dim: 4 dim: 4") + kConvolution,
                            {.origin = &origin, .preprocess = true});
  EXPECT_EQ(model.operators(), (Texts{"Sub", "Conv"}));
  ASSERT_EQ(model.report.notes.size(), 2U);
  EXPECT_EQ(model.report.notes[0], "the first input takes pixels from 0 to 255, gray");
  EXPECT_NE(model.report.notes[1].find("'mean.binaryproto'"), std::string::npos);
}

TEST(OnnxExport, EveryTypeOfLayerIsExportedOrRefusedWithItsReason) {
  const auto& table = onnx::ExporterTable::instance();
  Texts unknown;
  for (const std::string& type : Registry::instance().types()) {
    // Constants of the model need no exporter.
    if (type == "Input" || type == "Parameter" || type == "PriorBox" ||
        type == "PriorBoxClustered" || type == "ContinuationIndicator")
      continue;
    if (table.find(type) == nullptr && table.why_not(type).empty()) unknown.push_back(type);
    EXPECT_TRUE(table.find(type) == nullptr || table.why_not(type).empty())
        << type << " is exported and refused";
  }
  EXPECT_EQ(unknown, Texts());
}

}  // namespace
}  // namespace crema
