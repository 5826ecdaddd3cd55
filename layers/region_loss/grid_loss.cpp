#include "layer_support/loss_seed.hpp"
#include "layers/region_loss/grid_loss.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The overlap of boxes of these sizes around one centre.
double overlap_of_sizes(double width_a, double height_a, double width_b, double height_b) {
  const double both = std::min(width_a, width_b) * std::min(height_a, height_b);
  return both / (width_a * height_a + width_b * height_b - both);
}

/// log(1 + exp(x)).
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

struct LossTerm {
  double loss, slope;
};

/// Half the squared error of a sigmoid.
LossTerm squared_error(double x, double target) {
  const double s = sigmoid_of(x), error = s - target;
  return {error * error / 2, error * s * (1 - s)};
}
/// The cross entropy of a sigmoid.
LossTerm cross_entropy(double x, double target) {
  return {softplus(x) - target * x, sigmoid_of(x) - target};
}

template <class T>
struct ScaleGradient {
  SeedFactor<T, double> scale;
  const T* from;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    to[i] = static_cast<T>(scale * static_cast<double>(from[i]));
  }
};

}  // namespace

void check_grid_loss(const GridLossSettings& settings) {
  const auto check = [](const char* name, double value) {
    if (!(value >= 0 && std::isfinite(value)))
      throw Error(name, " is ", value, "; give a number from 0 on");
  };
  check("object_scale", settings.object_scale);
  check("noobject_scale", settings.no_object_scale);
  check("class_scale", settings.class_scale);
  check("coord_scale", settings.coordinate_scale);
  check("thresh", settings.threshold);
}

GridLossLayer::GridLossLayer(const LayerInit& init, GridLossSettings settings)
    : TwoSidedLayer(init), settings_(std::move(settings)) {
  check_grid_loss(settings_);
}

void GridLossLayer::reshape(Blobs bottom, Blobs top) {
  grid_ = GridLayout(*bottom[0], static_cast<int64_t>(settings_.mask.size()), settings_.classes);
  check_truth_shape(*bottom[1], grid_.images);
  top[0]->reshape(Shape{});
}

void GridLossLayer::prepare_reference(Blobs bottom, Blobs) {
  gradient_.reshape(trains() ? bottom[0]->shape() : Shape{0});
  gradient_.set_layout(dtype(), Format::contiguous);
  assigned_.resize(static_cast<size_t>(grid_.images * grid_.anchors * grid_.cells()));
  losses_.resize(static_cast<size_t>(grid_.images));
}

Flops GridLossLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  return {20 * n, n};
}

/// Finds the place of each true box: the cell of its centre, and the anchor box that fits it best,
/// the first one of equal ones. The last of several true boxes of one place counts.
template <class T>
void GridLossLayer::assign(int64_t image, const T* values) {
  int32_t* const assigned = assigned_.data() + image * grid_.anchors * grid_.cells();
  std::fill_n(assigned, grid_.anchors * grid_.cells(), -1);
  const auto truths = truths_.of(image);
  for (size_t t = 0; t < truths.size(); ++t) {
    const CentredBox& box = truths[t].box;
    const auto index = [](double share, int64_t count) {
      return std::min(static_cast<int64_t>(share * static_cast<double>(count)), count - 1);
    };
    const int64_t cell = index(box.y, grid_.height) * grid_.width + index(box.x, grid_.width);
    int64_t best = -1;
    double most = -1;
    const auto consider = [&](int64_t number, double width, double height) {
      const double overlap = overlap_of_sizes(box.width, box.height, width, height);
      if (overlap > most) {
        most = overlap;
        best = number;
      }
    };
    if (settings_.by_shape) {
      for (size_t a = 0; a < settings_.anchors.size(); ++a) {
        consider(static_cast<int64_t>(a),
                 settings_.anchors[a].width / static_cast<double>(grid_.width),
                 settings_.anchors[a].height / static_cast<double>(grid_.height));
      }
    } else {
      for (int64_t a = 0; a < grid_.anchors; ++a) {
        const int64_t number = settings_.mask[static_cast<size_t>(a)];
        const CentredBox predicted = predicted_box(
            grid_, values, image, a, settings_.anchors[static_cast<size_t>(number)], cell);
        consider(number, predicted.width, predicted.height);
      }
    }
    const auto own = std::ranges::find(settings_.mask, best);
    if (own == settings_.mask.end()) continue;
    assigned[(own - settings_.mask.begin()) * grid_.cells() + cell] = static_cast<int32_t>(t);
  }
}

