// DeformableConvolution: a convolution whose taps are moved by offsets. See README.md.
//
// A chunk of positions at a time: the values at their points become rows of a matrix, channels of a
// tap as neighbours, which the weights multiply.
#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "core/strided.hpp"
#include "layer_support/channel_passes.hpp"
#include "layer_support/gemm.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/convolution/geometry.hpp"
#include "layers/deformable_convolution/deformed_passes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The settings as a Convolution has them.
ConvolutionParameter translated(const DeformableConvolutionParameter& from) {
  ConvolutionParameter to;
  to.set_num_output(from.num_output());
  to.set_bias_term(from.bias_term());
  to.set_group(from.group());
  *to.mutable_pad() = from.pad();
  *to.mutable_kernel_size() = from.kernel_size();
  *to.mutable_stride() = from.stride();
  *to.mutable_dilation() = from.dilation();
  if (from.has_pad_h()) to.set_pad_h(from.pad_h());
  if (from.has_pad_w()) to.set_pad_w(from.pad_w());
  if (from.has_kernel_h()) to.set_kernel_h(from.kernel_h());
  if (from.has_kernel_w()) to.set_kernel_w(from.kernel_w());
  if (from.has_stride_h()) to.set_stride_h(from.stride_h());
  if (from.has_stride_w()) to.set_stride_w(from.stride_w());
  return to;
}

/// `to` (count, columns, rows) = `from` (count, rows, columns).
template <class T>
void transpose_each(const ComputeDevice& device, int64_t count, int64_t rows, int64_t columns,
                    const T* from, T* to) {
  if (count * rows * columns == 0) return;
  StridedGather box;
  box.add(count, rows * columns);
  box.add(columns, 1);
  box.add(rows, columns);
  box.simplify();
  gather(device, box, sizeof(T), reinterpret_cast<const std::byte*>(from),
         reinterpret_cast<std::byte*>(to));
}

