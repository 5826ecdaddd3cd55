// Layers that decode boxes and choose among them, by NonMaxSuppression.
#include <cmath>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

constexpr double kNever = -3e38;   // the score of a box that is no candidate
constexpr double kLowest = -1e38;  // below the scores of all candidates

/// What is chosen from, of one image.
struct Candidates {
  std::string boxes;   // (1, P, 4): edges; or (K, P, 4): for each class
  std::string scores;  // (1, K, P); or (K, 1, P)
  bool boxes_of_class = false;
  bool may_be_turned = false;  // an upper edge may be below the lower one
};

struct Choice {
  double least = kLowest;   // scores have to be above it
  double threshold = 0.45;  // overlap
  int64_t most_of_class = 0;
  int64_t most = -1;  // of an image; -1: all
  int64_t first_label = 0;
};

/// The boxes that are kept of image n: rows (D, 7) of image, label, score and edges, by label and
/// falling score.
std::string chosen(GraphBuilder& graph, const Candidates& all, const Choice& choice,
                   int64_t image) {
  // Boxes that are turned overlap none. The operator would turn them back: without extent, they
  // overlap none there either.
  std::string compared = all.boxes;
  if (all.may_be_turned) {
    const Names edges = graph.split(all.boxes, 2, {2, 2});
    compared = graph.concat({edges[0], graph.add("Max", edges)}, 2);
  }
  const std::string found =
      graph.add("NonMaxSuppression",
                {compared, all.scores, graph.ints({choice.most_of_class}),
                 graph.constant(Array::of_doubles(TensorProto::FLOAT, Shape{1},
                                                  std::vector<double>{choice.threshold})),
                 graph.constant(Array::of_doubles(TensorProto::FLOAT, Shape{1},
                                                  std::vector<double>{choice.least}))});
  const Names columns = graph.split(found, 1, {1, 1, 1});  // batch, class, box: (D, 1) each
  const std::string &label = all.boxes_of_class ? columns[0] : columns[1], &box = columns[2];
  const std::string places = graph.concat({columns[0], columns[1], box}, 1);
  const std::string score = graph.add("GatherND", {all.scores, places});  // (D)
  const std::string of_box = graph.concat({columns[0], box}, 1);
  const std::string edges = graph.add("GatherND", {all.boxes, of_box});  // (D, 4)
  const std::string label_number =
      plus(graph, graph.cast(label, TensorProto::FLOAT), static_cast<double>(choice.first_label));
  const std::string zero = graph.add("Sub", {label_number, label_number});
  const std::string rows = graph.concat({plus(graph, zero, static_cast<double>(image)),
                                         label_number, graph.unsqueeze(score, {1}), edges},
                                        1);
  if (choice.most < 0) return rows;
  // The best of all labels; then in the order that they had.
  const std::string count = graph.add("Shape", {score});
  const std::string kept = graph.add("Min", {count, graph.ints({choice.most})});
  const Names best = graph.add_many("TopK", {score, kept}, {"", ""}, {{"axis", 0}});
  const Names in_order =
      graph.add_many("TopK", {best[1], kept}, {"", ""}, {{"axis", 0}, {"largest", 0}});
  return graph.add("Gather", {rows, in_order[0]}, {{"axis", 0}});
}

/// The rows of all images as (1, 1, D, 7). Without any, one row an image: its number and -1.
void write_detections(const ExportedLayer& layer, GraphBuilder& graph, const Names& rows) {
  const auto images = static_cast<int64_t>(rows.size());
  const std::string found = rows.size() == 1 ? rows[0] : graph.concat(rows, 0);
  std::vector<double> none(rows.size() * 7, -1.0);
  for (size_t n = 0; n < rows.size(); ++n) none[n * 7] = static_cast<double>(n);
  const std::string count = graph.slice(graph.add("Shape", {found}), {0}, {0}, {1});
  const std::string is_empty =
      graph.cast(graph.add("Equal", {count, graph.ints({0})}), TensorProto::INT64);
  const std::string instead =
      graph.add("Slice", {graph.floats(Shape{images, 7}, none, "no_boxes"), graph.ints({0}),
                          graph.add("Mul", {is_empty, graph.ints({images})}), graph.ints({0})});
  graph.unsqueeze(graph.concat({found, instead}, 0), {0, 1}, layer.output());
}

/// Image n of (N, ...), with its axis.
std::string image_of(GraphBuilder& graph, const std::string& x, int64_t n, int64_t images) {
  return images == 1 ? x : graph.slice(x, {0}, {n}, {n + 1});
}

