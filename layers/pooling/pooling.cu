#include "backend/cuda/kernels.cuh"
#include "backend/philox.hpp"
#include "core/dispatch.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "layers/pooling/pooling.hpp"

namespace crema {
namespace {

using Method = PoolingLayer::Method;

/// Windows over planes of (y.size, x.size), contiguous.
struct Windows {
  PoolingAxis y, x;
  bool counts_padding;

  __host__ __device__ int64_t plane() const { return y.size * x.size; }
  __host__ __device__ int64_t outputs() const { return y.out * x.out; }

  /// Calls body with the places, within the plane, of the window of output (oy, ox).
  template <class Body>
  __device__ void each(int64_t oy, int64_t ox, const Body& body) const {
    for (int64_t iy = y.begin(oy); iy < y.end(oy); ++iy) {
      for (int64_t ix = x.begin(ox); ix < x.end(ox); ++ix) body(iy * x.size + ix);
    }
  }
  __device__ int64_t divisor(int64_t oy, int64_t ox) const {
    return counts_padding ? y.padded_extent(oy) * x.padded_extent(ox) : y.extent(oy) * x.extent(ox);
  }
};

/// Two sums of a window, for the probability-weighted average: sum of x^2 / sum of x.
template <class T>
struct Weighted {
  T sum = 0, squares = 0;
  __device__ Weighted(const Windows& windows, const T* plane, int64_t oy, int64_t ox) {
    windows.each(oy, ox, [&](int64_t i) { sum += plane[i], squares += plane[i] * plane[i]; });
  }
};

/// The key of one pass's random numbers, as the reference has it.
struct Key {
  uint32_t first = 0, second = 0;
  /// In [0, 1), for one output.
  __device__ float chance(int64_t output) const {
    const auto i = static_cast<uint64_t>(output);
    const PhiloxBlock words = philox_block(
        {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0}, first, second);
    return static_cast<float>(words.a >> 8) * 0x1p-24F;
  }
};

/// Body for outputs. choice and mask may be null.
template <class T>
struct Forward {
  Windows windows;
  Method method;
  bool samples;
  Key key;
  const T* in;
  T* out;
  int32_t* choice;
  T* mask;

  __device__ void operator()(int64_t o) const {
    const int64_t ox = o % windows.x.out, oy = o / windows.x.out % windows.y.out;
    const T* plane = in + o / windows.outputs() * windows.plane();
    int64_t chosen = windows.y.begin(oy) * windows.x.size + windows.x.begin(ox);
    if (method == Method::maximum) {
      windows.each(oy, ox, [&](int64_t i) { chosen = plane[i] > plane[chosen] ? i : chosen; });
      out[o] = plane[chosen];
    } else if (method == Method::average) {
      T sum = 0;
      windows.each(oy, ox, [&](int64_t i) { sum += plane[i]; });
      out[o] = sum / static_cast<T>(windows.divisor(oy, ox));
    } else if (samples) {
      const T threshold = static_cast<T>(key.chance(o)) * Weighted<T>(windows, plane, oy, ox).sum;
      T before = 0;
      bool found = false;
      windows.each(oy, ox, [&](int64_t i) {
        before += plane[i];
        if (!found && before >= threshold) chosen = i, found = true;
      });
      out[o] = plane[chosen];
    } else {
      const Weighted<T> weighted(windows, plane, oy, ox);
      out[o] = weighted.sum == T{0} ? T{0} : weighted.squares / weighted.sum;
    }
    if (choice) choice[o] = static_cast<int32_t>(chosen);
    if (mask) mask[o] = static_cast<T>(chosen);
  }
};

/// Body for inputs, each of which gathers from the windows that hold it: no two threads write one
/// place. `choice` is null where every input of a window has a share, `in` where shares do not
/// depend on it.
template <class T>
struct Backward {
  Windows windows;
  const T* dy;
  const T* in;
  const int32_t* choice;
  T* dx;

