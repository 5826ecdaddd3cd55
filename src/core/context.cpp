#include "crema/context.hpp"

#include <cstdlib>
#include <string_view>

#include "core/device.hpp"
#include "core/device_run.hpp"
#include "core/thread_limit.hpp"
#include "core/tuner.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

// OMP_NUM_THREADS may be a list, one number a level of nesting; the first counts here.
int threads_of_environment() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long threads = std::strtol(text, &end, 10);
  if (end == text || (*end != '\0' && *end != ',') || threads <= 0 || threads > kMaxThreads)
    throw Error("OMP_NUM_THREADS is '", text, "'; use a number from 1 to ", kMaxThreads);
  return static_cast<int>(threads);
}

int chosen_threads(int wanted) {
  if (wanted < 0 || wanted > kMaxThreads)
    throw Error("a context cannot use ", wanted, " threads; use 1 to ", kMaxThreads,
                ", or 0 for all cores");
  if (wanted > 0) return wanted;
  const int environment = threads_of_environment();
  return environment > 0 ? environment : thread_limit().threads();
}

}  // namespace

std::string user_tuning_file() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0)
    return text(cache, "/crema/tuning");
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != 0 ? text(home, "/.cache/crema/tuning") : "";
}

Context::Context(ContextOptions options) : Context(std::move(options), nullptr) {}

Context::Context(ContextOptions options, std::unique_ptr<DeviceBackend> backend)
    : options_(std::move(options)),
      backend_(std::move(backend)),
      tuner_(std::make_unique<Tuner>()) {
  options_.threads = chosen_threads(options_.threads);
  if (options_.device.index < 0)
    throw Error("device ", options_.device.index, " does not exist; devices count from 0");
  if (backend_ != nullptr) {
    options_.device.type = DeviceType::cuda;
  } else if (options_.device.type == DeviceType::cuda) {
    backend_ = make_cuda_backend(options_.device.index);
  }
  if (backend_ != nullptr) device_run_ = std::make_unique<DeviceRun>(*backend_);
  if (options_.tuning_file.empty()) return;
  const std::string why = why_no_tuning_file(options_.tuning_file);
  if (why.empty()) {
    tuner_->load(options_.tuning_file);
  } else {
    log(Severity::warning, text("times that are measured are not kept: the tuning file '",
                                options_.tuning_file, "' ", why));
    options_.tuning_file.clear();
  }
}

Context::~Context() {
  try {
    save_tuning();
  } catch (...) {  // a logger's: the times are measured again
  }
}

void Context::save_tuning() const {
  if (options_.tuning_file.empty() || !tuner_->has_news()) return;
  if (!tuner_->save(options_.tuning_file)) {
    log(Severity::info, text("times that were measured are not kept: the tuning file '",
                             options_.tuning_file, "' cannot be written"));
  }
}

void Context::log(Severity severity, const std::string& message) const {
  if (options_.logger) options_.logger(severity, printable_message(message));
}

DeviceBackend& Context::backend() const {
  if (backend_ == nullptr)
    throw Error("a context on the CPU has no device; set ContextOptions::device");
  return *backend_;
}

DeviceRun& Context::device_run() const {
  if (device_run_ == nullptr)
    throw Error("a context on the CPU has no device; set ContextOptions::device");
  return *device_run_;
}

}  // namespace crema
