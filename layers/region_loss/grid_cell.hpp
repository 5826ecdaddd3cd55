// The arithmetic of a grid detector's loss, on host and device: the place of a true box, and the
// loss of one predicted box.
#pragma once

#include <cmath>

#include "layers/region_loss/grid_detector.hpp"

namespace crema {

/// The settings, and the anchor boxes in memory of the side.
struct GridRules {
  GridLayout grid;
  const GridAnchor* anchors;  // all
  int64_t all;                // their number
  const int64_t* mask;        // (grid.anchors): those that the bottom predicts
  double object_scale, no_object_scale, class_scale, coordinate_scale;
  double threshold;
  bool squared, softmax, rescores, by_shape, weighs_by_size;  // see GridLossSettings

  CREMA_FUNCTOR const GridAnchor& anchor(int64_t number) const { return anchors[mask[number]]; }
};

/// The true boxes of an image.
struct TruthList {
  const GridTruth* truths;
  const int32_t* order;  // of them; null: as they lie
  int64_t count;
  CREMA_FUNCTOR const GridTruth& operator[](int64_t t) const {
    return truths[order ? order[t] : t];
  }
};

/// The overlap of boxes of these sizes around one centre.
CREMA_FUNCTOR double overlap_of_sizes(double width_a, double height_a, double width_b,
                                      double height_b) {
  const double width = width_a < width_b ? width_a : width_b;
  const double height = height_a < height_b ? height_a : height_b, both = width * height;
  return both / (width_a * height_a + width_b * height_b - both);
}

/// Where a true box belongs, as number * cells + cell: the cell of its centre, and the anchor box
/// that fits it best, the first one of equal ones; -1 if the bottom does not predict that one.
template <class T>
CREMA_FUNCTOR int64_t place_of_truth(const GridRules& rules, const T* values, int64_t image,
                                     const CentredBox& box) {
  const GridLayout& grid = rules.grid;
  const auto index = [](double share, int64_t count) {
    const auto at = static_cast<int64_t>(share * static_cast<double>(count));
    return at < count - 1 ? at : count - 1;
  };
  const int64_t cell = index(box.y, grid.height) * grid.width + index(box.x, grid.width);
  int64_t best = -1;
  double most = -1;
  const auto consider = [&](int64_t number, double width, double height) {
    const double overlap = overlap_of_sizes(box.width, box.height, width, height);
    if (!(overlap > most)) return;
    most = overlap;
    best = number;
  };
  for (int64_t a = 0; rules.by_shape && a < rules.all; ++a) {
    consider(a, rules.anchors[a].width / static_cast<double>(grid.width),
             rules.anchors[a].height / static_cast<double>(grid.height));
  }
  for (int64_t a = 0; !rules.by_shape && a < grid.anchors; ++a) {
    const CentredBox predicted = predicted_box(grid, values, image, a, rules.anchor(a), cell);
    consider(rules.mask[a], predicted.width, predicted.height);
  }
  for (int64_t a = 0; a < grid.anchors; ++a) {
    if (rules.mask[a] == best) return a * grid.cells() + cell;
  }
  return -1;
}

struct GridTerm {
  double loss, slope;
};
/// Half the squared error of a sigmoid; else its cross entropy.
CREMA_FUNCTOR GridTerm sigmoid_term(double x, double target, bool squared) {
  const double s = sigmoid_of(x), error = s - target;
  if (squared) return {error * error / 2, error * s * (1 - s)};
  // log(1 + exp(x)).
  const double softplus = (x > 0 ? x : 0) + log1p(exp(-abs(x)));
  return {softplus - target * x, error};
}

/// The loss of the box of anchor `a` of the mask in a cell, whose true box is number `own`; -1:
/// none. Writes its gradient where it is not 0 to `gradient`, unless that is null.
template <class T>
CREMA_FUNCTOR double loss_of_cell(const GridRules& rules, const T* values, int64_t image, int64_t a,
                                  int64_t cell, const TruthList& truths, int64_t own, T* gradient) {
  const GridLayout& grid = rules.grid;
  double sum = 0;
  const auto place = [&](int64_t attribute) { return grid.plane(image, a, attribute) + cell; };
  const auto value = [&](int64_t attribute) {
    return static_cast<double>(values[place(attribute)]);
  };
  const auto add = [&](int64_t attribute, double weight, const GridTerm& term) {
    sum += weight * term.loss;
    if (gradient) gradient[place(attribute)] = static_cast<T>(weight * term.slope);
  };
  const auto add_sigmoid = [&](int64_t attribute, double weight, double target) {
    add(attribute, weight, sigmoid_term(value(attribute), target, rules.squared));
  };
  // Where there is no true box, the predicted one is not needed.
  const bool needs_box = own < 0 ? truths.count > 0 : rules.rescores;
  BoundingBox<double> predicted{};
  if (needs_box)
    predicted =
        predicted_box(grid, values, image, a, rules.anchor(a), cell).template edges<double>();
  if (own < 0) {
    for (int64_t t = 0; t < truths.count; ++t) {
      if (overlap(predicted, truths[t].box.edges<double>()) > rules.threshold) return 0;
    }
    add_sigmoid(GridLayout::kObject, rules.no_object_scale, 0);
    return sum;
  }
  const GridTruth& truth = truths[own];
  const CentredBox& box = truth.box;
  const auto columns = static_cast<double>(grid.width), rows = static_cast<double>(grid.height);
  const double scale =
      rules.coordinate_scale * (rules.weighs_by_size ? 2 - box.width * box.height : 1);
  const auto offset = [](double at, int64_t index) {
    const double inside = at - static_cast<double>(index);
    return inside < 1 ? inside : 1.0;
  };
  add_sigmoid(GridLayout::kX, scale, offset(box.x * columns, cell % grid.width));
  add_sigmoid(GridLayout::kY, scale, offset(box.y * rows, cell / grid.width));
  const auto add_logarithm = [&](int64_t attribute, double ratio) {
    const double difference = value(attribute) - log(ratio);
    add(attribute, scale, {difference * difference / 2, difference});
  };
  add_logarithm(GridLayout::kWidth, box.width * columns / rules.anchor(a).width);
  add_logarithm(GridLayout::kHeight, box.height * rows / rules.anchor(a).height);
  add_sigmoid(GridLayout::kObject, rules.object_scale,
              rules.rescores ? overlap(predicted, box.edges<double>()) : 1.0);
  if (!rules.softmax) {
    for (int64_t c = 0; c < grid.classes; ++c) {
      const int64_t attribute = GridLayout::kClasses + c;
      add(attribute, rules.class_scale,
          sigmoid_term(value(attribute), c == truth.label ? 1 : 0, false));
    }
    return sum;
  }
  double greatest = value(GridLayout::kClasses), exponentials = 0;
  for (int64_t c = 1; c < grid.classes; ++c) {
    const double score = value(GridLayout::kClasses + c);
    greatest = greatest < score ? score : greatest;
  }
  for (int64_t c = 0; c < grid.classes; ++c)
    exponentials += exp(value(GridLayout::kClasses + c) - greatest);
  for (int64_t c = 0; c < grid.classes; ++c) {
    const double x = value(GridLayout::kClasses + c) - greatest;
    const bool is_own = c == truth.label;
    add(GridLayout::kClasses + c, rules.class_scale,
        {is_own ? log(exponentials) - x : 0, exp(x) / exponentials - (is_own ? 1 : 0)});
  }
  return sum;
}

}  // namespace crema
