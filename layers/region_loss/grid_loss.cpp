#include "layers/region_loss/grid_loss.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "layer_support/loss_seed.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

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

GridRules GridLossLayer::rules() const {
  return {.grid = grid_,
          .anchors = settings_.anchors.data(),
          .all = static_cast<int64_t>(settings_.anchors.size()),
          .mask = settings_.mask.data(),
          .object_scale = settings_.object_scale,
          .no_object_scale = settings_.no_object_scale,
          .class_scale = settings_.class_scale,
          .coordinate_scale = settings_.coordinate_scale,
          .threshold = settings_.threshold,
          .squared = settings_.squared,
          .softmax = settings_.softmax,
          .rescores = settings_.rescores,
          .by_shape = settings_.by_shape,
          .weighs_by_size = settings_.weighs_by_size};
}

template <class T>
void GridLossLayer::assign(int64_t image, const T* values) {
  const int64_t each = grid_.anchors * grid_.cells();
  int32_t* const assigned = assigned_.data() + image * each;
  std::fill_n(assigned, each, -1);
  const auto truths = truths_.of(image);
  for (size_t t = 0; t < truths.size(); ++t) {
    const int64_t place = place_of_truth(rules(), values, image, truths[t].box);
    if (place >= 0) assigned[place] = static_cast<int32_t>(t);
  }
}

template <class T>
double GridLossLayer::loss_of(int64_t image, const T* values, T* gradient) {
  assign(image, values);
  const auto truths = truths_.of(image);
  const TruthList list{truths.data(), nullptr, static_cast<int64_t>(truths.size())};
  const GridRules of_layer = rules();
  const int32_t* const assigned = assigned_.data() + image * grid_.anchors * grid_.cells();
  double sum = 0;
  for (int64_t place = 0; place < grid_.anchors * grid_.cells(); ++place) {
    sum += loss_of_cell(of_layer, values, image, place / grid_.cells(), place % grid_.cells(), list,
                        assigned[place], gradient);
  }
  return sum;
}

void GridLossLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  if (!device.on_host()) {
    if (!there_) there_.emplace();
    return there_->run(device, *this, rules(), bottom, trains() ? &gradient_ : nullptr,
                       top[0]->data);
  }
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
             ScaleGradient<T>{seed.template over<double>(
                                  static_cast<double>(std::max<int64_t>(grid_.images, 1))),
                              device.read<T>(gradient_), device.overwrite<T>(bottom[0]->diff)});
  });
}

}  // namespace crema