/// Boxes from locations, prior boxes and variances, whose last axes are the four numbers.
std::string decoded(GraphBuilder& graph, const DetectionOutputParameter& s,
                    const std::string& locations, const std::string& priors,
                    const std::string& variances, int64_t axis) {
  std::string values = locations;
  if (!s.variance_encoded_in_target()) values = graph.add("Mul", {values, variances});
  if (s.code_type() == PriorBoxParameter::CORNER) return graph.add("Add", {priors, values});
  // Pairs of (x, y).
  const Names corners = graph.split(priors, axis, {2, 2});
  const std::string sides = graph.add("Sub", {corners[1], corners[0]});
  const Names parts = graph.split(values, axis, {2, 2});
  const auto scaled = [&](const std::string& part) { return graph.add("Mul", {part, sides}); };
  if (s.code_type() == PriorBoxParameter::CORNER_SIZE) {
    return graph.concat({graph.add("Add", {corners[0], scaled(parts[0])}),
                         graph.add("Add", {corners[1], scaled(parts[1])})},
                        axis);
  }
  const std::string middle = times(graph, graph.add("Add", {corners[0], corners[1]}), 0.5);
  const std::string centre = graph.add("Add", {scaled(parts[0]), middle});
  const std::string half = times(graph, scaled(graph.add("Exp", {parts[1]})), 0.5);
  return graph.concat({graph.add("Sub", {centre, half}), graph.add("Add", {centre, half})}, axis);
}

void export_detection_output(const ExportedLayer& layer, GraphBuilder& graph) {
  const DetectionOutputParameter& s = layer.param().detection_output_param();
  const NonMaximumSuppressionParameter& suppression = s.nms_param();
  if (suppression.eta() < 1) return export_custom(layer, graph);
  graph.need_fixed_batch("boxes are chosen for each image by nodes of its own");
  const int64_t images = layer.bottom(0)[0], classes = s.num_classes();
  const int64_t priors = layer.bottom(2).count(2) / 4;
  const bool shared = s.share_location();
  const std::string boxes_and_variances =
      graph.reshape(layer.input(2), std::vector<int64_t>{0, 2, priors, 4});
  Names halves = graph.split(boxes_and_variances, 1, {1, 1});
  // (images or 1, P, 4), or with locations of classes (images or 1, P, 1, 4)
  for (std::string& half : halves)
    half = shared ? graph.squeeze(half, {1}) : graph.transpose(half, {0, 2, 1, 3});
  std::string boxes;
  if (shared) {
    const std::string locations =
        graph.reshape(layer.input(0), std::vector<int64_t>{images, priors, 4});
    boxes = decoded(graph, s, locations, halves[0], halves[1], 2);
  } else {
    const std::string locations =
        graph.reshape(layer.input(0), std::vector<int64_t>{images, priors, classes, 4});
    boxes = graph.transpose(decoded(graph, s, locations, halves[0], halves[1], 3), {0, 2, 1, 3});
  }
  std::string scores = graph.transpose(
      graph.reshape(layer.input(1), std::vector<int64_t>{images, priors, classes}), {0, 2, 1});
  if (s.background_label_id() >= 0) {
    std::vector<double> is_object(static_cast<size_t>(classes), 1.0);
    is_object[static_cast<size_t>(s.background_label_id())] = 0;
    const std::string mask = graph.constant(
        Array::of_doubles(TensorProto::BOOL, Shape{classes, 1}, is_object), "objects");
    scores = graph.add("Where", {mask, scores, graph.number(kNever)});
  }
  const int64_t top_k =
      suppression.has_top_k() && suppression.top_k() >= 0 ? int64_t{suppression.top_k()} : priors;
  if (top_k < priors) {
    // All but the first top_k of each class are no candidates.
    const Names best =
        graph.add_many("TopK", {scores, graph.ints({top_k})}, {"", ""}, {{"axis", 2}});
    const std::string none =
        graph.add("Expand", {graph.number(kNever), graph.ints({images, classes, priors})});
    scores = graph.add("ScatterElements", {none, best[1], best[0]}, {{"axis", 2}});
  }
  Choice choice;
  if (s.has_confidence_threshold())
    choice.least = std::max(kLowest, static_cast<double>(s.confidence_threshold()));
  choice.threshold = suppression.nms_threshold();
  choice.most_of_class = priors;
  choice.most = s.keep_top_k();
  Names rows;
  for (int64_t n = 0; n < images; ++n) {
    Candidates all{image_of(graph, boxes, n, images), image_of(graph, scores, n, images), !shared,
                   s.code_type() != PriorBoxParameter::CENTER_SIZE};
    if (!shared) {
      all.boxes = graph.squeeze(all.boxes, {0});            // (classes, P, 4)
      all.scores = graph.transpose(all.scores, {1, 0, 2});  // (classes, 1, P)
    }
    rows.push_back(chosen(graph, all, choice, n));
  }
  write_detections(layer, graph, rows);
}

