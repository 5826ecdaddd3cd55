// What chooses, sorts and matches on a device: block bodies and the rooms that are made of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "layer_support/suppression.hpp"
#include "layer_support/value_sort.hpp"
#include "support/fake_context.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/two_sided_run.hpp"

#if !CREMA_BUILT_WITH_CUDA
#include "layer_support/block_choice.hpp"
#include "layer_support/blocks.hpp"  // with CUDA for nvcc alone
#endif

namespace crema::test {
namespace {

/// Bodies of devices, which run on the host in a build without CUDA.
class HostBodies : public testing::Test {
 protected:
  void SetUp() override {
    if (kBuiltWithCuda)
      GTEST_SKIP() << "needs a build without CUDA, where these bodies run on the host: configure "
                      "with CREMA_CUDA=OFF";
  }
};
class ValueSort : public HostBodies {};
class BlockChoice : public HostBodies {};
class DeviceBoxes : public HostBodies {};

/// Numbers of [0, range), the same ones each time.
std::vector<int64_t> numbers(int64_t count, int64_t range) {
  std::vector<int64_t> all;
  uint64_t state = 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    all.push_back(static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(range)));
  }
  return all;
}

TEST_F(ValueSort, SortsAnyNumberOfValues) {
  FakeDevice device;
  for (const int64_t count : {0, 1, 2, 3, 7, 100, 4095, 4096, 4097, 12289, 20000}) {
    for (const int64_t range : {int64_t{3}, 5 * count + 1}) {
      std::vector<double> values;
      for (const int64_t number : numbers(count, range))
        values.push_back(static_cast<double>(number));
      std::vector<double> sorted = values;
      std::sort(sorted.begin(), sorted.end());
      sort_values(ComputeDevice(device), count, values.data());
      EXPECT_EQ(values, sorted) << count << " of " << range;
    }
  }
}

#if !CREMA_BUILT_WITH_CUDA
template <class T>
void check_choice(int64_t count, int64_t range, int64_t wanted) {
  SCOPED_TRACE(text(count, " of ", range, ", ", wanted, " wanted"));
  std::vector<T> scores;
  std::vector<Candidate<T>> all;
  for (const int64_t number : numbers(count, range)) {
    // A third may not be chosen; some are infinite.
    scores.push_back(static_cast<T>(number) / 4 - 5);
    if (number % 7 == 1) scores.back() = -std::numeric_limits<T>::infinity();
    if (number % 3 != 0) all.push_back({scores.back(), static_cast<int32_t>(scores.size() - 1)});
  }
  const std::vector<int64_t> drawn = numbers(count, range);
  std::vector<Candidate<T>> expected = all;
  sort_candidates(expected, wanted);
  std::vector<Candidate<T>> found(static_cast<size_t>(count) + 1);
  int64_t number = -1;
  FakeDevice device;
  for (const int64_t shared : {kMostLanes, kMostShared}) {
    for_each_block(ComputeDevice(device), 1, kMostLanes, shared, [&](int64_t, const auto& lanes) {
      const auto key_of = [&](int64_t i) {
        const auto k = static_cast<size_t>(i);
        return drawn[k] % 3 != 0 ? rising_key(scores[k]) : RisingKey<T>{0};
      };
      const auto cut = find_cut<RisingKey<T>>(lanes, count, wanted, key_of);
      const int64_t chosen = take_cut(lanes, count, cut, key_of, [&](int64_t i, int64_t place) {
        found[static_cast<size_t>(place)] = {scores[static_cast<size_t>(i)],
                                             static_cast<int32_t>(i)};
      });
      lanes.wait();
      for (int64_t i = 1; lanes.first == 0 && i < chosen; ++i) {
        EXPECT_LT(found[static_cast<size_t>(i - 1)].index, found[static_cast<size_t>(i)].index);
      }
      sort_block(lanes, shared, chosen, found.data());
      if (lanes.first == 0) number = chosen;
    });
    ASSERT_EQ(number, static_cast<int64_t>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].index, expected[i].index) << i;
      EXPECT_EQ(found[i].score, expected[i].score) << i;
    }
  }
}

TEST_F(BlockChoice, IsThatOfTheHostWithItsTies) {
  for (const int64_t count : {0, 1, 2, 7, 64, 700}) {
    for (const int64_t range : {2, 40, 100000}) {
      for (const int64_t wanted : {0, 3, 50, 1000}) {
        check_choice<float>(count, range, wanted);
        if (count < 64) check_choice<double>(count, range, wanted);
      }
    }
  }
}

