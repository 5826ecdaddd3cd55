#include "core/spans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

std::vector<std::string> names(const ThreadSpans& thread) {
  std::vector<std::string> all;
  for (const SpanRecord& span : thread.spans) all.push_back(span.text.name);
  return all;
}

class Told : public SpanListener {
 public:
  void begin(SpanKind /*kind*/, const SpanText& text) override { all.push_back("+" + text.name); }
  void end(SpanKind kind) override { all.push_back(std::string("-") + to_string(kind)); }
  std::vector<std::string> all;
};

TEST(Spans, NothingIsDescribedWhileNothingIsRecorded) {
  int described = 0;
  const auto describe = [&] {
    ++described;
    return "name";
  };
  { const Span span(SpanKind::pass, describe); }
  EXPECT_EQ(described, 0);
  SpanRecording recording;
  { const Span span(SpanKind::pass, describe); }
  EXPECT_EQ(described, 1);
  EXPECT_THAT(names(recording.finish().at(0)), ElementsAre("name"));
  { const Span span(SpanKind::pass, describe); }
  EXPECT_EQ(described, 1);
}

TEST(Spans, InnerSpansEndBeforeTheirOuterOne) {
  SpanRecording recording;
  const int64_t start = span_clock();
  {
    const Span outer(SpanKind::pass, [] { return "outer"; });
    {
      const Span inner(SpanKind::forward, [] { return SpanText{"conv", "Convolution"}; });
    }
    record_counter("memory", 12.5);
    const Span second(SpanKind::sum, [] { return std::string("sum"); });
  }
  const std::vector<ThreadSpans> threads = recording.finish();
  const int64_t end = span_clock();
  ASSERT_EQ(threads.size(), 1u);
  const auto& spans = threads[0].spans;
  ASSERT_THAT(names(threads[0]), ElementsAre("conv", "sum", "outer"));
  EXPECT_EQ(spans[0].text.type, "Convolution");
  EXPECT_EQ(spans[0].kind, SpanKind::forward);
  EXPECT_LE(start, spans[2].begin);
  EXPECT_LE(spans[2].begin, spans[0].begin);
  EXPECT_LE(spans[0].begin, spans[0].end);
  EXPECT_LE(spans[0].end, spans[1].begin);
  EXPECT_LE(spans[1].end, spans[2].end);
  EXPECT_LE(spans[2].end, end);
  ASSERT_EQ(threads[0].counters.size(), 1u);
  EXPECT_EQ(threads[0].counters[0].name, "memory");
  EXPECT_EQ(threads[0].counters[0].value, 12.5);
  EXPECT_LE(spans[0].end, threads[0].counters[0].at);
}

TEST(Spans, ThreadsHaveSpansOfTheirOwn) {
  Told told;
  SpanRecording recording(&told);
  const auto work = [](const std::string& name) {
    name_thread(name);
    for (int i = 0; i < 1000; ++i) {
      const Span span(SpanKind::batch, [&] { return name + " loads"; });
    }
  };
  {
    const Span span(SpanKind::iteration, [] { return "here"; });
    std::thread b(work, "thread b"), a(work, "thread a");
    a.join();
    b.join();
  }
  const std::vector<ThreadSpans> threads = recording.finish();
  ASSERT_EQ(threads.size(), 3u);
  EXPECT_THAT(names(threads[0]), ElementsAre("here"));
  EXPECT_EQ(threads[1].thread, "thread a");
  EXPECT_EQ(threads[2].thread, "thread b");
  for (const size_t i : {size_t{1}, size_t{2}}) {
    ASSERT_EQ(threads[i].spans.size(), 1000u);
    EXPECT_EQ(threads[i].spans.back().text.name, threads[i].thread + " loads");
  }
  EXPECT_THAT(told.all, ElementsAre("+here", "-iteration")) << "of this thread alone";
  SpanRecording again;
  EXPECT_EQ(again.finish().size(), 1u) << "threads that have ended are forgotten";
}

TEST(Spans, OneRecordingAtATime) {
  SpanRecording recording;
  expect_error([] { SpanRecording second; }, {"recorded already"});
  {
    const Span span(SpanKind::pass, [] { return "still"; });
  }
  EXPECT_THAT(names(recording.finish().at(0)), ElementsAre("still"));
  EXPECT_TRUE(recording.finish().empty()) << "it has ended";
}

TEST(Spans, ASpanThatOutlastsItsRecordingIsInNone) {
  std::mutex mutex;
  std::condition_variable changed;
  int stage = 0;
  const auto reach = [&](int wanted) {
    std::unique_lock guard(mutex);
    changed.wait(guard, [&] { return stage >= wanted; });
  };
  const auto advance = [&](int to) {
    const std::lock_guard guard(mutex);
    stage = to;
    changed.notify_all();
  };
  std::thread thread;
  {
    SpanRecording recording;
    thread = std::thread([&] {
      const Span span(SpanKind::batch, [] { return "long"; });
      advance(1);
      reach(2);
    });
    reach(1);
    EXPECT_EQ(recording.finish().size(), 1u);
  }
  SpanRecording second;
  advance(2);
  thread.join();
  EXPECT_EQ(second.finish().size(), 1u);
}

}  // namespace
}  // namespace crema
