#include "core/spans.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

#include "crema/error.hpp"

namespace crema {
namespace {

/// What one thread writes. The mutex is its own but for the moment in which a recording ends.
struct Buffer {
  std::mutex mutex;
  ThreadSpans records;
};

struct AllBuffers {
  std::mutex mutex;
  std::vector<std::shared_ptr<Buffer>> buffers;  // of threads that run, and with records of others
  uint64_t recording = 0;                        // the number of the present or last one
};

/// Never destroyed: threads may end behind main().
AllBuffers& all_buffers() {
  static auto* const all = new AllBuffers;
  return *all;
}

// The number of the recording that runs, beside the flag that spans test first.
std::atomic<uint64_t> present = 0;

Buffer& own_buffer() {
  thread_local const std::shared_ptr<Buffer> own = [] {
    auto made = std::make_shared<Buffer>();
    AllBuffers& all = all_buffers();
    const std::lock_guard guard(all.mutex);
    std::erase_if(all.buffers, [](const std::shared_ptr<Buffer>& buffer) {
      return buffer.use_count() == 1 && buffer->records.spans.empty() &&
             buffer->records.counters.empty();
    });
    all.buffers.push_back(made);
    return made;
  }();
  return *own;
}

// Of the recording that the thread began.
thread_local SpanListener* listener_here = nullptr;

}  // namespace

std::atomic<bool> SpanRecording::is_on_ = false;

const char* to_string(SpanKind kind) {
  switch (kind) {
    case SpanKind::build:
      return "build";
    case SpanKind::iteration:
      return "iteration";
    case SpanKind::pass:
      return "pass";
    case SpanKind::forward:
      return "forward";
    case SpanKind::backward:
      return "backward";
    case SpanKind::recompute:
      return "recompute";
    case SpanKind::sum:
      return "sum";
    case SpanKind::seed:
      return "seed";
    case SpanKind::update:
      return "update";
    case SpanKind::wait:
      return "wait";
    case SpanKind::batch:
      return "batch";
    case SpanKind::read:
      return "read";
    case SpanKind::decode:
      return "decode";
    case SpanKind::transform:
      return "transform";
  }
  return "";
}

std::string shown_name(SpanKind kind, const SpanText& text) {
  const bool of_step = !text.type.empty() && kind != SpanKind::wait;
  return of_step ? text.name + ' ' + to_string(kind) : text.name;
}

int64_t span_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void name_thread(const std::string& name) {
  Buffer& own = own_buffer();
  const std::lock_guard guard(own.mutex);
  own.records.thread = name;
}

void record_counter(const std::string& name, double value) {
  if (!SpanRecording::is_on()) return;
  Buffer& own = own_buffer();
  const std::lock_guard guard(own.mutex);
  own.records.counters.push_back({name, span_clock(), value});
}

SpanRecording::SpanRecording(SpanListener* listener) {
  own_buffer();
  AllBuffers& all = all_buffers();
  const std::lock_guard guard(all.mutex);
  if (is_on_) throw Error("spans are recorded already; one recording at a time");
  for (const auto& buffer : all.buffers) {
    const std::lock_guard of_buffer(buffer->mutex);
    buffer->records.spans.clear();
    buffer->records.counters.clear();
  }
  listener_here = listener;
  present = ++all.recording;
  is_on_ = true;
}

SpanRecording::~SpanRecording() { finish(); }

std::vector<ThreadSpans> SpanRecording::finish() {
  if (std::exchange(finished_, true)) return {};
  is_on_ = false;
  present = 0;
  listener_here = nullptr;
  const Buffer& own = own_buffer();
  AllBuffers& all = all_buffers();
  const std::lock_guard guard(all.mutex);
  std::vector<ThreadSpans> threads;
  for (const auto& buffer : all.buffers) {
    const std::lock_guard of_buffer(buffer->mutex);
    ThreadSpans& records = buffer->records;
    ThreadSpans taken{records.thread, std::exchange(records.spans, {}),
                      std::exchange(records.counters, {})};
    if (buffer.get() == &own) {
      threads.insert(threads.begin(), std::move(taken));
    } else if (!taken.spans.empty() || !taken.counters.empty()) {
      threads.push_back(std::move(taken));
    }
  }
  std::stable_sort(threads.begin() + 1, threads.end(),
                   [](const ThreadSpans& a, const ThreadSpans& b) { return a.thread < b.thread; });
  return threads;
}

void Span::begin(SpanKind kind, SpanText text) {
  const uint64_t recording = present;
  if (recording == 0) return;
  if (listener_here != nullptr) listener_here->begin(kind, text);
  open_.emplace(Open{{kind, std::move(text), span_clock(), 0}, recording});
}

void Span::end() {
  Open& open = *open_;
  open.record.end = span_clock();
  // One that outlasts its recording is in none.
  if (open.recording != present) return;
  if (listener_here != nullptr) listener_here->end(open.record.kind);
  Buffer& own = own_buffer();
  const std::lock_guard guard(own.mutex);
  own.records.spans.push_back(std::move(open.record));
}

}  // namespace crema