template <class T>
double GridLossLayer::loss_of(int64_t image, const T* values, T* gradient) {
  assign(image, values);
  const auto truths = truths_.of(image);
  double sum = 0;
  for (int64_t a = 0; a < grid_.anchors; ++a) {
    const GridAnchor& anchor =
        settings_.anchors[static_cast<size_t>(settings_.mask[static_cast<size_t>(a)])];
    for (int64_t cell = 0; cell < grid_.cells(); ++cell) {
      const auto place = [&](int64_t attribute) { return grid_.plane(image, a, attribute) + cell; };
      const auto add = [&](int64_t attribute, double weight, const LossTerm& term) {
        sum += weight * term.loss;
        if (gradient) gradient[place(attribute)] = static_cast<T>(weight * term.slope);
      };
      const auto value = [&](int64_t attribute) {
        return static_cast<double>(values[place(attribute)]);
      };
      const auto error = [&](int64_t attribute, double target) {
        return settings_.squared ? squared_error(value(attribute), target)
                                 : cross_entropy(value(attribute), target);
      };
      const int32_t number =
          assigned_[static_cast<size_t>((image * grid_.anchors + a) * grid_.cells() + cell)];
      // Where there is no true box, the predicted one is not needed.
      const bool needs_box = number < 0 ? !truths.empty() : settings_.rescores;
      const auto predicted =
          needs_box ? predicted_box(grid_, values, image, a, anchor, cell).template edges<double>()
                    : BoundingBox<double>{};
      if (number < 0) {
        const bool overlaps = std::ranges::any_of(truths, [&](const GridTruth& truth) {
          return overlap(predicted, truth.box.edges<double>()) > settings_.threshold;
        });
        if (!overlaps)
          add(GridLayout::kObject, settings_.no_object_scale, error(GridLayout::kObject, 0));
        continue;
      }
      const GridTruth& truth = truths[static_cast<size_t>(number)];
      const CentredBox& box = truth.box;
      const auto columns = static_cast<double>(grid_.width);
      const auto rows = static_cast<double>(grid_.height);
      const double scale =
          settings_.coordinate_scale * (settings_.weighs_by_size ? 2 - box.width * box.height : 1);
      const auto offset = [](double at, int64_t index) {
        return std::min(at - static_cast<double>(index), 1.0);
      };
      add(GridLayout::kX, scale,
          error(GridLayout::kX, offset(box.x * columns, cell % grid_.width)));
      add(GridLayout::kY, scale, error(GridLayout::kY, offset(box.y * rows, cell / grid_.width)));
      const auto log_error = [&](int64_t attribute, double target) {
        const double difference = value(attribute) - target;
        return LossTerm{difference * difference / 2, difference};
      };
      add(GridLayout::kWidth, scale,
          log_error(GridLayout::kWidth, std::log(box.width * columns / anchor.width)));
      add(GridLayout::kHeight, scale,
          log_error(GridLayout::kHeight, std::log(box.height * rows / anchor.height)));
      const double wanted = settings_.rescores ? overlap(predicted, box.edges<double>()) : 1.0;
      add(GridLayout::kObject, settings_.object_scale, error(GridLayout::kObject, wanted));
      if (!settings_.softmax) {
        for (int64_t c = 0; c < grid_.classes; ++c) {
          add(GridLayout::kClasses + c, settings_.class_scale,
              cross_entropy(value(GridLayout::kClasses + c), c == truth.label ? 1 : 0));
        }
        continue;
      }
      double greatest = value(GridLayout::kClasses), exponentials = 0;
      for (int64_t c = 1; c < grid_.classes; ++c)
        greatest = std::max(greatest, value(GridLayout::kClasses + c));
      for (int64_t c = 0; c < grid_.classes; ++c)
        exponentials += std::exp(value(GridLayout::kClasses + c) - greatest);
      for (int64_t c = 0; c < grid_.classes; ++c) {
        const double x = value(GridLayout::kClasses + c) - greatest;
        const bool own = c == truth.label;
        add(GridLayout::kClasses + c, settings_.class_scale,
            {own ? std::log(exponentials) - x : 0, std::exp(x) / exponentials - (own ? 1 : 0)});
      }
    }
  }
  return sum;
}

void GridLossLayer::run_forward(const ComputeDevice&, Blobs bottom, Blobs top) {
  truths_.read(*bottom[1], grid_.images, grid_.classes);
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* const values = bottom[0]->data.template read<T>();
    T* const gradient = trains() ? gradient_.template overwrite<T>() : nullptr;
    if (gradient) std::fill_n(gradient, gradient_.count(), T{0});
    parallel_for(grid_.images, 1, [&](int64_t begin, int64_t end) {
      for (int64_t image = begin; image < end; ++image)
        losses_[static_cast<size_t>(image)] = loss_of(image, values, gradient);
    });
    const double sum = std::accumulate(losses_.begin(), losses_.end(), 0.0);
    top[0]->data.template overwrite<T>()[0] =
        static_cast<T>(sum / static_cast<double>(std::max<int64_t>(grid_.images, 1)));
  });
}

void GridLossLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                                 Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const LossSeed<T> seed(device, *top[0]);
    for_each(device, bottom[0]->count(), kElementGrain,
             ScaleGradient<T>{seed.template over<double>(static_cast<double>(std::max<int64_t>(grid_.images, 1))),
                              device.read<T>(gradient_), device.overwrite<T>(bottom[0]->diff)});
  });
}

}  // namespace crema
