// MultiStageMeanfield: mean field inference in a dense conditional random field. See README.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/dispatch.hpp"
#include "core/simd.hpp"
#include "layer_support/gemm.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layer_support/two_sided.hpp"
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

// The same on a device, for each row.

template <class T>
struct SoftenRow {
  int64_t n;
  const T* x;
  T* p;
  CREMA_FUNCTOR void operator()(int64_t r) const {
    const T* const from = x + r * n;
    T* const to = p + r * n;
    T most = from[0], sum{0};
    for (int64_t c = 1; c < n; ++c) most = from[c] > most ? from[c] : most;
    for (int64_t c = 0; c < n; ++c) sum += to[c] = exp(from[c] - most);
    const T scale = T{1} / sum;
    for (int64_t c = 0; c < n; ++c) to[c] *= scale;
  }
};

template <class T>
struct SoftenGradient {
  int64_t n;
  const T *p, *dp;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t r) const {
    T mean{0};
    for (int64_t i = r * n; i < (r + 1) * n; ++i) mean += p[i] * dp[i];
    for (int64_t i = r * n; i < (r + 1) * n; ++i) dx[i] = p[i] * (dp[i] - mean);
  }
};

// On both sides.

/// For each value of rows: times the scale of its row, and -1.
template <class T>
struct SubtractScaled {
  int64_t n;
  const T *scale, *from;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const { to[i] = -(from[i] * scale[i / n]); }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t r = begin / n; r * n < end; ++r) {
      const int64_t last = std::min(end, (r + 1) * n);
      for (int64_t i = std::max(begin, r * n); i < last; ++i) to[i] = -(from[i] * scale[r]);
    }
  }
};

template <class T>
struct Invert {
  T* x;
  CREMA_FUNCTOR void operator()(int64_t i) const { x[i] = T{1} / x[i]; }
};

template <class T>
struct Accumulate {
  const T* from;
  T* to;
  CREMA_FUNCTOR void operator()(int64_t i) const { to[i] += from[i]; }
};

/// For each value of rows of pixels: from planes of channels, or back.
template <class T>
struct FromPlanes {
  int64_t pixels, n;
  const T* planes;
  T* rows;
  CREMA_FUNCTOR void operator()(int64_t i) const { rows[i] = planes[i % n * pixels + i / n]; }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t r = begin / n; r * n < end; ++r) {
      const int64_t last = std::min(end, (r + 1) * n);
      for (int64_t i = std::max(begin, r * n); i < last; ++i)
        rows[i] = planes[(i - r * n) * pixels + r];
    }
  }
};
template <class T>
struct ToPlanes {
  int64_t pixels, n;
  const T* rows;
  T* planes;
  CREMA_FUNCTOR void operator()(int64_t i) const { planes[i] = rows[i % pixels * n + i / pixels]; }
  void on_host(int64_t begin, int64_t end) const {
    for (int64_t c = begin / pixels; c * pixels < end; ++c) {
      const int64_t last = std::min(end, (c + 1) * pixels);
      for (int64_t i = std::max(begin, c * pixels); i < last; ++i)
        planes[i] = rows[(i - c * pixels) * n + c];
    }
  }
};

/// On the host: body(first pixel, pixels) for chunks, each on one thread with single-threaded
/// products.
template <class Body>
void each_chunk(int64_t pixels, const Body& body) {
  parallel_for((pixels + kPixels - 1) / kPixels, 1, [&](int64_t begin, int64_t end) {
    const ThreadScope one(1);
    for (int64_t i = begin; i < end; ++i) {
      body(i * kPixels, std::min(kPixels, pixels - i * kPixels));
    }
  });
}

/// A lattice, and (pixels): 1 over the filtered ones.
template <class T>
struct Kernel {
  Permutohedral<T> lattice;
  Tensor scale;
};