/// Anchor boxes of a grid of predictions, by width and height in cells.
struct Anchors {
  std::vector<double> widths, heights;
};

/// Boxes (N, anchors * cells, 4) and scores (N, classes, anchors * cells) of a grid of predictions.
Names grid_candidates(GraphBuilder& graph, const std::string& x, const Shape& shape,
                      const Anchors& anchors, int64_t classes, bool softmax) {
  const auto count = static_cast<int64_t>(anchors.widths.size());
  const int64_t height = shape[2], width = shape[3], cells = height * width;
  const std::string values =
      graph.reshape(x, std::vector<int64_t>{shape[0], count, 5 + classes, cells});
  const Names parts = graph.split(values, 2, {2, 2, 1, classes});
  std::vector<double> corner, side, grid;
  for (int64_t p = 0; p < cells; ++p) corner.push_back(static_cast<double>(p % width));
  for (int64_t p = 0; p < cells; ++p) corner.push_back(static_cast<double>(p / width));
  grid = {static_cast<double>(width), static_cast<double>(height)};
  for (int64_t a = 0; a < count; ++a) {
    side.push_back(anchors.widths[static_cast<size_t>(a)] / grid[0] / 2);
    side.push_back(anchors.heights[static_cast<size_t>(a)] / grid[1] / 2);
  }
  const std::string in_cell = graph.add("Sigmoid", {parts[0]});
  const std::string place =
      graph.add("Add", {in_cell, graph.floats(Shape{1, 1, 2, cells}, corner, "cells")});
  const std::string centre =
      graph.add("Div", {place, graph.floats(Shape{1, 1, 2, 1}, grid, "grid")});
  const std::string half = graph.add(
      "Mul", {graph.add("Exp", {parts[1]}), graph.floats(Shape{1, count, 2, 1}, side, "anchors")});
  const std::string edges =
      graph.concat({graph.add("Sub", {centre, half}), graph.add("Add", {centre, half})}, 2);
  const std::string boxes = graph.reshape(graph.transpose(edges, {0, 1, 3, 2}),
                                          std::vector<int64_t>{shape[0], count * cells, 4});
  const std::string of_classes =
      softmax ? graph.add("Softmax", {parts[3]}, {{"axis", 2}}) : graph.add("Sigmoid", {parts[3]});
  const std::string confidence = graph.add("Mul", {graph.add("Sigmoid", {parts[2]}), of_classes});
  const std::string scores = graph.reshape(graph.transpose(confidence, {0, 2, 1, 3}),
                                           std::vector<int64_t>{shape[0], classes, count * cells});
  return {boxes, scores};
}

void export_grid_detections(const ExportedLayer& layer, GraphBuilder& graph,
                            const std::vector<Anchors>& anchors, int64_t classes, double least,
                            double threshold, bool softmax) {
  graph.need_fixed_batch("boxes are chosen for each image by nodes of its own");
  const int64_t images = layer.bottom()[0];
  Names boxes, scores;
  int64_t count = 0;
  for (size_t i = 0; i < layer.bottoms(); ++i) {
    const Names made =
        grid_candidates(graph, layer.input(i), layer.bottom(i), anchors[i], classes, softmax);
    boxes.push_back(made[0]);
    scores.push_back(made[1]);
    count += static_cast<int64_t>(anchors[i].widths.size()) * layer.bottom(i).count(2);
  }
  const std::string all_boxes = boxes.size() == 1 ? boxes[0] : graph.concat(boxes, 1);
  const std::string all_scores = scores.size() == 1 ? scores[0] : graph.concat(scores, 2);
  // The first label of these layers is 1: 0 is the background.
  const Choice choice{least, threshold, count, -1, 1};
  Names rows;
  for (int64_t n = 0; n < images; ++n) {
    rows.push_back(chosen(
        graph,
        {image_of(graph, all_boxes, n, images), image_of(graph, all_scores, n, images), false},
        choice, n));
  }
  write_detections(layer, graph, rows);
}

