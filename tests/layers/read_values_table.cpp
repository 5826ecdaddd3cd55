#include <cmath>
#include <string_view>

#include "layers/read_values.hpp"
#include "support/temp_folder.hpp"

namespace crema::test {
namespace {

const double kNaN = std::nan("");

/// The same with one value replaced.
Input with(Input input, size_t at, double value) {
  input.values[at] = value;
  return input;
}

Input ones(const Shape& shape) {
  return given(shape, std::vector<double>(static_cast<size_t>(shape.count()), 1));
}

/// Numbers that are not in [0, count), or no whole ones, in the last value.
std::vector<BadBottom> bad_indices(size_t bottom, const Input& good, int64_t count) {
  std::vector<BadBottom> bad;
  const size_t last = good.values.size() - 1;
  for (const auto& [value, part] : {std::pair{static_cast<double>(count), text(count)},
                                    {-1.0, std::string("-1")},
                                    {0.5, "0.5"},
                                    {kNaN, "nan"}}) {
    bad.push_back({bottom, with(good, last, value), part});
  }
  return bad;
}

std::vector<BadBottom> joined(std::vector<BadBottom> all, const std::vector<BadBottom>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Scores along axis 1 and a label for each position.
void add_position_labels(ReadTable& table) {
  const Input scores = uniform({2, 3, 4, 5}), labels = whole({2, 1, 4, 5}, 3);
  const std::vector<BadBottom> bad =
      joined(bad_indices(1, labels, 3), {{1, whole({2, 1, 4, 4}, 3), "2x1x4x4"},
                                         {1, whole({2, 1, 5, 4}, 3), "2x5x4"},
                                         {1, whole({2}, 2), "2 labels"}});
  for (const char* type :
       {"Accuracy", "ConfusionMatrix", "SoftmaxWithLoss", "SoftmaxWithLossOHEM", "FocalLoss"}) {
    table.emplace(type, Reads{{.layer = layer(type), .bottoms = {scores, labels}}, bad, {0}});
  }
  table.emplace("InfogainLoss", Reads{{.layer = layer("InfogainLoss"),
                                       .bottoms = {scores, labels, uniform({1, 1, 3, 3}, 0, 1)}},
                                      joined(bad, {{2, uniform({1, 1, 3, 4}, 0, 1), "3x3"}}),
                                      {2}});
}

/// A label for each item.
void add_item_labels(ReadTable& table) {
  const Input items = uniform({4, 3}, 0.1, 1), labels = whole({4}, 3);
  const std::vector<BadBottom> bad =
      joined(bad_indices(1, labels, 3), {{1, whole({5}, 3), "5 labels"}});
  for (const char* type : {"HingeLoss", "MultinomialLogisticLoss"})
    table.emplace(type, Reads{{.layer = layer(type), .bottoms = {items, labels}}, bad});
  table.emplace("CenterLoss",
                Reads{{.layer = layer("CenterLoss", "center_loss_param { num_output: 3 }"),
                       .bottoms = {items, labels}},
                      bad});
  table.emplace("MarginInnerProduct",
                Reads{{.layer = layer("MarginInnerProduct",
                                      "margin_inner_product_param { num_output: 3 weight_filler { "
                                      "type: 'xavier' } }"),
                       .bottoms = {items, labels}},
                      bad});
  table.emplace(
      "ContrastiveLoss",
      Reads{{.layer = layer("ContrastiveLoss"), .bottoms = {items, uniform({4, 3}), whole({4}, 2)}},
            joined(bad_indices(2, whole({4}, 2), 2), {{2, whole({5}, 2), "5 labels"},
                                                      {1, uniform({4, 4}), "4x4"},
                                                      {1, uniform({5, 3}), "5x3"}})});
  for (const auto& [type, settings] :
       {std::pair{"CenterLoss", "center_loss_param { num_output: 3 axis: 2 }"},
        {"MarginInnerProduct",
         "margin_inner_product_param { num_output: 3 axis: 2 weight_filler { type: 'xavier' } "
         "}"}}) {
    table.emplace(type, Reads{{.layer = layer(type, settings),
                               .bottoms = {uniform({2, 5, 4}, 0.1, 1), whole({2, 5}, 3)}},
                              {{1, whole({5, 2}, 3), "2x5 and 5x2"}}});
  }
  table.emplace("BoxAnnotatorOHEM",
                Reads{{.layer = layer("BoxAnnotatorOHEM",
                                      "box_annotator_ohem_param { roi_per_img: 2 } top: 'a' top: "
                                      "'b'"),
                       .bottoms = {given({2, 5}, {0, 0, 0, 1, 1, 0, 0, 0, 1, 1}), uniform({2}),
                                   whole({2}, 2), uniform({2, 3})}},
                      {{0, given({2, 5}, {0, 0, 0, 1, 1, 0.5, 0, 0, 1, 1}), "image 0.5"},
                       {0, given({2, 5}, {0, 0, 0, 1, 1, -1, 0, 0, 1, 1}), "image -1"},
                       {0, given({2, 5}, {0, 0, 0, 1, 1, kNaN, 0, 0, 1, 1}), "image nan"},
                       {1, uniform({3}), "3"},
                       {2, whole({3}, 2), "3"},
                       {2, given({2}, {0, 0.5}), "label 0.5"},
                       {2, given({2}, {0, kNaN}), "label nan"},
                       {3, uniform({3, 3}), "3x3"}}});
  table.emplace("BoxAnnotatorOHEM",
                Reads{{.layer = layer("BoxAnnotatorOHEM",
                                      "box_annotator_ohem_param { roi_per_img: 2 } top: 'a' top: "
                                      "'b'"),
                       .bottoms = {whole({2, 5, 3, 2}, 1), uniform({2, 1, 3, 2}),
                                   whole({2, 1, 3, 2}, 2), uniform({2, 4, 3, 2})}},
                      {{1, uniform({2, 1, 2, 3}), "2x3x2 and 2x2x3"},
                       {2, whole({2, 1, 2, 3}, 2), "2x3x2 and 2x2x3"}},
                      {0, 3}});
}

/// Values that are compared one by one.
void add_compared(ReadTable& table) {
  const Input a = uniform({2, 3, 4, 5}), b = uniform({2, 3, 4, 5}, 0, 1);
  const auto bad_of = [](size_t bottom) {
    return std::vector<BadBottom>{{bottom, uniform({2, 3, 5, 4}), "2x3x5x4"},
                                  {bottom, uniform({2, 3, 4, 4}), "2x3x4x4"}};
  };
  const std::vector<BadBottom> bad = joined(bad_of(1), {{1, uniform({3, 2, 4, 5}), "3x2x4x5"}});
  for (const char* type : {"EuclideanLoss", "L1Loss", "SmoothL1Loss", "SmoothL1LossOHEM",
                           "SigmoidCrossEntropyLoss", "DiceLoss", "DiceCoefLoss"}) {
    table.emplace(type, Reads{{.layer = layer(type), .bottoms = {a, b}}, bad, {1}});
  }
  table.emplace("SmoothL1Loss", Reads{{.layer = layer("SmoothL1Loss"), .bottoms = {a, b, b, b}},
                                      joined(bad_of(2), bad_of(3)),
                                      {2, 3}});
  table.emplace("Arithmetic", Reads{{.layer = layer("Arithmetic"), .bottoms = {a, b}}, bad});
  table.emplace(
      "Where",
      Reads{{.layer = layer("Where"), .bottoms = {a, b, b}}, joined(bad_of(0), bad_of(2)), {0}});
  // Other operators have their own tests of what is wrong, in tests/onnx.
  const std::string sine =
      "onnx_operator_param { op_type: 'Sin' bottom_type: FLOAT top_type: FLOAT }";
  table.emplace("OnnxOperator",
                Reads{{.layer = layer("OnnxOperator", sine), .bottoms = {a}}, {}, {0}});
  table.emplace("TripletLoss", Reads{{.layer = layer("TripletLoss"), .bottoms = {a, b, a}},
                                     joined(bad, bad_of(2))});
}

/// Items and rows by index, and parts of tensors.
void add_indices(ReadTable& table) {
  const Input items = uniform({3, 2}), indices = whole({4}, 3);
  table.emplace("BatchReindex",
                Reads{{.layer = layer("BatchReindex"), .bottoms = {items, indices}},
                      joined(bad_indices(1, indices, 3), {{1, whole({2, 2}, 3), "one axis"}})});
  table.emplace("Embed",
                Reads{{.layer = layer("Embed", "embed_param { input_dim: 3 num_output: 2 }"),
                       .bottoms = {indices}},
                      bad_indices(0, indices, 3)});
  table.emplace("Gather", Reads{{.layer = layer("Gather"), .bottoms = {items, indices}},
                                {{1, with(indices, 3, 3), "index 3"},
                                 {1, with(indices, 3, -4), "index -4"},
                                 {1, with(indices, 3, 0.5), "index 0.5"},
                                 {1, with(indices, 3, kNaN), "index nan"}}});
  table.emplace(
      "GridSample",
      Reads{
          {.layer = layer("GridSample"), .bottoms = {uniform({2, 3, 4, 5}), uniform({2, 3, 2, 2})}},
          {{1, uniform({2, 3, 2, 3}), "2x3x2x3"}, {1, uniform({1, 3, 2, 2}), "1x3x2x2"}}});
  table.emplace(
      "Filter",
      Reads{{.layer = layer("Filter"), .bottoms = {items, given({3}, {1, 0, 1})}},
            {{1, given({3}, {1, kNaN, 1}), "NaN"}, {1, ones({4}), "4"}, {1, ones({3, 2}), "3x2"}}});
  table.emplace("Crop", Reads{{.layer = layer("Crop"),
                               .bottoms = {uniform({2, 3, 5, 6}), uniform({2, 3, 4, 4})}},
                              {{1, uniform({2, 3, 6, 4}), "2x3x6x4"}, {1, uniform({5}), "fewer"}},
                              {1}});
  table.emplace("Upsample",
                Reads{{.layer = layer("Upsample"),
                       .bottoms = {uniform({1, 1, 2, 2}), given({1, 1, 2, 2}, {0, 3, 9, 15})}},
                      joined(bad_indices(1, given({1, 1, 2, 2}, {0, 3, 9, 15}), 16),
                             {{1, whole({1, 1, 2, 3}, 3), "1x1x2x3"}})});
  table.emplace("Unpooling",
                Reads{{.layer = layer("Unpooling", "unpooling_param { kernel_size: 2 stride: 2 }"),
                       .bottoms = {uniform({1, 1, 2, 2}), given({1, 1, 2, 2}, {0, 3, 9, 15})}},
                      joined(bad_indices(1, given({1, 1, 2, 2}, {0, 3, 9, 15}), 16),
                             {{1, whole({1, 1, 2, 3}, 3), "1x1x2x3"}})});
}

/// Rows of a file of data and labels.
void add_rows(ReadTable& table) {
  static const TempFolder folder;
  const std::string settings =
      text("hdf5_output_param { file_name: '", folder.path("rows.h5"), "' }");
  table.emplace("HDF5Output", Reads{{.layer = layer("HDF5Output", settings),
                                     .bottoms = {uniform({3, 2}), whole({3}, 3)},
                                     .tops = 0},
                                    {{1, whole({4}, 3), "as many rows"}},
                                    {0}});
}

/// Indicators, lengths and labels of sequences.
void add_sequences(ReadTable& table) {
  const auto bad_indicators = [](size_t bottom, const Input& good) {
    std::vector<BadBottom> bad = {{bottom, ones({4, 2}), "4x2"}, {bottom, ones({2, 3}), "2x3"}};
    for (const auto& [value, part] :
         {std::pair{1.5, "indicator 1.5"}, {-1.0, "indicator -1"}, {kNaN, "indicator nan"}})
      bad.push_back({bottom, with(good, good.values.size() - 1, value), part});
    return bad;
  };
  const Input x = uniform({3, 2, 4}), cont = given({3, 2}, {0, 0, 1, 1, 1, 0});
  for (const char* type : {"LSTM", "GRU", "RNN"}) {
    const std::string fillers = "weight_filler { type: 'xavier' }";
    table.emplace(
        type, Reads{{.layer = layer(type, text("recurrent_param { num_output: 3 ", fillers, " }")),
                     .bottoms = {x, cont}},
                    bad_indicators(1, cont)});
    table.emplace(
        type, Reads{{.layer = layer(type, text("recurrent_param { num_output: 3 ", fillers, " }")),
                     .bottoms = {x, cont, uniform({2, 5})}},
                    joined(bad_indicators(1, cont), {{2, uniform({3, 5}), "3x5"}})});
  }
  table.emplace("LSTM", Reads{{.layer = layer("LSTM",
                                              "recurrent_param { num_output: 3 expose_hidden: true "
                                              "} top: 'h' top: 'a' top: 'b'"),
                               .bottoms = {x, cont, uniform({1, 2, 3}), uniform({1, 2, 3})}},
                              joined(bad_indicators(1, cont), {{2, uniform({1, 2, 4}), "1x2x4"},
                                                               {3, uniform({2, 1, 3}), "2x1x3"}})});
  const Input step = given({1, 2}, {0, 1});
  table.emplace("LSTMUnit", Reads{{.layer = layer("LSTMUnit", "top: 'c' top: 'h'"),
                                   .bottoms = {uniform({1, 2, 3}), uniform({1, 2, 12}), step}},
                                  {{1, uniform({1, 2, 9}), "1x2x9"},
                                   {2, ones({1, 3}), "1x3"},
                                   {2, given({1, 2}, {0, 2}), "indicator 2"},
                                   {2, given({1, 2}, {0, kNaN}), "indicator nan"}}});
  table.emplace(
      "ContinuationIndicator",
      Reads{{.layer = layer("ContinuationIndicator",
                            "continuation_indicator_param { time_step: 3 batch_size: 2 }"),
             .bottoms = {x}},
            {{0, uniform({2, 3, 4}), "2x3x4"}},
            {0}});
  const Input labels = whole({3, 2}, 4);
  const std::vector<BadBottom> bad_labels =
      joined(bad_indices(1, labels, 4), {{1, whole({2, 3}, 4), "2x3"}});
  const std::vector<BadBottom> whole_indicators = {{2, with(cont, 2, 0.5), "indicator 0.5"}};
  table.emplace("CRFLoss",
                Reads{{.layer = layer("CRFLoss"), .bottoms = {x, labels, cont}},
                      joined(joined(bad_labels, bad_indicators(2, cont)), whole_indicators)});
  table.emplace("CRFDecoder",
                Reads{{.layer = layer("CRFDecoder"), .bottoms = {x, cont}},
                      joined(bad_indicators(1, cont), {{1, with(cont, 2, 0.5), "indicator 0.5"}}),
                      {0}});
  // Class 3 or 0 is the blank; -1 ends a label.
  const Input steps = uniform({5, 2, 4});
  for (const char* type : {"CTCLoss", "CtcLoss", "WarpCTCLoss"}) {
    const std::string text = layer(type, "ctc_loss_param { blank_index: 3 }");
    const Input rows = given({2, 2}, {0, 1, 2, -1}), columns = given({2, 2}, {0, 2, 1, -1});
    const Input first = given({5, 2}, {0, 0, 1, 1, 1, 1, 1, 1, 1, 0}), lengths = given({2}, {5, 4});
    table.emplace(type, Reads{{.layer = text, .bottoms = {steps, rows}},
                              {{1, with(rows, 0, 4), "label 4"},
                               {1, with(rows, 0, 0.5), "label 0.5"},
                               {1, with(rows, 0, kNaN), "label nan"},
                               {1, whole({3, 2}, 2), "3x2"}}});
    table.emplace(type, Reads{{.layer = text, .bottoms = {steps, first, columns}},
                              {{1, with(first, 3, 2), "indicator 2"},
                               {1, with(first, 3, kNaN), "indicator nan"},
                               {1, ones({4, 2}), "4x2"},
                               {2, with(columns, 0, 4), "label 4"},
                               {2, with(columns, 0, 3), "blank"},
                               {2, whole({2, 3}, 2), "2x3"}}});
    table.emplace(type,
                  Reads{{.layer = text, .bottoms = {steps, lengths, given({2}, {2, 1}), columns}},
                        {{1, given({2}, {6, 4}), "length 6"},
                         {1, given({2}, {4.5, 4}), "length 4.5"},
                         {1, given({2}, {kNaN, 4}), "length nan"},
                         {1, given({3}, {4, 4, 4}), "lengths"},
                         {2, given({2}, {3, 1}), "length 3"},
                         {2, given({2}, {2, 2}), "label -1"},
                         {2, given({1}, {2}), "lengths"},
                         {3, with(columns, 0, 4), "label 4"}}});
  }
  const Input first = given({5, 2}, {0, 0, 1, 1, 1, 1, 1, 1, 1, 0});
  table.emplace("CTCGreedyDecoder", Reads{{.layer = layer("CTCGreedyDecoder", "top: 'a' top: 'b'"),
                                           .bottoms = {steps, first, given({2, 2}, {1, 2, 1, -1})}},
                                          {{1, with(first, 3, 2), "indicator 2"},
                                           {1, with(first, 3, kNaN), "indicator nan"},
                                           {1, ones({4, 2}), "4x2"},
                                           {2, given({2, 2}, {4, 2, 1, -1}), "label 4"},
                                           {2, given({2, 2}, {0.5, 2, 1, -1}), "label 0.5"},
                                           {2, whole({2, 3}, 2), "2x3"}},
                                          {0}});
  table.emplace("Attention", Reads{{.layer = layer("Attention"),
                                    .bottoms = {uniform({2, 3, 4}), uniform({2, 5, 4}),
                                                uniform({2, 5, 4}), given({2}, {5, 2})}},
                                   {{1, uniform({2, 5, 3}), "2x5x3"},
                                    {1, uniform({3, 5, 4}), "3x5x4"},
                                    {2, uniform({2, 4, 4}), "2x4x4"},
                                    {3, given({2}, {6, 2}), "6"},
                                    {3, given({2}, {-1, 2}), "-1"},
                                    {3, given({2}, {1.5, 2}), "1.5"},
                                    {3, given({2}, {kNaN, 2}), "nan"},
                                    {3, ones({3}), "3"},
                                    {3, ones({2, 4}), "2x4"}}});
}

/// Boxes, prior boxes and regions.
void add_boxes(ReadTable& table) {
  const Input regions = given({2, 5}, {0, 0, 0, 3, 3, 1, 0, 0, 2, 2});
  const std::vector<BadBottom> bad_regions = {
      {1, with(regions, 5, 2), "image 2"},           {1, with(regions, 5, -1), "image -1"},
      {1, with(regions, 5, 0.5), "image 0.5"},       {1, with(regions, 5, kNaN), "image nan"},
      {1, with(regions, 8, kNaN), "coordinate nan"}, {1, uniform({2, 4}, 0, 1), "2x4"}};
  for (const auto& [type, settings] :
       {std::pair{"ROIPooling", "roi_pooling_param { pooled_h: 2 pooled_w: 2 }"},
        {"ROIAlign", "roi_align_param { pooled_h: 2 pooled_w: 2 }"},
        {"PSROIPooling", "psroi_pooling_param { spatial_scale: 1 output_dim: 2 group_size: 2 }"},
        {"PSROIAlign", "psroi_align_param { output_dim: 2 group_size: 2 }"}}) {
    table.emplace(
        type, Reads{{.layer = layer(type, settings), .bottoms = {uniform({2, 8, 4, 4}), regions}},
                    bad_regions});
  }
  const Input images = given({2, 3}, {30, 45, 1, 30, 40, 1});
  table.emplace("Proposal",
                Reads{{.layer = layer("Proposal", "proposal_param { ratio: 1 scale: 1 }"),
                       .bottoms = {uniform({2, 2, 2, 3}), uniform({2, 4, 2, 3}), images},
                       .phase = Phase::test},
                      {{1, uniform({2, 4, 3, 2}), "2x4x3x2"},
                       {1, uniform({2, 8, 2, 3}), "2x8x2x3"},
                       {2, with(images, 3, 0), "image 1"},
                       {2, with(images, 2, kNaN), "image 0"},
                       {2, ones({3, 3}), "3x3"},
                       {2, ones({2, 2}), "2x2"}},
                      {0}});
  // Two prior boxes and three classes, of which 0 is the background.
  const Input priors = given({1, 2, 8}, {0.1, 0.1, 0.3, 0.3, 0.6, 0.6, 0.8, 0.8,  //
                                         0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.2, 0.2});
  const Input truths = given({1, 1, 2, 8}, {0, 1, 0, 0.1, 0.1, 0.3, 0.3, 0,  //
                                            1, 2, 0, 0.6, 0.6, 0.8, 0.8, 0});
  const std::vector<BadBottom> bad_truths = {{3, with(truths, 8, 2), "image 2"},
                                             {3, with(truths, 8, 0.5), "image 0.5"},
                                             {3, with(truths, 8, kNaN), "image nan"},
                                             {3, with(truths, 9, 3), "label 3"},
                                             {3, with(truths, 9, 0), "label 0"},
                                             {3, with(truths, 9, -1), "label -1"},
                                             {3, with(truths, 9, 1.5), "label 1.5"},
                                             {3, with(truths, 9, kNaN), "label nan"},
                                             {3, with(truths, 11, kNaN), "coordinate nan"},
                                             {3, with(truths, 13, 0.2), "xmax"},
                                             {3, uniform({1, 1, 2, 7}, 0, 1), "1x1x2x7"}};
  const std::vector<BadBottom> bad_priors = {{2, with(priors, 2, kNaN), "prior box 0"},
                                             {2, with(priors, 8, 0), "variance 0"},
                                             {2, uniform({1, 2, 12}, 0.1, 1), "priors"},
                                             {2, uniform({1, 1, 8}, 0.1, 1), "1x1x8"},
                                             {2, uniform({1, 2, 6}, 0.1, 1), "1x2x6"}};
  table.emplace("MultiBoxLoss",
                Reads{{.layer = layer("MultiBoxLoss", "multibox_loss_param { num_classes: 3 }"),
                       .bottoms = {uniform({2, 8}), uniform({2, 6}), priors, truths}},
                      joined(joined(bad_priors, bad_truths),
                             {{0, uniform({2, 12}), "2x12"}, {1, uniform({2, 8}), "2x8"}})});
  table.emplace("DetectionOutput",
                Reads{{.layer = layer("DetectionOutput",
                                      "detection_output_param { num_classes: 3 code_type: "
                                      "CENTER_SIZE }"),
                       .bottoms = {uniform({2, 8}), uniform({2, 6}, 0, 1), priors},
                       .phase = Phase::test},
                      {{0, uniform({2, 12}), "(2x12) must have 4 values of locations"},
                       {0, uniform({3, 8}), "3x8"},
                       {1, uniform({2, 8}, 0, 1), "(2x8) must have 3 scores"},
                       {1, with(whole({2, 6}, 1), 3, kNaN), "NaN"},
                       {2, with(priors, 2, kNaN), "prior box"},
                       {2, uniform({1, 2, 12}, 0.1, 1), "each of the 3 priors"},
                       {2, uniform({1, 1, 8}, 0.1, 1), "1x1x8"},
                       {2, uniform({3, 2, 8}, 0.1, 1), "3x2x8"}}});
  const Input found = given({1, 1, 1, 7}, {1, 2, 0.5, 0.6, 0.6, 0.8, 0.8});
  table.emplace(
      "DetectionEvaluate",
      Reads{{.layer = layer("DetectionEvaluate", "detection_evaluate_param { num_classes: 3 }"),
             .bottoms = {found, truths},
             .phase = Phase::test},
            {{0, with(found, 0, 0.5), "image 0.5"},
             {0, with(found, 1, 3), "label 3"},
             {0, with(found, 1, 0), "background"},
             {0, with(found, 1, 1.5), "label 1.5"},
             {0, with(found, 2, kNaN), "NaN"},
             {0, with(found, 3, kNaN), "coordinate nan"},
             {0, uniform({1, 1, 2, 5}, 0, 1), "1x1x2x5"},
             {1, with(truths, 8, 0.5), "image 0.5"},
             {1, with(truths, 9, 3), "label 3"},
             {1, with(truths, 9, 0.5), "label 0.5"},
             {1, with(truths, 11, kNaN), "coordinate nan"},
             {1, with(truths, 13, 0.2), "xmax"},
             {1, uniform({1, 1, 2, 7}, 0, 1), "1x1x2x7"}}});
  // Rows of class, x, y, width, height.
  const Input boxes = given({2, 5}, {1, 0.8, 0.4, 0.2, 0.9, 0, 0.3, 0.3, 0.5, 0.5});
  const std::vector<BadBottom> bad_boxes = {
      {1, with(boxes, 5, 2), "label 2"},      {1, with(boxes, 5, -1), "label -1"},
      {1, with(boxes, 5, 0.5), "label 0.5"},  {1, with(boxes, 5, kNaN), "label nan"},
      {1, with(boxes, 6, kNaN), "no number"}, {1, with(boxes, 8, -0.5), "wide"},
      {1, uniform({2, 4}, 0, 1), "2x4"},      {1, uniform({3, 5}, 0, 1), "3x5"},
      {1, with(truths, 8, 2), "image 2"},     {1, with(truths, 9, 3), "label 3"}};
  table.emplace("RegionLoss",
                Reads{{.layer = layer("RegionLoss",
                                      "region_loss_param { num_class: 2 num: 2 biases: 1 biases: 1 "
                                      "biases: 0.5 biases: 1.5 }"),
                       .bottoms = {uniform({2, 14, 3, 2}), boxes}},
                      joined(bad_boxes, {{0, uniform({2, 12, 3, 2}), "2x12x3x2"}})});
  table.emplace(
      "Yolov3",
      Reads{{.layer = layer("Yolov3",
                            "yolov3_param { num_class: 2 num: 2 anchors_scale: 8 biases: 8 "
                            "biases: 8 biases: 40 biases: 40 mask: 0 mask: 1 }"),
             .bottoms = {uniform({2, 14, 3, 2}), boxes}},
            joined(bad_boxes, {{0, uniform({2, 12, 3, 2}), "2x12x3x2"}})});
  table.emplace("RegionDetectionOutput",
                Reads{{.layer = layer("RegionDetectionOutput",
                                      "region_detection_output_param { num_classes: 2 num_box: 2 "
                                      "biases: 1 biases: 1 biases: 0.5 biases: 1.5 }"),
                       .bottoms = {uniform({1, 14, 3, 2})},
                       .phase = Phase::test},
                      {{0, uniform({1, 12, 3, 2}), "1x12x3x2"}}});
  table.emplace(
      "Yolov3DetectionOutput",
      Reads{{.layer = layer("Yolov3DetectionOutput",
                            "yolov3_detection_output_param { num_classes: 2 num_box: 1 "
                            "mask_group_num: 2 anchors_scale: 16 anchors_scale: 8 mask: 1 "
                            "mask: 0 biases: 8 biases: 8 biases: 40 biases: 40 }"),
             .bottoms = {uniform({1, 7, 2, 2}), uniform({1, 7, 4, 4})},
             .phase = Phase::test},
            {{0, uniform({1, 14, 2, 2}), "1x14x2x2"},
             {1, uniform({1, 8, 4, 4}), "1x8x4x4"},
             {1, uniform({2, 7, 4, 4}), "2"}}});
  for (const auto& [type, settings] :
       {std::pair{"PriorBox", "prior_box_param { min_size: 4 }"},
        {"PriorBoxClustered", "prior_box_param { width: 4 height: 4 }"}}) {
    table.emplace(type, Reads{{.layer = layer(type, settings),
                               .bottoms = {uniform({1, 2, 3, 4}), uniform({1, 3, 30, 40})}},
                              {{0, uniform({2, 3}), "2x3"}, {1, uniform({3, 30}), "3x30"}},
                              {0, 1}});
  }
}

/// Sizes of other bottoms.
void add_sizes(ReadTable& table) {
  const Input x = uniform({2, 3, 4, 5});
  const std::vector<BadBottom> another = {{1, uniform({2, 3, 5, 4}), "2x3x5x4"}};
  table.emplace("Eltwise", Reads{{.layer = layer("Eltwise"), .bottoms = {x, x}}, another});
  table.emplace("Concat", Reads{{.layer = layer("Concat"), .bottoms = {x, x}}, another});
  table.emplace("Axpy",
                Reads{{.layer = layer("Axpy"), .bottoms = {uniform({2, 3}), x, x}},
                      {{0, uniform({3, 2}), "3x2"}, {2, uniform({2, 3, 5, 4}), "2x3x5x4"}}});
  for (const char* type : {"Scale", "Bias"}) {
    table.emplace(type, Reads{{.layer = layer(type), .bottoms = {x, uniform({3})}},
                              {{1, uniform({4}), "4"}, {1, uniform({3, 5}), "3x5"}}});
  }
  table.emplace(
      "MatMul",
      Reads{{.layer = layer("MatMul"), .bottoms = {uniform({2, 3, 4}), uniform({2, 4, 5})}},
            {{1, uniform({2, 5, 4}), "2x5x4"}, {1, uniform({3, 4, 5}), "3x4x5"}}});
  table.emplace("Resize", Reads{{.layer = layer("Resize"), .bottoms = {x, uniform({6, 7})}},
                                {{1, uniform({6}), "height and width"}},
                                {1}});
  table.emplace("SpatialTransformer",
                Reads{{.layer = layer("SpatialTransformer"), .bottoms = {x, uniform({2, 6})}},
                      {{1, uniform({2, 5}), "2x5"}, {1, uniform({3, 6}), "3x6"}}});
  table.emplace("DeformableConvolution",
                Reads{{.layer = layer("DeformableConvolution",
                                      "deformable_convolution_param { num_output: 2 kernel_size: 2 "
                                      "}"),
                       .bottoms = {x, uniform({2, 8, 3, 4}), uniform({2, 4, 3, 4})}},
                      {{1, uniform({2, 8, 4, 3}), "2x8x4x3"},
                       {1, uniform({2, 4, 3, 4}), "2x4x3x4"},
                       {2, uniform({2, 4, 4, 3}), "2x4x4x3"},
                       {2, uniform({1, 4, 3, 4}), "1x4x3x4"}}});
  table.emplace(
      "MultiStageMeanfield",
      Reads{{.layer = layer("MultiStageMeanfield",
                            "multi_stage_meanfield_param { num_iterations: 1 theta_alpha: 3 "
                            "theta_beta: 40 theta_gamma: 1.5 }"),
             .bottoms = {x, x, uniform({2, 3, 4, 5}, 0, 255)}},
            {{1, uniform({2, 3, 5, 4}), "2x3x5x4"},
             {2, uniform({2, 3, 5, 4}), "2x3x5x4"},
             {2, uniform({2, 1, 4, 5}), "2x1x4x5"},
             {2, with(ones({2, 3, 4, 5}), 7, kNaN), "colour"}}});
  // Several bottoms with one set of weights.
  const Input volume = uniform({2, 3, 4, 5, 5});
  for (const auto& [type, settings] :
       {std::pair{"Convolution", "convolution_param { num_output: 3 kernel_size: 2 }"},
        {"ConvolutionDepthwise", "convolution_param { num_output: 3 kernel_size: 2 }"},
        {"DepthwiseConvolution", "convolution_param { num_output: 3 kernel_size: 2 }"},
        {"Deconvolution", "convolution_param { num_output: 3 kernel_size: 2 }"},
        {"Convolution3D",
         "convolution3d_param { num_output: 3 kernel_size: 2 kernel_depth: 2 }"}}) {
    const bool is_volume = std::string_view(type) == "Convolution3D";
    const Input& good = is_volume ? volume : x;
    const Shape other = is_volume ? Shape{2, 3, 5, 4, 5} : Shape{2, 3, 5, 4};
    table.emplace(type, Reads{{.layer = layer(type, settings), .bottoms = {good, good}, .tops = 2},
                              {{1, uniform(other), other.str()}}});
  }
}

}  // namespace

ReadTable read_values_table() {
  ReadTable table;
  add_position_labels(table);
  add_item_labels(table);
  add_compared(table);
  add_indices(table);
  add_rows(table);
  add_sequences(table);
  add_boxes(table);
  add_sizes(table);
  return table;
}

}  // namespace crema::test
