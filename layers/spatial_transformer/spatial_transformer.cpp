// SpatialTransformer: samples maps at the points of an affine map of a grid. See README.md.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/dispatch.hpp"
#include "core/simd.hpp"
#include "kit/passes.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Points of an axis of `size` pixels. Coordinate t from -1 to 1 is pixel
/// (t + 1) / 2 * extent + shift.
struct Axis {
  int64_t size = 0;   // pixels of the bottom
  int64_t count = 0;  // those of the top
  double extent = 0, shift = 0;
  double first = 0, step = 0;  // coordinates of the top's pixels

  CREMA_FUNCTOR double coordinate(int64_t i) const { return first + step * static_cast<double>(i); }
  CREMA_FUNCTOR double pixel(double t) const { return (t + 1) / 2 * extent + shift; }
};

/// The rows and columns of the maps.
struct Grid {
  Axis y, x;
  int64_t channels = 0;

  CREMA_FUNCTOR int64_t positions() const { return y.count * x.count; }
  CREMA_FUNCTOR int64_t pixels() const { return y.size * x.size; }
};

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
  Grid grid;
  Thetas<T> thetas;
  double* points;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t sample = i / grid.positions(), p = i % grid.positions();
    const double y = grid.y.coordinate(p / grid.x.count), x = grid.x.coordinate(p % grid.x.count);
    points[2 * i] =
        grid.y.pixel(thetas.at(sample, 0) * y + thetas.at(sample, 1) * x + thetas.at(sample, 2));
    points[2 * i + 1] =
        grid.x.pixel(thetas.at(sample, 3) * y + thetas.at(sample, 4) * x + thetas.at(sample, 5));
  }
};

/// The pixels around a point, those below and right of it second. What lies outside of the map has
/// weight 0, and any place.
struct Corners {
  int64_t at[4];
  double y[4], x[4];  // weights along the axes; NaN at points that are no numbers
  double sign_y[4], sign_x[4];

  static CREMA_FUNCTOR Corners of(const Grid& grid, const double* point) {
    Corners c{};
    const double y = point[0], x = point[1];
    const bool inside = y > -1 && y < static_cast<double>(grid.y.size) && x > -1 &&
                        x < static_cast<double>(grid.x.size);
    const double nothing = y != y || x != x ? y + x : 0;
    const double top = inside ? std::floor(y) : 0, left = inside ? std::floor(x) : 0;
    for (int k = 0; k < 4; ++k) {
      const int down = k / 2, right = k % 2;
      const int64_t row = static_cast<int64_t>(top) + down,
                    column = static_cast<int64_t>(left) + right;
      const bool there =
          inside && row >= 0 && row < grid.y.size && column >= 0 && column < grid.x.size;
      c.at[k] = there ? row * grid.x.size + column : 0;
      c.y[k] = there ? (down ? y - top : 1 - (y - top)) : nothing;
      c.x[k] = there ? (right ? x - left : 1 - (x - left)) : nothing;
      c.sign_y[k] = there ? (down ? 1 : -1) : nothing;
      c.sign_x[k] = there ? (right ? 1 : -1) : nothing;
    }
    return c;
  }
  CREMA_FUNCTOR double weight(int k) const { return y[k] * x[k]; }
};

/// Positions whose corners the host finds at a time, for all channels.
constexpr int64_t kChunk = 128;

/// Corners of a chunk, one behind the other, each kChunk long: places, and a factor each for the
/// sum that a loop makes of the values there.
template <class T>
struct Chunk {
  alignas(64) int32_t at[4 * kChunk];
  alignas(64) T factor[4 * kChunk], other[4 * kChunk];
};

template <class T>
[[gnu::always_inline]] inline void mix(const T* u, const int32_t* at, const T* factor, int64_t n,
                                       T* y) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    T sum{0};
    for (int64_t k = 0; k < 4; ++k) {
      const T w = factor[k * kChunk + i], value = u[at[k * kChunk + i]];
      sum += w != T{0} ? w * value : T{0};
    }
    y[i] = sum;
  }
}

