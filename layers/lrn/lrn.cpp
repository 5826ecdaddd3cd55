#include "layers/lrn/lrn.hpp"

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

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

/// scale^-beta. The published beta is 0.75: roots give it to the last bits, in a fraction of the
/// time that pow() takes on a device.
template <class T>
struct InversePower {
  enum class Kind : uint8_t { half, three_quarters, one, other };
  Kind kind;
  T exponent;

  explicit InversePower(double beta)
      : kind(beta == 0.5    ? Kind::half
             : beta == 0.75 ? Kind::three_quarters
             : beta == 1    ? Kind::one
                            : Kind::other),
        exponent(static_cast<T>(-beta)) {}

  CREMA_FUNCTOR T operator()(T scale) const {
    if (kind == Kind::other) return std::pow(scale, exponent);
    if (kind == Kind::one) return T(1) / scale;
    const T root = sqrt(scale);
    return T(1) / (kind == Kind::half ? root : root * sqrt(root));
  }
};

/// scale = k + weight * (sum of x^2 around).
template <class T>
struct Scale {
  Patches patches;
  T k, weight;
  InversePower<T> power;
  const T* x;

  Scale(const LRNSettings& settings, const Tensor& bottom, const T* values)
      : patches(settings, bottom.shape()),
        k(static_cast<T>(settings.k)),
        weight(static_cast<T>(settings.weight)),
        power(settings.beta),
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
  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = scale.x[i] * scale.power(scale.at(i)); }
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
    dx[i] = dy[i] * scale.power(s);
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

}  // namespace

LRNLayer::LRNLayer(const LayerInit& init) : TwoSidedLayer(init) {
  const LRNParameter& s = init.param.lrn_param();
  const int64_t size = s.local_size();
  if (size % 2 != 1)
    throw Error("local_size ", size, " is even; it has to be odd, so that there is a middle");
  settings_.across_channels = s.norm_region() == LRNParameter::ACROSS_CHANNELS;
  settings_.reach = size / 2;
  settings_.beta = static_cast<double>(s.beta());
  const double values = static_cast<double>(settings_.across_channels ? size : size * size);
  settings_.weight = static_cast<double>(s.alpha()) / values;
  // Within a channel the published layer leaves k out.
  settings_.k = settings_.across_channels ? static_cast<double>(s.k()) : 1;
}

void LRNLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (settings_.across_channels) {
    if (shape.rank() < 2)
      throw Error("takes a bottom with channels, (N, C, ...), not ", shape.str());
  } else {
    if (shape.rank() != 4)
      throw Error("WITHIN_CHANNEL takes images, (N, C, H, W), not ", shape.str());
  }
  top[0]->reshape(shape);
}

Flops LRNLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  const double size = static_cast<double>(2 * settings_.reach + 1);
  const double cells = settings_.across_channels ? size : size * size;
  return {n * (2 * cells + 4), n * (3 * cells + 9)};
}

void LRNLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const Tensor& x = bottom[0]->data;
    for_each(device, x.count(), kPassGrain,
             Forward<T>{{settings_, x, device.read<T>(x)}, device.overwrite<T>(top[0]->data)});
  });
}

void LRNLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                            Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const Tensor& x = bottom[0]->data;
    const Scale<T> scale(settings_, x, device.read<T>(x));
    const T* dy = device.read<T>(top[0]->diff);
    T* dx = device.overwrite<T>(bottom[0]->diff);
    T* const ratio = pass_scratch<T>(device, x.count(), ratio_);
    for_each(device, x.count(), kPassGrain, Ratio<T>{scale, dy, dx, ratio});
    for_each(device, x.count(), kPassGrain,
             Gradient<T>{scale.patches, static_cast<T>(2 * settings_.weight * settings_.beta),
                         scale.x, ratio, dx});
  });
}

void register_lrn(Registry& registry) { add_two_sided<LRNLayer>(registry, "LRN"); }

}  // namespace crema
