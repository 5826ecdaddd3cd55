// LRN as passes over elements (backend/device_passes.hpp): the reference, and the engines of
// devices.
#pragma once

#include "backend/device_passes.hpp"
#include "layers/lrn/lrn.hpp"

namespace crema {
namespace lrn_passes {

/// Lines of channels, or planes of one channel, that normalize by themselves.
struct Patches {
  int64_t height = 1, width = 1;  // of one patch
  int64_t step = 1;               // elements between neighbours along x
  int64_t reach_y = 0, reach_x = 0;

  Patches(const LRNSettings& settings, const Shape& shape) {
    reach_x = settings.reach;
    if (settings.across_channels) {
      width = shape[1];
      step = shape.count(2);
    } else {
      reach_y = settings.reach;
      height = shape[2];
      width = shape[3];
    }
  }

  /// Calls body with the places of all neighbours of place i, itself included.
  template <class Body>
  CREMA_FUNCTOR void around(int64_t i, const Body& body) const {
    const int64_t u = i / step % width, v = i / (step * width) % height;
    const int64_t low_u = u < reach_x ? -u : -reach_x, low_v = v < reach_y ? -v : -reach_y;
    const int64_t room_u = width - 1 - u, room_v = height - 1 - v;
    const int64_t high_u = room_u < reach_x ? room_u : reach_x;
    const int64_t high_v = room_v < reach_y ? room_v : reach_y;
    for (int64_t dv = low_v; dv <= high_v; ++dv) {
      for (int64_t du = low_u; du <= high_u; ++du) body(i + (dv * width + du) * step);
    }
  }
};

/// scale = k + weight * (sum of x^2 around).
template <class T>
struct Scale {
  Patches patches;
  T k, weight, beta;
  const T* x;

  Scale(const LRNSettings& settings, const Tensor& bottom, const T* values)
      : patches(settings, bottom.shape()),
        k(static_cast<T>(settings.k)),
        weight(static_cast<T>(settings.weight)),
        beta(static_cast<T>(settings.beta)),
        x(values) {}

  CREMA_FUNCTOR T at(int64_t i) const {
    T sum = 0;
    patches.around(i, [&](int64_t j) { sum += x[j] * x[j]; });
    return k + weight * sum;
  }
};

template <class T>
struct Forward {
  Scale<T> scale;
  T* y;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    y[i] = scale.x[i] * std::pow(scale.at(i), -scale.beta);
  }
};

// dx = dy scale^-beta - 2 weight beta x (sum of ratio around)

/// dx = dy scale^-beta, and ratio = dy x scale^(-beta-1), what a place adds to the gradients
/// around.
template <class T>
struct Ratio {
  Scale<T> scale;
  const T* dy;
  T* dx;
  T* ratio;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T s = scale.at(i);
    dx[i] = dy[i] * std::pow(s, -scale.beta);
    ratio[i] = dx[i] * scale.x[i] / s;
  }
};

template <class T>
struct Gradient {
  Patches patches;
  T factor;  // 2 weight beta
  const T* x;
  const T* ratio;
  T* dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T sum = 0;
    patches.around(i, [&](int64_t j) { sum += ratio[j]; });
    dx[i] -= factor * x[i] * sum;
  }
};

class Passes {
 public:
  template <class Pass>
  void forward(const Pass& pass, LRNLayer& layer, Blobs bottom, Blobs top) {
    using T = typename Pass::Element;
    const Tensor& x = bottom[0]->data;
    pass.each(x.count(), Forward<T>{{layer.settings(), x, pass.read(x)}, pass.write(top[0]->data)});
  }

  template <class Pass>
  void backward(const Pass& pass, LRNLayer& layer, Blobs top,
                const std::vector<bool>& /*propagate*/, Blobs bottom) {
    using T = typename Pass::Element;
    const Tensor& x = bottom[0]->data;
    const LRNSettings& settings = layer.settings();
    const Scale<T> scale(settings, x, pass.read(x));
    const T* dy = pass.read(top[0]->diff);
    T* dx = pass.write(bottom[0]->diff);
    auto* ratio = static_cast<T*>(pass.scratch(ratio_bytes_));
    pass.each(x.count(), Ratio<T>{scale, dy, dx, ratio});
    pass.each(x.count(),
              Gradient<T>{scale.patches, static_cast<T>(2 * settings.weight * settings.beta),
                          scale.x, ratio, dx});
  }

  size_t scratch_bytes() const { return ratio_bytes_; }

  void make_room(const LRNLayer& layer, Blobs bottom, Blobs) {
    ratio_bytes_ = layer.trains() ? bottom[0]->diff.bytes() : 0;
  }

 private:
  size_t ratio_bytes_ = 0;  // what each place adds to the gradients around it
};

}  // namespace lrn_passes
}  // namespace crema
