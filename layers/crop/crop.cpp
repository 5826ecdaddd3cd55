// Crop: cuts the first bottom to sizes of the second. See README.md.
#include <algorithm>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/rows.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class CropLayer : public TwoSidedLayer {
 public:
  explicit CropLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        given_axis_(init.param.crop_param().axis()),
        given_(init.param.crop_param().offset().begin(), init.param.crop_param().offset().end()) {}

  bool moves_values() const override { return true; }
  /// Not those of bottom 1.
  bool moves(int b, int) const override { return b == 0; }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }
  // Only the shape of the second one is read.
  bool is_constant(int bottom) const override { return bottom == 1; }
  bool is_exact_bottom(int) const override { return false; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &from = bottom[0]->shape(), &sizes = bottom[1]->shape();
    axis_ = from.canonical_axis(given_axis_);
    const int cut = from.rank() - axis_;
    if (given_.size() > 1 && static_cast<int>(given_.size()) != cut)
      throw Error(given_.size(), " values of offset for the ", cut, " axes of '", bottom[0]->name,
                  "' (", from.str(), ") from axis ", axis_,
                  " on; give none, one for all of them, or one each");
    if (sizes.rank() < from.rank())
      throw Error("'", bottom[1]->name, "' (", sizes.str(), "), which gives the sizes, has fewer ",
                  "axes than '", bottom[0]->name, "' (", from.str(), "); reshape it before");
    Shape to = from;
    offsets_.assign(static_cast<size_t>(from.rank()), 0);
    for (int a = axis_; a < from.rank(); ++a) {
      const int64_t offset = given_.empty()       ? 0
                             : given_.size() == 1 ? given_[0]
                                                  : given_[static_cast<size_t>(a - axis_)];
      if (offset > from[a] || sizes[a] > from[a] - offset)
        throw Error("axis ", a, " of '", bottom[0]->name, "' (", from.str(), ") has ", from[a],
                    " places, but the crop takes ", sizes[a], ", the size of '", bottom[1]->name,
                    "' (", sizes.str(), "), from offset ", offset, " on; lower the offset");
      to.set(a, sizes[a]);
      offsets_[static_cast<size_t>(a)] = offset;
    }
    top[0]->reshape(to);
  }

  /// All formats; blocked ones unless channels are cut. The second bottom, of which no value is
  /// read, has the layout of the first one, or the plain one that inputs have.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    std::vector<Option> options = moving_options(*this, bottom, top, true);
    const bool cuts_channels =
        axis_ <= 1 && top[0]->shape().dim_or_1(1) != bottom[0]->shape().dim_or_1(1);
    if (cuts_channels) {
      std::erase_if(options, [](const Option& o) { return block_of(o.tops[0].format) > 1; });
    }
    const Layout plain{.dtype = dtype()};
    const size_t count = options.size();
    for (size_t i = 0; i < count; ++i) {
      if (options[i].bottoms[1] == plain) continue;
      options.push_back(options[i]);
      options.back().bottoms[1] = plain;
    }
    return options;
  }

  void prepare_reference(Blobs bottom, Blobs top) override {
    same_shape_ = bottom[0]->shape() == top[0]->shape();
    if (same_shape_) return;
    const Format format = top[0]->data.format();
    const std::vector<int64_t> from = in_memory(bottom[0]->shape(), format);
    const std::vector<int64_t> to = in_memory(top[0]->shape(), format);
    const std::vector<int64_t> offset = in_memory_order(offsets_, format);
    // A row: what is cut of the last axis that is cut, with all axes behind it.
    size_t last = from.size() - 1;
    while (from[last] == to[last]) --last;
    width_ = 1;
    for (size_t a = last; a < to.size(); ++a) width_ *= to[a];
    rows_ = 1;
    for (size_t a = 0; a < last; ++a) rows_ *= to[a];
    starts_.reshape(Shape{rows_});
    int64_t* const starts = starts_.overwrite<int64_t>();
    std::vector<int64_t> place(last, 0);
    for (int64_t row = 0; row < rows_; ++row) {
      int64_t start = 0;
      for (size_t a = 0; a < from.size(); ++a) {
        start = start * from[a] + (a <= last ? offset[a] : 0) + (a < last ? place[a] : 0);
      }
      starts[row] = start;
      for (size_t a = last; a-- > 0;) {
        if (++place[a] < to[a]) break;
        place[a] = 0;
      }
    }
  }
  size_t kept_bytes() const override { return starts_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (same_shape_) return copy(device, bottom[0]->data, top[0]->data);
    dispatch_any_float(top[0]->data.dtype(), [&]<class T>(T) {
      gather_rows(device, rows(device), device.read<T>(bottom[0]->data),
                  device.overwrite<T>(top[0]->data));
    });
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    if (same_shape_) return copy(device, top[0]->diff, bottom[0]->diff);
    fill_zero(device, bottom[0]->diff);
    dispatch_any_float(top[0]->diff.dtype(), [&]<class T>(T) {
      scatter_rows(device, rows(device), device.read<T>(top[0]->diff),
                   device.change<T>(bottom[0]->diff));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// One value an axis, in the order of the axes in memory; the place in a block of a blocked
  /// format is not among them.
  static std::vector<int64_t> in_memory_order(std::vector<int64_t> axes, Format format) {
    if (format == Format::channels_last)
      std::rotate(axes.begin() + 1, axes.begin() + 2, axes.end());
    if (block_of(format) > 1) axes.push_back(0);
    return axes;
  }
  /// The extents in memory.
  static std::vector<int64_t> in_memory(const Shape& shape, Format format) {
    std::vector<int64_t> extents = in_memory_order(shape.dims(), format);
    const int64_t block = block_of(format);
    if (block > 1) {
      extents[1] = (extents[1] + block - 1) / block;
      extents.back() = block;
    }
    return extents;
  }
  RowPlaces rows(const ComputeDevice& device) const {
    return {device.read<int64_t>(starts_), rows_, width_, 1};
  }

  int given_axis_;
  std::vector<int64_t> given_;    // offsets of the prototxt
  std::vector<int64_t> offsets_;  // one an axis
  int axis_ = 0;
  bool same_shape_ = false;
  int64_t rows_ = 0, width_ = 0;
  Tensor starts_{Shape{0}, DType::i64};  // the first element of each row in the bottom's memory
};

}  // namespace

void register_crop(Registry& registry) { add_two_sided<CropLayer>(registry, "Crop"); }

}  // namespace crema
