// MultiStageMeanfield: mean field inference in a dense conditional random field. See README.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "backend/cpu/blas.hpp"
#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "crema/layer.hpp"
#include "crema/registry.hpp"
#include "layers/multi_stage_meanfield/permutohedral.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kPixels = 2048;  // of a chunk, one thread's

/// Rows of p become softmax of the rows of x.
template <class T>
[[gnu::always_inline]] inline void soften_rows(int64_t rows, int64_t n, const T* x, T* p) {
  for (int64_t r = 0; r < rows; ++r, x += n, p += n) {
    T most = x[0], sum{0};
    for (int64_t c = 1; c < n; ++c) most = std::max(most, x[c]);
    for (int64_t c = 0; c < n; ++c) sum += p[c] = std::exp(x[c] - most);
    const T scale = T{1} / sum;
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) p[c] *= scale;
  }
}

/// dx = p * (dp - the mean of dp); dx may be dp.
template <class T>
[[gnu::always_inline]] inline void soften_gradients(int64_t rows, int64_t n, const T* p,
                                                    const T* dp, T* dx) {
  for (int64_t r = 0; r < rows; ++r, p += n, dp += n, dx += n) {
    T mean{0};
#pragma omp simd reduction(+ : mean)
    for (int64_t c = 0; c < n; ++c) mean += p[c] * dp[c];
#pragma omp simd
    for (int64_t c = 0; c < n; ++c) dx[c] = p[c] * (dp[c] - mean);
  }
}

/// body(first pixel, pixels) for chunks, each on one thread with single-threaded products.
template <class Body>
void each_chunk(int64_t pixels, const Body& body) {
  parallel_for((pixels + kPixels - 1) / kPixels, 1, [&](int64_t begin, int64_t end) {
    const ThreadScope one(1);
    for (int64_t i = begin; i < end; ++i) {
      body(i * kPixels, std::min(kPixels, pixels - i * kPixels));
    }
  });
}

/// What the layer works with, in one type. Values of pixels are (pixels, channels): a row a pixel.
template <class T>
struct Field {
  Permutohedral<T> spatial;
  std::vector<T> spatial_scale;                     // (pixels): 1 over the filtered ones
  std::vector<Permutohedral<T>> bilateral;          // one a sample
  std::vector<std::vector<T>> bilateral_scale;      // likewise
  std::vector<T> unary, states, filtered, sums;     // (pixels, channels)
  std::vector<T> probabilities;                     // (samples, iterations, pixels, channels)
  std::vector<T> spatial_kernel, bilateral_kernel;  // compatibility * weights
  std::vector<T> products, parts;                   // (channels, channels), and one a chunk
  int64_t height = 0, width = 0;                    // of the spatial lattice
  std::vector<double> features;

  size_t bytes() const {
    size_t values = spatial_scale.capacity() + unary.capacity() + states.capacity() +
                    filtered.capacity() + sums.capacity() + probabilities.capacity() +
                    parts.capacity();
    size_t bytes = spatial.bytes() + features.capacity() * sizeof(double);
    for (const auto& lattice : bilateral) bytes += lattice.bytes();
    for (const auto& scale : bilateral_scale) values += scale.capacity();
    return bytes + values * sizeof(T);
  }
};

/// scale = 1 over what the lattice makes of ones.
template <class T>
void normalize(int64_t pixels, Permutohedral<T>& lattice, std::vector<T>& scale) {
  scale.assign(static_cast<size_t>(pixels), T{1});
  lattice.filter(1, false, scale.data(), scale.data());
  for (T& value : scale) value = T{1} / value;
}

template <class T>
void scale_rows(int64_t pixels, int64_t n, const std::vector<T>& scale, T factor, const T* from,
                T* to) {
  parallel_for(pixels, kElementGrain / (n + 1), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T own = scale[static_cast<size_t>(p)] * factor;
      for (int64_t c = 0; c < n; ++c) to[p * n + c] = from[p * n + c] * own;
    }
  });
}

