// SpatialTransformer: samples maps at the points of an affine map of a grid. See README.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/spatial_transformer/grid.hpp"
#include "layers/spatial_transformer/map_sampler.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The affine maps of all samples: elements that are fixed, and those of the bottom in order.
template <class T>
struct Thetas {
  double fixed[6];
  int place[6];  // among those of the bottom; -1: fixed
  int given;     // of a sample
  const T* values;

  CREMA_FUNCTOR double at(int64_t sample, int64_t i) const {
    return place[i] < 0 ? fixed[i] : static_cast<double>(values[sample * given + place[i]]);
  }
};

/// points (samples, positions, 2): row and column in pixels of the bottom.
template <class T>
struct FindPoints {
  SamplingGrid grid;
  Thetas<T> thetas;
  double* points;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t sample = i / grid.positions(), p = i % grid.positions();
    double theta[6];
    for (int k = 0; k < 6; ++k) theta[k] = thetas.at(sample, k);
    find(theta, grid.y.coordinate(p / grid.x.count), p % grid.x.count, points + 2 * i);
  }
  /// A row of points at a time, or a part of one.
  void on_host(int64_t begin, int64_t end) const {
    const FindPoints own = *this;  // which stores cannot change
    while (begin < end) {
      const int64_t row = begin / own.grid.x.count, column = begin % own.grid.x.count;
      const int64_t count = std::min(own.grid.x.count - column, end - begin);
      const double y = own.grid.y.coordinate(row % own.grid.y.count);
      double theta[6];
      for (int k = 0; k < 6; ++k) theta[k] = own.thetas.at(row / own.grid.y.count, k);
      double* const to = own.points + 2 * begin;
      for (int64_t i = 0; i < count; ++i) own.find(theta, y, column + i, to + 2 * i);
      begin += count;
    }
  }
  CREMA_FUNCTOR void find(const double* theta, double y, int64_t column, double* point) const {
    const double x = grid.x.coordinate(column);
    point[0] = grid.y.pixel(theta[0] * y + theta[1] * x + theta[2]);
    point[1] = grid.x.pixel(theta[3] * y + theta[4] * x + theta[5]);
  }
};

/// The pixels around a point, those below and right of it second. What lies outside of the map is
/// not `there`, and has weight 0 and any place.
struct Corners {
  int64_t at[4];
  bool there[4];
  double y[4], x[4];            // weights along the axes; NaN at points that are no numbers
  double sign_y[4], sign_x[4];  // of the slopes; 0 along an axis along which the point was moved

  static CREMA_FUNCTOR Corners of(const SamplingGrid& grid, const double* point) {
    Corners c{};
    double y = point[0], x = point[1];
    const double nothing = y != y || x != x ? y + x : 0;
    const bool moves_y = grid.border && move(grid.y.size, y);
    const bool moves_x = grid.border && move(grid.x.size, x);
    const bool inside = y > -1 && y < static_cast<double>(grid.y.size) && x > -1 &&
                        x < static_cast<double>(grid.x.size);
    const double top = inside ? std::floor(y) : 0, left = inside ? std::floor(x) : 0;
    for (int k = 0; k < 4; ++k) {
      const int down = k / 2, right = k % 2;
      const int64_t row = static_cast<int64_t>(top) + down,
                    column = static_cast<int64_t>(left) + right;
      const bool there =
          inside && row >= 0 && row < grid.y.size && column >= 0 && column < grid.x.size;
      c.there[k] = there || nothing != 0;
      c.at[k] = there ? row * grid.x.size + column : 0;
      c.y[k] = there ? (down ? y - top : 1 - (y - top)) : nothing;
      c.x[k] = there ? (right ? x - left : 1 - (x - left)) : nothing;
      c.sign_y[k] = there ? (moves_y ? 0 : down ? 1 : -1) : nothing;
      c.sign_x[k] = there ? (moves_x ? 0 : right ? 1 : -1) : nothing;
    }
    return c;
  }
  CREMA_FUNCTOR double weight(int k) const { return y[k] * x[k]; }

