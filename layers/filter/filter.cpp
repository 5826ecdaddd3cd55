// Filter: keeps the items of a batch that the last bottom selects. See README.md.
#include "core/dispatch.hpp"
#include "layer_support/options.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/rows.hpp"
#include "layer_support/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class FilterLayer : public TwoSidedLayer {
 public:
  std::string host_part() const override { return "reading the selector"; }
  bool host_reads(int b) const override { return b == selector_; }
  bool host_writes() const override { return false; }
  explicit FilterLayer(const LayerInit& init)
      : TwoSidedLayer(init), selector_(init.param.bottom_size() - 1) {}

  bool moves_values() const override { return true; }
  bool moves(int b, int t) const override { return b == t; }

  Arity arity() const override {
    return {.min_bottoms = 2, .max_bottoms = -1, .min_tops = 1, .max_tops = -1};
  }
  bool can_propagate(int bottom) const override { return bottom != selector_; }
  TopShapes top_shapes() const override { return TopShapes::from_values; }

  void setup(Blobs bottom, Blobs top) override {
    if (top.size() != bottom.size() - 1)
      throw Error(bottom.size(), " bottoms and ", top.size(),
                  " tops; give a top for each bottom but the last one, the selector");
  }
  /// With the bottoms' shapes, which are the bounds: forward sets the number of items.
  void reshape(Blobs bottom, Blobs top) override {
    const Shape& selector = bottom.back()->shape();
    if (selector.rank() == 0 || selector.count(1) != 1)
      throw Error("selector '", bottom.back()->name, "' (", selector.str(),
                  ") has to have one value an item: all axes but the first of size 1");
    for (size_t i = 0; i < top.size(); ++i) {
      const Shape& shape = bottom[i]->shape();
      if (shape.rank() == 0 || shape[0] != selector[0])
        throw Error("'", bottom[i]->name, "' (", shape.str(), ") and selector '",
                    bottom.back()->name, "' (", selector.str(),
                    ") differ in their first axis; give one value an item");
      top[i]->reshape(shape);
    }
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    // Of several bottoms one may be labels, which 16 bits would round.
    std::vector<Option> options = top.size() == 1 ? moving_options(*this, bottom, top, true)
                                                  : same_format_options(bottom, top, dtype(), true);
    for (Option& option : options) option.bottoms.back() = {.dtype = dtype()};
    return options;
  }
  size_t kept_bytes() const override { return chosen_.bytes(); }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    choose(*bottom.back());
    for (size_t i = 0; i < top.size(); ++i) {
      Shape shape = bottom[i]->shape();
      shape.set(0, chosen_.count());
      top[i]->reshape(shape);
      dispatch_any_float(top[i]->data.dtype(), [&]<class T>(T) {
        gather_rows(device, rows(device, *bottom[i]), device.read<T>(bottom[i]->data),
                    device.overwrite<T>(top[i]->data));
      });
    }
  }
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    for (size_t i = 0; i < top.size(); ++i) {
      if (!propagate[i]) continue;
      fill_zero(device, bottom[i]->diff);
      dispatch_any_float(top[i]->diff.dtype(), [&]<class T>(T) {
        scatter_rows(device, rows(device, *bottom[i]), device.read<T>(top[i]->diff),
                     device.change<T>(bottom[i]->diff));
      });
    }
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// Writes the indices of the items that the selector selects to chosen_.
  void choose(const Blob& selector) {
    const int64_t items = selector.count();
    chosen_.reshape(Shape{items});
    int64_t* const chosen = chosen_.overwrite<int64_t>();
    int64_t count = 0;
    dispatch_float(selector.data.dtype(), [&]<class T>(T) {
      const T* const values = selector.data.read<T>();
      for (int64_t i = 0; i < items; ++i) {
        if (values[i] != values[i])
          throw Error("selector '", selector.name, "' is NaN for item ", i,
                      "; give 0 to leave an item out, another number to keep it")
              .of_sample(i);
        if (values[i] != T{0}) chosen[count++] = i;
      }
    });
    chosen_.reshape(Shape{count});
  }
  /// The items of a bottom.
  RowPlaces rows(const ComputeDevice& device, const Blob& blob) const {
    const int64_t width = item_width(blob);
    return {device.read<int64_t>(chosen_), chosen_.count(), width, width};
  }

  int selector_;  // its index among the bottoms
  Tensor chosen_{Shape{0}, DType::i64};
};

}  // namespace

void register_filter(Registry& registry) { add_two_sided<FilterLayer>(registry, "Filter"); }

}  // namespace crema