class MultiStageMeanfieldLayer : public Layer {
 public:
  explicit MultiStageMeanfieldLayer(const LayerInit& init) : Layer(init) {
    const MultiStageMeanfieldParameter& s = settings();
    iterations_ = s.num_iterations();
    if (iterations_ == 0) throw Error("num_iterations is 0; set it to 1 or more");
    const auto check = [](const char* name, float theta) {
      if (!(theta > 0 && std::isfinite(theta)))
        throw Error(name, " ", theta, " is no width of a kernel; set it to a number above 0");
    };
    check("theta_alpha", s.theta_alpha());
    check("theta_beta", s.theta_beta());
    check("theta_gamma", s.theta_gamma());
  }

  Arity arity() const override { return {.min_bottoms = 3, .max_bottoms = 3}; }
  bool can_propagate(int bottom) const override { return bottom < 2; }

  void setup(Blobs bottom, Blobs) override {
    const Shape& unary = bottom[0]->shape();
    if (unary.rank() != 4 || unary[1] == 0)
      throw Error("'", bottom[0]->name, "' (", unary.str(),
                  ") is not of the form (N, C, H, W) with labels");
    const Shape square{1, 1, unary[1], unary[1]};
    add_diagonal(square, settings().spatial_filter_weight());
    add_diagonal(square, settings().bilateral_filter_weight());
    add_diagonal(square, -1);
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &unary = bottom[0]->shape(), &image = bottom[2]->shape();
    if (bottom[1]->shape() != unary)
      throw Error("'", bottom[0]->name, "' (", unary.str(), ") and '", bottom[1]->name, "' (",
                  bottom[1]->shape().str(), ") must have the same shape");
    if (unary.rank() != 4 || unary[1] != params()[0]->shape()[2])
      throw Error("'", bottom[0]->name, "' (", unary.str(), ") has not the ",
                  params()[0]->shape()[2], " labels that the parameters are for");
    if (image != Shape{unary[0], 3, unary[2], unary[3]})
      throw Error("'", bottom[2]->name, "' (", image.str(), ") is no image of 3 channels for '",
                  bottom[0]->name, "' (", unary.str(), ")");
    samples_ = unary[0];
    channels_ = unary[1];
    height_ = unary[2];
    width_ = unary[3];
    if (pixels() > std::numeric_limits<int32_t>::max() / 16)
      throw Error("an image of ", height_, " x ", width_, " pixels is too large; at most ",
                  std::numeric_limits<int32_t>::max() / 16, " have a place in the lattice");
    top[0]->reshape(unary);
  }

  Flops flops(Blobs, Blobs) const override {
    // Corners and directions of both lattices, and the products.
    const double filters = 2 * static_cast<double>(3 + 3 + 6 + 6) + 3 * (3 + 6);
    const double each = filters + 4 * static_cast<double>(channels_);
    const double all = each * static_cast<double>(samples_ * iterations_ * pixels() * channels_);
    return {all, 2 * all};
  }
  size_t kept_bytes() const override { return f32_.bytes() + f64_.bytes(); }

