// Memory: host pages taken lazily, and the state machine of which copy is current.
#include "core/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>

#include "core/access_log.hpp"
#include "core/device.hpp"
#include "core/memory_error.hpp"
#include "core/memory_places.hpp"
#include "core/staged_upload.hpp"

namespace crema {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapFrom = kHugePage;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kChunkFrom = kMapFrom;  // each block has red zones
#else
constexpr size_t kChunkFrom = size_t{32} << 10;
#endif
constexpr size_t kChunk = 4 * kHugePage;
constexpr size_t kPage = 4096;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void out_of_memory(size_t bytes) {
  throw MemoryError("cannot allocate ", bytes, " bytes (", bytes >> 20,
                    " MiB) of host memory; use a smaller batch or fewer nets at once");
}

// The kernel gives mapped pages zeroed and only when touched. On a 2 MiB boundary it can give huge
// ones, which saves most of the page faults and TLB misses.
void* map_pages(size_t bytes, bool huge = true) {
  const size_t wanted = round_up(bytes, kPage);
  const size_t reserved = wanted + kHugePage;
  if (reserved < bytes) out_of_memory(bytes);
  void* base = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) out_of_memory(bytes);
  char* const begin = static_cast<char*>(base);
  const size_t head =
      round_up(reinterpret_cast<size_t>(begin), kHugePage) - reinterpret_cast<size_t>(begin);
  const size_t tail = reserved - head - wanted;
  if (head > 0) munmap(begin, head);
  if (tail > 0) munmap(begin + head + wanted, tail);
  // Advice only: where it is refused, small pages serve.
  if (huge) madvise(begin + head, wanted, MADV_HUGEPAGE);
  return begin + head;
}

/// Blocks of medium size, in chunks of huge pages: a net has hundreds of them, and the faults of
/// small pages would take longer than it needs to fill them.
class Chunks {
 public:
  /// Zeroed.
  void* take(size_t bytes) {
    const size_t size = round_up(bytes, kAlignment);
    const std::lock_guard lock(mutex_);
    if (present_ == nullptr || present_->used + size > kChunk) {
      // Small nets, which the first chunk is enough for, take no more than they need.
      char* const base = static_cast<char*>(map_pages(kChunk, !chunks_.empty()));
      present_ = &chunks_[base];
      present_->base = base;
    }
    Chunk& chunk = *present_;
    char* const block = chunk.base + chunk.used;
    const size_t old = std::min(size, chunk.dirty - std::min(chunk.dirty, chunk.used));
    std::memset(block, 0, old);
    chunk.used += size;
    chunk.dirty = std::max(chunk.dirty, chunk.used);
    ++chunk.blocks;
    return block;
  }

  void give(void* block) {
    const std::lock_guard lock(mutex_);
    const auto found = std::prev(chunks_.upper_bound(static_cast<char*>(block)));
    Chunk& chunk = found->second;
    if (--chunk.blocks > 0) return;
    if (&chunk == present_) {
      chunk.used = 0;
      return;
    }
    munmap(chunk.base, kChunk);
    chunks_.erase(found);
  }

 private:
  struct Chunk {
    char* base = nullptr;
    size_t used = 0, blocks = 0;
    size_t dirty = 0;  // bytes at the beginning that are no longer the system's zeros
  };
  std::mutex mutex_;
  std::map<char*, Chunk> chunks_;  // by base
  Chunk* present_ = nullptr;       // the one that blocks are taken from
};

/// Never destroyed: memory may be released behind main().
Chunks& chunks() {
  static auto* const all = new Chunks;
  return *all;
}

void* allocate_host(size_t bytes) {
  if (bytes >= kMapFrom) return map_pages(bytes);
  if (bytes >= kChunkFrom) return chunks().take(bytes);
  const size_t rounded = round_up(bytes > 0 ? bytes : 1, kAlignment);
  void* pointer = std::aligned_alloc(kAlignment, rounded);
  if (pointer == nullptr) out_of_memory(bytes);
  std::memset(pointer, 0, rounded);
  return pointer;
}

void release_host(void* pointer, size_t bytes) {
  if (pointer == nullptr) return;
  if (bytes >= kMapFrom) {
    munmap(pointer, round_up(bytes, kPage));
  } else if (bytes >= kChunkFrom) {
    chunks().give(pointer);
  } else {
    std::free(pointer);
  }
}

std::atomic<uint64_t> place_changes{0};  // memory_places()

void* advance(void* pointer, size_t offset) { return static_cast<char*>(pointer) + offset; }

// Memories count their versions in ranges of their own, so that what was remembered of one is never
// taken for that of another at the same address.
uint64_t first_version() {
  static std::atomic<uint64_t> memories{0};
  return ++memories << 32;
}

}  // namespace

uint64_t memory_places() { return place_changes.load(std::memory_order_relaxed); }

Memory::Memory(size_t bytes) : bytes_(bytes), version_(first_version()) {}

Memory::Memory(std::shared_ptr<Memory> parent, size_t offset, size_t bytes)
    : bytes_(bytes), version_(first_version()) {
  if (offset > parent->bytes() || bytes > parent->bytes() - offset)
    throw Error("a piece of ", bytes, " bytes at ", offset, " exceeds its memory of ",
                parent->bytes(), " bytes");
  current_ = parent->current_;
  offset_ = parent->offset_ + offset;
  parent_ = parent->parent_ ? parent->parent_ : std::move(parent);
  if (on_device() != nullptr) ++place_changes;
}

