#include "layers/convolution/ends.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <type_traits>

#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {
namespace {

/// Blocked memory of a view as rows: row r is the pixels of block r % blocks() of the channels.
struct BlockRows {
  ChannelView view;
  int64_t block;

  int64_t blocks() const { return (view.channels + block - 1) / block; }
  int64_t count() const { return view.outer * blocks(); }
  int64_t first_channel(int64_t row) const { return row % blocks() * block; }
  int64_t channels(int64_t row) const {
    return std::min(block, view.channels - first_channel(row));
  }

  /// Calls body(row) on the threads.
  template <class Body>
  void each(const Body& body) const {
    parallel_for(count(), kElementGrain / std::max<int64_t>(view.inner * block, 1) + 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row) body(row);
                 });
  }
};

/// Calls body(place, channel) on the host; padding is left out.
template <class Body>
void for_each(const BlockRows& rows, const Body& body) {
  rows.each([&](int64_t row) {
    const Body run = body;  // on the stack: its stores cannot change its pointers
    const int64_t first = rows.first_channel(row), count = rows.channels(row);
    for (int64_t i = row * rows.view.inner; i < (row + 1) * rows.view.inner; ++i) {
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) run(i * rows.block + k, first + k);
    }
  });
}

/// Calls store(channel, sums) with the sum of the values of each channel, in an order that does not
/// depend on the threads. `partial` is scratch memory.
template <class T, class Store>
void channel_sums(const BlockRows& rows, const T* values, std::vector<double>& partial,
                  const Store& store) {
  constexpr int64_t kMostLanes = 16;
  partial.resize(static_cast<size_t>(rows.count() * rows.block));
  rows.each([&](int64_t row) {
    std::array<double, kMostLanes> sums{};
    const T* from = values + row * rows.view.inner * rows.block;
    const auto add_pixels = [&]<int64_t kLanes>(std::integral_constant<int64_t, kLanes>) {
      for (int64_t i = 0; i < rows.view.inner; ++i, from += kLanes) {
#pragma omp simd
        for (int64_t k = 0; k < kLanes; ++k) sums[static_cast<size_t>(k)] += double(from[k]);
      }
    };
    rows.block == kMostLanes ? add_pixels(std::integral_constant<int64_t, kMostLanes>())
                             : add_pixels(std::integral_constant<int64_t, kMostLanes / 2>());
    std::copy_n(sums.begin(), rows.block, partial.begin() + row * rows.block);
  });
  for (int64_t c = 0; c < rows.view.channels; ++c) {
    SumPair sum;
    for (int64_t n = 0; n < rows.view.outer; ++n) {
      const int64_t row = n * rows.blocks() + c / rows.block;
      sum.first += partial[static_cast<size_t>(row * rows.block + c % rows.block)];
    }
    store(c, sum);
  }
}

}  // namespace

ConvolutionEnds::ConvolutionEnds(ConvolutionLayer& layer) : layer_(layer) {
  const std::span<const TailStep> steps =
      std::span(layer.tail()).first(foldable_steps(layer.tail()));
  if (!steps.empty()) {
    folded_ = std::make_unique<FoldedParameters>(
        layer.geometry(), *layer.params()[0],
        layer.geometry().bias ? layer.params()[1].get() : nullptr,
        Tail(steps.begin(), steps.end()));
  }
}

void ConvolutionEnds::fit(Blobs top) {
  masked_.clear();
  if (!layer_.relu() || !layer_.trains() || !layer_.requirements().top_diffs_stay) return;
  for (const Blob* blob : top)
    masked_.emplace_back(blob->shape(), blob->data.dtype(), blob->data.format());
}

Parameter* ConvolutionEnds::bias() const {
  if (folded_) return &folded_->bias;
  return layer_.geometry().bias ? layer_.params()[1].get() : nullptr;
}

void ConvolutionEnds::fold(const ComputeDevice& device) const {
  if (folded_) folded_->update(device);
}

void ConvolutionEnds::take_summand(const ComputeDevice& device, Blobs bottom, Blobs top) const {
  const Blob* const other = layer_.summand(bottom);
  if (other != nullptr) copy(device, other->data, top[0]->data);
}

void ConvolutionEnds::pass_to_summand(const ComputeDevice& device, Blobs top,
                                      const std::vector<bool>& propagate, Blobs bottom) {
  Blob* const other = layer_.summand(bottom);
  if (other == nullptr || !propagate[layer_.in_place_bottom()]) return;
  copy(device, sums_diff(top, 0), other->diff);
}