 private:
  /// Moves a point that is not between two of the pixels to the nearest one. Whether it did so.
  static CREMA_FUNCTOR bool move(int64_t pixels, double& at) {
    const auto last = static_cast<double>(pixels - 1);
    if ((at > 0 && at < last) || at != at) return false;
    at = at > 0 ? last : 0;
    return true;
  }
};

/// y[sample, c, p] = the value of the map at the point.
template <class T>
struct Sample {
  SamplingGrid grid;
  const double* points;
  const T* u;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t p = i % grid.positions(), map = i / grid.positions();
    const Corners c = Corners::of(grid, points + 2 * (map / grid.channels * grid.positions() + p));
    double sum = 0;
    for (int k = 0; k < 4; ++k) {
      if (c.weight(k) != 0)
        sum += c.weight(k) * static_cast<double>(u[map * grid.pixels() + c.at[k]]);
    }
    y[i] = static_cast<T>(sum);
  }
};

/// du of a map: one thread adds it up, in the order of the positions.
template <class T>
struct MapGradient {
  SamplingGrid grid;
  const double* points;
  const T* dy;
  T* du;
  CREMA_FUNCTOR void operator()(int64_t map) const {
    T* const to = du + map * grid.pixels();
    for (int64_t i = 0; i < grid.pixels(); ++i) to[i] = T{0};
    for (int64_t p = 0; p < grid.positions(); ++p) {
      const Corners c =
          Corners::of(grid, points + 2 * (map / grid.channels * grid.positions() + p));
      for (int k = 0; k < 4; ++k) {
        const auto w = static_cast<T>(c.weight(k));
        if (w != T{0}) to[c.at[k]] += w * dy[map * grid.positions() + p];
      }
    }
  }
};

/// d_points: the gradient of row and column of each point.
template <class T>
struct PointGradient {
  SamplingGrid grid;
  const double* points;
  const T *u, *dy;
  double* d_points;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t sample = i / grid.positions(), p = i % grid.positions();
    const Corners c = Corners::of(grid, points + 2 * i);
    double down = 0, right = 0;
    for (int64_t map = sample * grid.channels; map < (sample + 1) * grid.channels; ++map) {
      const auto d = static_cast<double>(dy[map * grid.positions() + p]);
      for (int k = 0; k < 4; ++k) {
        if (!c.there[k]) continue;
        const double value = d * static_cast<double>(u[map * grid.pixels() + c.at[k]]);
        down += c.sign_y[k] * c.x[k] * value;
        right += c.sign_x[k] * c.y[k] * value;
      }
    }
    d_points[2 * i] = down;
    d_points[2 * i + 1] = right;
  }
};

/// The gradient of element i % 6 of the map of sample i / 6.
template <class T>
struct ThetaGradient {
  SamplingGrid grid;
  Thetas<T> thetas;
  const double* d_points;
  T* d_values;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t sample = i / 6, element = i % 6, positions = grid.positions();
    if (thetas.place[element] < 0) return;
    const int64_t row = element / 3, column = element % 3;
    double sum = 0;
    for (int64_t p = 0; p < positions; ++p) {
      const double at = column == 0   ? grid.y.coordinate(p / grid.x.count)
                        : column == 1 ? grid.x.coordinate(p % grid.x.count)
                                      : 1;
      sum += at * d_points[2 * (sample * positions + p) + row];
    }
    const double extent = row == 0 ? grid.y.extent : grid.x.extent;
    d_values[sample * thetas.given + thetas.place[element]] = static_cast<T>(sum * extent / 2);
  }
};

