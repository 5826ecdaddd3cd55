#include "layer_support/index_map.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace crema {
namespace {

/// The axes in the order of memory, outermost first.
std::vector<int> memory_order(int rank, Format format) {
  std::vector<int> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  if (format == Format::channels_last)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

/// Elements from one index of each axis to the next.
std::vector<int64_t> strides_of(const Shape& shape, Format format) {
  const std::vector<int> order = memory_order(shape.rank(), format);
  std::vector<int64_t> strides(order.size());
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    strides[static_cast<size_t>(order[k])] = stride;
    stride *= shape[order[k]];
  }
  return strides;
}

}  // namespace

Shape IndexMapLayer::mapped_shape() const {
  std::vector<int64_t> extents;
  for (const std::vector<Factor>& factors : axes_) {
    extents.push_back(1);
    for (const Factor& factor : factors) extents.back() *= factor.extent;
  }
  return Shape(std::move(extents));
}

void IndexMapLayer::map(Blobs top, std::vector<std::vector<Factor>> axes) {
  axes_ = std::move(axes);
  view_.reset();
  top[0]->reshape(mapped_shape());
}

void IndexMapLayer::map_values(Blobs top, const Shape& view, std::vector<std::vector<Factor>> axes,
                               const Shape& to) {
  axes_ = std::move(axes);
  view_ = view;
  top[0]->reshape(to);
}

std::vector<Option> IndexMapLayer::reference_options(Blobs bottom, Blobs top) const {
  std::vector<Option> options;
  const bool varies = bottom[0]->shape().rank() >= 3 && !view_;
  std::vector<DType> types = {activations()};
  if (dtype() != activations()) types.push_back(dtype());
  for (const DType type : types) {
    for (const Format from : {Format::contiguous, Format::channels_last}) {
      for (const Format to : {Format::contiguous, Format::channels_last}) {
        if (varies || (from == Format::contiguous && to == Format::contiguous))
          options.push_back(uniform_option(bottom, top, type, from, to));
      }
    }
  }
  return options;
}

void IndexMapLayer::prepare_reference(Blobs bottom, Blobs top) {
  const Shape from = view_ ? *view_ : bottom[0]->shape(), to = mapped_shape();
  const Format from_format = bottom[0]->data.format(), to_format = top[0]->data.format();
  const std::vector<int64_t> in_bottom = strides_of(from, from_format);
  const std::vector<int64_t> in_top = strides_of(to, to_format);
  to_top_ = {};
  to_bottom_ = {};
  struct Piece {
    int64_t extent, step, from_stride, to_stride;
  };
  std::vector<std::vector<Piece>> of_bottom(static_cast<size_t>(from.rank()));
  for (const int a : memory_order(to.rank(), to_format)) {
    const auto k = static_cast<size_t>(a);
    int64_t inside = to[a];
    for (const Factor& factor : axes_[k]) {
      const int64_t stride = factor.step * in_bottom[static_cast<size_t>(factor.axis)];
      inside = factor.extent == 0 ? 0 : inside / factor.extent;
      to_top_.add(factor.extent, stride);
      if (stride < 0) to_top_.offset -= stride * (factor.extent - 1);
      of_bottom[static_cast<size_t>(factor.axis)].push_back(
          {factor.extent, factor.step, stride, inside * in_top[k]});
    }
  }
  for (const int a : memory_order(from.rank(), from_format)) {
    std::vector<Piece>& pieces = of_bottom[static_cast<size_t>(a)];
    std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& x, const Piece& y) {
      return std::abs(x.step) > std::abs(y.step);
    });
    for (const Piece& piece : pieces) {
      // A reversed axis is read from its end here too.
      if (piece.step < 0) to_bottom_.offset += piece.to_stride * (piece.extent - 1);
      to_bottom_.add(piece.extent, piece.step < 0 ? -piece.to_stride : piece.to_stride);
    }
  }
  to_top_.simplify();
  to_bottom_.simplify();
}

void IndexMapLayer::run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) {
  const Tensor& x = bottom[0]->data;
  Tensor& y = top[0]->data;
  if (to_top_.is_copy()) return copy(device, x, y);
  gather(device, to_top_, size_of(x.dtype()), device.read_bytes(x), device.overwrite_bytes(y));
}

void IndexMapLayer::run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                                 Blobs bottom) {
  const Tensor& dy = top[0]->diff;
  Tensor& dx = bottom[0]->diff;
  if (to_bottom_.is_copy()) return copy(device, dy, dx);
  gather(device, to_bottom_, size_of(dy.dtype()), device.read_bytes(dy),
         device.overwrite_bytes(dx));
}

std::vector<int> axis_order(const Shape& bottom, const std::vector<int64_t>& order,
                            const char* field, bool rest_follows) {
  const int rank = bottom.rank();
  std::vector<int> axes;
  std::vector<bool> taken(static_cast<size_t>(rank));
  for (const int64_t axis : order) {
    if (axis < 0 || axis >= rank)
      throw Error(field, " names axis ", axis, ", but the bottom, ", bottom.str(),
                  ", has the axes 0 to ", rank - 1);
    if (taken[static_cast<size_t>(axis)])
      throw Error(field, " names axis ", axis, " twice; name each axis once");
    taken[static_cast<size_t>(axis)] = true;
    axes.push_back(static_cast<int>(axis));
  }
  if (!rest_follows && static_cast<int>(axes.size()) != rank)
    throw Error(field, " names ", axes.size(), " of the ", rank, " axes of the bottom, ",
                bottom.str(), "; name all of them");
  for (int axis = 0; axis < rank; ++axis) {
    if (!taken[static_cast<size_t>(axis)]) axes.push_back(axis);
  }
  return axes;
}

}  // namespace crema
