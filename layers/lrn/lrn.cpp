#include "layers/lrn/lrn.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "core/fast_division.hpp"
#include "core/float_values.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// scale^-beta. The published beta is 0.75: roots give it to the last bits, in a fraction of the
/// time that pow() takes on a device.
template <class T>
struct InversePower {
  enum class Kind : uint8_t { one_half, three_quarters, one, other };
  Kind kind;
  T exponent;

  explicit InversePower(double beta)
      : kind(beta == 0.5    ? Kind::one_half
             : beta == 0.75 ? Kind::three_quarters
             : beta == 1    ? Kind::one
                            : Kind::other),
        exponent(static_cast<T>(-beta)) {}

  CREMA_FUNCTOR T operator()(T scale) const {
    return kind == Kind::other ? std::pow(scale, exponent) : by_roots(scale);
  }
  /// Of the other kinds.
  CREMA_FUNCTOR T by_roots(T scale) const {
    if (kind == Kind::one) return T(1) / scale;
    const T root = sqrt(scale);
    return T(1) / (kind == Kind::one_half ? root : root * sqrt(root));
  }
};

/// Lines of channels, or planes of one channel, that normalize by themselves.
struct Patches {
  int64_t height = 1, width = 1;  // of one patch
  int64_t step = 1;               // elements between neighbours along x
  int64_t reach_y = 0, reach_x = 0;
  FastDivision by_step, by_width, by_height;

  Patches(const LRNSettings& settings, const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    reach_x = settings.reach;
    if (settings.across_channels) {
      width = shape[1];
      step = tensor.format() == Format::channels_last ? 1 : shape.count(2);
    } else {
      reach_y = settings.reach;
      height = shape[2];
      width = shape[3];
    }
    const int64_t below = tensor.count() + 1;
    by_step = FastDivision(step, below);
    by_width = FastDivision(width, below);
    by_height = FastDivision(height, below);
  }

  /// Calls body with the places of all neighbours of place i, itself included.
  template <class Body>
  CREMA_FUNCTOR void around(int64_t i, const Body& body) const {
    const auto line = by_width.divide(i / by_step);
    const int64_t u = line.remainder, v = line.quotient % by_height;
    const int64_t low_u = u < reach_x ? -u : -reach_x, low_v = v < reach_y ? -v : -reach_y;
    const int64_t room_u = width - 1 - u, room_v = height - 1 - v;
    const int64_t high_u = room_u < reach_x ? room_u : reach_x;
    const int64_t high_v = room_v < reach_y ? room_v : reach_y;
    for (int64_t dv = low_v; dv <= high_v; ++dv) {
      for (int64_t du = low_u; du <= high_u; ++du) body(i + (dv * width + du) * step);
    }
  }
};

// `In` and `Out` are pointers on the host, ValuesIn<T> and ValuesOut<T> on a device.

/// scale = k + weight * (sum of x^2 around).
template <class T, class In>
struct Scale {
  Patches patches;
  T k, weight;
  InversePower<T> power;
  In x;

  Scale(const LRNSettings& settings, const Tensor& bottom, In values)
      : patches(settings, bottom),
        k(static_cast<T>(settings.k)),
        weight(static_cast<T>(settings.weight)),
        power(settings.beta),
        x(values) {}

  CREMA_FUNCTOR T at(int64_t i) const {
    T sum = 0;
    patches.around(i, [&](int64_t j) {
      const T value = x[j];
      sum += value * value;
    });
    return k + weight * sum;
  }
};

template <class T, class In, class Out>
struct Forward {
  Scale<T, In> scale;
  Out y;
  CREMA_FUNCTOR void operator()(int64_t i) const { y[i] = scale.x[i] * scale.power(scale.at(i)); }
};

// dx = dy scale^-beta - 2 weight beta x (sum of ratio around)

/// ratio = dy x scale^(-beta-1), what a place adds to the gradients around.
template <class T, class In>
struct Ratio {
  Scale<T, In> scale;
  In dy;
  T* ratio;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const T s = scale.at(i);
    ratio[i] = dy[i] * scale.power(s) * scale.x[i] / s;
  }
};

template <class T, class In, class Out>
struct Gradient {
  Scale<T, In> scale;
  T factor;  // 2 weight beta
  In dy;
  const T* ratio;
  Out dx;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    T sum = 0;
    scale.patches.around(i, [&](int64_t j) { sum += ratio[j]; });
    const T own = dy[i] * scale.power(scale.at(i));
    dx[i] = own - factor * scale.x[i] * sum;
  }
};