std::shared_ptr<Memory> Memory::segment(const std::shared_ptr<Memory>& parent, size_t offset,
                                        size_t bytes) {
  if (parent->parent_ != nullptr) throw Error("a piece of memory cannot be cut into segments");
  auto made = std::make_shared<Memory>(parent, offset, bytes);
  made->is_segment_ = true;
  parent->segments_.push_back(made.get());
  return made;
}

Memory::~Memory() {
  if (on_device() != nullptr) ++place_changes;
  if (is_segment_) std::erase(parent_->segments_, this);
  if (parent_) return;
  release_host(host_, bytes_);
  if (device_ != nullptr) backend_->release(device_);
}

uint64_t Memory::version() {
  const auto is_open = [](const Memory& memory) { return memory.exposed_ || memory.writers_ > 0; };
  const bool open = is_open(*this) || (is_segment_ && is_open(*parent_));
  return open ? ++version_ : version_.load();
}

void Memory::end_writing() {
  --writers_;
  ++version_;
  for (Memory* segment : segments_) ++segment->version_;
}

void Memory::mark_written(bool on_device) {
  current_ = on_device ? Current::device : Current::host;
  ++version_;
  for (Memory* segment : segments_) segment->mark_written(on_device);
}

void* Memory::access(Access how, DeviceBackend* device) {
  if (device == nullptr) {
    const DeviceBackend* const known = known_device();
    if (known != nullptr && known->access_log() != nullptr) AccessLog::refuse_host(*this);
    if (stop_ != nullptr && how == Access::overwrite) turn_staged();
    if (staged_ != nullptr && how == Access::change) staged_->settle();
  }
  // Before a copy from the host, which ends a record.
  if (device != nullptr && device->access_log() != nullptr)
    device->access_log()->note(*this, how, pointer(device));
  if (how != Access::overwrite) fetch(device);
  void* const contents = pointer(device);
  if (how != Access::read) mark_written(device != nullptr);
  return contents;
}

void Memory::stage(DeviceBackend& device, const int32_t* stop) {
  pointer(&device);
  stop_ = stop;
}

void Memory::turn_staged() {
  if (staged_ != nullptr) return staged_->turn();
  // The contents are overwritten: those on the host now go.
  staged_ = std::make_unique<StagedUpload>(*backend_, bytes_, stop_);
  release_host(std::exchange(host_, nullptr), bytes_);
}

void Memory::trust_device() {
  if (on_device() != nullptr) mark_written(true);
}

void Memory::note_derived(uint64_t version) {
  const DeviceBackend* const known = known_device();
  if (known != nullptr && known->access_log() != nullptr)
    known->access_log()->note_derived(*this, version);
}

const void* Memory::on_device() const {
  const void* const whole = parent_ ? parent_->device_ : device_;
  return whole != nullptr ? static_cast<const char*>(whole) + offset_ : nullptr;
}

void Memory::zero(size_t offset, size_t bytes) {
  if (offset > bytes_ || bytes > bytes_ - offset)
    throw Error("cannot clear ", bytes, " bytes at ", offset, " of a memory of ", bytes_);
  ++version_;
  if (!segments_.empty()) {
    for (Memory* segment : segments_) {
      const size_t begin = std::max(offset, segment->offset_);
      const size_t end = std::min(offset + bytes, segment->offset_ + segment->bytes_);
      if (begin < end) segment->zero(begin - segment->offset_, end - begin);
    }
    return;
  }
  DeviceBackend* const known = known_device();
  if (known != nullptr && known->access_log() != nullptr) {
    // The record clears the copy on the device, wherever the current one is then.
    const bool whole = offset == 0 && bytes == bytes_;
    void* const contents = access(whole ? Access::overwrite : Access::change, known);
    return known->fill_zero(advance(contents, offset), bytes);
  }
  if (current_ == Current::neither && !parent_) return;  // zero as it is
  if (current_ == Current::device || current_ == Current::both) {
    DeviceBackend* const backend = known_device();
    backend->fill_zero(advance(pointer(backend), offset), bytes);
  }
  if (current_ != Current::device) {
    std::memset(advance(pointer(nullptr), offset), 0, bytes);
    if (current_ == Current::neither) current_ = Current::host;
  }
}

void* Memory::pointer(DeviceBackend* device) {
  if (parent_) return advance(parent_->pointer(device), offset_);
  if (device == nullptr) {
    if (staged_ != nullptr) return staged_->host();
    if (host_ == nullptr) host_ = allocate_host(bytes_);
    return host_;
  }
  if (device_ == nullptr) {
    device_ = device->allocate(bytes_);
    backend_ = device;
    ++place_changes;
    device->fill_zero(device_, bytes_);
  }
  if (backend_ != device)
    throw Error("memory of ", bytes_,
                " bytes is in use on another device; give each device its own copy");
  return device_;
}

void Memory::fetch(DeviceBackend* device) {
  if (!segments_.empty()) {
    for (Memory* segment : segments_) segment->fetch(device);
    return;
  }
  const Current wanted = device != nullptr ? Current::device : Current::host;
  if (current_ == Current::neither) current_ = wanted;
  if (current_ == wanted || current_ == Current::both) return;
  if (device != nullptr) {
    if (staged_ != nullptr) {
      staged_->upload(pointer(device));
    } else {
      device->copy_to_device(pointer(device), pointer(nullptr), bytes_);
    }
  } else {
    if (staged_ != nullptr) staged_->settle();
    DeviceBackend* const backend = known_device();
    backend->copy_to_host(pointer(nullptr), pointer(backend), bytes_);
  }
  current_ = Current::both;
}

}  // namespace crema