class DeformableConvolutionLayer : public TwoSidedLayer {
 public:
  explicit DeformableConvolutionLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        geometry_(translated(settings()), ConvolutionGeometry::Kind::convolution) {
    if (settings().deformable_group() == 0)
      throw Error("deformable_group is 0; use 1 for one set of offsets for all channels");
  }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 3}; }
  // Offsets count in pixels of large maps, which 16 bits would round.
  bool is_exact_bottom(int bottom) const override { return bottom == 1; }

  void setup(Blobs bottom, Blobs) override {
    check_maps(bottom);
    geometry_.set_up(bottom[0]->shape());
    const int64_t channels = geometry_.channels, groups = settings().deformable_group();
    if (channels % groups != 0)
      throw Error("the bottom's ", channels, " channels are not a multiple of deformable_group ",
                  groups, "; each group has offsets for as many channels");
    weights_ = &add_param(geometry_.weights(), Filler(settings().weight_filler()));
    if (geometry_.bias)
      bias_ = &add_param(Shape{geometry_.outputs}, Filler(settings().bias_filler()));
  }

  void reshape(Blobs bottom, Blobs top) override {
    check_maps(bottom);
    const Shape& maps = bottom[0]->shape();
    geometry_.fit(maps);
    const auto axis = [this](size_t i) {
      return DeformedAxis{geometry_.input[i],  geometry_.output[i], geometry_.kernel[i],
                          geometry_.stride[i], geometry_.pad[i],    geometry_.dilation[i]};
    };
    shape_ = {axis(0),           axis(1),          geometry_.channels,
              geometry_.outputs, geometry_.groups, settings().deformable_group()};
    check_taps(*bottom[1], "offsets, a row and a column for each tap", 2, maps[0]);
    if (bottom.size() > 2) check_taps(*bottom[2], "the mask, a factor for each tap", 1, maps[0]);
    top[0]->reshape(geometry_.top(maps));
  }

  /// Of the products alone, as other programs count them.
  Flops flops(Blobs, Blobs top) const override {
    const double products =
        2 * static_cast<double>(top[0]->count()) * static_cast<double>(shape_.depth());
    const bool reads_columns = propagates(0) || moves_points();
    return {products, (weights_->needs_gradient ? products : 0) + (reads_columns ? products : 0)};
  }

  void prepare_reference(Blobs, Blobs) override {
    plan_chunks(false);
    resize_scratch();
  }
  void prepare_device(Blobs, Blobs) override {
    plan_chunks(true);
    resize_scratch();
    scratch_bytes_ =
        bias_ != nullptr && trains() ? channels::sums_scratch_bytes(context(), {bias_view()}) : 0;
  }
  size_t scratch_bytes() const override { return scratch_bytes_; }
  size_t kept_bytes() const override {
    size_t bytes = 0;
    for (const Tensor* tensor :
         {&turned_weights_, &maps_, &columns_, &sums_, &weights_gradient_, &maps_gradient_}) {
      bytes += tensor->bytes();
    }
    return bytes;
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* x = device.read<T>(bottom[0]->data);
      const T* weights = turn_weights<T>(device);
      T* y = device.overwrite<T>(top[0]->data);
      T *columns = device.overwrite<T>(columns_), *sums = device.overwrite<T>(sums_);
      each_block([&](DeformedChunk block) {
        T* maps = take_maps(device, block, x);
        each_chunk(block, [&](const DeformedChunk& chunk) {
          sample(device, pass<T>(device, bottom, chunk), maps, columns);
          each_group(chunk, [&](int64_t of_w, int64_t of_columns, int64_t of_sums) {
            gemm<T>(device, arithmetic().math, false, true, shape_.group_outputs(), chunk.rows(),
                    shape_.depth(), weights + of_w, columns + of_columns, T{0}, sums + of_sums);
          });
          for_each(device, shape_.outputs * chunk.rows(), kPassGrain,
                   WriteTop<T>{shape_, chunk, sums, read_parameter<T>(device, bias_), y});
        });
      });
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    const bool finds_x = propagate[0], finds_offsets = propagate[1];
    const bool finds_mask = propagate.size() > 2 && propagate[2];
    const bool finds_points = finds_offsets || finds_mask;
    const bool finds_weights = weights_->needs_gradient;
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* dy = device.read<T>(top[0]->diff);
      if (bias_ != nullptr && bias_->needs_gradient) {
        const bool overwrites = bias_->begin_gradient() == 0;
        channels::add_channel_sums(device, bias_view(), kElementGrain, dy, overwrites,
                                   device.change<T>(bias_->diff));
      }
      if (!finds_x && !finds_points && !finds_weights) return;
      const T* weights = turn_weights<T>(device);
      T* d_weights = finds_weights ? device.overwrite<T>(weights_gradient_) : nullptr;
      const T* x = finds_points || finds_weights ? device.read<T>(bottom[0]->data) : nullptr;
      T* dx = finds_x ? device.overwrite<T>(bottom[0]->diff) : nullptr;
      T* d_offsets = finds_offsets ? device.overwrite<T>(bottom[1]->diff) : nullptr;
      T* d_mask = finds_mask ? device.overwrite<T>(bottom[2]->diff) : nullptr;
      T *columns = device.overwrite<T>(columns_), *sums = device.overwrite<T>(sums_);
      T beta{0};
      each_block([&](DeformedChunk block) {
        const T* maps = x != nullptr ? take_maps(device, block, x) : nullptr;
        if (finds_x) fill_zero(device, maps_gradient_);
        T* d_maps = finds_x ? device.change<T>(maps_gradient_) : nullptr;
        each_chunk(block, [&](const DeformedChunk& chunk) {
          const DeformedPass<T> of_chunk = pass<T>(device, bottom, chunk);
          take_gradients(device, chunk, dy, sums);
          if (finds_weights) {
            sample(device, of_chunk, maps, columns);
            each_group(chunk, [&](int64_t of_w, int64_t of_columns, int64_t of_sums) {
              gemm<T>(device, arithmetic().math, false, false, shape_.group_outputs(),
                      shape_.depth(), chunk.rows(), sums + of_sums, columns + of_columns, beta,
                      d_weights + of_w);
            });
            beta = T{1};
          }
          if (!finds_x && !finds_points) return;
          each_group(chunk, [&](int64_t of_w, int64_t of_columns, int64_t of_sums) {
            gemm<T>(device, arithmetic().math, true, false, chunk.rows(), shape_.depth(),
                    shape_.group_outputs(), sums + of_sums, weights + of_w, T{0},
                    columns + of_columns);
          });
          if (finds_points) {
            for_each_position(device, points_of(chunk), kPassGrain,
                              PointGradients<T>{of_chunk, maps, columns, d_offsets, d_mask});
          }
          if (finds_x) spread(device, of_chunk, columns, d_maps);
        });
        if (finds_x) give_maps(device, block, d_maps, dx);
      });
      if (finds_weights) add_weights_gradient(device, beta == T{0}, d_weights);
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override {
    if (moves_points() || weights_->needs_gradient) return {true, false};
    return {propagates(0) ? IndexSet{1, 2} : IndexSet(false), false};
  }

 private:
  ChannelView bias_view() const { return {geometry_.batch, shape_.outputs, shape_.positions()}; }
  const DeformableConvolutionParameter& settings() const {
    return param().deformable_convolution_param();
  }
  /// Whether backward finds the gradient of offsets or of a mask.
  bool moves_points() const {
    return propagates(1) || (param().bottom_size() > 2 && propagates(2));
  }

  void check_maps(Blobs bottom) const {
    const Shape& maps = bottom[0]->shape();
    if (maps.rank() != 4 || maps[2] < 1 || maps[3] < 1)
      throw Error("'", bottom[0]->name, "' (", maps.str(),
                  ") is not of the form (N, C, H, W) with pixels");
  }
  /// Error unless the blob has `each` values for each tap of each offset group.
  void check_taps(const Blob& blob, const char* what, int64_t each, int64_t images) const {
    const int64_t groups = shape_.offset_groups;
    const Shape wanted{images, each * groups * shape_.taps(), shape_.y.count, shape_.x.count};
    if (blob.shape() == wanted) return;
    throw Error("'", blob.name, "' (", blob.shape().str(), ") has to be ", wanted.str(), ": ", what,
                " of the ", shape_.y.kernel, " x ", shape_.x.kernel, " kernel and each of the ",
                groups, " deformable_group, at the ", shape_.y.count, " x ", shape_.x.count,
                " positions of the top");
  }

  /// Sets how many images and positions a chunk has, by the memory of their columns.
  void plan_chunks(bool on_device) {
    // On the host, columns stay in the caches; a device wants large products.
    const int64_t bytes = int64_t{1} << (on_device ? 27 : 22);
    constexpr int64_t kLeastRows = 256;  // for which products are fast
    const int64_t row = shape_.groups * shape_.depth() * static_cast<int64_t>(size_of(dtype()));
    const int64_t rows = std::max(bytes / std::max<int64_t>(row, 1), kLeastRows);
    const int64_t positions = shape_.positions();
    block_images_ = std::clamp<int64_t>(rows / positions, 1, std::max<int64_t>(geometry_.batch, 1));
    chunk_positions_ = std::min(rows, positions);
    // Enough threads for a device, each with some positions.
    constexpr int64_t kThreads = 1 << 15, kMostParts = 16;
    const int64_t threads = block_images_ * shape_.channels;
    parts_ = on_device ? std::clamp<int64_t>(kThreads / threads, 1, kMostParts) : 1;
  }
  void resize_scratch() {
    const int64_t rows = block_images_ * chunk_positions_;
    const int64_t maps = block_images_ * shape_.pixels() * shape_.channels;
    dispatch_float(dtype(), [&]<class T>(T) {
      resize<T>(turned_weights_, geometry_.weights().count());
      resize<T>(maps_, maps);
      resize<T>(columns_, rows * shape_.groups * shape_.depth());
      resize<T>(sums_, rows * shape_.outputs);
      resize<T>(weights_gradient_, trains() ? geometry_.weights().count() : 0);
      resize<T>(maps_gradient_, propagates(0) ? parts_ * maps : 0);
    });
  }
  /// Calls body(block) for images, block by block: all of their positions.
  template <class Body>
  void each_block(const Body& body) const {
    for (int64_t n = 0; n < geometry_.batch; n += block_images_) {
      body(DeformedChunk{n, std::min(block_images_, geometry_.batch - n), 0, shape_.positions()});
    }
  }
  template <class Body>
  void each_chunk(const DeformedChunk& block, const Body& body) const {
    for (int64_t p = 0; p < block.count; p += chunk_positions_) {
      body(
          DeformedChunk{block.image, block.images, p, std::min(chunk_positions_, block.count - p)});
    }
  }
  /// Calls body with where a group begins: in weights, in columns and in sums (outputs, rows).
  template <class Body>
  void each_group(const DeformedChunk& chunk, const Body& body) const {
    for (int64_t group = 0; group < shape_.groups; ++group) {
      body(group * shape_.group_outputs() * shape_.depth(), group * chunk.rows() * shape_.depth(),
           group * shape_.group_outputs() * chunk.rows());
    }
  }
  AxisSplit points_of(const DeformedChunk& chunk) const {
    AxisSplit split;
    split.outer = chunk.rows() * shape_.taps();
    split.size = shape_.channels;
    return split;
  }

  template <class T>
  DeformedPass<T> pass(const ComputeDevice& device, Blobs bottom,
                       const DeformedChunk& chunk) const {
    const T* mask = bottom.size() > 2 ? device.read<T>(bottom[2]->data) : nullptr;
    return {{shape_, device.read<T>(bottom[1]->data), mask}, chunk, &deformable_kernels<T>()};
  }
  /// The weights as (outputs, taps, channels of a group).
  template <class T>
  const T* turn_weights(const ComputeDevice& device) {
    T* to = device.overwrite<T>(turned_weights_);
    transpose_each(device, shape_.outputs, shape_.group_channels(), shape_.taps(),
                   device.read<T>(weights_->data), to);
    return to;
  }
  /// The maps of the images of a block, channels-last.
  template <class T>
  T* take_maps(const ComputeDevice& device, const DeformedChunk& block, const T* x) {
    const int64_t each = shape_.channels * shape_.pixels();
    T* to = device.overwrite<T>(maps_);
    transpose_each(device, block.images, shape_.channels, shape_.pixels(), x + block.image * each,
                   to);
    return to;
  }
  template <class T>
  static void sample(const ComputeDevice& device, const DeformedPass<T>& pass, const T* maps,
                     T* columns) {
    AxisSplit split;
    split.outer = pass.chunk.rows() * pass.shape().taps();
    split.size = pass.shape().channels;
    for_each_position(device, split, kPassGrain, SampleColumns<T>{pass, maps, columns});
  }
  /// sums (outputs, rows) = the gradient of the top.
  template <class T>
  void take_gradients(const ComputeDevice& device, const DeformedChunk& chunk, const T* dy,
                      T* sums) const {
    StridedGather box;
    box.add(shape_.outputs, shape_.positions());
    box.add(chunk.images, shape_.outputs * shape_.positions());
    box.add(chunk.count, 1);
    box.offset = chunk.image * shape_.outputs * shape_.positions() + chunk.first;
    box.simplify();
    gather(device, box, sizeof(T), reinterpret_cast<const std::byte*>(dy),
           reinterpret_cast<std::byte*>(sums));
  }
  template <class T>
  void spread(const ComputeDevice& device, const DeformedPass<T>& pass, const T* columns,
              T* maps) const {
    // Threads of the host do not share lines of the cache; those of a device share none.
    constexpr int64_t kLine = 64 / sizeof(T);
    const int64_t unit = !device.on_host() ? 1 : kLine;
    const SpreadColumns<T> body{pass, columns, maps, unit, parts_};
    for_each(device, body.count(), 1, body);
  }
  /// dx of the images of a block from the parts of its maps.
  template <class T>
  void give_maps(const ComputeDevice& device, const DeformedChunk& block, T* maps, T* dx) const {
    const int64_t each = shape_.channels * shape_.pixels(), count = block.images * each;
    if (parts_ > 1) for_each(device, count, kPassGrain, JoinParts<T>{count, parts_, maps});
    transpose_each<T>(device, block.images, shape_.pixels(), shape_.channels, maps,
                      dx + block.image * each);
  }
  /// Adds the gradient of the turned weights; none if there was no position (`empty`).
  template <class T>
  void add_weights_gradient(const ComputeDevice& device, bool empty, const T* turned) {
    T* gradient = device.change<T>(weights_->gradient());
    if (empty) return;
    T* added = device.overwrite<T>(turned_weights_);  // which nothing reads any more
    transpose_each(device, shape_.outputs, shape_.taps(), shape_.group_channels(), turned, added);
    for_each(device, weights_->shape().count(), kElementGrain, AddValues<T>{added, gradient});
  }

  ConvolutionGeometry geometry_;
  DeformedShape shape_{};
  int64_t block_images_ = 1, chunk_positions_ = 1, parts_ = 1;
  Parameter *weights_ = nullptr, *bias_ = nullptr;
  // With channels last: the weights and their gradient, maps of a block and their gradient.
  Tensor turned_weights_{Shape{0}}, weights_gradient_{Shape{0}};
  Tensor maps_{Shape{0}}, maps_gradient_{Shape{0}};
  Tensor columns_{Shape{0}};  // of a chunk
  Tensor sums_{Shape{0}};     // (outputs, rows) of a chunk: of the top or its gradient
  size_t scratch_bytes_ = 0;  // on a device
};

}  // namespace

void register_deformable_convolution(Registry& registry) {
  add_two_sided<DeformableConvolutionLayer>(registry, "DeformableConvolution");
}

}  // namespace crema
