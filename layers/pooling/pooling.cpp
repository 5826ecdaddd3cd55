#include "layers/pooling/pooling.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/dispatch.hpp"
#include "crema/random.hpp"
#include "layer_support/options.hpp"
#include "layer_support/packs.hpp"
#include "layer_support/passes.hpp"
#include "layers/pooling/pooling_device.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Outputs, or inputs, that are worth a thread.
constexpr int64_t kGrain = 1024;

/// `name`, given once for all axes, or for height and width, or as `name`_3d once for each axis.
PoolingSetting setting_of(const char* name, const char* once, std::optional<uint32_t> all,
                          std::optional<uint32_t> h, std::optional<uint32_t> w,
                          const google::protobuf::RepeatedField<uint32_t>& each) {
  const int forms = int{all.has_value()} + int{h || w} + int{!each.empty()};
  if (forms > 1)
    throw Error("has both of two ways to give ", name, ": ", once, ", the pair of ", name,
                "_h and ", name, "_w, or ", once, "_3d; keep one of them");
  if (h.has_value() != w.has_value())
    throw Error("has only one of ", name, "_h and ", name, "_w; give both");
  PoolingSetting setting{.name = once};
  if (all) setting.values = {*all};
  if (h) setting.values = {*h, *w};
  if (h) setting.name = text(name, "_h and ", name, "_w");
  if (!each.empty()) {
    setting.name = text(once, "_3d");
    setting.values.assign(each.begin(), each.end());
  }
  return setting;
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

int64_t PoolingSetting::of_axis(size_t i, size_t axes, int64_t otherwise) const {
  if (values.size() > 1 && values.size() != axes)
    throw Error(name, " has ", values.size(), " values for ", axes,
                " spatial axes; give one for all of them, or one for each");
  if (values.empty()) return otherwise;
  return values[values.size() == 1 ? 0 : i];
}

bool PoolingSetting::any_but(int64_t value) const {
  return std::any_of(values.begin(), values.end(), [=](int64_t v) { return v != value; });
}

PoolingChance pooling_chance(const Layer& layer) {
  const RunState& run = layer.run();
  Random random(run.seed, stream_id(layer.name()) + run.pass, run.iteration);
  PoolingChance chance;
  chance.key0 = random.next_u32();
  chance.key1 = random.next_u32();
  return chance;
}

PoolingLayer::PoolingLayer(const LayerInit& init)
    : PoolingLayer(init, init.param.pooling_param()) {}

PoolingLayer::PoolingLayer(const LayerInit& init, const PoolingParameter& s) : TwoSidedLayer(init) {
  if (s.axis() != 1)
    throw Error("axis ", s.axis(),
                " is not supported as that of the channels; channels are axis 1");
  auto set = [](bool has, uint32_t value) { return has ? std::optional(value) : std::nullopt; };
  method_ = s.pool() == PoolingParameter::MAX   ? Method::maximum
            : s.pool() == PoolingParameter::AVE ? Method::average
                                                : Method::stochastic;
  round_up_ = s.round_mode() == PoolingParameter::CEIL && s.ceil_mode() && !s.torch_pooling();
  windows_.counts_padding = s.avg_include_pad();
  global_ = s.global_pooling();
  kernel_ = setting_of("kernel", "kernel_size", set(s.has_kernel_size(), s.kernel_size()),
                       set(s.has_kernel_h(), s.kernel_h()), set(s.has_kernel_w(), s.kernel_w()),
                       s.kernel_size_3d());
  stride_ = setting_of("stride", "stride", set(s.has_stride(), s.stride()),
                       set(s.has_stride_h(), s.stride_h()), set(s.has_stride_w(), s.stride_w()),
                       s.stride_3d());
  pad_ = setting_of("pad", "pad", set(s.has_pad(), s.pad()), set(s.has_pad_h(), s.pad_h()),
                    set(s.has_pad_w(), s.pad_w()), s.pad_3d());
  if (global_) {
    if (kernel_.any_but(0))
      throw Error("has both global_pooling and a kernel of ", kernel_.values[0],
                  "; global_pooling takes the whole image, leave the kernel out");
    if (pad_.any_but(0) || stride_.any_but(1))
      throw Error("has global_pooling with pad or stride; there is one window, leave them out");
  } else if (kernel_.values.empty()) {
    throw Error("has no kernel; give kernel_size, or kernel_h and kernel_w, above 0");
  }
  if (method_ == Method::stochastic && pad_.any_but(0))
    throw Error("pad ", pad_.values[0], pad_.values.size() > 1 ? "..." : "",
                " with STOCHASTIC is not defined; take MAX or AVE, or leave pad out");
}

Arity PoolingLayer::arity() const {
  return {.min_bottoms = 1,
          .max_bottoms = 1,
          .min_tops = 1,
          .max_tops = method_ == Method::maximum ? 2 : 1};
}

std::span<PoolingAxis* const> PoolingLayer::axes() {
  return std::span(all_axes_).last(static_cast<size_t>(spatial_axes_));
}

void PoolingLayer::setup(Blobs bottom, Blobs) {
  spatial_axes_ = bottom[0]->shape().rank() - 2;
  if (spatial_axes_ < 1 || spatial_axes_ > 3)
    throw Error(
        "takes images, (N, C, H, W), sequences, (N, C, W), or volumes, (N, C, D, H, W), "
        "not a bottom of shape ",
        bottom[0]->shape().str());
  for (size_t i = 0; i < axes().size(); ++i) {
    PoolingAxis& axis = *axes()[i];
    axis.kernel = kernel_.of_axis(i, axes().size(), 0);
    axis.stride = stride_.of_axis(i, axes().size(), 1);
    axis.pad = pad_.of_axis(i, axes().size(), 0);
    if (global_) continue;
    if (axis.kernel <= 0)
      throw Error("has no kernel; give kernel_size, or kernel_h and kernel_w, above 0");
    if (axis.stride <= 0) throw Error("stride ", axis.stride, " must be above 0");
    if (axis.pad >= axis.kernel)
      throw Error("pad ", axis.pad, " must be smaller than kernel ", axis.kernel,
                  ", or windows would see padding only");
  }
}

void PoolingLayer::reshape(Blobs bottom, Blobs top) {
  const Shape& shape = bottom[0]->shape();
  if (shape.rank() != spatial_axes_ + 2 || shape.count(1) <= 0)
    throw Error("takes images, or what it was made for, with ", spatial_axes_,
                " spatial axes, and with channels and extents above 0, not ", shape.str());
  std::vector<int64_t> dims = {shape[0], shape[1]};
  bool padded = false;
  for (const PoolingAxis* axis : axes()) padded = padded || axis->pad > 0;
  for (PoolingAxis* axis : axes()) {
    axis->size = shape[static_cast<int>(dims.size())];
    if (global_) axis->kernel = axis->size;
    axis->out = outputs(*axis, round_up_, padded);
    dims.push_back(axis->out);
  }
  if (windows_.inputs() > std::numeric_limits<int32_t>::max())
    throw Error("a channel of ", shape.str(), " has more than 2^31 values");
  for (Blob* blob : top) blob->reshape(Shape(dims));
}

Flops PoolingLayer::flops(Blobs, Blobs top) const {
  const double outputs = static_cast<double>(top[0]->count());
  const double cells =
      outputs * static_cast<double>(windows_.z.kernel * windows_.y.kernel * windows_.x.kernel);
  return {cells, remembers_choice() ? outputs : cells};
}

std::optional<PlacedMap> PoolingLayer::places_of(int t) const {
  if (t == 0) return std::nullopt;
  const PoolingAxis &z = windows_.z, &y = windows_.y;
  return PlacedMap{.height = z.size * y.size,
                   .width = windows_.x.size,
                   .rows = (z.end(z.out - 1) - 1) * y.size + y.end(y.out - 1)};
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

void PoolingLayer::prepare_choice(Blobs top, DType dtype) {
  choice_.reshape(remembers_choice() && trains() ? top[0]->shape() : Shape{0});
  choice_.set_layout(dtype, Format::contiguous);
}

void PoolingLayer::prepare_reference(Blobs, Blobs top) { prepare_choice(top, DType::i32); }

void PoolingLayer::prepare_device(Blobs, Blobs top) {
  const int64_t cells = windows_.z.kernel * windows_.y.kernel * windows_.x.kernel;
  // Bytes are in the order of the top's memory. A type of more bytes for a moment would lose it.
  const bool bytes = method_ == Method::maximum && cells <= PoolingCells::kMostOfBytes;
  prepare_choice(top, bytes ? DType::u8 : DType::i32);
}

std::vector<Option> PoolingLayer::device_options(Blobs bottom, Blobs top) const {
  if (method_ == Method::stochastic) return reference_options(bottom, top);
  return in_activations(*this, without_blocks(same_format_options(bottom, top, dtype(), true)));
}

std::string PoolingLayer::device_refusal(Blobs) const {
  constexpr int64_t kMost = 1 << 29;  // so that sums of them are int
  for (const PoolingAxis& axis : {windows_.z, windows_.y, windows_.x}) {
    const int64_t most = std::max({axis.size, axis.kernel, axis.stride, axis.pad});
    if (most > kMost) return text("it has windows up to ", kMost, " wide, not ", most);
  }
  return {};
}

template <class T, int N>
void PoolingLayer::forward_packs(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  const ValuesIn<T> in = values_in<T>(device, x);
  const ValuesOut<T> out = values_out<T>(device, top[0]->data);
  const bool last = x.format() == Format::channels_last;
  const DevicePooling at(windows_, std::max(x.count(), top[0]->count()) + 1,
                         last ? x.shape()[1] : 1, N, aligned(in, out));
  const int64_t values = last ? x.shape()[0] : x.shape()[0] * x.shape()[1];
  const int64_t packs = values * windows_.outputs() * at.packs.divisor();
  constexpr int64_t kManyCells = 16;
  const bool whole = windows_.outputs() == 1 && windows_.inputs() >= kManyCells &&
                     at.z.pad + at.y.pad + at.x.pad == 0 && at.z.kernel >= at.z.size &&
                     at.y.kernel >= at.y.size && at.x.kernel >= at.x.size;
  if (whole && method_ == Method::average) {
    constexpr int kTeams = N > 1 ? 4 : 1;  // 64 bytes side by side in 16 bits
    return for_each_team<kTeams>(device, packs, PoolingWholePack<T, N>{at, in, out});
  }
  PoolingCells cells;
  if (choice_.count() > 0 && choice_.dtype() == DType::u8) {
    cells.bytes = device.overwrite<uint8_t>(choice_);
  } else if (choice_.count() > 0) {
    cells.words = device.overwrite<int32_t>(choice_);
  }
  T* const mask = top.size() > 1 ? device.overwrite<T>(top[1]->data) : nullptr;
  for_each(
      device, packs, kGrain,
      PoolingForwardPack<T, N>{at, method_ == Method::maximum, rectifies(), in, out, cells, mask});
}

template <class T, int N>
void PoolingLayer::backward_packs(const ComputeDevice& device, Blobs top, Blobs bottom) {
  Tensor& x = bottom[0]->diff;
  const ValuesIn<T> dy = values_in<T>(device, top[0]->diff);
  const ValuesOut<T> dx = values_out<T>(device, x);
  const bool last = x.format() == Format::channels_last;
  const DevicePooling at(windows_, std::max(x.count(), top[0]->count()) + 1,
                         last ? x.shape()[1] : 1, N, aligned(dy, dx));
  const int64_t values = last ? x.shape()[0] : x.shape()[0] * x.shape()[1];
  KeptPoolingCells cells;
  if (method_ == Method::maximum && choice_.dtype() == DType::u8) {
    cells.bytes = device.read<uint8_t>(choice_);
  } else if (method_ == Method::maximum) {
    cells.words = device.read<int32_t>(choice_);
  }
  for_each(device, values * windows_.inputs() * at.packs.divisor(), kGrain,
           PoolingBackwardPack<T, N>{at, dy, cells, dx});
}

void PoolingLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host() && method_ != Method::stochastic) {
      if (bottom[0]->data.format() != Format::channels_last)
        return forward_packs<T, 1>(device, bottom, top);
      return forward_packs<T, kPackSize<T>>(device, bottom, top);
    }
    const T* in = device.read<T>(bottom[0]->data);
    int32_t* choice = choice_.count() > 0 ? device.overwrite<int32_t>(choice_) : nullptr;
    T* mask = top.size() > 1 ? device.overwrite<T>(top[1]->data) : nullptr;
    for_each(device, top[0]->count(), kGrain,
             PoolingForward<T>{windows_, method_, rectifies(), samples(), pooling_chance(*this), in,
                               device.overwrite<T>(top[0]->data), choice, mask});
  });
}

void PoolingLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                                Blobs bottom) {
  dispatch_float(dtype(), [&]<class T>(T) {
    if (!device.on_host() && method_ != Method::stochastic) {
      if (bottom[0]->diff.format() != Format::channels_last)
        return backward_packs<T, 1>(device, top, bottom);
      return backward_packs<T, kPackSize<T>>(device, top, bottom);
    }
    const T* dy = device.read<T>(top[0]->diff);
    const T* in =
        reference_backward_reads().bottom_data ? device.read<T>(bottom[0]->data) : nullptr;
    const int32_t* choice = remembers_choice() ? device.read<int32_t>(choice_) : nullptr;
    for_each(
        device, bottom[0]->count(), kGrain,
        PoolingBackward<T>{windows_, dy, in, choice, false, device.overwrite<T>(bottom[0]->diff)});
  });
}

void register_pooling(Registry& registry) { add_two_sided<PoolingLayer>(registry, "Pooling"); }

}  // namespace crema