/// What the layer works with, in one type. Values of pixels are (pixels, channels): a row a pixel.
template <class T>
struct Field {
  Kernel<T> spatial;
  std::vector<Kernel<T>> bilateral;             // one a sample
  Tensor unary, states, filtered, sums;         // (pixels, channels)
  Tensor probabilities;                         // (samples, iterations, pixels, channels)
  Tensor spatial_products, bilateral_products;  // (channels, channels): compatibility * weights
  Tensor products;                              // (channels, channels)
  std::vector<T> parts;                         // on the host, the same for each chunk
  int64_t height = 0, width = 0;                // of the spatial lattice
  std::vector<double> features;

  size_t bytes() const {
    size_t bytes = spatial.lattice.bytes() + spatial.scale.bytes() +
                   features.capacity() * sizeof(double) + parts.capacity() * sizeof(T);
    for (const Kernel<T>& kernel : bilateral)
      bytes += kernel.lattice.bytes() + kernel.scale.bytes();
    for (const Tensor* tensor : {&unary, &states, &filtered, &sums, &probabilities,
                                 &spatial_products, &bilateral_products, &products})
      bytes += tensor->bytes();
    return bytes;
  }
};

class MultiStageMeanfieldLayer : public TwoSidedLayer {
 public:
  std::string host_part() const override { return "lattices"; }
  bool host_reads(int b) const override { return b == 2; }
  bool host_writes() const override { return false; }
  explicit MultiStageMeanfieldLayer(const LayerInit& init) : TwoSidedLayer(init) {
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

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      Field<T>& field = fit<T>(device);
      find_kernels(device, field);
      const T *const unary = device.read<T>(bottom[0]->data), *const q =
                                                                  device.read<T>(bottom[1]->data);
      T* const y = device.overwrite<T>(top[0]->data);
      for (int64_t n = 0; n < samples_; ++n) {
        place_colours(device, field, n, bottom[2]->data.template read<T>());
        forward_sample(device, field, n, unary + n * values(), q + n * values(), y + n * values());
      }
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      Field<T>& field = fit<T>(device);
      find_kernels(device, field);
      const T* const dy = device.read<T>(top[0]->diff);
      T* const to[] = {propagate[0] ? device.overwrite<T>(bottom[0]->diff) : nullptr,
                       propagate[1] ? device.overwrite<T>(bottom[1]->diff) : nullptr};
      for (int64_t n = 0; n < samples_; ++n) {
        backward_sample(device, field, n, dy + n * values());
        for (const size_t i : {size_t{0}, size_t{1}}) {
          if (to[i])
            to_planes<T>(device, i == 0 ? field.unary : field.states, to[i] + n * values());
        }
      }
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
  Field<T>& fit(const ComputeDevice& device) {
    Field<T>& field = [&]() -> Field<T>& {
      if constexpr (std::is_same_v<T, float>) {
        return f32_;
      } else {
        return f64_;
      }
    }();
    field.bilateral.resize(static_cast<size_t>(trains() ? samples_ : 1));
    resize<T>(field.probabilities, (trains() ? samples_ * iterations_ : 1) * values());
    if (field.height == height_ && field.width == width_) return field;
    field.height = height_;
    field.width = width_;
    field.features.resize(static_cast<size_t>(2 * pixels()));
    for (int64_t p = 0; p < pixels(); ++p) {
      double* const at = field.features.data() + 2 * p;
      at[0] = static_cast<double>(p % width_) / static_cast<double>(settings().theta_gamma());
      at[1] = static_cast<double>(p / width_) / static_cast<double>(settings().theta_gamma());
    }
    field.spatial.lattice.place(pixels(), 2, field.features.data());
    normalize(device, field.spatial);
    return field;
  }

  /// scale = 1 over what the lattice makes of ones.
  template <class T>
  void normalize(const ComputeDevice& device, Kernel<T>& kernel) const {
    T* const scale = overwrite<T>(device, kernel.scale, pixels());
    fill(device, kernel.scale, 1, false);
    kernel.lattice.filter(device, 1, false, scale, scale);
    for_each(device, pixels(), kElementGrain, Invert<T>{scale});
  }

  /// That of a sample: without training, one at a time is kept.
  template <class T>
  Kernel<T>& bilateral(Field<T>& field, int64_t sample) const {
    return field.bilateral[trains() ? static_cast<size_t>(sample) : 0];
  }

  template <class T>
  void place_colours(const ComputeDevice& device, Field<T>& field, int64_t sample,
                     const T* images) {
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
    Kernel<T>& kernel = bilateral(field, sample);
    kernel.lattice.place(pixels(), 5, field.features.data());
    normalize(device, kernel);
  }

  /// The products of the compatibility with the weights of both filters.
  template <class T>
  void find_kernels(const ComputeDevice& device, Field<T>& field) const {
    const int64_t n = channels_;
    const ThreadScope one(1);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      Tensor& products = i == 0 ? field.spatial_products : field.bilateral_products;
      gemm<T>(device, arithmetic().math, false, false, n, n, n, device.read<T>(params()[2]->data),
              device.read<T>(params()[i]->data), T{0}, overwrite<T>(device, products, n * n));
    }
    if (!device.on_host()) return;
    const int64_t chunks = (pixels() + kPixels - 1) / kPixels;
    field.parts.resize(static_cast<size_t>(trains() ? chunks * n * n : 0));
  }

