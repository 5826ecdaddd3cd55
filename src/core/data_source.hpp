// DataSource: the interface of data layers for the net, the solver and the commands
// (Layer::data_source()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/class_names.hpp"

namespace crema {

class Origin;  // proto/net.proto

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
  /// Whether an epoch takes each record once. False for windows that are drawn.
  virtual bool takes_each_once() const { return records() > 0; }
  /// Number of records in a batch.
  virtual int64_t records_per_batch() const = 0;

  /// Where batches end beside the batch size.
  struct BatchEnd {
    /// Records of an epoch behind which a batch ends, which then is smaller; 0: the batch goes on
    /// with the first records of the next epoch.
    int64_t records = 0;
    /// A record that cannot be used makes the batch smaller too; else another takes its place.
    bool leaves_out = false;
  };
  /// From the present position on. False, without effect, where the source cannot do it.
  virtual bool end_batches(const BatchEnd& /*end*/) { return false; }
  /// Number of samples in the last batch.
  virtual int64_t records_in_batch() const { return records_per_batch(); }

  /// Seconds that forward has waited for data since the last call.
  virtual double take_wait_seconds() = 0;
  /// The key of sample `index` of the last batch, for messages. "" if there is none.
  virtual std::string record_key(int64_t index) const = 0;
  /// The same as the source has it: not cut, and with all bytes.
  virtual std::string raw_key(int64_t index) const { return record_key(index); }
  /// The key of a record of the source, as it has it. "" if there is none.
  virtual std::string key_of_record(int64_t /*record*/) const { return {}; }
  /// Tells what becomes of the images, for weights that are trained on them.
  virtual void tell_transform(Origin& /*origin*/) const {}
  /// Whether keys are those of a database, and tell which records belong together.
  virtual bool has_database_keys() const { return false; }
  /// The number of the record among those of the source; -1 if the source does not know.
  virtual int64_t record_number(int64_t /*index*/) const { return -1; }
  /// Whether sample `index` of the last batch stands for a record that could not be used.
  virtual bool is_replaced(int64_t /*index*/) const { return false; }

  /// The names of the classes in the order of their labels, where the source has them; else none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Whether labels are the places of names of classes, as of folders, or have names, which a
  /// database, a file or a label map tells.
  virtual bool labels_by_names() const { return false; }
  /// Before setup, for a layer of phase TEST: the classes of the training data, which give the
  /// labels, or which those of the layer have to be. Without names, `from` says why they are
  /// unknown.
  virtual void set_training_classes(const ClassNames& /*classes*/) {}
  /// The same with what they are from; before setup too, when it looks at the names alone.
  virtual ClassNames look_up_classes() const { return {}; }

  /// Until the next batch, what is asked of samples of the last batch is about the one this many
  /// batches before it. False, without effect, where the source does not know that one.
  virtual bool look_back(int batches) { return batches == 0; }
  /// Before the first batch: keys of this many batches before the last one are to be known.
  virtual void keep_batches(int /*batches*/) {}
};

}  // namespace crema
