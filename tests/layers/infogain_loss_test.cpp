#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/binary_format.hpp"
#include "proto/blob.pb.h"
#include "support/layer_test.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

std::string loss(const std::string& settings = "") {
  return text("layer { type: 'InfogainLoss' bottom: 'score' bottom: 'label' ", settings, " }");
}
std::string loss_by_bottom(const std::string& settings = "") {
  return loss(text("bottom: 'matrix' ", settings));
}

const std::vector<double> kMatrix = {1, 0, 0.5, 0, 2, 0, -1, 0.25, 3};

double log_sum(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += std::exp(value);
  return std::log(sum);
}

/// The file of a matrix, in the folder.
std::string matrix_file(const TempFolder& folder, const std::vector<double>& values,
                        const std::vector<int>& shape = {1, 1, 3, 3}) {
  BlobProto blob;
  for (const int size : shape) blob.mutable_shape()->add_dim(size);
  for (const double value : values) blob.add_data(static_cast<float>(value));
  const std::string path = folder.path("matrix.binaryproto");
  write_binary_proto_atomically(path, blob);
  return path;
}

std::string by_file(const std::string& path, const std::string& settings = "") {
  return loss(text("infogain_loss_param { source: '", path, "' } ", settings));
}

TEST(InfogainLoss, Values) {
  const std::vector<double> x = {1, 2, 4};
  const TempFolder folder;
  const std::string path = matrix_file(folder, kMatrix);
  const std::vector<Input> two = {given({1, 3}, x), given({1}, {2})};
  std::vector<Input> three = two;
  three.push_back(given({3, 3}, kMatrix));
  for (const LayerCase& c : {LayerCase{.layer = loss_by_bottom("loss_weight: 2"), .bottoms = three},
                             LayerCase{.layer = by_file(path, "loss_weight: 2"), .bottoms = two}}) {
    LayerRun run(c);
    run.forward();
    const double l = log_sum(x);
    EXPECT_NEAR(run.top(0)[0], -(l - 1) + 0.25 * (l - 2) + 3 * (l - 4), 1e-5);
    run.backward();
    std::vector<double> expected;
    for (size_t c3 = 0; c3 < 3; ++c3)
      expected.push_back(2 * (2.25 * std::exp(x[c3] - l) - kMatrix[6 + c3]));
    expect_close(run.bottom_diff(0), expected, {1e-5, 0}, "diff");
  }
}

TEST(InfogainLoss, IdentityIsSoftmaxWithLoss) {
  std::vector<double> identity(25, 0.0);
  for (size_t i = 0; i < 5; ++i) identity[6 * i] = 1;
  const char* const settings =
      "loss_param { ignore_label: 1 normalization: FULL } loss_weight: 0.5";
  const std::vector<Input> two = {uniform({2, 5, 3, 2}, -3, 3), labels({2, 3, 2}, 5)};
  std::vector<Input> three = two;
  three.push_back(given({1, 1, 5, 5}, identity));
  LayerRun infogain({.layer = loss_by_bottom(settings), .bottoms = three, .tops = 2});
  LayerRun softmax({.layer = text("layer { type: 'SoftmaxWithLoss' ", settings, " }"),
                    .bottoms = two,
                    .tops = 2});
  for (LayerRun* run : {&infogain, &softmax}) {
    run->forward();
    run->backward();
  }
  for (const int top : {0, 1}) {
    expect_close(infogain.top(top), softmax.top(top), {1e-6, 1e-6}, text("top ", top));
  }
  expect_close(infogain.bottom_diff(0), softmax.bottom_diff(0), {1e-6, 1e-6}, "diff");
}

TEST(InfogainLoss, Normalization) {
  const auto with = [](const std::string& settings) {
    LayerRun run({.layer = loss_by_bottom(text("loss_param { ", settings, " }")),
                  .bottoms = {given({2, 2, 2}, std::vector<double>(8, 1.0)),
                              given({2, 2}, {0, 1, 7, 7}), given({4}, {1, 0, 0, 1})}});
    run.forward();
    return run.top(0)[0] / std::log(2);
  };
  EXPECT_NEAR(with("ignore_label: 7"), 1, 1e-6);
  EXPECT_NEAR(with("ignore_label: 7 normalization: FULL"), 0.5, 1e-6);
  EXPECT_NEAR(with("ignore_label: 7 normalization: BATCH_SIZE"), 1, 1e-6);
  EXPECT_NEAR(with("ignore_label: 7 normalization: NONE"), 2, 1e-6);
}

