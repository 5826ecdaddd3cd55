// Parameter: where its values and gradient lie, and who shares them.
#include <algorithm>
#include <mutex>

#include "crema/layer.hpp"

namespace crema {
namespace {

// Nets that share weights are made and destroyed on threads of their own.
std::mutex& sharing_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Parameter::~Parameter() {
  const std::lock_guard lock(sharing_mutex());
  if (owner_ != nullptr) std::erase(owner_->users_, this);
  if (users_.empty()) return;
  // They still share one gradient, so that one of them has to know whether it is cleared.
  Parameter& heir = *users_.front();
  heir.owner_ = nullptr;
  heir.cleared_ = cleared_;
  heir.users_.assign(users_.begin() + 1, users_.end());
  for (Parameter* user : heir.users_) user->owner_ = &heir;
}

double Parameter::begin_gradient() {
  Parameter& owner = root();
  const bool first = owner.cleared_;
  owner.cleared_ = false;
  return first ? 0 : 1;
}

Tensor& Parameter::gradient() {
  Parameter& owner = root();
  if (owner.cleared_) {
    owner.diff.fill(0);
    owner.cleared_ = false;
  }
  return diff;
}

void Parameter::share_with(Parameter& owner) {
  Parameter& source = owner.root();
  require(&source != this, "a parameter of shape ", shape_.str(), " cannot share with itself");
  require(source.shape_.count() == shape_.count(), "a parameter of shape ", shape_.str(),
          " cannot share memory with one of shape ", source.shape_.str(),
          "; make their sizes equal, or give them different names");
  require(source.data.dtype() == data.dtype(), "a parameter of ", to_string(data.dtype()),
          " cannot share memory with one of ", to_string(source.data.dtype()));
  const std::lock_guard lock(sharing_mutex());
  if (owner_ != nullptr) std::erase(owner_->users_, this);
  owner_ = &source;
  source.users_.push_back(this);
  follow_owner();
  // Who shared with this one shares with its owner now. Those that did before may be running, in
  // other threads: they are left alone.
  for (Parameter* user : users_) {
    user->owner_ = &source;
    source.users_.push_back(user);
    user->follow_owner();
  }
  users_.clear();
}

void Parameter::bind(const std::shared_ptr<Memory>& data_memory, size_t data_offset,
                     const std::shared_ptr<Memory>& diff_memory, size_t diff_offset) {
  Parameter& owner = root();
  const std::lock_guard lock(sharing_mutex());
  if (data_memory) {
    Tensor bound(owner.shape_, owner.data.dtype());
    bound.bind(data_memory, data_offset);
    if (owner.data.has_memory() && !owner.data.same_memory(bound)) bound.copy_from(owner.data);
    owner.data = bound;
  }
  if (diff_memory) {
    owner.diff = Tensor(owner.shape_, owner.data.dtype());
    owner.diff.bind(diff_memory, diff_offset);
    owner.cleared_ = true;
  }
  for (Parameter* user : owner.users_) user->follow_owner();
}

void Parameter::follow_owner() {
  data = owner_->data.view(shape_);
  diff = owner_->diff.view(shape_);
}

}  // namespace crema
