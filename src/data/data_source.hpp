// DataSource: the interface of data layers for the solver. Data layers derive from it and from
// Layer; the solver finds them with dynamic_cast.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema {

/// A position in the records of a source.
struct RecordCursor {
  uint64_t epoch = 0;
  uint64_t position = 0;  // records taken in this epoch
  bool operator==(const RecordCursor&) const = default;
};

/// One thread at a time may use a source.
class DataSource {
 public:
  virtual ~DataSource() = default;

  /// The position of the first record of the next batch. Batches that were read ahead do not count.
  virtual RecordCursor cursor() const = 0;
  /// Makes the next batch begin at this position, with the present seed of the run. Error if the
  /// source has no such record.
  virtual void set_cursor(const RecordCursor& cursor) = 0;
  /// Makes the next batch begin where that of a new run begins.
  virtual void restart() = 0;
  /// Number of records of the source; 0 if it does not know.
  virtual int64_t records() const { return 0; }
  /// Number of records in a batch.
  virtual int64_t records_per_batch() const = 0;
  /// Seconds that forward has waited for data since the last call.
  virtual double take_wait_seconds() = 0;
  /// The key of sample `index` of the last batch, for messages. "" if there is none.
  virtual std::string record_key(int64_t index) const = 0;
  /// The same as the source has it: not cut, and with all bytes.
  virtual std::string raw_key(int64_t index) const { return record_key(index); }
  /// The key of a record of the source, as it has it. "" if there is none.
  virtual std::string key_of_record(int64_t /*record*/) const { return {}; }
  /// Whether sample `index` of the last batch stands for a record that could not be used.
  virtual bool is_replaced(int64_t /*index*/) const { return false; }
  /// The names of the classes in the order of their labels, where the source has them; else none.
  virtual std::vector<std::string> class_names() const { return {}; }
};

}  // namespace crema
