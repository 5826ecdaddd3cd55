#include "layers/pooling/pooling.hpp"

#include <limits>
#include <optional>

#include "core/dispatch.hpp"
#include "crema/random.hpp"
#include "kit/options.hpp"
#include "kit/passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Outputs, or inputs, that are worth a thread.
constexpr int64_t kGrain = 1024;

/// A setting given for both axes at once, or one for each.
struct Pair {
  int64_t h = 0, w = 0;
};

Pair pair_of(const char* name, std::optional<uint32_t> both, std::optional<uint32_t> h,
             std::optional<uint32_t> w, int64_t otherwise) {
  if (both && (h || w))
    throw Error("has both a square ", name, " and ", name, "_h or ", name, "_w; keep one of them");
  if (h.has_value() != w.has_value())
    throw Error("has only one of ", name, "_h and ", name, "_w; give both");
  if (h) return {*h, *w};
  return {both ? int64_t{*both} : otherwise, both ? int64_t{*both} : otherwise};
}

void check_images_only(const PoolingParameter& settings) {
  if (settings.kernel_size_3d_size() != 0 || settings.stride_3d_size() != 0 ||
      settings.pad_3d_size() != 0)
    throw Error(
        "has settings for volumes (kernel_size_3d, stride_3d, pad_3d), but pools images only");
  if (settings.axis() != 1)
    throw Error("axis ", settings.axis(),
                " is not supported as that of the channels; channels are axis 1");
}

int64_t outputs(const PoolingAxis& axis, bool round_up, bool padded) {
  const int64_t room = axis.size + 2 * axis.pad - axis.kernel;
  // A window that fits nowhere may still hang over the far border, by less than a stride.
  const int64_t least = round_up ? 1 - axis.stride : 0;
  if (room < least)
    throw Error("kernel ", axis.kernel, " exceeds the padded input ", axis.size + 2 * axis.pad,
                "; reduce kernel_size or add pad");
  int64_t out = room < 0 ? 1 : (room + (round_up ? axis.stride - 1 : 0)) / axis.stride + 1;
  // The last window has to start inside the input (or the padding before it); as published, only
  // where there is padding.
  if (padded && (out - 1) * axis.stride >= axis.size + axis.pad) --out;
  return out;
}

}  // namespace

PoolingLayer::PoolingLayer(const LayerInit& init) : TwoSidedLayer(init) {
  const PoolingParameter& s = init.param.pooling_param();
  check_images_only(s);
  auto set = [](bool has, uint32_t value) { return has ? std::optional(value) : std::nullopt; };
  method_ = s.pool() == PoolingParameter::MAX   ? Method::maximum
            : s.pool() == PoolingParameter::AVE ? Method::average
                                                : Method::stochastic;
  round_up_ = s.round_mode() == PoolingParameter::CEIL && s.ceil_mode() && !s.torch_pooling();
  windows_.counts_padding = s.avg_include_pad();
  global_ = s.global_pooling();
  stream_ = stream_id(name());

  const Pair kernel =
      pair_of("kernel", set(s.has_kernel_size(), s.kernel_size()),
              set(s.has_kernel_h(), s.kernel_h()), set(s.has_kernel_w(), s.kernel_w()), 0);
  const Pair stride =
      pair_of("stride", set(s.has_stride(), s.stride()), set(s.has_stride_h(), s.stride_h()),
              set(s.has_stride_w(), s.stride_w()), 1);
  const Pair pad = pair_of("pad", set(s.has_pad(), s.pad()), set(s.has_pad_h(), s.pad_h()),
                           set(s.has_pad_w(), s.pad_w()), 0);
  if (global_) {
    if (kernel.h != 0 || kernel.w != 0)
      throw Error("has both global_pooling and a kernel of ", kernel.h, "x", kernel.w,
                  "; global_pooling takes the whole image, leave the kernel out");
    if (pad.h != 0 || pad.w != 0 || stride.h != 1 || stride.w != 1)
      throw Error("has global_pooling with pad or stride; there is one window, leave them out");
  } else {
    if (kernel.h <= 0 || kernel.w <= 0)
      throw Error("has no kernel; give kernel_size, or kernel_h and kernel_w, above 0");
    if (stride.h <= 0 || stride.w <= 0)
      throw Error("stride ", stride.h, "x", stride.w, " must be above 0");
    for (const auto& [p, k] : {std::pair{pad.h, kernel.h}, std::pair{pad.w, kernel.w}}) {
      if (p >= k)
        throw Error("pad ", p, " must be smaller than kernel ", k,
                    ", or windows would see padding only");
    }
  }
  if (method_ == Method::stochastic && (pad.h != 0 || pad.w != 0))
    throw Error("pad ", pad.h, "x", pad.w,
                " with STOCHASTIC is not defined; take MAX or AVE, or leave pad out");
  windows_.y = {.kernel = kernel.h, .stride = stride.h, .pad = pad.h};
  windows_.x = {.kernel = kernel.w, .stride = stride.w, .pad = pad.w};
}

