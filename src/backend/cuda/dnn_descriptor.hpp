// A descriptor of cuDNN's graph API: an object whose attributes are set one by one, and then
// finalized. Errors carry the words of the library itself.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace crema {

/// Error, or MemoryError, unless the call succeeded: `what`, the status, and what the library says
/// beside it. The numbers are those of cudnn_graph.h: the type of the descriptor, and the
/// attribute.
void dnn_check(cudnnStatus_t status, const char* what, int type = -1, int attribute = -1);

// How cuDNN names the types of attributes.
constexpr auto dnn_type(int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto dnn_type(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto dnn_type(double) { return CUDNN_TYPE_DOUBLE; }
constexpr auto dnn_type(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto dnn_type(void*) { return CUDNN_TYPE_VOID_PTR; }
constexpr auto dnn_type(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
constexpr auto dnn_type(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto dnn_type(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr auto dnn_type(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto dnn_type(cudnnReduceTensorOp_t) { return CUDNN_TYPE_REDUCTION_OPERATOR_TYPE; }
constexpr auto dnn_type(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto dnn_type(cudnnBackendKnobType_t) { return CUDNN_TYPE_KNOB_TYPE; }

class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);
  ~DnnDescriptor() {
    if (value_ != nullptr) cudnnBackendDestroyDescriptor(value_);
  }
  DnnDescriptor(DnnDescriptor&& other) noexcept
      : type_(other.type_), value_(std::exchange(other.value_, nullptr)) {}
  DnnDescriptor& operator=(DnnDescriptor&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(value_, other.value_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return value_; }

  /// Sets an attribute of a type that dnn_type() knows, of one value or several.
  template <class T>
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const T& value) {
    return set(name, dnn_type(value), 1, &value);
  }
  template <class T>
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    return set(name, dnn_type(T{}), std::ssize(values), values.data());
  }
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const std::string& words);
  /// Descriptors, which have to be finalized.
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<DnnDescriptor>& values);
  DnnDescriptor& finalize();

  int64_t get_int64(cudnnBackendAttributeName_t name) const;
  /// The values of an attribute of an enumeration, as its numbers; at most `most`.
  std::vector<int> get_enums(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                             int64_t most) const;
  /// The descriptors of an attribute; at most `most`, or fewer where there are fewer.
  std::vector<DnnDescriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                             cudnnBackendDescriptorType_t type, int64_t most) const;
  /// Their number.
  int64_t count(cudnnBackendAttributeName_t name) const;

 private:
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void* values);

  cudnnBackendDescriptorType_t type_;
  cudnnBackendDescriptor_t value_ = nullptr;
};

}  // namespace crema