/// Eight channels of a place and the eight before and behind them, for windows across channels in
/// channels_last memory: what they read of each other is in registers.
struct ChannelPacks {
  static constexpr int kSide = 8, kAll = 3 * kSide;
  /// Up to here the gradients of eight channels follow from those 24: they read twice as far.
  static constexpr int kMostReach = kSide / 2;

  int64_t channels;
  int reach;
  float k, weight, beta;
  InversePower<float> power;
  bool vectors;
  FastDivision packs;

  ChannelPacks(const LRNSettings& settings, const Tensor& tensor, bool aligned)
      : channels(tensor.shape()[1]),
        reach(static_cast<int>(settings.reach)),
        k(static_cast<float>(settings.k)),
        weight(static_cast<float>(settings.weight)),
        beta(static_cast<float>(settings.beta)),
        power(settings.beta),
        vectors(aligned && channels % kSide == 0),
        packs((channels + kSide - 1) / kSide, tensor.count() + 1) {}

  struct Place {
    int64_t first;  // element of memory
    int64_t channel;
  };
  CREMA_FUNCTOR Place place(int64_t number) const {
    const auto at = packs.divide(number);
    return {at.quotient * channels + at.remainder * kSide, at.remainder * kSide};
  }
  CREMA_FUNCTOR PackAt<float> pack(const Place& p, int side) const {
    const int64_t channel = p.channel + side * kSide;
    const int64_t left = channels - channel;
    int lanes = left < kSide ? static_cast<int>(left) : kSide;
    if (channel < 0 || left < 0) lanes = 0;
    return {p.first + side * kSide, lanes, vectors && lanes == kSide};
  }
  /// The channels from eight before the place's on; 0 where there are none.
  CREMA_FUNCTOR void load(const ValuesIn<float>& x, const Place& p, float* all) const {
    const PackAt<float> before = pack(p, -1), own = pack(p, 0), behind = pack(p, 1);
    const auto raw_before = before.fetch(x), raw_own = own.fetch(x), raw_behind = behind.fetch(x);
    put(before.value(x, raw_before), all);
    put(own.value(x, raw_own), all + kSide);
    put(behind.value(x, raw_behind), all + 2 * kSide);
  }
  /// sums[j] = the sum of all[i] over the window of j, for j in [kFrom, kTo).
  template <int kFrom, int kTo>
  CREMA_FUNCTOR void window_sums(const float* all, float* sums) const {
    static_assert(kFrom >= kMostReach && kTo + kMostReach <= kAll);
    for (int j = kFrom; j < kTo; ++j) sums[j] = all[j];
    for (int d = 1; d <= kMostReach; ++d) {
      if (d > reach) continue;
      for (int j = kFrom; j < kTo; ++j) sums[j] += all[j - d] + all[j + d];
    }
  }

 private:
  CREMA_FUNCTOR static void put(const Pack<float>& values, float* to) {
    for (int k = 0; k < kSide; ++k) to[k] = values.lanes[k];
  }
};

struct ForwardChannels {
  ChannelPacks at;
  ValuesIn<float> x;
  ValuesOut<float> y;
  CREMA_FUNCTOR void operator()(int64_t number) const {
    constexpr int kSide = ChannelPacks::kSide, kAll = ChannelPacks::kAll;
    const auto p = at.place(number);
    float all[kAll], squares[kAll], sums[kAll];
    at.load(x, p, all);
    for (int j = 0; j < kAll; ++j) squares[j] = all[j] * all[j];
    at.template window_sums<kSide, 2 * kSide>(squares, sums);
    Pack<float> result;
    for (int j = 0; j < kSide; ++j) {
      const float scale = at.k + at.weight * sums[kSide + j];
      result.lanes[j] = all[kSide + j] * at.power.by_roots(scale);
    }
    at.pack(p, 0).store(result, y);
  }
};

