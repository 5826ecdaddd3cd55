// CUPTI is loaded when a profile asks for it: a program without it runs.
#include "backend/cuda/activities.hpp"

#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "core/shared_library.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

// Later releases append fields: what is read here lies where it lay.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
#else
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
#endif
using FillRecord = CUpti_ActivityMemset4;

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
constexpr size_t kBufferBytes = size_t{4} << 20, kAlignment = 8;

/// The functions of the library that are used here.
struct Library {
  decltype(&cuptiActivityRegisterCallbacks) set_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
  decltype(&cuptiActivityGetNextRecord) next = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;
  std::string missing;  // why there is none; "": it is there

  Library() {
    // It has the major number of CUDA.
    SharedLibrary loaded(text("libcupti.so.", CUDA_VERSION / 1000));
    loaded.take(set_callbacks, "cuptiActivityRegisterCallbacks");
    loaded.take(enable, "cuptiActivityEnable");
    loaded.take(disable, "cuptiActivityDisable");
    loaded.take(flush, "cuptiActivityFlushAll");
    loaded.take(next, "cuptiActivityGetNextRecord");
    loaded.take(timestamp, "cuptiGetTimestamp");
    missing = loaded.missing();
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

/// What the callbacks, which come from threads of the library, write.
struct Noted {
  std::mutex mutex;
  std::vector<DeviceActivity> all;
  int64_t offset = 0;  // of std::chrono::steady_clock from the library's clock
};

Noted& noted() {
  static Noted* const all = new Noted;
  return *all;
}

std::string readable(const char* name) {
  if (name == nullptr) return "kernel";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : name;
}

const char* copy_name(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "copy to the device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "copy to the host";
    default:
      return "copy";
  }
}

DeviceActivity activity_of(const CUpti_Activity& record) {
  const auto times = [](const auto& known, DeviceActivity activity) {
    activity.queue = known.streamId;
    activity.begin = static_cast<int64_t>(known.start);
    activity.end = static_cast<int64_t>(known.end);
    return activity;
  };
  if (record.kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto& copy = reinterpret_cast<const CopyRecord&>(record);
    return times(copy, {.name = copy_name(copy.copyKind),
                        .kind = "copy",
                        .bytes = static_cast<size_t>(copy.bytes)});
  }
  if (record.kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto& fill = reinterpret_cast<const FillRecord&>(record);
    return times(fill, {.name = "fill", .kind = "fill", .bytes = static_cast<size_t>(fill.bytes)});
  }
  const auto& kernel = reinterpret_cast<const KernelRecord&>(record);
  return times(kernel, {.name = readable(kernel.name), .kind = "kernel"});
}

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;  // as many as it holds
}

void CUPTIAPI take_buffer(CUcontext /*context*/, uint32_t /*stream*/, uint8_t* buffer,
                          size_t /*size*/, size_t used) {
  const std::unique_ptr<uint8_t, decltype(&std::free)> own(buffer, &std::free);
  Noted& notes = noted();
  const std::lock_guard guard(notes.mutex);
  CUpti_Activity* record = nullptr;
  while (library().next(buffer, used, &record) == CUPTI_SUCCESS) {
    if (std::ranges::find(kKinds, record->kind) == std::end(kKinds)) continue;
    DeviceActivity activity = activity_of(*record);
    // 0: the library could not time it.
    if (activity.begin == 0 || activity.end < activity.begin) continue;
    activity.begin += notes.offset;
    activity.end += notes.offset;
    notes.all.push_back(std::move(activity));
  }
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::string start_activities() {
  if (!library().missing.empty()) return library().missing;
  Noted& notes = noted();
  {
    const std::lock_guard guard(notes.mutex);
    notes.all.clear();
    uint64_t stamp = 0;
    const int64_t before = now();
    if (library().timestamp(&stamp) != CUPTI_SUCCESS) return "CUPTI does not work here";
    notes.offset = (before + now()) / 2 - static_cast<int64_t>(stamp);
  }
  if (library().set_callbacks(give_buffer, take_buffer) != CUPTI_SUCCESS)
    return "CUPTI does not work here, or another profiler uses it";
  for (const CUpti_ActivityKind kind : kKinds) {
    if (const CUptiResult result = library().enable(kind); result != CUPTI_SUCCESS) {
      for (const CUpti_ActivityKind enabled : kKinds) library().disable(enabled);
      return text("CUPTI refuses to tell of kernels (", static_cast<int>(result),
                  "); another profiler may use it, or only root may (the driver's option "
                  "NVreg_RestrictProfilingToAdminUsers)");
    }
  }
  return "";
}

std::vector<DeviceActivity> stop_activities() {
  if (!library().missing.empty()) return {};
  library().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  for (const CUpti_ActivityKind kind : kKinds) library().disable(kind);
  Noted& notes = noted();
  const std::lock_guard guard(notes.mutex);
  std::vector<DeviceActivity> all = std::exchange(notes.all, {});
  std::ranges::stable_sort(all, {}, &DeviceActivity::begin);
  return all;
}

}  // namespace crema