  template <class T>
  T* pixel_rows(const ComputeDevice& device, Tensor& tensor) const {
    return overwrite<T>(device, tensor, values());
  }
  template <class T>
  void to_planes(const ComputeDevice& device, const Tensor& rows, T* planes) const {
    for_each(device, values(), kElementGrain,
             ToPlanes<T>{pixels(), channels_, device.read<T>(rows), planes});
  }
  template <class T>
  void from_planes(const ComputeDevice& device, const T* planes, Tensor& rows) const {
    for_each(device, values(), kElementGrain,
             FromPlanes<T>{pixels(), channels_, planes, pixel_rows<T>(device, rows)});
  }

  template <class T>
  T* probabilities(const ComputeDevice& device, Field<T>& field, int64_t sample,
                   int64_t iteration) const {
    return device.change<T>(field.probabilities) +
           (trains() ? (sample * iterations_ + iteration) * values() : 0);
  }

  /// to (pixels, channels) += rows (pixels, channels) * products (channels, channels).
  template <class T>
  void add_product(const ComputeDevice& device, const T* rows, bool transposed,
                   const Tensor& products, T* to) const {
    const int64_t n = channels_;
    const T* const matrix = device.read<T>(products);
    if (!device.on_host())
      return gemm<T>(device, arithmetic().math, false, transposed, pixels(), n, n, rows, matrix,
                     T{1}, to);
    each_chunk(pixels(), [&](int64_t first, int64_t count) {
      gemm<T>(false, transposed, count, n, n, T{1}, rows + first * n, matrix, T{1}, to + first * n);
    });
  }

  template <class T>
  void forward_sample(const ComputeDevice& device, Field<T>& field, int64_t sample, const T* unary,
                      const T* q, T* top) const {
    const int64_t n = channels_;
    from_planes(device, unary, field.unary);
    from_planes(device, q, field.states);
    T *const states = device.change<T>(field.states), *const filtered =
                                                          pixel_rows<T>(device, field.filtered);
    for (int64_t i = 0; i < iterations_; ++i) {
      T* const p = probabilities(device, field, sample, i);
      if (!device.on_host()) {
        for_each(device, pixels(), kPassGrain, SoftenRow<T>{n, states, p});
      } else {
        each_chunk(pixels(), [&](int64_t first, int64_t count) {
          vectorized<soften_rows<T>>(count, n, static_cast<const T*>(states + first * n),
                                     p + first * n);
        });
      }
      copy(device, field.unary, field.states);
      // states = unary - products * filtered
      const auto subtract = [&](Kernel<T>& kernel, const Tensor& products) {
        kernel.lattice.filter(device, n, false, p, filtered);
        for_each(device, values(), kElementGrain,
                 SubtractScaled<T>{n, device.read<T>(kernel.scale), filtered, filtered});
        add_product<T>(device, filtered, true, products, states);
      };
      subtract(field.spatial, field.spatial_products);
      subtract(bilateral(field, sample), field.bilateral_products);
    }
    to_planes(device, field.states, top);
  }