struct GradientChannels {
  ChannelPacks at;
  ValuesIn<float> x, dy;
  ValuesOut<float> dx;
  CREMA_FUNCTOR void operator()(int64_t number) const {
    constexpr int kSide = ChannelPacks::kSide, kAll = ChannelPacks::kAll;
    constexpr int kFrom = kSide - ChannelPacks::kMostReach;
    constexpr int kTo = 2 * kSide + ChannelPacks::kMostReach;
    const auto p = at.place(number);
    float all[kAll], g[kAll], work[kAll], sums[kAll];
    at.load(x, p, all);
    at.load(dy, p, g);
    for (int j = 0; j < kAll; ++j) work[j] = all[j] * all[j];
    at.template window_sums<kFrom, kTo>(work, sums);
    Pack<float> own;
    // Channels that are not there add nothing: without k, their scale may be 0.
    const int64_t begin = p.channel == 0 ? kSide : 0, end = at.channels - p.channel + kSide;
    for (int j = kFrom; j < kTo; ++j) {
      const float scale = at.k + at.weight * sums[j];
      const float share = g[j] * at.power.by_roots(scale);
      if (j >= kSide && j < 2 * kSide) own.lanes[j - kSide] = share;
      work[j] = j >= begin && j < end ? share * all[j] / scale : 0;
    }
    at.template window_sums<kSide, 2 * kSide>(work, sums);
    const float factor = 2 * at.weight * at.beta;
    for (int j = 0; j < kSide; ++j) {
      own.lanes[j] -= factor * all[kSide + j] * sums[kSide + j];
    }
    at.pack(p, 0).store(own, dx);
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

std::vector<Option> LRNLayer::device_options(Blobs bottom, Blobs top) const {
  return in_activations(*this, settings_.across_channels
                                   ? without_blocks(same_format_options(bottom, top, dtype(), true))
                                   : reference_options(bottom, top));
}

bool LRNLayer::by_packs(const Tensor& bottom) const {
  return settings_.across_channels && dtype() == DType::f32 &&
         bottom.format() == Format::channels_last && settings_.reach <= ChannelPacks::kMostReach &&
         InversePower<float>(settings_.beta).kind != InversePower<float>::Kind::other;
}

void LRNLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  Tensor& y = top[0]->data;
  if (!device.on_host() && by_packs(x)) {
    const auto in = values_in<float>(device, x);
    const auto out = values_out<float>(device, y);
    const ChannelPacks at(settings_, x, aligned(in, out));
    const int64_t places = x.count() / std::max<int64_t>(at.channels, 1);
    return for_each(device, places * at.packs.divisor(), kPassGrain, ForwardChannels{at, in, out});
  }
  dispatch_float(dtype(), [&]<class T>(T) {
    const auto run = [&]<class Side, class In, class Out>(Side side, In in, Out out) {
      for_each(side, x.count(), kPassGrain,
               Forward<T, In, Out>{Scale<T, In>(settings_, x, in), out});
    };
    if (device.on_host()) return run(HostSide(), device.read<T>(x), device.overwrite<T>(y));
    run(DeviceSide(device), values_in<T>(device, x), values_out<T>(device, y));
  });
}

void LRNLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                            Blobs bottom) {
  const Tensor &x = bottom[0]->data, &dy = top[0]->diff;
  Tensor& dx = bottom[0]->diff;
  if (!device.on_host() && by_packs(x)) {
    const auto in = values_in<float>(device, x), g = values_in<float>(device, dy);
    const auto out = values_out<float>(device, dx);
    const ChannelPacks at(settings_, x, aligned(in, g, out));
    const int64_t places = x.count() / std::max<int64_t>(at.channels, 1);
    return for_each(device, places * at.packs.divisor(), kPassGrain,
                    GradientChannels{at, in, g, out});
  }
  dispatch_float(dtype(), [&]<class T>(T) {
    const auto run = [&]<class Side, class In, class Out>(Side side, In in, In g, Out out) {
      const Scale<T, In> scale(settings_, x, in);
      T* const ratio = pass_scratch<T>(device, x.count(), ratio_);
      const auto factor = static_cast<T>(2 * settings_.weight * settings_.beta);
      for_each(side, x.count(), kPassGrain, Ratio<T, In>{scale, g, ratio});
      for_each(side, x.count(), kPassGrain, Gradient<T, In, Out>{scale, factor, g, ratio, out});
    };
    if (device.on_host()) {
      return run(HostSide(), device.read<T>(x), device.read<T>(dy), device.overwrite<T>(dx));
    }
    run(DeviceSide(device), values_in<T>(device, x), values_in<T>(device, dy),
        values_out<T>(device, dx));
  });
}

void register_lrn(Registry& registry) { add_two_sided<LRNLayer>(registry, "LRN"); }

}  // namespace crema
