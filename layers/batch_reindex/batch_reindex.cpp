// BatchReindex: takes items of a batch by their indices. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/rows.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {
namespace {

class BatchReindexLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  bool moves_values() const override { return true; }
  /// Not those of bottom 1.
  bool moves(int b, int) const override { return b == 0; }

  Arity arity() const override { return {.min_bottoms = 2, .max_bottoms = 2}; }
  bool can_propagate(int bottom) const override { return bottom == 0; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape &from = bottom[0]->shape(), &indices = bottom[1]->shape();
    if (from.rank() == 0)
      throw Error("'", bottom[0]->name, "' is a scalar; it has no items to choose from");
    if (indices.rank() != 1)
      throw Error("'", bottom[1]->name, "' (", indices.str(),
                  ") has to have one axis, along which the indices are; flatten it with axis: 0");
    Shape to = from;
    to.set(0, indices[0]);
    top[0]->reshape(to);
  }
  Flops flops(Blobs, Blobs top) const override { return {0, static_cast<double>(top[0]->count())}; }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return same_format_options(bottom, top, dtype(), true);
  }
  size_t kept_bytes() const override { return indices_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    indices_.read(device, *this, *bottom[1], bottom[0]->shape()[0],
                  text("the indices are of items of '", bottom[0]->name, "' (",
                       bottom[0]->shape().str(), ")"));
    dispatch_float(dtype(), [&]<class T>(T) {
      const int64_t width = item_width(*top[0]);
      gather_rows(device, {indices_.indices(device), indices_.count(), width, width},
                  device.read<T>(bottom[0]->data), device.overwrite<T>(top[0]->data));
    });
  }
  /// Items of several places get the sum of their gradients.
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    fill_zero(device, bottom[0]->diff);
    dispatch_float(dtype(), [&]<class T>(T) {
      sum_rows(device, indices_.groups(device), item_width(*bottom[0]), false,
               device.read<T>(top[0]->diff), device.change<T>(bottom[0]->diff));
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  RowIndices indices_;
};

}  // namespace

void register_batch_reindex(Registry& registry) {
  add_two_sided<BatchReindexLayer>(registry, "BatchReindex");
}

}  // namespace crema
