// LocallyConnected: a convolution with weights of their own at each position. See README.md.
#include <type_traits>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/locally_connected/local_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// y[n, o, p] = the bias of (o, p); null: 0.
template <class T>
struct SetBias {
  int64_t each;  // outputs * positions
  const T* bias;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = bias != nullptr ? bias[i % each] : T{0}; }
};

/// The gradient of the bias of (o, p).
template <class T>
struct AddBiasGradient {
  int64_t each, batch;
  bool adds;
  const T* dy;
  T* db;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    double sum = adds ? static_cast<double>(db[i]) : 0;
    for (int64_t n = 0; n < batch; ++n) sum += static_cast<double>(dy[n * each + i]);
    db[i] = static_cast<T>(sum);
  }
};

// Bodies of devices: a thread an element.

/// Places of the elements that meet: `positions` and `taps` are those of LocalSizes.
struct Places {
  LocalSizes s;
  int64_t positions, taps;

  explicit Places(const LocalSizes& sizes)
      : s(sizes), positions(sizes.positions()), taps(sizes.taps()) {}
  /// The element of a sample that a tap reads at a position; -1 outside of the image.
  CREMA_FUNCTOR int64_t element(int64_t tap, int64_t position) const {
    const int64_t y = position / s.out_width * s.stride_h + tap / s.kernel_w % s.kernel_h - s.pad_h;
    const int64_t x = position % s.out_width * s.stride_w + tap % s.kernel_w - s.pad_w;
    if (y < 0 || y >= s.height || x < 0 || x >= s.width) return -1;
    return (tap / s.kernel_w / s.kernel_h * s.height + y) * s.width + x;
  }
  CREMA_FUNCTOR int64_t image() const { return s.channels * s.height * s.width; }
};

template <class T>
struct AddProducts {
  Places places;
  const T *x, *w;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t p = i % places.positions, row = i / places.positions;
    const int64_t output = row % places.s.outputs, sample = row / places.s.outputs;
    T sum = y[i];
    for (int64_t t = 0; t < places.taps; ++t) {
      const int64_t at = places.element(t, p);
      if (at >= 0)
        sum +=
            w[(output * places.taps + t) * places.positions + p] * x[sample * places.image() + at];
    }
    y[i] = sum;
  }
};

template <class T>
struct AddWeightGradient {
  Places places;
  bool adds;
  const T *x, *dy;
  T* dw;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t p = i % places.positions, row = i / places.positions;
    const int64_t at = places.element(row % places.taps, p), output = row / places.taps;
    T sum = adds ? dw[i] : T{0};
    for (int64_t n = 0; at >= 0 && n < places.s.batch; ++n) {
      sum +=
          dy[(n * places.s.outputs + output) * places.positions + p] * x[n * places.image() + at];
    }
    dw[i] = sum;
  }
};

template <class T>
struct ImageGradient {
  Places places;
  const T *w, *dy;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const LocalSizes& s = places.s;
    const int64_t x = i % s.width, y = i / s.width % s.height;
    const int64_t channel = i / s.width / s.height % s.channels, sample = i / places.image();
    T sum{0};
    for (int64_t k = 0; k < s.kernel_h * s.kernel_w; ++k) {
      const int64_t down = y + s.pad_h - k / s.kernel_w, right = x + s.pad_w - k % s.kernel_w;
      if (down < 0 || right < 0 || down % s.stride_h != 0 || right % s.stride_w != 0) continue;
      const int64_t row = down / s.stride_h, column = right / s.stride_w;
      if (row >= s.out_height || column >= s.out_width) continue;
      const int64_t p = row * s.out_width + column, tap = channel * s.kernel_h * s.kernel_w + k;
      for (int64_t o = 0; o < s.outputs; ++o) {
        sum += w[(o * places.taps + tap) * places.positions + p] *
               dy[(sample * s.outputs + o) * places.positions + p];
      }
    }
    dx[i] = sum;
  }
};

