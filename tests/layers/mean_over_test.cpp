// The loss of all items from those of batches, as `crema test` takes it: each batch counts by what
// its layer says that the top is the mean over (Layer::mean_over()).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "layers/settings_effect.hpp"
#include "proto/layer.pb.h"
#include "support/needs.hpp"

namespace crema::test {
namespace {

/// How a bottom is cut into those of batches: along this axis, or not at all, or by the number of
/// the image that rows of boxes begin with.
constexpr int kShared = -1, kBoxes = -2;

struct MeanCase {
  std::string type, settings;
  std::vector<Input> bottoms;
  std::vector<int> axes;
  /// Whether batches differ in what a loss by VALID is the mean over, beyond their numbers of
  /// items.
  bool differ = false;
  std::string loss = {};  // of loss_param
  int tops = 1;
  bool is_loss = true;
};

constexpr int64_t kItems = 6;
/// Batches of unequal numbers of items.
constexpr std::pair<int64_t, int64_t> kBatches[] = {{0, 1}, {1, 3}, {4, 2}};

Input numbers(const Shape& shape, double low = -2, double high = 2) {
  Input input{shape, {}};
  Random random(1701, static_cast<uint64_t>(shape.count()));
  for (int64_t i = 0; i < shape.count(); ++i) input.values.push_back(random.uniform(low, high));
  return input;
}

Input classes(const Shape& shape, uint64_t count) {
  Input input{shape, {}};
  Random random(1701, static_cast<uint64_t>(shape.count()) + count);
  for (int64_t i = 0; i < shape.count(); ++i)
    input.values.push_back(static_cast<double>(random.below(count)));
  return input;
}

/// Targets along axis 1: of each position they sum to 1.
Input distributions(const Shape& shape) {
  Input input = numbers(shape, 0.1, 1);
  const int64_t size = shape[1], inner = shape.count(2);
  for (int64_t position = 0; position < shape[0] * inner; ++position) {
    double sum = 0;
    const auto at = [&](int64_t c) -> double& {
      return input
          .values[static_cast<size_t>((position / inner * size + c) * inner + position % inner)];
    };
    for (int64_t c = 0; c < size; ++c) sum += at(c);
    for (int64_t c = 0; c < size; ++c) at(c) /= sum;
  }
  return input;
}

/// Labels of which 1 is left out: in the batches none, all and some.
Input some_left_out(const Shape& shape) {
  Input input{shape, std::vector<double>(static_cast<size_t>(shape.count()), 0)};
  const int64_t each = shape.count(1);
  for (int64_t item = 0; item < kItems; ++item) {
    for (int64_t k = 0; k < each; ++k) {
      double& label = input.values[static_cast<size_t>(item * each + k)];
      if (item >= 1 && item < 4) label = 1;
      if (item == 4) label = k == 0 ? 1 : 3;
      if (item == 5) label = static_cast<double>(2 * (k % 2));
    }
  }
  return input;
}

void add_label_losses(std::vector<MeanCase>& all) {
  const std::vector<int> both = {0, 0};
  const Input rows = numbers({kItems, 4}), maps = numbers({kItems, 4, 3});
  const Input row_labels = classes({kItems}, 4), map_labels = classes({kItems, 3}, 4);
  const std::string ignores = "ignore_label: 1";
  const auto add = [&](const std::string& type, const std::string& settings, bool has_maps) {
    const std::vector<Input> columns = {rows, row_labels}, grids = {maps, map_labels};
    all.push_back({type, settings, columns, both});
    all.push_back({type, settings, {rows, some_left_out({kItems})}, both, true, ignores});
    if (!has_maps) return;
    all.push_back({type, settings, grids, both});
    all.push_back({type, settings, {maps, some_left_out({kItems, 3})}, both, true, ignores});
  };
  const std::string sigmoid = "focal_loss_param { activation: SIGMOID alpha: 0.25 } ";
  add("HingeLoss", "", false);
  add("SoftmaxWithLoss", "", true);
  add("SoftmaxWithLossOHEM", "", true);
  add("FocalLoss", "", true);
  add("FocalLoss", sigmoid, true);
  add("FocalLoss", "focal_loss_param { activation: SIGMOID alpha: 0.25 background_label_id: 0 } ",
      true);
  for (const bool differ : {false, true}) {
    const std::string loss = differ ? ignores : "";
    all.push_back({"MultinomialLogisticLoss",
                   "",
                   {numbers({kItems, 4}, 0.1, 1), differ ? some_left_out({kItems}) : row_labels},
                   both,
                   differ,
                   loss});
    all.push_back(
        {"InfogainLoss",
         "",
         {maps, differ ? some_left_out({kItems, 3}) : map_labels, numbers({4, 4}, 0.1, 1)},
         {0, 0, kShared},
         differ,
         loss});
  }
  // A target for each score.
  for (const char* type : {"SoftmaxWithLoss", "SoftmaxWithLossOHEM", "FocalLoss"}) {
    all.push_back({type, "", {rows, distributions({kItems, 4})}, both});
    all.push_back({type, "", {maps, distributions({kItems, 4, 3})}, both});
  }
  all.push_back({"FocalLoss", sigmoid, {rows, numbers({kItems, 4}, 0, 1)}, both});
  all.push_back({"FocalLoss", sigmoid, {maps, numbers({kItems, 4, 3}, 0, 1)}, both});
  all.push_back({"FocalLoss", sigmoid, {numbers({kItems, 1}), numbers({kItems, 1}, 0, 1)}, both});
}

void add_other_losses(std::vector<MeanCase>& all) {
  const std::vector<int> both = {0, 0};
  all.push_back(
      {"SigmoidCrossEntropyLoss", "", {numbers({kItems, 4}), classes({kItems, 4}, 2)}, both});
  Input targets = some_left_out({kItems, 4});
  for (double& target : targets.values) target = target == 1 ? -1 : target / 3;
  all.push_back({"SigmoidCrossEntropyLoss",
                 "",
                 {numbers({kItems, 4}), targets},
                 both,
                 true,
                 "ignore_label: -1"});
  all.push_back(
      {"SmoothL1LossOHEM", "", {numbers({kItems, 4, 3}), numbers({kItems, 4, 3}, -1, 3)}, both});
  // Steps come first. The second and the last sequence have too few for their labels.
  const Input steps = numbers({4, kItems, 4});
  const Input rows = given({kItems, 3}, {1, 2, -1, 2, 2, 2, 1, 2, 1,  //
                                         -1, -1, -1, 2, 2, -1, 1, 1, 1});
  for (const char* type : {"CTCLoss", "WarpCTCLoss", "CtcLoss"})
    all.push_back({type, "", {steps, rows}, {1, 0}, true});
  const std::string crf = "crf_loss_param { transition_filler { value: 0.3 } } ";
  all.push_back({"CRFLoss", crf, {steps, classes({4, kItems}, 4)}, {1, 1}});
  // Two sequences in some columns.
  const Input begins = given({4, kItems}, {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1,  //
                                           1, 0, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1});
  all.push_back({"CRFLoss", crf, {steps, classes({4, kItems}, 4), begins}, {1, 1, 1}, true});
  constexpr int64_t kPriors = 4;
  Input priors = given({1, 2, 4 * kPriors}, {});
  for (const double left : {0.0, 0.25, 0.5, 0.75})
    priors.values.insert(priors.values.end(), {left, 0.1, left + 0.25, 0.4});
  for (int64_t p = 0; p < kPriors; ++p)
    priors.values.insert(priors.values.end(), {0.1, 0.1, 0.2, 0.2});
  Input truths = given({1, 1, 0, 8}, {});  // images 0 and 3 have no box
  for (int image = 0; image < kItems; ++image) {
    for (int box = 0; box < image % 3; ++box) {
      const double left = 0.02 + 0.25 * box;
      truths.values.insert(truths.values.end(),
                           {1.0 * image, 1.0 + box % 2, 0.0, left, 0.12, left + 0.22, 0.38, 0.0});
    }
  }
  truths.shape.set(2, static_cast<int64_t>(truths.values.size()) / 8);
  for (const char* mining : {"MAX_NEGATIVE", "NONE"})
    all.push_back({"MultiBoxLoss",
                   text("multibox_loss_param { num_classes: 3 mining_type: ", mining, " } "),
                   {numbers({kItems, 4 * kPriors}), numbers({kItems, 3 * kPriors}), priors, truths},
                   {0, 0, kShared, kBoxes},
                   true});
}

void add_measures(std::vector<MeanCase>& all) {
  const auto add = [&](const std::string& type, const std::string& settings,
                       const std::vector<Input>& bottoms, int tops = 1) {
    all.push_back({.type = type,
                   .settings = settings,
                   .bottoms = bottoms,
                   .axes = std::vector<int>(bottoms.size(), 0),
                   .tops = tops,
                   .is_loss = false});
  };
  const Input maps = numbers({kItems, 4, 3});
  for (const Input& of : {classes({kItems, 3}, 4), some_left_out({kItems, 3})}) {
    add("Accuracy", "accuracy_param { ignore_label: 1 }", {maps, of}, 2);
    for (const char* shares : {"false", "true"})
      add("ConfusionMatrix",
          text("confusion_matrix_param { ignore_label: 1 normalize: ", shares, " }"), {maps, of});
  }
  for (const char* operation : {"SUM", "ASUM", "SUMSQ"})
    add("Reduction", text("reduction_param { operation: ", operation, " }"), {maps});
  for (const char* operation : {"SUM", "L1", "SUM_SQUARE"})
    add("Reduce", text("reduce_param { operation: ", operation, " }"), {maps});
}

const std::vector<MeanCase>& mean_cases() {
  static const std::vector<MeanCase> cases = [] {
    std::vector<MeanCase> all;
    add_label_losses(all);
    add_other_losses(all);
    add_measures(all);
    return all;
  }();
  return cases;
}

/// The part of a bottom that is of the items from `first` on.
Input part_of(const Input& whole, int axis, int64_t first, int64_t count) {
  if (axis == kShared) return whole;
  Input part{whole.shape, {}};
  if (axis == kBoxes) {
    for (auto row = whole.values.begin(); row != whole.values.end(); row += 8) {
      const double image = *row - static_cast<double>(first);
      if (image < 0 || image >= static_cast<double>(count)) continue;
      part.values.push_back(image);
      part.values.insert(part.values.end(), row + 1, row + 8);
    }
    part.shape.set(2, static_cast<int64_t>(part.values.size()) / 8);
    return part;
  }
  part.shape.set(axis, count);
  const int64_t outer = whole.shape.count(0, axis), inner = whole.shape.count(axis + 1);
  for (int64_t i = 0; i < outer; ++i) {
    const auto begin = whole.values.begin() + (i * whole.shape[axis] + first) * inner;
    part.values.insert(part.values.end(), begin, begin + count * inner);
  }
  return part;
}

/// A top of a batch and what it is the mean over.
struct Measured {
  std::vector<double> values;
  std::vector<std::optional<MeanUnits>> units;
};

std::vector<Measured> measured(const MeanCase& of, const std::string& layer, int64_t first,
                               int64_t count) {
  LayerCase one{.layer = layer, .tops = of.tops, .phase = Phase::test};
  for (size_t b = 0; b < of.bottoms.size(); ++b)
    one.bottoms.push_back(part_of(of.bottoms[b], of.axes[b], first, count));
  LayerRun run(one, {.dtype = DType::f64});
  run.forward();
  const Layer& layer_of_tops = run.layer();
  std::vector<Measured> tops;
  for (int t = 0; t < of.tops; ++t) {
    Measured& top = tops.emplace_back();
    top.values = run.top(t);
    for (size_t i = 0; i < top.values.size(); ++i)
      top.units.push_back(layer_of_tops.mean_over(t, static_cast<int64_t>(i)));
  }
  return tops;
}

/// The value of all items from those of the batches.
void expect_mean_of_batches(const std::vector<Measured>& batches, const Measured& whole, size_t i) {
  ASSERT_TRUE(whole.units[i].has_value());
  double sum = 0, count = 0;
  for (const Measured& batch : batches) {
    ASSERT_TRUE(batch.units[i].has_value());
    ASSERT_EQ(batch.units[i]->is_sum, whole.units[i]->is_sum);
    const double factor = batch.units[i]->factor();
    // A share of nothing says nothing.
    if (factor != 0) sum += factor * batch.values[i];
    count += batch.units[i]->count;
  }
  if (whole.units[i]->is_sum) {
    EXPECT_NEAR(sum, whole.values[i], 1e-9);
    return;
  }
  EXPECT_DOUBLE_EQ(count, whole.units[i]->count);
  if (count > 0) {
    EXPECT_NEAR(sum / count, whole.values[i], 1e-9);
  }
}

void check_case(const MeanCase& of, const std::string& normalization) {
  const std::string loss =
      text(of.loss, normalization.empty() ? "" : text(" normalization: ", normalization));
  const std::string layer = text("layer { type: '", of.type, "' ", of.settings,
                                 loss.empty() ? "" : text(" loss_param { ", loss, " }"), " }");
  SCOPED_TRACE(text(layer, " of ", of.bottoms[0].shape.str(), " and ",
                    of.bottoms.size() > 1 ? of.bottoms[1].shape.str() : "nothing"));
  const std::vector<Measured> whole = measured(of, layer, 0, kItems);
  std::vector<std::vector<Measured>> batches;  // of each top
  batches.resize(static_cast<size_t>(of.tops));
  for (const auto& [first, count] : kBatches) {
    const std::vector<Measured> tops = measured(of, layer, first, count);
    for (size_t t = 0; t < tops.size(); ++t) batches[t].push_back(tops[t]);
  }
  for (size_t t = 0; t < whole.size(); ++t) {
    for (size_t i = 0; i < whole[t].values.size(); ++i) {
      SCOPED_TRACE(text("top ", t, ", value ", i));
      expect_mean_of_batches(batches[t], whole[t], i);
    }
  }
  if (!of.is_loss) return;
  EXPECT_NE(whole[0].values[0], 0);
  if (!whole[0].units[0]->is_sum) {
    EXPECT_GT(whole[0].units[0]->count, 0);
  }
  if (!of.differ || normalization != "VALID") return;
  const double each = batches[0][0].units[0]->count;
  const auto is_even = [&](size_t b) {
    return batches[0][b].units[0]->count == each * static_cast<double>(kBatches[b].second);
  };
  EXPECT_FALSE(is_even(1) && is_even(2)) << "the numbers of items would do";
}

class MeanOverOf : public testing::TestWithParam<std::string> {};

TEST_P(MeanOverOf, BatchesGiveTheValueOfAllItems) {
  for (const MeanCase& of : mean_cases()) {
    if (of.type != GetParam()) continue;
    check_case(of, "");
    if (!of.is_loss) continue;
    for (const char* normalization : {"VALID", "FULL", "BATCH_SIZE", "NONE"})
      check_case(of, normalization);
  }
}

std::set<std::string> types_of_cases() {
  std::set<std::string> types;
  for (const MeanCase& of : mean_cases()) types.insert(of.type);
  return types;
}

INSTANTIATE_TEST_SUITE_P(Rooms, MeanOverOf, testing::ValuesIn(types_of_cases()),
                         [](const auto& type) { return type.param; });

// A new type without a case is a failure.
TEST(MeanOver, EveryTypeHasACase) {
  if (!kBuiltWithOpenCv || !kBuiltWithHdf5)
    GTEST_SKIP() << "needs OpenCV and HDF5: configure with CREMA_OPENCV=ON and CREMA_HDF5=ON";
  std::set<std::string> types;
  for (const std::string& type : Registry::instance().types()) {
    const auto base = std::ranges::find(settings_bases(), type, &SettingsBase::name);
    // SettingsEffect says so where there is none. What sources make are records.
    if (base == settings_bases().end() || base->bottoms.empty()) continue;
    LayerRun run({.layer = text("layer { type: '", type, "' ", with_folders(base->settings), " }"),
                  .bottoms = base->bottoms,
                  .tops = base->tops},
                 {.dtype = DType::f64});
    run.forward();
    for (int t = 0; t < base->tops; ++t) {
      if (run.top(t).empty() || !run.layer().mean_over(t, 0)) continue;
      types.insert(type);
    }
  }
  EXPECT_EQ(types, types_of_cases());
}

}  // namespace
}  // namespace crema::test