TEST(InfogainLoss, Gradients) {
  const Input matrix = uniform({5, 5}, -1, 2);
  for (const char* settings :
       {"", "loss_weight: 0.3", "loss_param { ignore_label: 1 }",
        "infogain_loss_param { axis: -1 } loss_param { normalization: NONE }"}) {
    const LayerCase rows{.layer = loss_by_bottom(settings),
                         .bottoms = {uniform({6, 5}, -2, 2), labels({6}, 5), matrix},
                         .tops = 2};
    check_engines(rows);
    LayerCase c = rows;
    c.tops = 1;
    check_gradients(c);
  }
  const LayerCase images{
      .layer = loss_by_bottom("loss_param { ignore_label: 0 }"),
      .bottoms = {uniform({2, 5, 3, 3}, -2, 2), labels({2, 1, 3, 3}, 5), matrix}};
  check_gradients(images);
  check_engines(images);
  check_gradients({.layer = loss_by_bottom("infogain_loss_param { axis: 2 }"),
                   .bottoms = {uniform({2, 3, 5}, -2, 2), labels({2, 3}, 5), matrix}});
  const TempFolder folder;
  const LayerCase file{.layer = by_file(matrix_file(folder, kMatrix)),
                       .bottoms = {uniform({6, 3}, -2, 2), labels({6}, 3)}};
  check_gradients(file);
  check_engines(file);
}

TEST(InfogainLoss, OnlyScoresGetAGradient) {
  LayerRun run(
      {.layer = loss_by_bottom(), .bottoms = {uniform({2, 3}), labels({2}, 3), uniform({3, 3})}});
  EXPECT_TRUE(run.layer().can_propagate(0));
  EXPECT_FALSE(run.layer().can_propagate(1));
  EXPECT_FALSE(run.layer().can_propagate(2));
}

TEST(InfogainLoss, ImprobableClasses) {
  const double infinity = std::numeric_limits<double>::infinity();
  LayerRun run({.layer = loss_by_bottom(),
                .bottoms = {given({2, 2}, {0, 500, 0, -infinity}), given({2}, {0, 0}),
                            given({2, 2}, {1, 0, 0, 1})}});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 250, 1e-3) << "no limit, and nothing of a class without weight";
}

TEST(InfogainLoss, NaNIsNotHidden) {
  for (const size_t at : {0, 1, 2}) {
    LayerRun run({.layer = loss_by_bottom(),
                  .bottoms = {uniform({1, 3}), given({1}, {1}), given({3, 3}, kMatrix)}});
    run.bottom_values(0)[at] = std::nan("");
    run.forward();
    EXPECT_TRUE(std::isnan(run.top(0)[0])) << at;
  }
}

TEST(InfogainLoss, TakesOtherShapes) {
  const TempFolder folder;
  const std::string path = matrix_file(folder, kMatrix);
  LayerRun run({.layer = by_file(path), .bottoms = {uniform({4, 3}), labels({4}, 3)}});
  run.forward();
  run.reshape({given({1, 3, 1, 2}, {0, 0, 0, 0, 0, 0}), given({1, 2}, {0, 1})});
  run.forward();
  EXPECT_NEAR(run.top(0)[0], 1.75 * std::log(3), 1e-6);
  expect_error(
      [&] {
        run.reshape({uniform({4, 2}), labels({4}, 2)});
      },
      {path, "9 values", "2 classes", "'score' (4x2)", "2x2"});
}

TEST(InfogainLoss, Errors) {
  const auto refuse = [](const std::string& layer, std::vector<Input> bottoms,
                         std::initializer_list<std::string_view> parts) {
    expect_error([&] { LayerRun({.layer = layer, .bottoms = bottoms}).forward(); }, parts);
  };
  const std::vector<Input> two = {uniform({4, 3}), labels({4}, 3)};
  refuse(loss(), two, {"no matrix", "third bottom", "source"});
  refuse(by_file("/nowhere/h.binaryproto"), two, {"/nowhere/h.binaryproto"});
  refuse(loss_by_bottom(), {uniform({4, 3}), labels({4}, 3), uniform({3, 4})},
         {"'matrix' (3x4)", "12 values", "3 classes", "3x3"});
  refuse(loss_by_bottom(), {uniform({4, 3}), labels({5}, 3), uniform({3, 3})},
         {"'score' (4x3)", "'label' (5)"});
  refuse(loss_by_bottom(), {uniform({2, 3}), given({2}, {0, 3}), uniform({3, 3})},
         {"label 3 at position 1", "[0, 3)"});
  refuse(loss_by_bottom("infogain_loss_param { axis: 2 }"),
         {uniform({2, 3}), labels({2}, 3), uniform({3, 3})}, {"axis 2"});
  const TempFolder folder;
  std::vector<double> values = kMatrix;
  values[4] = std::nan("");
  const std::string path = matrix_file(folder, values);
  refuse(by_file(path), two, {"value 4", path, "nan", "finite"});
}

}  // namespace
}  // namespace crema::test