TEST_F(BlockChoice, SuppressesAsTheHostDoes) {
  const std::vector<int64_t> drawn = numbers(4 * 150, 40);
  std::vector<BoundingBox<float>> boxes;
  for (size_t i = 0; i + 3 < drawn.size(); i += 4) {
    const auto at = [&](size_t k) { return static_cast<float>(drawn[i + k]); };
    boxes.push_back({at(0), at(1), at(0) + at(2), at(1) + at(3) - 3});
  }
  const auto count = static_cast<int64_t>(boxes.size());
  FakeDevice device;
  for (const double threshold : {0.0, 0.3, 0.8, 1.0}) {
    for (const double eta : {1.0, 0.9}) {
      for (const int64_t most : {1, 7, 1000}) {
        const Suppression settings{.threshold = threshold, .eta = eta};
        BoxColumns<float> columns;
        std::vector<int32_t> expected;
        suppress<float>(
            settings, count, [&](int64_t k) { return boxes[static_cast<size_t>(k)]; }, columns,
            expected, most);
        std::vector<int32_t> kept(boxes.size());
        std::vector<float> overlaps(boxes.size());
        int64_t number = -1;
        for_each_block(
            ComputeDevice(device), 1, kMostLanes, kMostLanes, [&](int64_t, const auto& lanes) {
              const int64_t found = suppress_block(lanes, settings, count, most, boxes.data(), 0.0F,
                                                   overlaps.data(), kept.data());
              if (lanes.first == 0) number = found;
            });
        ASSERT_EQ(number, static_cast<int64_t>(expected.size())) << threshold << ' ' << eta;
        kept.resize(expected.size());
        EXPECT_EQ(kept, expected) << threshold << ' ' << eta << ' ' << most;
      }
    }
  }
}
#endif

std::string of(const std::string& type, const std::string& settings) {
  return text("layer { type: '", type, "' ", settings, " }");
}

/// (1, 2, 840): 210 boxes on a grid, and their variances.
Input grid_priors() {
  std::vector<double> grid(2 * 840, 0.2);
  for (size_t p = 0; p < 210; ++p) {
    const double x = 0.06 * static_cast<double>(p % 15) - 0.02;
    const double y = 0.06 * static_cast<double>(p / 15), side = p % 2 == 0 ? 0.15 : 0.11;
    std::ranges::copy(std::array{x, y, x + side, y + 0.13}, grid.begin() + 4 * p);
  }
  return given({1, 2, 840}, grid);
}

TEST_F(DeviceBoxes, DetectionOutputChoosesAsTheHostDoes) {
  const Input priors = grid_priors();
  const Input few = labels({3, 630}, 4);  // of four confidences: many are equal
  const Input locations = uniform({3, 840}), of_classes = uniform({3, 2520});
  std::vector<double> own = priors.values;
  own.insert(own.end(), priors.values.rbegin(), priors.values.rend());
  for (size_t i = own.size() / 2; i < own.size(); ++i) own[i] += 0.1;
  own.insert(own.end(), priors.values.begin(), priors.values.end());
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto check = [&](const std::string& settings, const std::vector<Input>& bottoms) {
      check_device({.layer = of("DetectionOutput",
                                text("detection_output_param { num_classes: 3 ", settings, " }")),
                    .bottoms = bottoms},
                   {0, 0}, dtype, 1, true, 3);
    };
    for (const char* code : {"CENTER_SIZE", "CORNER", "CORNER_SIZE"}) {
      const std::string first = text("code_type: ", code, " confidence_threshold: 0.3 ");
      check(first + "nms_param { nms_threshold: 0.45 top_k: 40 } keep_top_k: 25",
            {locations, uniform({3, 630}), priors});
    }
    const std::string centred = "code_type: CENTER_SIZE ";
    for (const char* more :
         {"nms_param { top_k: 30 } keep_top_k: 7", "nms_param { top_k: 1 }", "keep_top_k: 1",
          "confidence_threshold: 0 nms_param { nms_threshold: 0.9 eta: 0.7 } keep_top_k: 100",
          "background_label_id: -1 nms_param { top_k: 500 }",
          "background_label_id: 2 nms_param { nms_threshold: 1 top_k: 50 }",
          "confidence_threshold: 2.5 keep_top_k: 10", "confidence_threshold: 3.5"}) {
      check(centred + more, {locations, few, priors});
    }
    check(centred + "share_location: false nms_param { top_k: 20 }", {of_classes, few, priors});
    check(centred + "variance_encoded_in_target: true keep_top_k: 3",
          {locations, few, given({3, 2, 840}, own)});
  }
}