/// The sums for both axes, times dy, are added to `by_y` and `by_x`.
template <class T>
[[gnu::always_inline]] inline void add_slopes(const T* u, const T* dy, const Chunk<T>* chunk,
                                              int64_t n, T* by_y, T* by_x) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    T down{0}, right{0};
    for (int64_t k = 0; k < 4; ++k) {
      const int64_t j = k * kChunk + i;
      const T value = u[chunk->at[j]], f = chunk->factor[j], g = chunk->other[j];
      down += f != T{0} ? f * value : T{0};
      right += g != T{0} ? g * value : T{0};
    }
    by_y[i] += down * dy[i];
    by_x[i] += right * dy[i];
  }
}

template <class T>
void add_to_corners(const T* dy, const int32_t* at, const T* factor, int64_t n, T* du) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < 4; ++k) {
      const T w = factor[k * kChunk + i];
      if (w != T{0}) du[at[k * kChunk + i]] += w * dy[i];
    }
  }
}

/// y[sample, c, p] = the value of the map at the point.
template <class T>
struct Sample {
  Grid grid;
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
  Grid grid;
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
  Grid grid;
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
        if (c.sign_y[k] == 0) continue;
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
  Grid grid;
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
    grid_.y = axis(maps[2], settings.has_output_h() ? settings.output_h() : maps[2]);
    grid_.x = axis(maps[3], settings.has_output_w() ? settings.output_w() : maps[3]);
    top[0]->reshape(Shape{maps[0], maps[1], grid_.y.count, grid_.x.count});
    const Shape each{maps[0], grid_.positions(), 2};
    if (points_.shape() != each) points_ = Tensor(each, DType::f64);
    if (d_points_.shape() != each) d_points_ = Tensor(trains() ? each : Shape{0}, DType::f64);
  }

  Flops flops(Blobs, Blobs top) const override {
    const auto n = static_cast<double>(top[0]->count());
    return {8 * n, (propagates(0) ? 8 * n : 0) + (propagates(1) ? 20 * n : 0)};
  }
  size_t kept_bytes() const override { return points_.bytes() + d_points_.bytes(); }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      double* points = side.overwrite<double>(points_);
      const T* values = given_ > 0 ? side.read<T>(bottom[1]->data) : nullptr;
      for_each(side, points_.count() / 2, kPassGrain / 4,
               FindPoints<T>{grid_, thetas<T>(values), points});
      const T* u = side.read<T>(bottom[0]->data);
      T* y = side.overwrite<T>(top[0]->data);
      if (side.device() != nullptr)
        return for_each(side, top[0]->count(), kPassGrain, Sample<T>{grid_, points, u, y});
      each_chunk<T>([&](int64_t sample, int64_t first, int64_t n, Chunk<T>& chunk) {
        find_weights(points + 2 * (sample * grid_.positions() + first), n, chunk);
        for (int64_t map = sample * grid_.channels; map < (sample + 1) * grid_.channels; ++map) {
          vectorized<mix<T>>(u + map * grid_.pixels(), static_cast<const int32_t*>(chunk.at),
                             static_cast<const T*>(chunk.factor), n,
                             y + map * grid_.positions() + first);
        }
      });
    });
  }

  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const double* points = side.read<double>(points_);
      const T* dy = side.read<T>(top[0]->diff);
      const int64_t maps = points_.shape()[0] * grid_.channels;
      if (propagate[0]) {
        T* du = side.overwrite<T>(bottom[0]->diff);
        if (side.device() != nullptr) {
          for_each(side, maps, 1, MapGradient<T>{grid_, points, dy, du});
        } else {
          add_maps(maps, points, dy, du);
        }
      }
      if (propagate.size() < 2 || !propagate[1]) return;
      const T* u = side.read<T>(bottom[0]->data);
      double* d_points = side.overwrite<double>(d_points_);
      if (side.device() != nullptr) {
        for_each(side, points_.count() / 2, 1, PointGradient<T>{grid_, points, u, dy, d_points});
      } else {
        find_slopes(points, u, dy, d_points);
      }
      for_each(side, points_.shape()[0] * 6, kPassGrain / (grid_.positions() + 1) + 1,
               ThetaGradient<T>{grid_, thetas<T>(nullptr), d_points,
                                side.overwrite<T>(bottom[1]->diff)});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    if (given_ > 0 && propagates(1)) return {{0}, false};
    return {false, false};
  }

 private:
  Axis axis(int64_t size, int64_t count) const {
    const SpatialTransformerParameter& settings = param().st_param();
    const auto pixels = static_cast<double>(size), points = static_cast<double>(count);
    Axis axis{.size = size, .count = count};
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

  /// body(sample, first position, positions, chunk) for all chunks of all samples, on the threads.
  template <class T, class Body>
  void each_chunk(const Body& body) const {
    const int64_t positions = grid_.positions(), chunks = (positions + kChunk - 1) / kChunk;
    parallel_for(points_.shape()[0] * chunks, 8 / (grid_.channels + 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   Chunk<T> chunk;
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t first = i % chunks * kChunk;
                     body(i / chunks, first, std::min(kChunk, positions - first), chunk);
                   }
                 });
  }
  template <class T>
  void find_weights(const double* points, int64_t n, Chunk<T>& chunk) const {
    for (int64_t i = 0; i < n; ++i) {
      const Corners c = Corners::of(grid_, points + 2 * i);
      for (int k = 0; k < 4; ++k) {
        chunk.at[k * kChunk + i] = static_cast<int32_t>(c.at[k]);
        chunk.factor[k * kChunk + i] = static_cast<T>(c.weight(k));
      }
    }
  }

  /// A thread has some maps of a sample, and finds the corners for all of them.
  template <class T>
  void add_maps(int64_t maps, const double* points, const T* dy, T* du) const {
    const int64_t positions = grid_.positions();
    parallel_for(maps, kPassGrain / (positions + 1) + 1, [&](int64_t begin, int64_t end) {
      Chunk<T> chunk;
      std::fill(du + begin * grid_.pixels(), du + end * grid_.pixels(), T{0});
      while (begin < end) {
        const int64_t sample = begin / grid_.channels;
        const int64_t last = std::min(end, (sample + 1) * grid_.channels);
        for (int64_t first = 0; first < positions; first += kChunk) {
          const int64_t n = std::min(kChunk, positions - first);
          find_weights(points + 2 * (sample * positions + first), n, chunk);
          for (int64_t map = begin; map < last; ++map) {
            add_to_corners(dy + map * positions + first, chunk.at, chunk.factor, n,
                           du + map * grid_.pixels());
          }
        }
        begin = last;
      }
    });
  }

  template <class T>
  void find_slopes(const double* points, const T* u, const T* dy, double* d_points) const {
    each_chunk<T>([&](int64_t sample, int64_t first, int64_t n, Chunk<T>& chunk) {
      const int64_t at = sample * grid_.positions() + first;
      for (int64_t i = 0; i < n; ++i) {
        const Corners c = Corners::of(grid_, points + 2 * (at + i));
        for (int k = 0; k < 4; ++k) {
          chunk.at[k * kChunk + i] = static_cast<int32_t>(c.at[k]);
          chunk.factor[k * kChunk + i] = static_cast<T>(c.sign_y[k] * c.x[k]);
          chunk.other[k * kChunk + i] = static_cast<T>(c.sign_x[k] * c.y[k]);
        }
      }
      alignas(64) T by_y[kChunk] = {}, by_x[kChunk] = {};
      for (int64_t map = sample * grid_.channels; map < (sample + 1) * grid_.channels; ++map) {
        vectorized<add_slopes<T>>(u + map * grid_.pixels(), dy + map * grid_.positions() + first,
                                  static_cast<const Chunk<T>*>(&chunk), n, static_cast<T*>(by_y),
                                  static_cast<T*>(by_x));
      }
      for (int64_t i = 0; i < n; ++i) {
        d_points[2 * (at + i)] = static_cast<double>(by_y[i]);
        d_points[2 * (at + i) + 1] = static_cast<double>(by_x[i]);
      }
    });
  }

  double fixed_[6];
  int place_[6];
  int given_ = 0;
  Grid grid_;
  Tensor points_{Shape{0}, DType::f64};    // (N, positions, 2)
  Tensor d_points_{Shape{0}, DType::f64};  // likewise
};

}  // namespace

void register_spatial_transformer(Registry& registry) {
  add_two_sided<SpatialTransformerLayer>(registry, "SpatialTransformer");
}

}  // namespace crema
