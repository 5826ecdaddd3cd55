// Things that a process opens once for all who want them, such as the environment of a database.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace crema {

/// Never destroy one: what it gave out may outlive every static. Safe to use from many threads.
template <class T>
class OpenOnce {
 public:
  using Id = std::pair<dev_t, ino_t>;  // of a file or folder, which may have several names

  /// What is open under this id, or make(), a std::unique_ptr<T>. It is closed when its last
  /// shared_ptr is destroyed.
  template <class Make>
  std::shared_ptr<T> get(const Id& id, const Make& make) {
    std::unique_lock guard(mutex_);
    for (auto entry = entries_.find(id); entry != entries_.end(); entry = entries_.find(id)) {
      if (auto opened = entry->second.lock()) return opened;
      changed_.wait(guard);
    }
    entries_[id];  // claimed: who wants the same waits
    guard.unlock();

    std::unique_ptr<T> opened;
    try {
      opened = make();
    } catch (...) {
      release(id);
      throw;
    }
    std::shared_ptr<T> shared(opened.release(), [this, id](T* last) {
      delete last;
      release(id);
    });
    guard.lock();
    entries_[id] = shared;
    changed_.notify_all();
    return shared;
  }

 private:
  void release(const Id& id) {
    const std::lock_guard guard(mutex_);
    entries_.erase(id);
    changed_.notify_all();
  }

  // An entry stands from before its thing is opened until after it is closed; while its pointer is
  // empty, others wait.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Id, std::weak_ptr<T>> entries_;
};

}  // namespace crema