  __device__ void operator()(int64_t place) const {
    const int64_t i = place % windows.plane(), number = place / windows.plane();
    const int64_t iy = i / windows.x.size, ix = i % windows.x.size;
    T sum = 0;
    for (int64_t oy = windows.y.first_cover(iy); oy < windows.y.last_cover(iy); ++oy) {
      for (int64_t ox = windows.x.first_cover(ix); ox < windows.x.last_cover(ix); ++ox) {
        const int64_t o = number * windows.outputs() + oy * windows.x.out + ox;
        if (choice) {
          if (choice[o] == i) sum += dy[o];
        } else if (!in) {
          sum += dy[o] / static_cast<T>(windows.divisor(oy, ox));
        } else {
          // y = sum of x^2 / sum of x, so dy/dx = (2 x - y) / sum of x.
          const Weighted<T> weighted(windows, in + number * windows.plane(), oy, ox);
          if (weighted.sum == T{0}) continue;
          sum += dy[o] * (2 * in[place] - weighted.squares / weighted.sum) / weighted.sum;
        }
      }
    }
    dx[place] = sum;
  }
};

/// Own kernels, since cuDNN's windows end differently: published ones are rounded up.
class PoolingCuda : public Engine {
 public:
  std::vector<FormatOption> options(Layer& layer, Blobs bottom, Blobs /*top*/,
                                    std::string& why) override {
    return cuda_options(layer, bottom, false, why);
  }

  void prepare(Layer& layer, Blobs /*bottom*/, Blobs top) override {
    if (remembers(layer)) choice_.reshape(top[0]->shape());
  }

  void forward(Layer& layer, Blobs bottom, Blobs top) override {
    const PoolingLayer& pooling = of(layer);
    CudaBackend& backend = cuda(layer.context());
    const Context& context = layer.context();
    const bool samples = pooling.method() == Method::stochastic && layer.phase() == Phase::train;
    Random random(context.seed(), stream_id(layer.name()) + context.pass(), context.iteration());
    Key key;
    key.first = random.next_u32();
    key.second = random.next_u32();
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* in = bottom[0]->data.template device<T>(backend);
      T* out = top[0]->data.template device_overwrite<T>(backend);
      int32_t* choice = remembers(layer) ? choice_.device_overwrite<int32_t>(backend) : nullptr;
      T* mask = top.size() > 1 ? top[1]->data.template device_overwrite<T>(backend) : nullptr;
      cuda_for_each(
          backend, top[0]->count(),
          Forward<T>{windows(pooling), pooling.method(), samples, key, in, out, choice, mask});
    });
  }

  void backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                Blobs bottom) override {
    if (!propagate[0]) return;
    CudaBackend& backend = cuda(layer.context());
    dispatch_float(layer.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T* dy = top[0]->diff.template device<T>(backend);
      const T* in =
          backward_reads(layer).bottom_data ? bottom[0]->data.template device<T>(backend) : nullptr;
      const int32_t* choice = remembers(layer) ? choice_.device<int32_t>(backend) : nullptr;
      T* dx = bottom[0]->diff.template device_overwrite<T>(backend);
      cuda_for_each(backend, bottom[0]->count(),
                    Backward<T>{windows(of(layer)), dy, in, choice, dx});
    });
  }

  size_t extra_bytes() const override { return choice_.has_memory() ? choice_.bytes() : 0; }

 private:
  static const PoolingLayer& of(const Layer& layer) {
    return static_cast<const PoolingLayer&>(layer);
  }
  static bool remembers(const Layer& layer) {
    return layer.trains() && of(layer).remembers_choice();
  }
  static Windows windows(const PoolingLayer& layer) {
    return {layer.y(), layer.x(), layer.counts_padding()};
  }

  Tensor choice_{Shape{0}, DType::i32};  // (N, C, out_h, out_w): a place within the plane
};

}  // namespace

void register_pooling_cuda(Registry& registry);

void register_pooling_cuda(Registry& registry) {
  registry.add_engine<PoolingCuda>("Pooling", "cuda", DeviceType::cuda);
}

}  // namespace crema
