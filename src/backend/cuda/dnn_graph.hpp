// DnnGraph: a computation of cuDNN's graph API, as text and as descriptors: a convolution in one of
// its passes, and what follows each value of its result; or other operations, which their callers
// describe (dnn_attention.cpp).
//
// Tensors of convolutions are (N, C, spatial...), of two or three spatial axes, in any strides. All
// is computed in f32. Virtual tensors lie between operations and have no memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/dnn_descriptor.hpp"
#include "crema/layout.hpp"

namespace crema {

struct DnnTensor {
  int64_t id = 0;  // names its pointer in a run; each tensor of a graph has another one
  DType dtype = DType::f32;
  std::vector<int64_t> dims, strides;
  bool is_virtual = false;
  bool is_number = false;  // one value, whose pointer in a run is of the host
};

/// N, spatial..., C in memory. Of weights: (K, spatial..., C). `row`: from the channels of a
/// position to those of the next; 0: as many as there are.
DnnTensor dnn_channels_last(int64_t id, DType dtype, std::vector<int64_t> dims, int64_t row = 0);
/// One f32 between two operations, in the order of `like`.
DnnTensor dnn_between(int64_t id, const DnnTensor& like);

/// One entry a spatial axis.
struct DnnWindow {
  std::vector<int64_t> stride, pad, dilation;
};

enum class DnnPass : uint8_t { forward, data, weights };
std::string_view to_string(DnnPass pass);

class DnnGraph {
 public:
  /// Forward: y = w x. Data: x = the transposed product of w and y. Weights: w = the gradient of
  /// the weights, of x and the gradient y. The groups follow from the channels of x and w.
  void convolve(DnnPass pass, const DnnWindow& window, const DnnTensor& x, const DnnTensor& w,
                const DnnTensor& y);
  /// sum = a + b; b may have extents of 1, such as a bias, (1, C, 1, 1).
  void add(const DnnTensor& a, const DnnTensor& b, const DnnTensor& sum);
  /// y = x for x > 0, else slope * x.
  void relu(const DnnTensor& x, double slope, const DnnTensor& y);
  /// dx = dy where y > 0, else slope * dy: the gradient of a ReLU that gave y.
  void relu_gradient(const DnnTensor& dy, const DnnTensor& y, double slope, const DnnTensor& dx);
  /// Another operation, which `make` describes from its operands. `name` tells all of it that the
  /// operands do not.
  using MakeOperation = std::function<DnnDescriptor(std::span<const DnnDescriptor* const>)>;
  void operate(const std::string& name, const std::vector<DnnTensor>& operands, MakeOperation make);

  /// All of it. Two graphs with one key are the same.
  const std::string& key() const { return key_; }
  /// The operations; `tensors` has to live as long as they do.
  std::vector<DnnDescriptor> describe(std::vector<DnnDescriptor>& tensors) const;

 private:
  struct Operation {
    enum class Kind : uint8_t { convolve, add, relu, relu_gradient, other } kind;
    DnnPass pass = DnnPass::forward;
    DnnWindow window = {};
    double slope = 0;
    MakeOperation make = {};
    std::vector<size_t> operands = {};  // indices of tensors_, in the order of the function
  };
  size_t index_of(const DnnTensor& tensor);
  void append(Operation operation, std::initializer_list<const DnnTensor*> operands);

  std::vector<DnnTensor> tensors_;
  std::vector<Operation> operations_;
  std::string key_;
};

}  // namespace crema