TEST_F(DeviceBoxes, MultiBoxLossFindsTheTargetsOfTheHost) {
  const Input priors = grid_priors();
  // Image 1 has no box, image 2 two that share their best prior; the last row is padding.
  const Input boxes = given({1, 1, 7, 8}, {0,  1, 0, 0.11, 0.12, 0.29, 0.30, 0,  //
                                           2,  2, 0, 0.31, 0.29, 0.47, 0.45, 1,  //
                                           0,  2, 0, 0.52, 0.41, 0.64, 0.60, 0,  //
                                           2,  1, 0, 0.31, 0.29, 0.47, 0.45, 0,  //
                                           2,  2, 0, 0.32, 0.30, 0.47, 0.46, 0,  //
                                           0,  2, 0, 0.93, 0.90, 0.99, 0.99, 0,  //
                                           -1, 0, 0, 0,    0,    0,    0,    0});
  const Input locations = uniform({3, 840}), scores = uniform({3, 630}),
              of_classes = uniform({3, 2520});
  const std::string weights =
      "} loss_param { weight_by_label_freqs: true class_weighting: 1 class_weighting: 3 "
      "class_weighting: 0.5 ";
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto check = [&](const std::string& settings, const Input& given_locations) {
      check_device({.layer = of("MultiBoxLoss",
                                text("multibox_loss_param { num_classes: 3 ", settings, " }")),
                    .bottoms = {given_locations, scores, priors, boxes}},
                   {1e-6, 1e-5}, dtype, 0, true, 4);
    };
    for (const std::string mining :
         {"", "mining_type: NONE ", "mining_type: HARD_EXAMPLE sample_size: 30 "}) {
      for (const std::string more :
           {"code_type: CENTER_SIZE", "match_type: BIPARTITE", "use_prior_for_matching: false",
            "ignore_cross_boundary_bbox: true neg_overlap: 0.3", "map_object_to_agnostic: true",
            "bp_inside: true encode_variance_in_target: true loc_loss_type: L2",
            "use_prior_for_matching: false bp_inside: true ignore_cross_boundary_bbox: true",
            "use_difficult_gt: false conf_loss_type: LOGISTIC background_label_id: 4294967295",
            "ignore_difficult_gt: true loc_weight: 2 neg_pos_ratio: 0.5"}) {
        check(mining + more, locations);
      }
      check(mining + weights, locations);
      check(mining + "conf_loss_type: LOGISTIC " + weights, locations);
      for (const char* by : {"FULL", "BATCH_SIZE", "NONE"})
        check(mining + "} loss_param { normalization: " + by, locations);
    }
    for (const std::string more :
         {"", "use_prior_for_matching: false", "conf_loss_type: LOGISTIC",
          "ignore_difficult_gt: true conf_loss_type: LOGISTIC", "ignore_difficult_gt: true"}) {
      check("share_location: false mining_type: NONE " + more, of_classes);
    }
  }
  // With suppression, the host chooses.
  const auto host_part = [&](const std::string& settings) {
    LayerRun run(
        {.layer = of("MultiBoxLoss", text("multibox_loss_param { num_classes: 3 ", settings, " }")),
         .bottoms = {locations, scores, priors, boxes}});
    return dynamic_cast<TwoSidedLayer&>(run.layer()).capturable();
  };
  EXPECT_TRUE(host_part(""));
  EXPECT_FALSE(host_part("nms_param { nms_threshold: 0.3 }"));
  EXPECT_FALSE(host_part("} loss_param { weight_by_label_freqs: true "));
}

TEST_F(DeviceBoxes, ProposalsAreThoseOfTheHost) {
  const Input info = given({2, 3}, {90, 120, 1.5, 64, 100, 0.5});
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const char* more :
         {"", "pre_nms_topn: 40 post_nms_topn: 12", "pre_nms_topn: 0 post_nms_topn: 0",
          "nms_thresh: 0.2 min_size: 30", "min_size: 1000"}) {
      const std::string layer =
          of("Proposal", text("proposal_param { feat_stride: 16 scale: 1 scale: 3 ", more, " }"));
      for (const int tops : {1, 2}) {
        check_device({.layer = layer,
                      .bottoms = {labels({2, 12, 5, 7}, 3), uniform({2, 24, 5, 7}), info},
                      .tops = tops},
                     {0, 0}, dtype, 1, true, 3);
      }
    }
  }
}

