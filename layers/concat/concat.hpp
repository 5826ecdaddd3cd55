// Concat: joins its bottoms along one axis. See README.md.
#pragma once

#include <vector>

#include "crema/layer.hpp"

namespace crema {

class ConcatLayer : public Layer {
 public:
  explicit ConcatLayer(const LayerInit& init);

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = -1}; }
  void reshape(Blobs bottom, Blobs top) override;

  void forward_cpu(Blobs bottom, Blobs top) override;
  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override;

  /// Counted from the front.
  int axis() const { return axis_; }

  /// Memory in any format as (rows, row): the top's row is those of the bottoms, one behind the
  /// other.
  struct Layout {
    int64_t rows = 1;
    std::vector<int64_t> begins;  // elements from the start of the top's row; one a bottom
    std::vector<int64_t> row;     // elements of each bottom's row
    int64_t top_row = 0;
  };
  /// For the present formats.
  const Layout& layout() const { return layout_; }
  void prepare_reference(Blobs bottom, Blobs top) override;

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override;
  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override;

 private:
  int given_axis_ = 1;
  int axis_ = 1;
  Layout layout_;
};

}  // namespace crema
