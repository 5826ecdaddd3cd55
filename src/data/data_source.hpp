// DataSource: what a solver asks of a layer that feeds its net. Data layers derive from it beside
// Layer, and are found by dynamic_cast.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

/// Where in its records a source stands.
struct RecordCursor {
  uint64_t epoch = 0;
  uint64_t position = 0;  // records taken in this epoch
  bool operator==(const RecordCursor&) const = default;
};

/// Threads: as the layer, one at a time.
class DataSource {
 public:
  virtual ~DataSource() = default;

  /// Of the first record of the batch that the next forward gives, whatever was read ahead.
  virtual RecordCursor cursor() const = 0;
  /// Makes the next forward give the batch that begins there, with the context's present seed.
  /// Error when the source has no such record.
  virtual void set_cursor(const RecordCursor& cursor) = 0;
  /// Records that one forward consumes.
  virtual int64_t records_per_batch() const = 0;
  /// Seconds that forward has waited for data since the last call.
  virtual double take_wait_seconds() = 0;
  /// The key of sample `index` of the batch that the last forward gave, for messages. "" when there
  /// is none.
  virtual std::string record_key(int64_t index) const = 0;
};

}  // namespace crema