TEST_F(DeviceBoxes, RegionsOfTheGreatestLossAreThoseOfTheHost) {
  std::vector<double> regions;
  for (const int64_t image : numbers(60, 3))
    regions.insert(regions.end(), {static_cast<double>(image), 0, 0, 1, 1});
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const char* keep : {"4", "1", "100"}) {
      Input losses = labels({60, 1}, 5);
      losses.values.resize(60);
      for (size_t i = 0; i < 60; ++i) losses.values[i] = static_cast<double>(i * 7 % 5);
      losses.values[11] = std::numeric_limits<double>::quiet_NaN();
      losses.classes = 0;
      check_device(
          {.layer =
               of("BoxAnnotatorOHEM", text("box_annotator_ohem_param { roi_per_img: ", keep, " }")),
           .bottoms = {given({60, 5}, regions), losses, labels({60, 1}, 4), uniform({60, 8})},
           .tops = 2},
          {0, 0}, dtype, 0, true, 4);
    }
  }
}

TEST_F(DeviceBoxes, GridDetectorsAgreeWithTheHost) {
  // Two of the boxes of image 0 have one place; the centre of one lies outside.
  const Input named = given({1, 1, 6, 8}, {0,  1, 0, 0.1,  0.1,  0.3, 0.4, 0,  //
                                           1,  2, 0, 0.5,  0.5,  0.9, 0.8, 0,  //
                                           0,  3, 0, 0.12, 0.12, 0.3, 0.4, 0,  //
                                           0,  2, 0, 0.6,  0.1,  1,   1,   0,  //
                                           1,  1, 0, 1.1,  0.1,  1.3, 0.4, 0,  //
                                           -1, 0, 0, 0,    0,    0,   0,   0});
  const Input centred = given({2, 10}, {1, 0.2, 0.25, 0.2, 0.3, 0, 0,    0,    0,   0,  //
                                        2, 0.7, 0.6,  0.4, 0.3, 0, 0.71, 0.62, 0.4, 0.3});
  const std::string biases = "biases: 0.8 biases: 1.1 biases: 2 biases: 1.5 biases: 1 biases: 3 ";
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const Input& truths : {named, centred}) {
      for (const char* more :
           {"", "bias_match: 0 rescore: 0", "softmax: 0 thresh: 0.1", "bias_match: 1 rescore: 1"}) {
        check_device({.layer = of("RegionLoss", text("region_loss_param { num: 3 num_class: 3 ",
                                                     biases, more, " }")),
                      .bottoms = {uniform({2, 24, 5, 4}, -2, 2), truths}},
                     {1e-6, 1e-5}, dtype, 0, true, 2);
      }
      check_device(
          {.layer = of("Yolov3", text("yolov3_param { num: 2 num_class: 3 mask: 2 mask: 0 ",
                                      "anchors_scale: 1 ", biases, " }")),
           .bottoms = {uniform({2, 16, 5, 4}, -2, 2), truths}},
          {1e-6, 1e-5}, dtype, 0, true, 2);
    }
    for (const char* least : {"0.05", "0.3", "0.99"}) {
      check_device({.layer = of("RegionDetectionOutput",
                                text("region_detection_output_param { num_box: 3 num_classes: 3 ",
                                     "confidence_threshold: ", least, " ", biases, " }")),
                    .bottoms = {uniform({2, 24, 5, 4}, -2, 2)}},
                   {1e-6, 1e-6}, dtype, 1, true, 1);
      check_device(
          {.layer = of("Yolov3DetectionOutput",
                       text("yolov3_detection_output_param { num_box: 2 num_classes: 3 ",
                            "mask_group_num: 2 mask: 0 mask: 1 mask: 1 mask: 2 anchors_scale: 1 "
                            "anchors_scale: 2 nms_threshold: 0.3 confidence_threshold: ",
                            least, " ", biases, " }")),
           .bottoms = {uniform({2, 16, 5, 4}, -2, 2), uniform({2, 16, 3, 2}, -2, 2)}},
          {1e-6, 1e-6}, dtype, 1, true, 2);
    }
  }
}

