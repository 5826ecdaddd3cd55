#include "backend/cuda/dnn_descriptor.hpp"

#include <algorithm>
#include <array>

#include "core/memory_error.hpp"

namespace crema {

void dnn_check(cudnnStatus_t status, const char* what, int type, int attribute) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  const std::string said = words.data();
  const std::string message =
      text("cuDNN failed in ", what, type >= 0 ? text(" a descriptor of type ", type) : "",
           attribute >= 0 ? text(", attribute ", attribute) : "", ": ", cudnnGetErrorString(status),
           said.empty() ? "" : text(" (", said, ")"));
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    throw MemoryError(message);
  throw Error(message);
}

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) : type_(type) {
  dnn_check(cudnnBackendCreateDescriptor(type, &value_), "making", type);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t count,
                                  const void* values) {
  dnn_check(cudnnBackendSetAttribute(value_, name, type, count, values), "setting", type_, name);
  return *this;
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const std::string& words) {
  return set(name, CUDNN_TYPE_CHAR, std::ssize(words) + 1, words.c_str());
}
DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const DnnDescriptor& value) {
  const cudnnBackendDescriptor_t raw = value.get();
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}
DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name,
                                  const std::vector<DnnDescriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const DnnDescriptor& value : values) raw.push_back(value.get());
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(raw), raw.data());
}

DnnDescriptor& DnnDescriptor::finalize() {
  dnn_check(cudnnBackendFinalize(value_), "finalizing", type_);
  return *this;
}

int64_t DnnDescriptor::get_int64(cudnnBackendAttributeName_t name) const {
  int64_t value = 0, found = 0;
  dnn_check(cudnnBackendGetAttribute(value_, name, CUDNN_TYPE_INT64, 1, &found, &value), "reading",
            type_, name);
  return value;
}

std::vector<int> DnnDescriptor::get_enums(cudnnBackendAttributeName_t name,
                                          cudnnBackendAttributeType_t type, int64_t most) const {
  std::vector<int> values(static_cast<size_t>(most));
  int64_t found = 0;
  dnn_check(cudnnBackendGetAttribute(value_, name, type, most, &found, values.data()), "reading",
            type_, name);
  values.resize(static_cast<size_t>(std::min(found, most)));
  return values;
}

int64_t DnnDescriptor::count(cudnnBackendAttributeName_t name) const {
  int64_t found = 0;
  dnn_check(
      cudnnBackendGetAttribute(value_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &found, nullptr),
      "reading", type_, name);
  return found;
}

std::vector<DnnDescriptor> DnnDescriptor::get_descriptors(cudnnBackendAttributeName_t name,
                                                          cudnnBackendDescriptorType_t type,
                                                          int64_t most) const {
  std::vector<DnnDescriptor> made;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < most; ++i) raw.push_back(made.emplace_back(type).get());
  int64_t found = 0;
  if (most > 0) {
    dnn_check(cudnnBackendGetAttribute(value_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &found,
                                       raw.data()),
              "reading", type_, name);
  }
  made.erase(made.begin() + std::min(found, most), made.end());
  return made;
}

}  // namespace crema