/// A setting for both axes, or one for each.
struct Pair {
  int64_t h, w;
};
Pair pair_of(const char* name, bool has_both, int64_t both, bool has_h, int64_t h, bool has_w,
             int64_t w) {
  if (!has_h && !has_w) return {both, both};
  const std::string axis = std::string(name).substr(0, std::string(name).find('_'));
  if (has_both) throw Error(name, " and ", axis, "_h / ", axis, "_w both given; keep one of them");
  if (!has_h || !has_w)
    throw Error(axis, "_h and ", axis, "_w go together, ", axis, has_h ? "_w" : "_h",
                " is missing");
  return {h, w};
}

class LocallyConnectedLayer : public TwoSidedLayer {
 public:
  explicit LocallyConnectedLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const LocallyConnectedParameter& s = init.param.local_param();
    sizes_.outputs = s.num_output();
    if (sizes_.outputs == 0)
      throw Error("num_output is 0; set it to the number of output channels");
    const Pair kernel = pair_of("kernel_size", s.has_kernel_size(), s.kernel_size(),
                                s.has_kernel_h(), s.kernel_h(), s.has_kernel_w(), s.kernel_w());
    const Pair stride = pair_of("stride", s.has_stride(), s.stride(), s.has_stride_h(),
                                s.stride_h(), s.has_stride_w(), s.stride_w());
    const Pair pad = pair_of("pad", s.has_pad(), s.pad(), s.has_pad_h() || s.has_pad_w(), s.pad_h(),
                             s.has_pad_h() || s.has_pad_w(), s.pad_w());
    if (kernel.h == 0 || kernel.w == 0)
      throw Error("a kernel of ", kernel.h, " x ", kernel.w,
                  " has no elements; set kernel_size, or kernel_h and kernel_w");
    if (stride.h == 0 || stride.w == 0)
      throw Error("stride ", stride.h, " x ", stride.w, " does not move the kernel; use 1 or more");
    sizes_.kernel_h = kernel.h, sizes_.kernel_w = kernel.w;
    sizes_.stride_h = stride.h, sizes_.stride_w = stride.w;
    sizes_.pad_h = pad.h, sizes_.pad_w = pad.w;
  }

  void setup(Blobs bottom, Blobs) override {
    fit(*bottom[0]);
    out_height_ = sizes_.out_height;
    out_width_ = sizes_.out_width;
    const LocallyConnectedParameter& settings = param().local_param();
    add_param(Shape{sizes_.outputs, 1, sizes_.taps(), sizes_.positions()},
              Filler(settings.weight_filler()));
    if (settings.bias_term())
      add_param(Shape{1, 1, sizes_.outputs, sizes_.positions()}, Filler(settings.bias_filler()));
  }

  /// Files of forks have the same values in the same order in other shapes.
  bool convert_weights(std::vector<Tensor>& published) const override {
    if (published.size() != params().size()) return false;
    for (size_t i = 0; i < published.size(); ++i) {
      const Shape &own = params()[i]->shape(), &other = published[i].shape();
      if (other.count() != own.count() || other.rank() == 0 || other[-1] != sizes_.positions())
        return false;
      published[i].reshape(own);
    }
    return true;
  }

  void reshape(Blobs bottom, Blobs top) override {
    fit(*bottom[0]);
    const Shape& weights = params()[0]->shape();
    if (weights[2] != sizes_.taps() || sizes_.out_height != out_height_ ||
        sizes_.out_width != out_width_)
      throw Error("'", bottom[0]->name, "' (", bottom[0]->shape().str(), ") has ",
                  sizes_.positions(), " positions of ", sizes_.taps(), " values, the weights (",
                  weights.str(), ") are for ", weights[3], " of ", weights[2],
                  "; they belong to one size of images");
    top[0]->reshape(Shape{sizes_.batch, sizes_.outputs, sizes_.out_height, sizes_.out_width});
  }

  Flops flops(Blobs, Blobs) const override {
    const double products =
        2 * static_cast<double>(sizes_.batch) * static_cast<double>(params()[0]->shape().count());
    return {products,
            (propagates(0) ? products : 0) + (params()[0]->needs_gradient ? products : 0)};
  }
  size_t kept_bytes() const override { return passes_f32_.bytes() + passes_f64_.bytes(); }
  void prepare_reference(Blobs, Blobs) override {
    dispatch_float(dtype(), [&]<class T>(T) { fit_passes<T>(); });
  }
  void prepare_device(Blobs, Blobs) override {}

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      const T* w = device.read<T>(params()[0]->data);
      T* y = device.overwrite<T>(top[0]->data);
      const int64_t count = top[0]->count();
      for_each(
          device, count, kElementGrain,
          SetBias<T>{sizes_.outputs * sizes_.positions(), read_parameter<T>(device, bias()), y});
      if (device.on_host()) return fit_passes<T>().forward(x, w, y);
      for_each(device, count, 1, AddProducts<T>{Places(sizes_), x, w, y});
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* dy = device.read<T>(top[0]->diff);
      const Places places(sizes_);
      const bool on_host = device.on_host();
      if (bias() != nullptr && bias()->needs_gradient) {
        const bool adds = bias()->begin_gradient() != 0;
        const int64_t each = sizes_.outputs * sizes_.positions();
        for_each(device, each, kElementGrain / (sizes_.batch + 1) + 1,
                 AddBiasGradient<T>{each, sizes_.batch, adds, dy, device.change<T>(bias()->diff)});
      }
      Parameter& weights = *params()[0];
      if (weights.needs_gradient) {
        const bool adds = weights.begin_gradient() != 0;
        const T* x = device.read<T>(bottom[0]->data);
        T* dw = device.change<T>(weights.diff);
        if (on_host) {
          fit_passes<T>().add_weights(x, dy, adds, dw);
        } else {
          for_each(device, weights.shape().count(), 1,
                   AddWeightGradient<T>{places, adds, x, dy, dw});
        }
      }
      if (!propagate[0]) return;
      const T* w = device.read<T>(weights.data);
      T* dx = device.overwrite<T>(bottom[0]->diff);
      if (on_host) return fit_passes<T>().find_images(w, dy, dx);
      for_each(device, bottom[0]->count(), 1, ImageGradient<T>{places, w, dy, dx});
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    return {params()[0]->needs_gradient, false};
  }

 private:
  Parameter* bias() { return params().size() > 1 ? params()[1].get() : nullptr; }

  void fit(const Blob& bottom) {
    const Shape& images = bottom.shape();
    if (images.rank() != 4)
      throw Error("'", bottom.name, "' (", images.str(), ") is not of the form (N, C, H, W)");
    sizes_.batch = images[0];
    sizes_.channels = images[1];
    sizes_.height = images[2];
    sizes_.width = images[3];
    if (sizes_.channels == 0)
      throw Error("'", bottom.name, "' (", images.str(), ") has no channels");
    sizes_.out_height =
        extent("kernel_h", sizes_.kernel_h, images[2] + 2 * sizes_.pad_h, sizes_.stride_h);
    sizes_.out_width =
        extent("kernel_w", sizes_.kernel_w, images[3] + 2 * sizes_.pad_w, sizes_.stride_w);
  }
  static int64_t extent(const char* name, int64_t kernel, int64_t padded, int64_t stride) {
    if (kernel > padded)
      throw Error(name, " ", kernel, " exceeds the padded input ", padded,
                  "; reduce the kernel or add pad");
    return (padded - kernel) / stride + 1;
  }

  /// For the present sizes and threads.
  template <class T>
  LocalPasses<T>& fit_passes() {
    auto& passes = [&]() -> LocalPasses<T>& {
      if constexpr (std::is_same_v<T, float>) {
        return passes_f32_;
      } else {
        return passes_f64_;
      }
    }();
    const int threads = omp_get_max_threads();
    if (passes.sizes() != sizes_ || passes.threads() != threads) {
      passes = LocalPasses<T>(sizes_, trains(), threads);
    }
    return passes;
  }

  LocalSizes sizes_;
  int64_t out_height_ = 0, out_width_ = 0;  // that the weights were made for
  LocalPasses<float> passes_f32_;           // of the host, in one of the types
  LocalPasses<double> passes_f64_;
};

}  // namespace

void register_locally_connected(Registry& registry) {
  for (const char* type : {"LocallyConnected", "Local"})
    add_two_sided<LocallyConnectedLayer>(registry, type);
}

}  // namespace crema