void export_region_detections(const ExportedLayer& layer, GraphBuilder& graph) {
  const RegionDetectionOutputParameter& s = layer.param().region_detection_output_param();
  Anchors anchors;
  for (int i = 0; i + 1 < s.biases_size(); i += 2) {
    anchors.widths.push_back(s.biases(i));
    anchors.heights.push_back(s.biases(i + 1));
  }
  export_grid_detections(layer, graph, {anchors}, s.num_classes(), s.confidence_threshold(),
                         s.nms_threshold(), true);
}

void export_yolov3_detections(const ExportedLayer& layer, GraphBuilder& graph) {
  const Yolov3DetectionOutputParameter& s = layer.param().yolov3_detection_output_param();
  std::vector<Anchors> anchors(layer.bottoms());
  const int each = static_cast<int>(s.num_box());
  for (int i = 0; i < static_cast<int>(anchors.size()); ++i) {
    const double scale = s.anchors_scale(i);
    for (int k = i * each; k < (i + 1) * each; ++k) {
      const int number = static_cast<int>(s.mask(k));
      anchors[static_cast<size_t>(i)].widths.push_back(s.biases(2 * number) / scale);
      anchors[static_cast<size_t>(i)].heights.push_back(s.biases(2 * number + 1) / scale);
    }
  }
  export_grid_detections(layer, graph, anchors, s.num_classes(), s.confidence_threshold(),
                         s.nms_threshold(), false);
}

/// Anchor boxes of all positions, (H * W * anchors, 4) by row, column and anchor: the edges of
/// those around the origin are rounded as published.
std::vector<double> proposal_anchors(const ProposalParameter& s, int64_t height, int64_t width) {
  std::vector<double> ratios(s.ratio().begin(), s.ratio().end());
  std::vector<double> scales(s.scale().begin(), s.scale().end());
  if (ratios.empty()) ratios = {0.5, 1, 2};
  if (scales.empty()) scales = {8, 16, 32};
  const double base = s.base_size(), centre = (base - 1) / 2;
  std::vector<double> around_origin;
  for (const double ratio : ratios) {
    const double w = std::round(std::sqrt(base * base / ratio)), h = std::round(w * ratio);
    for (const double scale : scales) {
      const double x = (w * scale - 1) / 2, y = (h * scale - 1) / 2;
      around_origin.insert(around_origin.end(), {centre - x, centre - y, centre + x, centre + y});
    }
  }
  std::vector<double> all;
  for (int64_t row = 0; row < height; ++row) {
    for (int64_t column = 0; column < width; ++column) {
      const double offset[2] = {static_cast<double>(column * s.feat_stride()),
                                static_cast<double>(row * s.feat_stride())};
      for (size_t i = 0; i < around_origin.size(); ++i)
        all.push_back(around_origin[i] + offset[i % 2]);
    }
  }
  return all;
}

