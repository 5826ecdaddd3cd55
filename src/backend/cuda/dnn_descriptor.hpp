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
/// beside it. The
/// numbers are those of cudnn_graph.h: the type of the descriptor, and the attribute.
void dnn_check(cudnnStatus_t status, const char* what, int type = -1, int attribute = -1);

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

  // Attributes of each type. Arrays have to be finalized descriptors where they are descriptors.
  DnnDescriptor& set(cudnnBackendAttributeName_t name, int64_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, float value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, double value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, bool value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnConvolutionMode_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnPointwiseMode_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnReduceTensorOp_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendHeurMode_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendKnobType_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnHandle_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, void* value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const std::vector<void*>& values);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const std::string& words);
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
