// The vectorized engine of Scale and Bias: f32; every memory format where the operand is one number
// a channel, one a sample and channel, or one for all, contiguous memory for any other.
#include <algorithm>

#include "backend/cpu/channelwise.hpp"
#include "layer_support/native_engine.hpp"
#include "layer_support/options.hpp"
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

class ScaleKernel : public NativeKernel<ScaleLayer> {
 public:
  static std::vector<Option> options(const ScaleLayer& scale, Blobs bottom, Blobs top,
                                     std::string&) {
    // A second bottom of rank 3 and up would have to share the first one's format.
    const bool any_format =
        scale.fits_any_format() && (bottom.size() == 1 || bottom[1]->shape().rank() < 3);
    if (!any_format) return {uniform_option(bottom, top, DType::f32)};
    return same_format_options(bottom, top, DType::f32, true);
  }

  ScaleKernel(ScaleLayer& scale, Blobs bottom, Blobs) : NativeKernel(scale) {
    const Tensor& x = bottom[0]->data;
    const ChannelView& view = scale.view();
    one_for_all_ = false;
    images_ = 1;
    ChannelLayout layout = view.channels == 1
                               ? ChannelLayout::of_one(view.each())
                               : ChannelLayout::of(view.outer, view.channels, view.inner);
    if (x.format() != Format::contiguous) {
      layout = ChannelLayout::of(x.shape(), x.format());
      one_for_all_ = view.channels == 1 && layout.channels != 1;
    }
    operands_ = layout.channels;
    padded_operands_ = layout.padded_channels();
    if (x.format() != Format::contiguous && scale.is_per_sample_channel() && x.count() > 0) {
      const int64_t samples = x.shape()[0];
      layout.outer /= samples;
      if (layout.order == ChannelLayout::Order::blocks) {
        // Blocks of all samples lie one after the other, like those of one sample.
        layout.channels = samples * padded_operands_;
      } else {
        images_ = samples;
      }
    }
    image_elements_ = x.count() / std::max<int64_t>(images_, 1);
    split_ = ChannelSplit(layout, scale.context().threads());
    scratch_.resize(split_);
    const bool copies = one_for_all_ || layout.block > 1;
    const auto padded = static_cast<size_t>(layout.padded_channels());
    scale_.assign(copies || !scale.scales() ? padded : 0, 0.0F);
    if (!scale.scales()) std::fill_n(scale_.begin(), layout.channels, 1.0F);
    bias_.assign(copies && scale.bias_data(bottom) ? padded : 0, 0.0F);
  }

  size_t bytes() const override {
    return scratch_.bytes() + (scale_.size() + bias_.size()) * sizeof(float);
  }

 protected:
  void run_forward(ScaleLayer& scale, Blobs bottom, Blobs top) override {
    const float* a = coefficients(scale.scale_data(bottom), scale_);
    const float* b = coefficients(scale.bias_data(bottom), bias_);
    const float* x = bottom[0]->data.read<float>();
    float* y = top[0]->data.overwrite<float>();
    for (int64_t image = 0; image < images_; ++image) {
      channel_apply(split_, [&](const ChannelPiece& piece) {
        channel_affine(split_.layout(), piece, x, {.scale = a, .shift = b}, y);
      });
      x += image_elements_;
      y += image_elements_;
      if (scale.scales()) a += operands_;
      if (b) b += operands_;
    }
  }

  void run_backward(ScaleLayer& scale, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    auto to = scale.gradients<float>(ComputeDevice(), propagate, bottom);
    const float* dy = top[0]->diff.read<float>();
    // Only the gradient of the scale reads x. Otherwise its memory may be reused; dy is passed.
    const float* x = to.of_scale ? bottom[0]->data.read<float>() : dy;
    const float* gain = coefficients(scale.scale_data(bottom), scale_);
    float* dx = propagate[0] ? bottom[0]->diff.overwrite<float>() : nullptr;
    if (dx == dy && !scale.scales()) dx = nullptr;  // it is there
    for (int64_t image = 0; image < images_; ++image) {
      backward_image(to, x, dy, {.gain = gain}, dx);
      x += image_elements_;
      dy += image_elements_;
      if (dx) dx += image_elements_;
      if (scale.scales()) gain += operands_;
      if (to.of_scale) to.of_scale += operands_;
      if (to.of_bias) to.of_bias += operands_;
    }
  }

 private:
  void backward_image(const ScaleLayer::Gradients<float>& to, const float* x, const float* dy,
                      const ChannelGradient& gain, float* dx) {
    const ChannelLayout& layout = split_.layout();
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
                     for_each_operand(begin, end, [&](int64_t c, int64_t operand) {
                       if (to.of_scale) to.of_scale[operand] += static_cast<float>(sums.second[c]);
                       if (to.of_bias) to.of_bias[operand] += static_cast<float>(sums.first[c]);
                     });
                   });
  }

  /// Calls body(c, operand) for channels [begin, end) of the layout, with the index of the
  /// operand's value that belongs to channel c. Leaves out channels that pad the last block of a
  /// sample.
  template <class Body>
  void for_each_operand(int64_t begin, int64_t end, const Body& body) const {
    for (int64_t c = begin; c < end;) {
      const int64_t sample = c / padded_operands_, first = sample * padded_operands_;
      const int64_t stop = std::min(end, first + operands_);
      for (; c < stop; ++c) body(c, sample * operands_ + (c - first));
      c = first + padded_operands_;
    }
  }

  /// The tensor's own values where they can serve as coefficients, else a copy of them in `room`;
  /// without a tensor, what is there: ones for a scale.
  const float* coefficients(const Tensor* values, std::vector<float>& room) const {
    if (!values) return room.empty() ? nullptr : room.data();
    const float* from = values->read<float>();
    if (room.empty()) return from;
    for_each_operand(0, split_.layout().channels, [&](int64_t c, int64_t operand) {
      room[static_cast<size_t>(c)] = from[one_for_all_ ? 0 : operand];
    });
    return room.data();
  }

  ChannelSplit split_;
  ChannelScratch scratch_;
  // One number for all channels is copied to each of them; blocks are padded with zeros.
  bool one_for_all_ = false;
  std::vector<float> scale_, bias_;
  // split_ covers one image of images_, except that it covers all samples where only their number
  // of blocks matters. An operand of one number a channel and sample has operands_ for each sample;
  // in the layout of blocks a sample takes padded_operands_ channels.
  int64_t images_ = 1, image_elements_ = 0;
  int64_t operands_ = 1, padded_operands_ = 1;
};

}  // namespace

void add_scale_engines(Registry& registry, const std::string& type) {
  registry.add_engine<NativeEngine<ScaleKernel>>(type, "native", DeviceType::cpu);
}

void register_scale_native(Registry& registry) { add_scale_engines(registry, "Scale"); }

}  // namespace crema
