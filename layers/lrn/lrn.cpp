#include "layers/lrn/lrn.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/registry.hpp"
#include "layers/lrn/lrn_native.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// A line of channels, or a plane of one channel, whose elements lie `step` apart along x.
struct Patch {
  int64_t height = 1, width = 1;
  int64_t step = 1;
  int64_t reach_y = 0, reach_x = 0;

  /// Calls body with the places of all neighbours of (y, x), itself included.
  template <class Body>
  void around(int64_t y, int64_t x, const Body& body) const {
    for (int64_t v = std::max<int64_t>(y - reach_y, 0); v <= std::min(y + reach_y, height - 1);
         ++v) {
      for (int64_t u = std::max<int64_t>(x - reach_x, 0); u <= std::min(x + reach_x, width - 1);
           ++u) {
        body(v * width + u);
      }
    }
  }
};

/// Runs body(patch, offset of its first element) for the patches that normalize by themselves.
template <class Body>
void each_patch(const LRNSettings& settings, const Shape& shape, const Body& body) {
  const int64_t channels = shape[1], inner = shape.count(2), reach = settings.reach;
  if (settings.across_channels) {
    const Patch line{1, channels, inner, 0, reach};
    parallel_for(shape[0] * inner, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        body(line, i / inner * channels * inner + i % inner);
      }
    });
    return;
  }
  const Patch plane{shape[2], shape[3], 1, reach, reach};
  parallel_for(shape[0] * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(plane, i * inner);
  });
}

template <class T>
T scale_at(const LRNSettings& settings, const Patch& patch, const T* x, int64_t v, int64_t u) {
  T sum = 0;
  patch.around(v, u, [&](int64_t i) { sum += x[i * patch.step] * x[i * patch.step]; });
  return static_cast<T>(settings.k) + static_cast<T>(settings.weight) * sum;
}

template <class T>
void forward_as(const LRNSettings& settings, const Tensor& bottom, Tensor& top) {
  const T* in = bottom.host<T>();
  T* out = top.host_overwrite<T>();
  each_patch(settings, bottom.shape(), [&](const Patch& patch, int64_t offset) {
    for (int64_t i = 0; i < patch.height * patch.width; ++i) {
      const T scale = scale_at(settings, patch, in + offset, i / patch.width, i % patch.width);
      const int64_t at = offset + i * patch.step;
      out[at] = in[at] * std::pow(scale, static_cast<T>(-settings.beta));
    }
  });
}

// dx_i = dy_i scale_i^-beta - 2 weight beta x_i sum over neighbours j of dy_j x_j scale_j^(-beta-1)
template <class T>
void backward_as(const LRNSettings& settings, const Tensor& bottom, const Tensor& top_diff,
                 Tensor& bottom_diff) {
  const T* in = bottom.host<T>();
  const T* dy = top_diff.host<T>();
  T* dx = bottom_diff.host_overwrite<T>();
  const T factor = static_cast<T>(2 * settings.weight * settings.beta);
  each_patch(settings, bottom.shape(), [&](const Patch& patch, int64_t offset) {
    thread_local std::vector<T> ratio;
    ratio.resize(static_cast<size_t>(patch.height * patch.width));
    for (int64_t i = 0; i < patch.height * patch.width; ++i) {
      const T scale = scale_at(settings, patch, in + offset, i / patch.width, i % patch.width);
      const int64_t at = offset + i * patch.step;
      dx[at] = dy[at] * std::pow(scale, static_cast<T>(-settings.beta));
      ratio[static_cast<size_t>(i)] = dx[at] * in[at] / scale;
    }
    for (int64_t i = 0; i < patch.height * patch.width; ++i) {
      T sum = 0;
      patch.around(i / patch.width, i % patch.width,
                   [&](int64_t j) { sum += ratio[static_cast<size_t>(j)]; });
      const int64_t at = offset + i * patch.step;
      dx[at] -= factor * in[at] * sum;
    }
  });
}

}  // namespace

LRNLayer::LRNLayer(const LayerInit& init) : Layer(init) {
  const LRNParameter& s = init.param.lrn_param();
  const int64_t size = s.local_size();
  require(size % 2 == 1, "local_size ", size,
          " is even; it has to be odd, so that there is a middle");
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
    require(shape.rank() >= 2, "takes a bottom with channels, (N, C, ...), not ", shape.str());
  } else {
    require(shape.rank() == 4, "WITHIN_CHANNEL takes images, (N, C, H, W), not ", shape.str());
  }
  top[0]->reshape(shape);
}

Flops LRNLayer::flops(Blobs bottom, Blobs) const {
  const double n = static_cast<double>(bottom[0]->count());
  const double size = static_cast<double>(2 * settings_.reach + 1);
  const double cells = settings_.across_channels ? size : size * size;
  return {n * (2 * cells + 4), n * (3 * cells + 9)};
}

void LRNLayer::forward_cpu(Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&](auto zero) {
    forward_as<decltype(zero)>(settings_, bottom[0]->data, top[0]->data);
  });
}

void LRNLayer::backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) {
  if (!propagate[0]) return;
  dispatch_float(dtype(), [&](auto zero) {
    backward_as<decltype(zero)>(settings_, bottom[0]->data, top[0]->diff, bottom[0]->diff);
  });
}

void register_lrn(Registry& registry);

void register_lrn(Registry& registry) {
  registry.add<LRNLayer>("LRN");
  registry.add_engine<LRNNative>("LRN", "native", DeviceType::cpu);
}

}  // namespace crema