TEST_F(DeviceBoxes, RowsOfIndicesAndWindowsAgreeWithTheHost) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto check = [&](const LayerCase& c, int there) {
      check_device(c, {1e-6, 1e-5}, dtype, 0, true, there);
    };
    for (const char* bias : {"", "bias_term: false"}) {
      check({.layer = of("Embed", text("embed_param { input_dim: 70 num_output: 5 ", bias,
                                       " weight_filler { type: 'gaussian' } }")),
             .bottoms = {labels({3, 41}, 70)}},
            1);
    }
    check({.layer = of("Embed", "embed_param { input_dim: 3 num_output: 2 }"),
           .bottoms = {labels({5003}, 3)}},
          1);
    check({.layer = of("BatchReindex", ""), .bottoms = {uniform({4, 3, 2}), labels({9}, 4)}}, 2);
    for (const char* windows :
         {"kernel_size: 3 pad: 1", "kernel_size: 2 kernel_size: 3 stride: 2 dilation: 2 pad: 2",
          "kernel_size: 1"}) {
      const std::string layer = of("Im2col", text("convolution_param { ", windows, " }"));
      check({.layer = layer, .bottoms = {uniform({2, 3, 7, 8})}}, 1);
    }
    check({.layer = of("Im2col", "convolution_param { kernel_size: 2 stride: 2 pad: 1 }"),
           .bottoms = {uniform({2, 2, 4, 5, 3})}},
          1);
    check_device(
        {.layer = of("CenterLoss",
                     "center_loss_param { num_output: 4 center_filler { type: 'xavier' } }"),
         .bottoms = {uniform({30, 7}), labels({30}, 4)}},
        {1e-6, 1e-5}, dtype, 0, true, 2);
  }
}

// The run of the device reports what the host would have refused.
TEST_F(DeviceBoxes, WrongValuesAreToldBehindThePass) {
  const auto expect_told = [](const std::string& net_text, const std::string& blob, size_t at,
                              float value, const std::vector<std::string>& parts) {
    SCOPED_TRACE(blob);
    FakeContext fake;
    Net net(net_param(net_text), fake.context());
    fill_inputs(net);
    for (const char* name : {"priors", "truths", "index"}) {
      if (std::ranges::count(net.inputs(), name) == 0) continue;
      Tensor& data = net.input(name);
      float* const to = data.overwrite<float>();
      std::fill_n(to, data.count(), 0.0F);
      if (std::string_view(name) == "priors") {
        std::ranges::copy(std::array{0.1F, 0.1F, 0.4F, 0.4F, 0.5F, 0.5F, 0.9F, 0.9F}, to);
        std::fill_n(to + 8, 8, 0.1F);
      } else if (std::string_view(name) == "truths") {
        std::ranges::copy(std::array{1.0F, 2.0F, 0.0F, 0.1F, 0.1F, 0.4F, 0.4F, 0.0F}, to);
      }
    }
    net.forward();
    net.input(blob).change<float>()[at] = value;
    try {
      net.forward();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    }
  };
  const std::string loss =
      "layer { name: 'in' type: 'Input' top: 'loc' top: 'conf' top: 'priors' top: 'truths' "
      "input_param { shape { dim: 2 dim: 8 } shape { dim: 2 dim: 6 } shape { dim: 1 dim: 2 dim: 8 "
      "} shape { dim: 1 dim: 1 dim: 1 dim: 8 } } } layer { name: 'loss' type: 'MultiBoxLoss' "
      "bottom: 'loc' bottom: 'conf' bottom: 'priors' bottom: 'truths' top: 'loss' "
      "multibox_loss_param { num_classes: 3 code_type: CENTER_SIZE } }";
  expect_told(loss, "truths", 1, 5, {"'loss' (MultiBoxLoss)", "row 0 of 'truths'", "label 5"});
  expect_told(loss, "truths", 0, 2, {"row 0 of 'truths' is of image 2", "0 to 1"});
  expect_told(loss, "truths", 5, 0.05F, {"row 0 of 'truths'", "xmax or ymax is below"});
  expect_told(loss, "priors", 6, 0.4F, {"prior box 1 of 'priors'", "sides have to be above 0"});
  expect_told(loss, "priors", 9, -1, {"prior box 0 of 'priors' has the variance -1"});
  const std::string embed =
      "layer { name: 'in' type: 'Input' top: 'index' input_param { shape { dim: 2 dim: 3 } } } "
      "layer { name: 'words' type: 'Embed' bottom: 'index' top: 'y' embed_param { input_dim: 7 "
      "num_output: 2 } }";
  expect_told(embed, "index", 4, 7, {"'words' (Embed)", "index 7 at position 4", "[0, 7)"});
  expect_told(embed, "index", 2, 1.5F, {"index 1.5 at position 2 of 'index' (2x3)"});
}

}  // namespace
}  // namespace crema::test
