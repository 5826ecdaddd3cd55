// The vectorized engine of Scale and Bias: f32; every memory format where the operand is one number
// a channel or one for all, contiguous memory for any other.
#include <algorithm>

#include "backend/cpu/channelwise.hpp"
#include "kit/native_engine.hpp"
#include "kit/options.hpp"
#include "layers/scale/scale.hpp"

namespace crema {
namespace {

/// Elements of two tensors that stay in the nearest cache between two passes over them.
constexpr int64_t kCachedElements = 2048;

/// Calls body with the rows of the piece, as many at once as stay in the cache.
template <class Body>
void in_cached_parts(const ChannelLayout& layout, const ChannelPiece& piece, const Body& body) {
  const bool pixels = layout.order == ChannelLayout::Order::pixels;
  const int64_t row = (piece.channel_end - piece.channel_begin) * (pixels ? 1 : layout.inner);
  const int64_t rows = std::max<int64_t>(kCachedElements / std::max<int64_t>(row, 1), 1);
  for (int64_t begin = piece.row_begin; begin < piece.row_end; begin += rows) {
    ChannelPiece part = piece;
    part.row_begin = begin;
    part.row_end = std::min(begin + rows, piece.row_end);
    body(part);
  }
}

class ScaleNative : public NativeEngine<ScaleLayer> {
 public:
  size_t extra_bytes() const override {
    return scratch_.bytes() + (scale_.size() + bias_.size()) * sizeof(float);
  }

 protected:
  std::vector<Option> layouts(const ScaleLayer& scale, Blobs bottom, Blobs top,
                              std::string&) override {
    // A second bottom of rank 3 and up would have to share the first one's format.
    const bool any_format =
        scale.fits_any_format() && (bottom.size() == 1 || bottom[1]->shape().rank() < 3);
    if (!any_format) return {uniform_option(bottom, top, DType::f32)};
    return same_format_options(bottom, top, DType::f32, true);
  }

  void plan(ScaleLayer& scale, Blobs bottom, Blobs) override {
    const Tensor& x = bottom[0]->data;
    const ChannelView& view = scale.view();
    one_for_all_ = false;
    ChannelLayout layout = view.channels == 1
                               ? ChannelLayout::of_one(view.each())
                               : ChannelLayout::of(view.outer, view.channels, view.inner);
    if (x.format() != Format::contiguous) {
      layout = ChannelLayout::of(x.shape(), x.format());
      one_for_all_ = view.channels == 1 && layout.channels != 1;
    }
    split_ = ChannelSplit(layout, scale.context().threads());
    scratch_.resize(split_);
    const bool copies = one_for_all_ || layout.block > 1;
    const auto padded = static_cast<size_t>(layout.padded_channels());
    scale_.assign(copies || !scale.scales() ? padded : 0, 0.0F);
    if (!scale.scales()) std::fill_n(scale_.begin(), layout.channels, 1.0F);
    bias_.assign(copies && scale.bias_data(bottom) ? padded : 0, 0.0F);
  }

  void run_forward(ScaleLayer& scale, Blobs bottom, Blobs top) override {
    const float* a = coefficients(scale.scale_data(bottom), scale_);
    const float* b = coefficients(scale.bias_data(bottom), bias_);
    const float* x = bottom[0]->data.host<float>();
    float* y = top[0]->data.host_overwrite<float>();
    channel_apply(split_, [&](const ChannelPiece& piece) {
      channel_affine(split_.layout(), piece, x, {.scale = a, .shift = b}, y);
    });
  }

  void run_backward(ScaleLayer& scale, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    const auto to = scale.gradients<float>(Side(), propagate, bottom);
    const ChannelLayout& layout = split_.layout();
    const float* dy = top[0]->diff.host<float>();
    // Only the gradient of the scale reads x. Otherwise its memory may be reused; dy is passed.
    const float* x = to.of_scale ? bottom[0]->data.host<float>() : dy;
    const ChannelGradient gain{.gain = coefficients(scale.scale_data(bottom), scale_)};
    float* dx = propagate[0] ? bottom[0]->diff.host_overwrite<float>() : nullptr;
    if (dx == dy && !scale.scales()) dx = nullptr;  // it is there

    if (!to.of_scale && !to.of_bias) {
      if (!dx) return;
      channel_apply(split_, [&](const ChannelPiece& piece) {
        channel_gradient(layout, piece, nullptr, dy, gain, {}, dx);
      });
      return;
    }

    auto reduce = [&](const ChannelPiece& piece, const ChannelSums& sums) {
      in_cached_parts(layout, piece, [&](const ChannelPiece& part) {
        channel_gradient_sums(layout, part, x, dy, nullptr, {}, sums);
        if (dx) channel_gradient(layout, part, nullptr, dy, gain, {}, dx);
      });
    };
    if (one_for_all_) {
      double of_scale = 0, of_bias = 0;
      channel_reduce(split_, scratch_, reduce, [](int64_t, int64_t, const ChannelSums&) {});
      for (int64_t c = 0; c < layout.channels; ++c) {
        of_bias += scratch_.slice(0).first[c];
        of_scale += scratch_.slice(0).second[c];
      }
      if (to.of_scale) to.of_scale[0] += static_cast<float>(of_scale);
      if (to.of_bias) to.of_bias[0] += static_cast<float>(of_bias);
      return;
    }
    channel_reduce(split_, scratch_, reduce,
                   [&](int64_t begin, int64_t end, const ChannelSums& sums) {
                     for (int64_t c = begin; c < end; ++c) {
                       if (to.of_scale) to.of_scale[c] += static_cast<float>(sums.second[c]);
                       if (to.of_bias) to.of_bias[c] += static_cast<float>(sums.first[c]);
                     }
                   });
  }

 private:
  /// The tensor's own values where they can serve as coefficients, else a copy of them in `room`;
  /// without a tensor, what is there: ones for a scale.
  const float* coefficients(const Tensor* values, std::vector<float>& room) const {
    if (!values) return room.empty() ? nullptr : room.data();
    const float* from = values->host<float>();
    if (room.empty()) return from;
    const auto channels = static_cast<size_t>(split_.layout().channels);
    for (size_t c = 0; c < channels; ++c) room[c] = one_for_all_ ? from[0] : from[c];
    return room.data();
  }

  ChannelSplit split_;
  ChannelScratch scratch_;
  // One number for all channels is copied to each of them; blocks are padded with zeros.
  bool one_for_all_ = false;
  std::vector<float> scale_, bias_;
};

}  // namespace

void add_scale_engines(Registry& registry, const std::string& type) {
  registry.add_engine<ScaleNative>(type, "native", DeviceType::cpu);
}

void register_scale_native(Registry& registry) { add_scale_engines(registry, "Scale"); }

}  // namespace crema
