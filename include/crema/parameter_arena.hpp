// ParameterArena: all parameters of a net in one piece of memory, gradients in another.
//
// Update, clipping, all-reduce and snapshots are single passes over it. A parameter used by several
// layers has one segment.
#pragma once

#include <string>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

class ParameterArena {
 public:
  struct Segment {
    Parameter* parameter;  // the owner where it is shared; its multipliers count as they are now
    std::string layer;     // the owner's name
    int index;             // its number in that layer
    int64_t offset;        // in elements; multiples of 16
    int64_t count;
  };

  const std::vector<Segment>& segments() const { return segments_; }
  /// Elements, with the padding between segments.
  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  /// (size): values, and the gradients where the net trains. Gaps between segments are zero.
  Tensor& data() { return data_; }
  Tensor& diff() { return diff_; }
  const Tensor& data() const { return data_; }

  /// Lays out `owners` (segment fields parameter, layer, index filled by the caller) and binds
  /// the parameters' tensors, f32 or f64.
  void build(std::vector<Segment> owners, DType dtype, bool with_gradients);
  /// Marks all gradients as zero, without touching memory.
  void clear_gradients();
  /// Carries out what clear_gradients() left to do, so that diff() may be read in one pass, except
  /// where a parameter needs no gradient.
  void settle_gradients();

 private:
  std::vector<Segment> segments_;
  int64_t size_ = 0;
  DType dtype_ = DType::f32;
  Tensor data_, diff_;
};

}  // namespace crema