Arity PoolingLayer::arity() const {
  return {.min_bottoms = 1,
          .max_bottoms = 1,
          .min_tops = 1,
          .max_tops = method_ == Method::maximum ? 2 : 1};
}

void PoolingLayer::setup(Blobs bottom, Blobs) {
  if (bottom[0]->shape().rank() != 4)
    throw Error("takes images, (N, C, H, W), not a bottom of shape ", bottom[0]->shape().str());
}

void PoolingLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (shape.rank() != 4 || shape.count(1) <= 0)
    throw Error("takes images, (N, C, H, W), with C, H and W above 0, not ", shape.str());
  PoolingAxis &y = windows_.y, &x = windows_.x;
  y.size = shape[2];
  x.size = shape[3];
  if (global_) {
    y.kernel = y.size;
    x.kernel = x.size;
  }
  const bool padded = y.pad > 0 || x.pad > 0;
  y.out = outputs(y, round_up_, padded);
  x.out = outputs(x, round_up_, padded);
  if (windows_.plane() > std::numeric_limits<int32_t>::max())
    throw Error("an image of ", y.size, "x", x.size, " has more than 2^31 pixels");
  for (Blob* blob : top) blob->reshape({shape[0], shape[1], y.out, x.out});
}

Flops PoolingLayer::flops(Blobs, Blobs top) const {
  const double outputs = static_cast<double>(top[0]->count());
  const double cells = outputs * static_cast<double>(windows_.y.kernel * windows_.x.kernel);
  return {cells, remembers_choice() ? outputs : cells};
}

bool PoolingLayer::commutes_with(const TailStep& step) const {
  return method_ == Method::maximum && relu_slope_of({step}).has_value();
}

bool PoolingLayer::accepts(const Tail& tail) const {
  return method_ == Method::maximum && relu_slope_of(tail) == 0.0F;
}

bool PoolingLayer::remembers_choice() const { return method_ == Method::maximum || samples(); }

BackwardReads PoolingLayer::reference_backward_reads() const {
  // A probability-weighted average depends on the values.
  return {.bottom_data = method_ == Method::stochastic && !remembers_choice(), .top_data = false};
}

void PoolingLayer::prepare_reference(Blobs, Blobs top) {
  choice_.reshape(remembers_choice() && trains() ? top[0]->shape() : Shape{0});
}

PoolingChance PoolingLayer::chance() const {
  Random random(run().seed, stream_ + run().pass, run().iteration);
  PoolingChance chance;
  chance.key0 = random.next_u32();
  chance.key1 = random.next_u32();
  return chance;
}

void PoolingLayer::run_forward(const Side& side, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* in = side.read<T>(bottom[0]->data);
    int32_t* choice = choice_.count() > 0 ? side.overwrite<int32_t>(choice_) : nullptr;
    T* mask = top.size() > 1 ? side.overwrite<T>(top[1]->data) : nullptr;
    for_each(side, top[0]->count(), kGrain,
             PoolingForward<T>{windows_, method_, rectifies(), samples(), chance(), in,
                               side.overwrite<T>(top[0]->data), choice, mask});
  });
}

void PoolingLayer::run_backward(const Side& side, Blobs top, const std::vector<bool>&,
                                Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    const T* dy = side.read<T>(top[0]->diff);
    const T* in = reference_backward_reads().bottom_data ? side.read<T>(bottom[0]->data) : nullptr;
    const int32_t* choice = remembers_choice() ? side.read<int32_t>(choice_) : nullptr;
    for_each(side, bottom[0]->count(), kGrain,
             PoolingBackward<T>{windows_, dy, in, choice, side.overwrite<T>(bottom[0]->diff)});
  });
}

void register_pooling(Registry& registry) { add_two_sided<PoolingLayer>(registry, "Pooling"); }

}  // namespace crema
