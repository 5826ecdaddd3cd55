// Layers whose top has the values of their bottom in another order, each value once. They say in
// reshape() which index of the bottom each index of the top means.
//
//   class MyLayer : public IndexMapLayer {
//     void reshape(Blobs bottom, Blobs top) override { map(top, {...}); }
//   };
#pragma once

#include <optional>
#include <vector>

#include "core/strided.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {

class IndexMapLayer : public TwoSidedLayer {
 public:
  bool moves_values() const override { return true; }
  using TwoSidedLayer::TwoSidedLayer;

  /// Contiguous and channels_last, the format of the top independent of that of the bottom.
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const final;
  void prepare_reference(Blobs bottom, Blobs top) final;
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) final;
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) final;

 protected:
  /// An axis of the top, or a factor of one: `extent` indices, each of which moves the index of
  /// axis `axis` of the bottom by `step`. With a negative step, index 0 is the last one.
  struct Factor {
    int64_t extent;
    int axis;
    int64_t step = 1;
  };
  /// The factors of each axis of the top, outermost first. Sets the shape of the top.
  void map(Blobs top, std::vector<std::vector<Factor>> axes);
  /// The same where the values of the bottom are seen as `view`, and those of the top as `to`, both
  /// of as many values: contiguous formats only.
  void map_values(Blobs top, const Shape& view, std::vector<std::vector<Factor>> axes,
                  const Shape& to);

  BackwardReads reference_backward_reads() const final { return {false, false}; }
  InPlace reference_in_place() const final {
    return to_top_.is_copy() ? InPlace::alias : InPlace::never;
  }

 private:
  /// What `axes_` make of the bottom.
  Shape mapped_shape() const;

  std::vector<std::vector<Factor>> axes_;
  std::optional<Shape> view_;  // map_values(): the bottom
  StridedGather to_top_, to_bottom_;
};

/// The settings of layers that change the order of the axes: `order`, the bottom's axes in their
/// new order. Those that it does not name follow if `rest_follows`. Error for what is no such
/// order.
std::vector<int> axis_order(const Shape& bottom, const std::vector<int64_t>& order,
                            const char* field, bool rest_follows);

}  // namespace crema