void export_proposal(const ExportedLayer& layer, GraphBuilder& graph) {
  const ProposalParameter& s = layer.param().proposal_param();
  graph.need_fixed_batch("regions are chosen for each image by nodes of its own");
  const Shape& shape = layer.bottom(0);
  const int64_t images = shape[0], anchors = shape[1] / 2, cells = shape[2] * shape[3];
  const int64_t count = anchors * cells;
  // Scores and offsets of all anchors, by row, column and anchor.
  const std::string objects = graph.slice(layer.input(0), {1}, {anchors}, {2 * anchors});
  std::string scores = graph.transpose(
      graph.reshape(objects, std::vector<int64_t>{images, anchors, cells}), {0, 2, 1});
  scores = graph.reshape(scores, std::vector<int64_t>{images, count});
  std::string offsets = graph.transpose(
      graph.reshape(layer.input(1), std::vector<int64_t>{images, anchors, 4, cells}), {0, 3, 1, 2});
  offsets = graph.reshape(offsets, std::vector<int64_t>{images, count, 4});
  // Pairs of (x, y): centres and sides of the anchors, moved by the offsets.
  const std::vector<double> edges = proposal_anchors(s, shape[2], shape[3]);
  std::vector<double> sides, centres;
  for (size_t i = 0; i < edges.size(); i += 4) {
    for (size_t k = i; k < i + 2; ++k) {
      sides.push_back(edges[k + 2] - edges[k] + 1);
      centres.push_back(edges[k] + sides.back() / 2);
    }
  }
  const std::string side = graph.floats(Shape{1, count, 2}, sides, "anchor_sides");
  const Names parts = graph.split(offsets, 2, {2, 2});
  const std::string centre =
      graph.add("Add", {graph.add("Mul", {parts[0], side}),
                        graph.floats(Shape{1, count, 2}, centres, "anchor_centres")});
  const std::string half =
      times(graph, graph.add("Mul", {graph.add("Exp", {parts[1]}), side}), 0.5);
  // Of each image height, width, and one scale or two: the sides as (x, y), (N, 1, 2).
  const int64_t columns = layer.bottom(2).count(1);
  const std::string info = graph.reshape(layer.input(2), std::vector<int64_t>{images, 1, columns});
  const auto columns_of = [&](const std::vector<int64_t>& which) {
    return graph.add("Gather", {info, graph.ints(which)}, {{"axis", 2}});
  };
  const std::string last = graph.add("Max", {plus(graph, columns_of({1, 0}), -1), graph.number(0)});
  const auto cut = [&](const std::string& corner) {
    return graph.add("Min", {graph.add("Max", {corner, graph.number(0)}), last});
  };
  const std::string low = cut(graph.add("Sub", {centre, half}));
  const std::string high = cut(graph.add("Add", {centre, half}));
  const std::string end = plus(graph, high, 1);  // a region covers its last pixel
  const std::string least =
      times(graph, columns > 3 ? columns_of({3, 2}) : columns_of({2, 2}), s.min_size());
  const std::string room = graph.add("Sub", {graph.add("Sub", {end, low}), least});
  const std::string is_large =
      graph.add("GreaterOrEqual", {graph.reduce("ReduceMin", room, {2}, false), graph.number(0)});
  scores = graph.add("Where", {is_large, scores, graph.number(kNever)});
  const int64_t first = s.pre_nms_topn() > 0 ? std::min<int64_t>(s.pre_nms_topn(), count) : count;
  const Names best = graph.add_many("TopK", {scores, graph.ints({first})}, {"", ""}, {{"axis", 1}});
  const std::string corners = graph.concat({low, high}, 2), areas = graph.concat({low, end}, 2);
  Names rows, kept_scores;
  for (int64_t n = 0; n < images; ++n) {
    const std::string places = graph.squeeze(image_of(graph, best[1], n, images), {0});
    const auto taken = [&](const std::string& boxes) {
      return graph.add("Gather", {image_of(graph, boxes, n, images), places}, {{"axis", 1}});
    };
    const std::string own_scores = image_of(graph, best[0], n, images);  // (1, first)
    const Choice choice{kLowest, static_cast<double>(s.nms_thresh())};
    const int64_t most = s.post_nms_topn() > 0 ? int64_t{s.post_nms_topn()} : count;
    const std::string found = graph.add(
        "NonMaxSuppression", {taken(areas), graph.unsqueeze(own_scores, {1}), graph.ints({most}),
                              graph.floats(Shape{1}, std::vector<double>{choice.threshold}),
                              graph.floats(Shape{1}, std::vector<double>{choice.least})});
    const std::string chosen_ones = graph.squeeze(graph.slice(found, {1}, {2}, {3}), {1});
    const std::string regions = graph.squeeze(
        graph.add("Gather", {taken(corners), chosen_ones}, {{"axis", 1}}), {0});  // (D, 4)
    const std::string column = graph.slice(regions, {1}, {0}, {1});
    const std::string number =
        plus(graph, graph.add("Sub", {column, column}), static_cast<double>(n));
    rows.push_back(graph.concat({number, regions}, 1));
    kept_scores.push_back(
        graph.transpose(graph.add("Gather", {own_scores, chosen_ones}, {{"axis", 1}}), {1, 0}));
  }
  finish(layer, graph, rows.size() == 1 ? rows[0] : graph.concat(rows, 0));
  if (layer.tops() > 1)
    finish(layer, graph, kept_scores.size() == 1 ? kept_scores[0] : graph.concat(kept_scores, 0),
           1);
}

}  // namespace

void add_detection_exporters(ExporterTable& table) {
  table.add("DetectionOutput", export_detection_output);
  table.add("Proposal", export_proposal);
  table.add("RegionDetectionOutput", export_region_detections);
  table.add("Yolov3DetectionOutput", export_yolov3_detections);
}

}  // namespace crema::onnx
