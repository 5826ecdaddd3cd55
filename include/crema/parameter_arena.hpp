// ParameterArena: the values of all parameters of a net in one piece of memory, and their gradients
// in another. An update is one pass over both.
//
// Each parameter has one segment, also if several layers use it.
#pragma once

#include <string>
#include <vector>

#include "crema/layer.hpp"

namespace crema {

class ParameterArena {
 public:
  struct Segment {
    Parameter* parameter;  // if several layers share it, that of the first; its multipliers count
    std::string layer;     // name of that layer
    int index;             // index into Layer::params() of that layer
    int64_t offset = 0;    // in elements; a multiple of 16
    int64_t count = 0;     // in elements
  };

  const std::vector<Segment>& segments() const { return segments_; }
  /// Number of elements, with the padding between segments.
  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  /// (size). The values, and the gradients; diff() is empty if the net does not train. Padding is
  /// zero.
  Tensor& data() { return data_; }
  Tensor& diff() { return diff_; }
  const Tensor& data() const { return data_; }

  /// Sets the offsets of `owners`, whose fields parameter, layer and index the caller has set, and
  /// gives each parameter a storage in the arena. dtype is f32 or f64; else an Error.
  void build(std::vector<Segment> owners, DType dtype, bool with_gradients);
  /// Sets the memory of cleared gradients to zero, so that diff() can be read in one pass.
  /// Gradients of parameters that need none stay undefined.
  void settle_gradients();

 private:
  std::vector<Segment> segments_;
  int64_t size_ = 0;
  DType dtype_ = DType::f32;
  Tensor data_, diff_;
};

}  // namespace crema