class SpatialTransformerLayer : public TwoSidedLayer {
 public:
  explicit SpatialTransformerLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const SpatialTransformerParameter& s = init.param.st_param();
    if (s.transform_type() != "affine")
      throw Error("transform_type \"", s.transform_type(), "\" is not offered; \"affine\" is");
    if (s.sampler_type() != "bilinear")
      throw Error("sampler_type \"", s.sampler_type(), "\" is not offered; \"bilinear\" is");
    if ((s.has_output_h() && s.output_h() <= 0) || (s.has_output_w() && s.output_w() <= 0))
      throw Error("a top of ", s.has_output_h() ? s.output_h() : 1, " x ",
                  s.has_output_w() ? s.output_w() : 1,
                  " pixels is empty; output_H and output_W are at least 1");
    const std::array<bool, 6> is_fixed = {s.has_theta_1_1(), s.has_theta_1_2(), s.has_theta_1_3(),
                                          s.has_theta_2_1(), s.has_theta_2_2(), s.has_theta_2_3()};
    const std::array<double, 6> fixed = {s.theta_1_1(), s.theta_1_2(), s.theta_1_3(),
                                         s.theta_2_1(), s.theta_2_2(), s.theta_2_3()};
    for (size_t i = 0; i < 6; ++i) {
      if (!std::isfinite(fixed[i]))
        throw Error("theta_", i / 3 + 1, "_", i % 3 + 1, " ", fixed[i], " is no number");
      fixed_[i] = fixed[i];
      place_[i] = is_fixed[i] ? -1 : given_++;
    }
  }

  Arity arity() const override {
    return {.min_bottoms = given_ == 0 ? 1 : 2, .max_bottoms = given_ == 0 ? 1 : 2};
  }
  bool can_propagate(int bottom) const override {
    return bottom == 1 || param().st_param().to_compute_du();
  }
  bool is_constant(int bottom) const override { return !can_propagate(bottom); }
  bool is_exact_bottom(int bottom) const override { return bottom == 1; }

  void reshape(Blobs bottom, Blobs top) override {
    const SpatialTransformerParameter& settings = param().st_param();
    const Shape& maps = bottom[0]->shape();
    if (maps.rank() != 4 || maps[2] * maps[3] == 0)
      throw Error("'", bottom[0]->name, "' (", maps.str(),
                  ") is not of the form (N, C, H, W) with pixels");
    if (maps[2] * maps[3] > std::numeric_limits<int32_t>::max())
      throw Error("a map of '", bottom[0]->name, "' (", maps.str(), ") has more than ",
                  std::numeric_limits<int32_t>::max(), " pixels");
    if (given_ > 0) {
      const Shape& thetas = bottom[1]->shape();
      if (thetas.rank() < 1 || thetas[0] != maps[0] || thetas.count(1) != given_)
        throw Error("'", bottom[1]->name, "' (", thetas.str(), ") does not hold ", given_,
                    " elements of a 2 x 3 map for each of the ", maps[0], " samples of '",
                    bottom[0]->name, "' (", maps.str(), "); theta_1_1 to theta_2_3 fix ",
                    6 - given_);
    }
    grid_.channels = maps[1];
    grid_.border = settings.padding_mode() == SpatialTransformerParameter::BORDER;
    grid_.y = axis(maps[2], settings.has_output_h() ? settings.output_h() : maps[2]);
    grid_.x = axis(maps[3], settings.has_output_w() ? settings.output_w() : maps[3]);
    top[0]->reshape(Shape{maps[0], maps[1], grid_.y.count, grid_.x.count});
    const Shape each{maps[0], grid_.positions(), 2};
    if (points_.shape() != each) points_ = Tensor(each, DType::f64);
    std::get<0>(samplers_).set_sizes(grid_, maps[0]);
    std::get<1>(samplers_).set_sizes(grid_, maps[0]);
  }

  Flops flops(Blobs, Blobs top) const override {
    const auto n = static_cast<double>(top[0]->count());
    return {8 * n, (propagates(0) ? 8 * n : 0) + (propagates(1) ? 20 * n : 0)};
  }
  void prepare_reference(Blobs, Blobs) override { on_host_ = true; }
  void prepare_device(Blobs, Blobs) override { on_host_ = false; }
  size_t kept_bytes() const override {
    const bool finds_theta = trains() && given_ > 0;
    // Backward without a sampler keeps the gradients of the points too.
    if (!on_host_ || grid_.is_sparse()) return points_.bytes() * (finds_theta ? 2 : 1);
    const size_t sampler = dtype() == DType::f32 ? std::get<0>(samplers_).bytes(trains())
                                                 : std::get<1>(samplers_).bytes(trains());
    const size_t sums = finds_theta ? static_cast<size_t>(6 * samples()) * sizeof(double) : 0;
    return points_.bytes() + sampler + sums;
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      double* points = device.overwrite<double>(points_);
      const T* values = given_ > 0 ? device.read<T>(bottom[1]->data) : nullptr;
      for_each(device, points_.count() / 2, kPassGrain / 4,
               FindPoints<T>{grid_, thetas<T>(values), points});
      const T* u = device.read<T>(bottom[0]->data);
      T* y = device.overwrite<T>(top[0]->data);
      if (!device.on_host() || grid_.is_sparse())
        return for_each(device, top[0]->count(), kPassGrain, Sample<T>{grid_, points, u, y});
      sampler<T>().forward(points, u, y);
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const double* points = device.read<double>(points_);
      const T* dy = device.read<T>(top[0]->diff);
      const bool finds_theta = propagate.size() > 1 && propagate[1];
      T* du = propagate[0] ? device.overwrite<T>(bottom[0]->diff) : nullptr;
      const T* u = finds_theta ? device.read<T>(bottom[0]->data) : nullptr;
      T* d_values = finds_theta ? device.overwrite<T>(bottom[1]->diff) : nullptr;
      if (device.on_host() && !grid_.is_sparse()) {
        if (du == nullptr && !finds_theta) return;
        theta_.resize(finds_theta ? static_cast<size_t>(samples() * 6) : 0);
        sampler<T>().backward(points, u, dy, du, finds_theta ? theta_.data() : nullptr);
        for (size_t i = 0; i < theta_.size(); ++i) {
          if (place_[i % 6] >= 0)
            d_values[static_cast<int>(i / 6) * given_ + place_[i % 6]] = static_cast<T>(theta_[i]);
        }
        return;
      }
      if (du != nullptr)
        for_each(device, samples() * grid_.channels, 1, MapGradient<T>{grid_, points, dy, du});
      if (!finds_theta) return;
      if (d_points_.shape() != points_.shape()) d_points_ = Tensor(points_.shape(), DType::f64);
      double* d_points = device.overwrite<double>(d_points_);
      for_each(device, points_.count() / 2, 1, PointGradient<T>{grid_, points, u, dy, d_points});
      for_each(device, samples() * 6, 1,
               ThetaGradient<T>{grid_, thetas<T>(nullptr), d_points, d_values});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    if (given_ > 0 && propagates(1)) return {{0}, false};
    return {false, false};
  }

 private:
  SampledAxis axis(int64_t size, int64_t count) const {
    const SpatialTransformerParameter& settings = param().st_param();
    const auto pixels = static_cast<double>(size), points = static_cast<double>(count);
    SampledAxis axis{.size = size, .count = count};
    if (!settings.has_align_corners()) {
      axis.extent = pixels;
      axis.first = -1;
      axis.step = 2 / points;
    } else if (settings.align_corners()) {
      axis.extent = pixels - 1;
      axis.first = count > 1 ? -1 : 0;
      axis.step = count > 1 ? 2 / (points - 1) : 0;
    } else {
      axis.extent = pixels;
      axis.shift = -0.5;
      axis.first = 1 / points - 1;
      axis.step = 2 / points;
    }
    return axis;
  }

  /// `values`: of bottom 1; backward needs their places alone.
  template <class T>
  Thetas<T> thetas(const T* values) const {
    Thetas<T> thetas{};
    std::copy_n(fixed_, 6, thetas.fixed);
    std::copy_n(place_, 6, thetas.place);
    thetas.given = given_;
    thetas.values = values;
    return thetas;
  }

  int64_t samples() const { return points_.shape()[0]; }
  template <class T>
  MapSampler<T>& sampler() {
    return std::get<MapSampler<T>>(samplers_);
  }

  double fixed_[6];
  int place_[6];
  int given_ = 0;
  SamplingGrid grid_;
  bool on_host_ = true;
  Tensor points_{Shape{0}, DType::f64};                         // (N, positions, 2)
  Tensor d_points_{Shape{0}, DType::f64};                       // likewise; of a device
  std::vector<double> theta_;                                   // (N, 6), gradients on the host
  std::tuple<MapSampler<float>, MapSampler<double>> samplers_;  // of the host
};

}  // namespace

void register_spatial_transformer(Registry& registry) {
  add_two_sided<SpatialTransformerLayer>(registry, "SpatialTransformer");
}

}  // namespace crema