  void forward_cpu(Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      Field<T>& field = fit<T>();
      find_kernels(field);
      for (int64_t n = 0; n < samples_; ++n) {
        place_colours(field, n, bottom[2]->data.template host<T>());
        forward_sample(field, n, bottom, top[0]->data.template host_overwrite<T>());
      }
    });
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      Field<T>& field = fit<T>();
      find_kernels(field);
      for (int64_t n = 0; n < samples_; ++n) backward_sample(field, n, *top[0], propagate, bottom);
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  const MultiStageMeanfieldParameter& settings() const {
    return param().multi_stage_meanfield_param();
  }
  int64_t pixels() const { return height_ * width_; }
  int64_t values() const { return pixels() * channels_; }

  void add_diagonal(const Shape& square, float value) {
    Filler diagonal = Filler::constant(static_cast<double>(value));
    diagonal.sparse = static_cast<int>(square[3]);  // zeros between its values
    add_param(square, diagonal);
  }

  template <class T>
  Field<T>& fit() {
    Field<T>& field = [&]() -> Field<T>& {
      if constexpr (std::is_same_v<T, float>) {
        return f32_;
      } else {
        return f64_;
      }
    }();
    const auto count = static_cast<size_t>(values());
    for (auto* rows : {&field.unary, &field.states, &field.filtered, &field.sums}) {
      rows->resize(count);
    }
    field.probabilities.resize(count *
                               (trains() ? static_cast<size_t>(samples_ * iterations_) : 1));
    field.bilateral.resize(static_cast<size_t>(trains() ? samples_ : 1));
    field.bilateral_scale.resize(field.bilateral.size());
    if (field.height == height_ && field.width == width_) return field;
    field.height = height_;
    field.width = width_;
    field.features.resize(static_cast<size_t>(2 * pixels()));
    for (int64_t p = 0; p < pixels(); ++p) {
      double* const at = field.features.data() + 2 * p;
      at[0] = static_cast<double>(p % width_) / static_cast<double>(settings().theta_gamma());
      at[1] = static_cast<double>(p / width_) / static_cast<double>(settings().theta_gamma());
    }
    field.spatial.place(pixels(), 2, field.features.data());
    normalize(pixels(), field.spatial, field.spatial_scale);
    return field;
  }

  /// Which lattice a sample has: without training, one at a time is kept.
  size_t kept(int64_t sample) const { return trains() ? static_cast<size_t>(sample) : 0; }

  template <class T>
  void place_colours(Field<T>& field, int64_t sample, const T* images) {
    const auto alpha = static_cast<double>(settings().theta_alpha());
    const auto beta = static_cast<double>(settings().theta_beta());
    field.features.resize(static_cast<size_t>(5 * pixels()));
    const T* const image = images + sample * 3 * pixels();
    for (int64_t p = 0; p < pixels(); ++p) {
      double* const at = field.features.data() + 5 * p;
      at[0] = static_cast<double>(p % width_) / alpha;
      at[1] = static_cast<double>(p / width_) / alpha;
      for (int64_t c = 0; c < 3; ++c) {
        at[2 + c] = static_cast<double>(image[c * pixels() + p]) / beta;
      }
    }
    Permutohedral<T>& lattice = field.bilateral[kept(sample)];
    lattice.place(pixels(), 5, field.features.data());
    normalize(pixels(), lattice, field.bilateral_scale[kept(sample)]);
  }

  template <class T>
  const T* parameter(size_t i) const {
    return params()[i]->data.template host<T>();
  }
  /// The products of the compatibility with the weights of both filters.
  template <class T>
  void find_kernels(Field<T>& field) const {
    const int64_t n = channels_;
    const ThreadScope one(1);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      auto& kernel = i == 0 ? field.spatial_kernel : field.bilateral_kernel;
      kernel.resize(static_cast<size_t>(n * n));
      gemm<T>(false, false, n, n, n, T{1}, parameter<T>(2), parameter<T>(i), T{0}, kernel.data());
    }
    field.products.resize(static_cast<size_t>(n * n));
    const int64_t chunks = (pixels() + kPixels - 1) / kPixels;
    field.parts.resize(static_cast<size_t>(trains() ? chunks * n * n : 0));
  }

  /// Rows of pixels from planes of channels, or back.
  template <class T>
  void to_rows(const T* planes, T* rows) const {
    parallel_for(pixels(), kElementGrain / (channels_ + 1), [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        for (int64_t c = 0; c < channels_; ++c) rows[p * channels_ + c] = planes[c * pixels() + p];
      }
    });
  }
  template <class T>
  void to_planes(const T* rows, T* planes) const {
    parallel_for(channels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t p = 0; p < pixels(); ++p) planes[c * pixels() + p] = rows[p * channels_ + c];
      }
    });
  }

  template <class T>
  T* probabilities(Field<T>& field, int64_t sample, int64_t iteration) const {
    return field.probabilities.data() +
           (trains() ? (sample * iterations_ + iteration) * values() : 0);
  }

  template <class T>
  void forward_sample(Field<T>& field, int64_t sample, Blobs bottom, T* top) const {
    const int64_t n = channels_;
    to_rows(bottom[0]->data.template host<T>() + sample * values(), field.unary.data());
    to_rows(bottom[1]->data.template host<T>() + sample * values(), field.states.data());
    T *const states = field.states.data(), *const filtered = field.filtered.data();
    for (int64_t i = 0; i < iterations_; ++i) {
      T* const p = probabilities(field, sample, i);
      each_chunk(pixels(), [&](int64_t first, int64_t count) {
        vectorized<soften_rows<T>>(count, n, static_cast<const T*>(states + first * n),
                                   p + first * n);
      });
      std::copy(field.unary.begin(), field.unary.end(), states);
      // states = unary - kernel * filtered
      const auto subtract = [&](Permutohedral<T>& lattice, const std::vector<T>& scale,
                                const std::vector<T>& kernel) {
        lattice.filter(n, false, p, filtered);
        scale_rows(pixels(), n, scale, T{1}, static_cast<const T*>(filtered), filtered);
        each_chunk(pixels(), [&](int64_t first, int64_t count) {
          gemm<T>(false, true, count, n, n, T{-1}, filtered + first * n, kernel.data(), T{1},
                  states + first * n);
        });
      };
      subtract(field.spatial, field.spatial_scale, field.spatial_kernel);
      subtract(field.bilateral[kept(sample)], field.bilateral_scale[kept(sample)],
               field.bilateral_kernel);
    }
    to_planes(static_cast<const T*>(states), top + sample * values());
  }

  template <class T>
  void backward_sample(Field<T>& field, int64_t sample, const Blob& top,
                       const std::vector<bool>& propagate, Blobs bottom) {
    const int64_t n = channels_;
    T *const d_states = field.states.data(), *const filtered = field.filtered.data();
    T *const d_unary = field.unary.data(), *const dp = field.sums.data();
    to_rows(top.diff.template host<T>() + sample * values(), d_states);
    std::fill(field.unary.begin(), field.unary.end(), T{0});
    for (int64_t i = iterations_ - 1; i >= 0; --i) {
      const T* const p = probabilities(field, sample, i);
      parallel_for(values(), kElementGrain, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) d_unary[k] += d_states[k];
      });
      std::fill(field.sums.begin(), field.sums.end(), T{0});
      // Filters and products of channels can change places: the filtered gradients of the
      // pairwise terms are all that the gradients of p and of the parameters need.
      const auto add = [&](Permutohedral<T>& lattice, const std::vector<T>& scale,
                           const std::vector<T>& kernel, size_t weights) {
        scale_rows(pixels(), n, scale, T{-1}, static_cast<const T*>(d_states), filtered);
        lattice.filter(n, true, filtered, filtered);
        each_chunk(pixels(), [&](int64_t first, int64_t count) {
          gemm<T>(false, false, count, n, n, T{1}, filtered + first * n, kernel.data(), T{1},
                  dp + first * n);
          gemm<T>(true, false, n, n, count, T{1}, filtered + first * n, p + first * n, T{0},
                  field.parts.data() + first / kPixels * n * n);
        });
        add_gradients(field, weights);
      };
      add(field.spatial, field.spatial_scale, field.spatial_kernel, 0);
      add(field.bilateral[kept(sample)], field.bilateral_scale[kept(sample)],
          field.bilateral_kernel, 1);
      each_chunk(pixels(), [&](int64_t first, int64_t count) {
        vectorized<soften_gradients<T>>(
            count, n, p + first * n, static_cast<const T*>(dp + first * n), d_states + first * n);
      });
    }
    if (propagate[0])
      to_planes(static_cast<const T*>(d_unary),
                bottom[0]->diff.template host_mut<T>() + sample * values());
    if (propagate[1])
      to_planes(static_cast<const T*>(d_states),
                bottom[1]->diff.template host_mut<T>() + sample * values());
  }

  /// From the sums over the pixels of a chunk each.
  template <class T>
  void add_gradients(Field<T>& field, size_t weights) {
    const int64_t n = channels_;
    std::fill(field.products.begin(), field.products.end(), T{0});
    for (size_t i = 0; i < field.parts.size(); ++i) {
      field.products[i % static_cast<size_t>(n * n)] += field.parts[i];
    }
    const ThreadScope one(1);
    Parameter &own = *params()[weights], &compatibility = *params()[2];
    if (own.needs_gradient)
      gemm<T>(true, false, n, n, n, T{1}, parameter<T>(2), field.products.data(), T{1},
              own.gradient().template host_mut<T>());
    if (compatibility.needs_gradient)
      gemm<T>(false, true, n, n, n, T{1}, field.products.data(), parameter<T>(weights), T{1},
              compatibility.gradient().template host_mut<T>());
  }

  int64_t iterations_ = 0;
  int64_t samples_ = 0, channels_ = 0, height_ = 0, width_ = 0;
  Field<float> f32_;  // in one of the types
  Field<double> f64_;
};

}  // namespace

void register_multi_stage_meanfield(Registry& registry) {
  registry.add<MultiStageMeanfieldLayer>("MultiStageMeanfield");
}

}  // namespace crema
