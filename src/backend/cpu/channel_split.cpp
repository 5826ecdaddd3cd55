// How channels lie in memory, and how passes over them are shared out among threads.
#include <algorithm>

#include "backend/cpu/channelwise.hpp"
#include "core/parallel.hpp"

namespace crema {
namespace {

/// Channels of a group in channels_last memory are a multiple of this: the widest strip.
constexpr int64_t kWidestStrip = 16;

}  // namespace

ChannelLayout ChannelLayout::of(const Shape& shape, Format format) {
  ChannelLayout layout =
      of(shape.dim_or_1(0), shape.dim_or_1(1), shape.rank() > 2 ? shape.count(2) : 1);
  if (format == Format::channels_last) layout.order = Order::pixels;
  layout.block = block_of(format);
  if (layout.block > 1) layout.order = Order::blocks;
  return layout;
}

ChannelLayout ChannelLayout::of(int64_t outer, int64_t channels, int64_t inner) {
  ChannelLayout layout;
  layout.outer = outer;
  layout.channels = channels;
  layout.inner = inner;
  // Rows of one element are pixels.
  layout.order = inner == 1 ? Order::pixels : Order::rows;
  return layout;
}

ChannelLayout ChannelLayout::of_one(int64_t elements) {
  int64_t rows = elements > 0 ? 64 : 1;
  while (elements % rows != 0) --rows;
  return of(rows, 1, elements / rows);
}

ChannelSplit::ChannelSplit(const ChannelLayout& layout, int threads) : layout_(layout) {
  const int64_t elements = layout.outer * layout.padded_channels() * layout.inner;
  const int64_t wanted = std::clamp<int64_t>(elements / kElementGrain, 1, threads);
  group_channels_ = layout.block;
  if (layout.order == ChannelLayout::Order::pixels) {
    // Neighbouring channels share cache lines: groups are as wide as they can be.
    group_channels_ = (layout.channels + wanted - 1) / wanted;
    group_channels_ = (group_channels_ + kWidestStrip - 1) / kWidestStrip * kWidestStrip;
  }
  group_channels_ = std::max<int64_t>(group_channels_, 1);
  const int64_t by_channel = (layout.padded_channels() + group_channels_ - 1) / group_channels_;
  const bool too_few_rows = rows() < wanted;
  const bool even = by_channel % wanted == 0 || by_channel >= 4 * wanted;
  if (too_few_rows || (even && layout.order != ChannelLayout::Order::pixels)) {
    groups_ = std::max<int64_t>(by_channel, 1);
    grain_ = (groups_ + wanted - 1) / wanted;
  } else {
    group_channels_ = layout.padded_channels();
    slices_ = wanted;
  }
}

int64_t ChannelSplit::rows() const {
  return layout_.order == ChannelLayout::Order::pixels ? layout_.outer * layout_.inner
                                                       : layout_.outer;
}

ChannelPiece ChannelSplit::group(int64_t index) const {
  return {index * group_channels_,
          std::min((index + 1) * group_channels_, layout_.padded_channels()), 0, rows()};
}

ChannelPiece ChannelSplit::slice(int64_t index) const {
  return {0, layout_.padded_channels(), rows() * index / slices_, rows() * (index + 1) / slices_};
}

void ChannelScratch::resize(const ChannelSplit& split) {
  channels_ = split.layout().padded_channels();
  sums_.assign(static_cast<size_t>(2 * channels_ * split.slices()), 0.0);
}

}  // namespace crema
