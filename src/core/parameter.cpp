// Parameter and its storage.
#include "core/memory.hpp"
#include "crema/layer.hpp"

namespace crema {

std::shared_ptr<void> ParameterStorage::derive(
    const std::string& form, const std::function<std::shared_ptr<void>(const Tensor&)>& make) {
  const std::lock_guard lock(mutex_);
  // Its first access gives a tensor its memory. Later ones may copy values of a device to the host.
  if (data_.memory() == nullptr) static_cast<void>(data_.read_bytes());
  const uint64_t version = data_.memory()->version();
  if (const auto known = derived_.find(form); known != derived_.end()) {
    std::shared_ptr<void> object = known->second.object.lock();
    if (object && known->second.version == version) return object;
  }
  std::erase_if(derived_, [](const auto& entry) { return entry.second.object.expired(); });
  std::shared_ptr<void> object = make(data_);
  derived_[form] = {version, object};
  return object;
}

std::shared_ptr<const Tensor> ParameterStorage::derived(
    const std::string& form, const std::function<Tensor(const Tensor&)>& make) {
  return derived_object<Tensor>(
      form, [&](const Tensor& values) { return std::make_shared<Tensor>(make(values)); });
}

double Parameter::begin_gradient() {
  const bool first = storage_->cleared_;
  storage_->cleared_ = false;
  return first ? 0 : 1;
}

Tensor& Parameter::gradient() {
  if (storage_->cleared_) {
    diff.fill(0);
    storage_->cleared_ = false;
  }
  return diff;
}

void Parameter::compute_with(ParameterStorage* values) {
  values_ = values;
  const Tensor& source = this->values().data();
  data.bind(source.memory(), source.offset());
}

void Parameter::attach(std::shared_ptr<ParameterStorage> storage) {
  const Tensor& values = storage->data();
  if (values.count() != shape_.count())
    throw Error("a parameter of shape ", shape_.str(), " cannot share memory with one of ",
                values.count(), " values (", values.shape().str(),
                "); make their sizes equal, or give them different names");
  storage_ = std::move(storage);
  data = storage_->data().view(shape_);
  if (storage_->diff().count() == shape_.count()) {
    diff = storage_->diff().view(shape_);
  } else {
    diff = Tensor(shape_, data.dtype());
  }
}

}  // namespace crema