ChannelView ConvolutionEnds::top_view(Format format) const {
  const ConvolutionGeometry& geometry = layer_.geometry();
  const ChannelView view{geometry.batch, geometry.top_channels(), geometry.top_positions()};
  return format == Format::channels_last ? ChannelView{view.each(), view.channels, 1} : view;
}

void ConvolutionEnds::finish(const ComputeDevice& device, Tensor& y) const {
  if (!bias() && !layer_.relu()) return;
  dispatch_float(layer_.dtype(), [&]<class T>(T) {
    const AddBias<T> body{
        read_parameter<T>(device, bias()), {layer_.relu().value_or(1)}, device.change<T>(y)};
    if (block_of(y.format()) > 1) {
      for_each(BlockRows{top_view(y.format()), block_of(y.format())}, body);
    } else {
      for_each(device, top_view(y.format()), kElementGrain, body);
    }
  });
}

void ConvolutionEnds::undo_relu(const ComputeDevice& device, Blobs top) {
  if (!layer_.relu()) return;
  dispatch_float(layer_.dtype(), [&]<class T>(T) {
    for (size_t i = 0; i < top.size(); ++i) {
      if (top[i]->data.row_stride() != 0 || top[i]->diff.row_stride() != 0) {
        undo_relu_of_images<T>(*top[i], sums_diff(top, i));
        continue;
      }
      const T *dy = device.read<T>(top[i]->diff), *y = device.read<T>(top[i]->data);
      for_each(device, top[i]->data.storage(), kElementGrain,
               UndoReLU<T>{{*layer_.relu()}, dy, y, device.overwrite<T>(sums_diff(top, i))});
    }
  });
}

template <class T>
void ConvolutionEnds::undo_relu_of_images(const Blob& top, Tensor& sums_diff) const {
  const int64_t images = layer_.geometry().batch, image = top.data.storage() / images;
  const auto stride = [&](const Tensor& tensor) {
    const size_t bytes = tensor.row_stride();
    return bytes == 0 ? image : static_cast<int64_t>(bytes / sizeof(T));
  };
  const int64_t of_dy = stride(top.diff), of_y = stride(top.data), of_dx = stride(sums_diff);
  const T *dy = static_cast<const T*>(top.diff.read_rows()),
          *y = static_cast<const T*>(top.data.read_rows());
  T* const dx = static_cast<T*>(sums_diff.overwrite_rows());
  parallel_for(images, kElementGrain / std::max<int64_t>(image, 1) + 1,
               [=, relu = *layer_.relu()](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) {
                   const UndoReLU<T> body{{relu}, dy + n * of_dy, y + n * of_y, dx + n * of_dx};
#pragma omp simd
                   for (int64_t i = 0; i < image; ++i) body(i);
                 }
               });
}

void ConvolutionEnds::backward_bias(const ComputeDevice& device, Blobs top) {
  dispatch_float(layer_.dtype(), [&]<class T>(T) {
    for (size_t i = 0; i < top.size(); ++i) {
      const Tensor& diff = sums_diff(top, i);
      const ChannelView view = top_view(diff.format());
      const T* dy = device.read<T>(diff);
      const T beta = static_cast<T>(bias()->begin_gradient());
      T* const gradient = device.change<T>(bias()->diff);
      if (block_of(diff.format()) > 1) {
        channel_sums(BlockRows{view, block_of(diff.format())}, dy, block_sums_,
                     AccumulateSum<T>{beta, gradient});
      } else {
        channels::add_channel_sums(device, view, kElementGrain, dy, beta == 0, gradient);
      }
    }
  });
}

size_t ConvolutionEnds::scratch_bytes() const {
  const bool sums = layer_.trains() && bias() != nullptr && bias()->needs_gradient;
  return sums ? channels::sums_scratch_bytes(layer_.context(), {top_view(Format::contiguous)}) : 0;
}

size_t ConvolutionEnds::bytes() const {
  size_t bytes = 0;
  if (folded_) {
    const ConvolutionGeometry& geometry = layer_.geometry();
    bytes += static_cast<size_t>(geometry.weights().count() + geometry.top_channels()) *
             size_of(layer_.dtype());
  }
  for (const Tensor& tensor : masked_) bytes += tensor.bytes();
  return bytes;
}

}  // namespace crema
