// A data layer outside a net.
#pragma once

#include <map>
#include <vector>

#include "core/data_source.hpp"
#include "core/spans.hpp"
#include "support/layer_test.hpp"

namespace crema::test {

inline DataSource& source_of(LayerRun& run) { return dynamic_cast<DataSource&>(run.layer()); }

/// Top `top` of the next `batches` batches.
inline std::vector<double> next_values(LayerRun& run, int batches, int top = 0) {
  std::vector<double> all;
  for (int b = 0; b < batches; ++b) {
    run.forward();
    all.insert(all.end(), run.top(top).begin(), run.top(top).end());
  }
  return all;
}

/// How many spans of each kind loading that many batches has.
inline std::map<SpanKind, int> spans_of(const LayerCase& layer_case, int batches) {
  SpanRecording recording;
  {
    LayerRun run(layer_case);
    next_values(run, batches);
  }
  std::map<SpanKind, int> counts;
  for (const ThreadSpans& thread : recording.finish())
    for (const SpanRecord& span : thread.spans) ++counts[span.kind];
  return counts;
}

/// Runs on from the position after `batches` batches, in a layer of its own, and in the same layer
/// after it went on: both have to give what followed.
inline void expect_resumes(const LayerCase& layer_case, int batches) {
  LayerRun through(layer_case);
  next_values(through, batches);
  const RecordCursor cursor = source_of(through).cursor();
  const std::vector<double> expected = next_values(through, 5);
  LayerRun resumed(layer_case);
  for (int again = 0; again < 2; ++again) {
    source_of(resumed).set_cursor(cursor);
    EXPECT_EQ(source_of(resumed).cursor(), cursor);
    EXPECT_EQ(next_values(resumed, 5), expected) << "after " << batches << " batches";
    EXPECT_EQ(source_of(resumed).cursor(), source_of(through).cursor());
  }
}

}  // namespace crema::test