  /// The gradient of the unary is in field.unary then, that of the state in field.states.
  template <class T>
  void backward_sample(const ComputeDevice& device, Field<T>& field, int64_t sample, const T* dy) {
    const int64_t n = channels_;
    from_planes(device, dy, field.states);
    T *const d_states = device.change<T>(field.states), *const d_unary =
                                                            pixel_rows<T>(device, field.unary);
    T *const filtered = pixel_rows<T>(device, field.filtered), *const dp = pixel_rows<T>(
                                                                   device, field.sums);
    fill_zero(device, field.unary);
    for (int64_t i = iterations_ - 1; i >= 0; --i) {
      const T* const p = probabilities(device, field, sample, i);
      for_each(device, values(), kElementGrain, Accumulate<T>{d_states, d_unary});
      fill_zero(device, field.sums);
      // Filters and products of channels can change places: the filtered gradients of the
      // pairwise terms are all that the gradients of p and of the parameters need.
      const auto add = [&](Kernel<T>& kernel, const Tensor& products, size_t weights) {
        for_each(device, values(), kElementGrain,
                 SubtractScaled<T>{n, device.read<T>(kernel.scale), d_states, filtered});
        kernel.lattice.filter(device, n, true, filtered, filtered);
        add_product<T>(device, filtered, false, products, dp);
        add_gradients(device, field, filtered, p, weights);
      };
      add(field.spatial, field.spatial_products, 0);
      add(bilateral(field, sample), field.bilateral_products, 1);
      if (!device.on_host()) {
        for_each(device, pixels(), kPassGrain, SoftenGradient<T>{n, p, dp, d_states});
        continue;
      }
      each_chunk(pixels(), [&](int64_t first, int64_t count) {
        vectorized<soften_gradients<T>>(
            count, n, p + first * n, static_cast<const T*>(dp + first * n), d_states + first * n);
      });
    }
  }

  template <class T>
  void add_gradients(const ComputeDevice& device, Field<T>& field, const T* filtered, const T* p,
                     size_t weights) {
    const int64_t n = channels_;
    T* const products = overwrite<T>(device, field.products, n * n);
    if (!device.on_host()) {
      gemm<T>(device, arithmetic().math, true, false, n, n, pixels(), filtered, p, T{0}, products);
    } else {
      each_chunk(pixels(), [&](int64_t first, int64_t count) {
        gemm<T>(true, false, n, n, count, T{1}, filtered + first * n, p + first * n, T{0},
                field.parts.data() + first / kPixels * n * n);
      });
      std::fill(products, products + n * n, T{0});
      for (size_t i = 0; i < field.parts.size(); ++i) {
        products[i % static_cast<size_t>(n * n)] += field.parts[i];
      }
    }
    const ThreadScope one(1);
    Parameter &own = *params()[weights], &compatibility = *params()[2];
    if (T* const gradient = gradient_of<T>(device, &own))
      gemm<T>(device, arithmetic().math, true, false, n, n, n, device.read<T>(compatibility.data),
              products, T{1}, gradient);
    if (T* const gradient = gradient_of<T>(device, &compatibility))
      gemm<T>(device, arithmetic().math, false, true, n, n, n, products, device.read<T>(own.data),
              T{1}, gradient);
  }

  int64_t iterations_ = 0;
  int64_t samples_ = 0, channels_ = 0, height_ = 0, width_ = 0;
  Field<float> f32_;  // in one of the types
  Field<double> f64_;
};

}  // namespace

void register_multi_stage_meanfield(Registry& registry) {
  add_two_sided<MultiStageMeanfieldLayer>(registry, "MultiStageMeanfield");
}

}  // namespace crema
