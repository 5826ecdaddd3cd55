#include "core/staged_upload.hpp"

#include <cstring>
#include <utility>

namespace crema {

StagedUpload::StagedUpload(DeviceBackend& backend, size_t bytes, const int32_t* stop)
    : backend_(backend), bytes_(bytes), stop_(stop), taken_(backend.make_event()) {
  for (Side& side : sides_) {
    side.pinned = backend_.allocate_pinned(bytes_);
    std::memset(side.pinned, 0, bytes_);
    side.uploaded = backend_.make_event();
  }
  arrived_ = backend_.allocate(bytes_);
  // The queue of uploads may use it at once.
  backend_.synchronize();
}

StagedUpload::~StagedUpload() {
  try {
    for (const Side& side : sides_) {
      if (side.in_use) backend_.wait(*side.uploaded);
    }
  } catch (...) {  // of a lost device: nothing is copied any more
  }
  for (Side& side : sides_) backend_.release_pinned(side.pinned);
  backend_.release(arrived_);
}

void StagedUpload::turn() {
  side_ = 1 - side_;
  settle();
}

void StagedUpload::settle() {
  Side& side = sides_[side_];
  if (std::exchange(side.in_use, false)) backend_.wait(*side.uploaded);
}

void StagedUpload::upload(void* to) {
  backend_.copy_unless(stop_, to, arrive(bytes_), bytes_);
  taken();
}

const void* StagedUpload::arrive(size_t bytes) {
  Side& side = sides_[side_];
  if (has_taken_) backend_.queue_wait(DeviceQueue::upload, *taken_);
  backend_.upload(arrived_, side.pinned, bytes);
  backend_.record(*side.uploaded, DeviceQueue::upload);
  side.in_use = true;
  backend_.queue_wait(DeviceQueue::work, *side.uploaded);
  return arrived_;
}

void StagedUpload::taken() {
  backend_.record(*taken_, DeviceQueue::work);
  has_taken_ = true;
}

}  // namespace crema
