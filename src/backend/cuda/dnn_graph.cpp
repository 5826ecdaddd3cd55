#include "backend/cuda/dnn_graph.hpp"

#include <algorithm>

#include "crema/error.hpp"

namespace crema {
namespace {

/// Tensors of the library begin at multiples of it: their memory at multiples of 64, their parts
/// in a net's plan at multiples of 64 too.
constexpr int64_t kAlignment = 16;

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::i32:
      return CUDNN_DATA_INT32;
    case DType::u8:  // what comparisons give
      return CUDNN_DATA_BOOLEAN;
    default:
      throw Error("cuDNN computes no convolution of ", to_string(dtype));
  }
}

std::string list(const std::vector<int64_t>& values) {
  std::vector<std::string> texts;
  for (const int64_t value : values) texts.push_back(std::to_string(value));
  return joined(texts, "x");
}

DnnDescriptor describe_tensor(const DnnTensor& tensor) {
  DnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type_of(tensor.dtype))
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, tensor.dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, tensor.strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, tensor.is_virtual);
  if (tensor.is_number) made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  made.finalize();
  return made;
}

DnnDescriptor describe_window(const DnnWindow& window) {
  DnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::ssize(window.stride))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.pad)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.pad)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation)
      .finalize();
  return made;
}

/// How the library names what a pass of a convolution reads and writes.
struct PassNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
};

constexpr PassNames kPassNames[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

DnnDescriptor describe_pointwise(cudnnPointwiseMode_t mode, double slope) {
  DnnDescriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (slope != 0) made.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, slope);
  made.finalize();
  return made;
}

}  // namespace

std::string_view to_string(DnnPass pass) {
  constexpr std::string_view kNames[] = {"forward", "backward data", "backward weights"};
  return kNames[static_cast<size_t>(pass)];
}

DnnTensor dnn_channels_last(int64_t id, DType dtype, std::vector<int64_t> dims, int64_t row) {
  DnnTensor tensor{id, dtype, std::move(dims), {}, false};
  tensor.strides.resize(tensor.dims.size());
  int64_t stride = row > 0 ? row : tensor.dims[1];
  tensor.strides[1] = 1;
  for (size_t i = tensor.dims.size(); i-- > 2;) {
    tensor.strides[i] = stride;
    stride *= tensor.dims[i];
  }
  tensor.strides[0] = stride;
  return tensor;
}

DnnTensor dnn_between(int64_t id, const DnnTensor& like) {
  return {id, DType::f32, like.dims, like.strides, true};
}

size_t DnnGraph::index_of(const DnnTensor& tensor) {
  const auto known = std::ranges::find(tensors_, tensor.id, &DnnTensor::id);
  if (known != tensors_.end()) return static_cast<size_t>(known - tensors_.begin());
  tensors_.push_back(tensor);
  key_ += text(" #", tensor.id,
               tensor.is_virtual  ? " virtual "
               : tensor.is_number ? " number "
                                  : " ",
               to_string(tensor.dtype), " ", list(tensor.dims), "/", list(tensor.strides));
  return tensors_.size() - 1;
}

void DnnGraph::append(Operation operation, std::initializer_list<const DnnTensor*> operands) {
  for (const DnnTensor* tensor : operands) {
    operation.operands.push_back(index_of(*tensor));
    key_ += text(" @", tensor->id);
  }
  operations_.push_back(std::move(operation));
}

void DnnGraph::convolve(DnnPass pass, const DnnWindow& window, const DnnTensor& x,
                        const DnnTensor& w, const DnnTensor& y) {
  key_ += text(key_.empty() ? "" : "; ", to_string(pass), " stride ", list(window.stride), " pad ",
               list(window.pad), " dilation ", list(window.dilation));
  append({.kind = Operation::Kind::convolve, .pass = pass, .window = window}, {&x, &w, &y});
}

void DnnGraph::add(const DnnTensor& a, const DnnTensor& b, const DnnTensor& sum) {
  key_ += "; add";
  append({.kind = Operation::Kind::add}, {&a, &b, &sum});
}

void DnnGraph::relu(const DnnTensor& x, double slope, const DnnTensor& y) {
  key_ += text("; relu ", slope);
  append({.kind = Operation::Kind::relu, .slope = slope}, {&x, &y});
}

void DnnGraph::relu_gradient(const DnnTensor& dy, const DnnTensor& y, double slope,
                             const DnnTensor& dx) {
  key_ += text("; relu gradient ", slope);
  append({.kind = Operation::Kind::relu_gradient, .slope = slope}, {&dy, &y, &dx});
}

void DnnGraph::operate(const std::string& name, const std::vector<DnnTensor>& operands,
                       MakeOperation make) {
  key_ += text(key_.empty() ? "" : "; ", name);
  Operation operation{.kind = Operation::Kind::other, .make = std::move(make)};
  for (const DnnTensor& tensor : operands) {
    operation.operands.push_back(index_of(tensor));
    key_ += text(" @", tensor.id);
  }
  operations_.push_back(std::move(operation));
}

std::vector<DnnDescriptor> DnnGraph::describe(std::vector<DnnDescriptor>& tensors) const {
  tensors.clear();
  for (const DnnTensor& tensor : tensors_) tensors.push_back(describe_tensor(tensor));
  std::vector<DnnDescriptor> made;
  for (const Operation& operation : operations_) {
    const auto operand = [&](size_t i) -> const DnnDescriptor& {
      return tensors[operation.operands[i]];
    };
    if (operation.kind == Operation::Kind::convolve) {
      const PassNames& names = kPassNames[static_cast<size_t>(operation.pass)];
      made.emplace_back(names.type)
          .set(names.window, describe_window(operation.window))
          .set(names.x, operand(0))
          .set(names.w, operand(1))
          .set(names.y, operand(2))
          .set(names.alpha, 1.0F)
          .set(names.beta, 0.0F)
          .finalize();
      continue;
    }
    if (operation.kind == Operation::Kind::other) {
      std::vector<const DnnDescriptor*> operands;
      for (const size_t i : operation.operands) operands.push_back(&tensors[i]);
      made.push_back(operation.make(operands));
      continue;
    }
    DnnDescriptor& pointwise = made.emplace_back(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    if (operation.kind == Operation::Kind::add) {
      pointwise
          .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
               describe_pointwise(CUDNN_POINTWISE_ADD, 0))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, operand(0))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand(1))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, operand(2));
    } else if (operation.kind == Operation::Kind::relu_gradient) {
      // It compares x with 0, and y has the sign of x.
      pointwise
          .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
               describe_pointwise(CUDNN_POINTWISE_RELU_BWD, operation.slope))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, operand(0))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, operand(1))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, operand(2));
    } else {
      pointwise
          .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
               describe_pointwise(CUDNN_POINTWISE_RELU_FWD, operation.slope))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, operand(0))
          .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, operand(1));
    }
    pointwise.finalize();
  }
  return made;
}

}  // namespace crema
