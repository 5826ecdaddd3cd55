#include "layers/spatial_transformer/map_sampler.hpp"

#include <algorithm>
#include <type_traits>

#include "core/parallel.hpp"
#include "core/transpose.hpp"
#include "layers/spatial_transformer/map_kernels.hpp"

namespace crema {
namespace {

constexpr int64_t kGrain = 8192;  // values of the top that a thread should have at least

/// As transpose(), which moves bits; one channel is copied.
template <class T>
void turn(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t rows,
          int64_t columns) {
  if (rows == 1 && to_stride == 1) return void(std::copy_n(from, columns, to));
  if (columns == 1 && from_stride == 1) return void(std::copy_n(from, rows, to));
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  transpose(reinterpret_cast<const Bits*>(from), from_stride, reinterpret_cast<Bits*>(to),
            to_stride, rows, columns);
}

}  // namespace

template <class T>
void MapSampler<T>::set_sizes(const SamplingGrid& grid, int64_t samples) {
  grid_ = grid;
  y_.clear();
  x_.clear();
  samples_ = samples;
  const int64_t channels = std::max<int64_t>(grid.channels, 1);
  width_ = channels > 8 ? kMapChannels : channels > 4 ? 8 : channels > 1 ? 4 : 1;
  // Few samples have enough blocks for the threads if these are narrow. Not by the number of
  // threads: sums over channels would depend on it.
  while (width_ > 4 && samples * ((channels + width_ - 1) / width_) < 8) width_ /= 2;
  blocks_ = (grid.channels + width_ - 1) / width_;
}

template <class T>
size_t MapSampler<T>::bytes(bool trains) const {
  if (grid_.is_sparse()) return 0;
  const int64_t maps = (grid_.pixels() + 1) * (trains ? 2 : 1);
  const int64_t values = omp_get_max_threads() * (maps + kMapPositions) * width_;
  const int64_t coordinates = trains ? 2 * grid_.positions() : 0;
  const int64_t parts = trains ? samples_ * blocks_ * 6 : 0;
  return static_cast<size_t>(values + coordinates) * sizeof(T) +
         static_cast<size_t>(parts) * sizeof(double);
}

template <class T>
template <class Body>
void MapSampler<T>::each_block(const Body& body) {
  const auto threads = static_cast<size_t>(omp_get_max_threads());
  if (scratch_.size() < threads) scratch_.resize(threads);
  const int64_t each = grid_.positions() * width_;
  parallel_for(samples_ * blocks_, kGrain / (each + 1) + 1, [&](int64_t begin, int64_t end) {
    // One piece only where another team runs this.
    Scratch& scratch = scratch_[static_cast<size_t>(thread_number()) % scratch_.size()];
    scratch.maps.resize(static_cast<size_t>((grid_.pixels() + 1) * width_));
    scratch.values.resize(static_cast<size_t>(kMapPositions * width_));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = i / blocks_, first = i % blocks_ * width_;
      body(i,
           Block{sample, sample * grid_.channels + first, std::min(width_, grid_.channels - first)},
           scratch);
    }
  });
}

template <class T>
void MapSampler<T>::read_maps(const Block& block, const T* u, Scratch& scratch) const {
  const int64_t pixels = grid_.pixels();
  T* const maps = scratch.maps.data();
  turn(u + block.map * pixels, pixels, maps, width_, block.channels, pixels);
  std::fill_n(maps + pixels * width_, width_, T{0});
}

template <class T>
void MapSampler<T>::forward(const double* points, const T* u, T* y) {
  const int64_t positions = grid_.positions();
  each_block([&](int64_t, const Block& block, Scratch& scratch) {
    read_maps(block, u, scratch);
    MapCorners<T> corners;
    for (int64_t first = 0; first < positions; first += kMapPositions) {
      corners.count = std::min(kMapPositions, positions - first);
      map_kernels<T>().find(points + 2 * (block.sample * positions + first), grid_.y.size,
                            grid_.x.size, false, grid_.border, corners);
      map_kernels<T>().sample(corners, width_, scratch.maps.data(), scratch.values.data());
      turn(scratch.values.data(), width_, y + block.map * positions + first, positions,
           corners.count, block.channels);
    }
  });
}

template <class T>
void MapSampler<T>::backward(const double* points, const T* u, const T* dy, T* du, double* theta) {
  const int64_t positions = grid_.positions(), pixels = grid_.pixels();
  if (theta != nullptr) {
    parts_.assign(static_cast<size_t>(samples_ * blocks_ * 6), 0.0);
    for (int64_t p = static_cast<int64_t>(y_.size()); p < positions; ++p) {
      y_.push_back(static_cast<T>(grid_.y.coordinate(p / grid_.x.count)));
      x_.push_back(static_cast<T>(grid_.x.coordinate(p % grid_.x.count)));
    }
  }
  each_block([&](int64_t number, const Block& block, Scratch& scratch) {
    if (theta != nullptr) read_maps(block, u, scratch);
    if (du != nullptr) scratch.slopes.assign(static_cast<size_t>((pixels + 1) * width_), T{0});
    double sums[6 * kMapChannels] = {};
    MapCorners<T> corners;
    for (int64_t first = 0; first < positions; first += kMapPositions) {
      corners.count = std::min(kMapPositions, positions - first);
      map_kernels<T>().find(points + 2 * (block.sample * positions + first), grid_.y.size,
                            grid_.x.size, theta != nullptr, grid_.border, corners);
      turn(dy + block.map * positions + first, positions, scratch.values.data(), width_,
           block.channels, corners.count);
      if (du != nullptr) {
        map_kernels<T>().spread(corners, width_, scratch.values.data(), scratch.slopes.data());
      }
      if (theta == nullptr) continue;
      corners.y = y_.data() + first;
      corners.x = x_.data() + first;
      map_kernels<T>().add_slopes(corners, width_, scratch.maps.data(), scratch.values.data(),
                                  sums);
    }
    if (du != nullptr) {
      turn(scratch.slopes.data(), width_, du + block.map * pixels, pixels, pixels, block.channels);
    }
    if (theta == nullptr) return;
    for (int64_t e = 0; e < 6; ++e) {
      for (int64_t c = 0; c < block.channels; ++c) {
        parts_[static_cast<size_t>(number * 6 + e)] += sums[e * width_ + c];
      }
    }
  });
  if (theta == nullptr) return;
  std::fill_n(theta, samples_ * 6, 0.0);
  for (int64_t i = 0; i < samples_ * blocks_ * 6; ++i) {
    const double extent = i % 6 < 3 ? grid_.y.extent : grid_.x.extent;
    theta[i / 6 / blocks_ * 6 + i % 6] += parts_[static_cast<size_t>(i)] * extent / 2;
  }
}

template class MapSampler<float>;
template class MapSampler<double>;

}  // namespace crema
