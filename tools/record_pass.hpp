// Batches of a test: all records of a net's data once, or a number of batches.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/data_source.hpp"
#include "crema/net.hpp"
#include "data/batches/counted_once.hpp"
#include "data/batches/in_step.hpp"

namespace crema::tools {

/// How much a value of one batch adds to the mean over all: `factor` of it to the sum, `amount` to
/// what the sum is divided by.
struct Share {
  double factor = 1, amount = 1;
};

/// Of the elements of an output of one batch.
class Shares {
 public:
  Share operator()(int64_t index) const;
  /// Whether the first axis is that of the records, so that each element is of one.
  bool of_records() const { return each_ > 0; }

 private:
  friend class RecordPass;
  Share all_;                     // without what follows
  const Layer* maker_ = nullptr;  // of the output, if it says what that is the mean over
  int top_ = 0;
  double part_ = 1;                              // of the samples that count
  double batch_ = 1;                             // of a whole one: its part that the records are
  int64_t each_ = 0;                             // elements of a record
  const std::vector<bool>* left_out_ = nullptr;  // may be empty
};

class RecordPass {
 public:
  /// Without `iterations`, each record counts once: the last batch holds the records that are left.
  /// Data layers whose records cannot be counted (DummyData, MemoryData, WindowData) give 50
  /// batches, as published. Logs what it is going to do.
  RecordPass(Net& net, std::optional<int> iterations);
  /// A sample of the records, `most` at most but one batch at least: where there are more, whole
  /// batches at equal distances, since data may lie in the order of their classes. The first ones
  /// of data that cannot be counted, and where a layer goes on with what the batch before left.
  /// Logs nothing but warnings.
  struct Sample {
    int64_t most;
  };
  RecordPass(Net& net, const Sample& sample);

  int batches() const { return batches_; }
  /// In all; 0 where whole batches are run.
  int64_t records() const { return records_; }
  /// Runs the net on the next batch. False after the last one. Warns of a net that cannot run on
  /// the last batch. It is then filled with records that were tested before: they do not count in
  /// classes and average precision, but in the other outputs of that batch.
  bool next();
  /// Batches that were run, as parts of whole ones.
  double whole_batches() const { return whole_batches_; }
  /// Records that counted in the batches that were run.
  int64_t counted_in_all() const { return counted_in_all_; }
  /// The weighted sum of the losses of the last batch.
  double loss() const { return loss_; }
  /// Records of the last batch that count.
  int64_t counted() const { return counted_; }
  /// The samples of the last batch that do not count: those that fill it, and those that stand for
  /// records that cannot be used. Empty where all do.
  const std::vector<bool>& left_out() const { return left_out_; }
  /// What the elements of an output of the last batch add.
  Shares shares(const std::string& output, const Shape& shape) const;
  /// Of a mean over the records.
  Share share_of_records() const;

 private:
  struct Source {
    std::string name;
    DataSource* data;
    int64_t records = 0;  // of it that are taken
  };

  RecordPass(Net& net, bool warns_of_steps);
  /// Makes the sources give batch `index` of whole ones.
  void go_to_batch(int64_t index);
  /// Finds the sources that are counted, and the number of batches. False if there are none.
  bool count_records();
  void begin_epoch();
  /// False where a source cannot end its batches with the records.
  bool end_with_records();
  void go_on_behind_records();
  /// Why the net cannot run on fewer records than a batch; "" if nothing is known.
  std::string why_whole_batches() const;
  /// Where records that cannot be used are left out of the batch. If the net cannot run on fewer,
  /// others take their places, in this batch and in those behind it.
  void run_without_bad();
  /// On the `rest` records that are left; on a whole batch if the net cannot.
  void run_last_short(int64_t rest);
  /// The same batch, with the sources set back. An error is told as the first one was, if any.
  void run_again(int64_t samples, const std::exception_ptr& first);
  /// Runs the last batch again with other states of these layers, which began it with zeros.
  /// Whether an output differs: no sequence goes on in the batch otherwise.
  bool reads_state(const std::vector<Layer*>& layers, const std::function<void()>& set_back);
  void fill_last(const std::string& why);
  void look_at_samples();

  Net& net_;
  std::vector<Source> sources_;  // the first one has the fewest batches
  InStep in_step_;
  CountedOnce counted_once_;
  int batches_ = 0;
  int64_t records_ = 0;
  int at_ = 0;          // the next batch
  int64_t spread_ = 0;  // whole batches of the data, of which some are run; 0: one behind the other
  bool is_part_ = false;  // whole batches of some of the records
  bool is_filled_ = false;
  bool leaves_out_ = false;      // records that cannot be used
  int64_t counted_at_most_ = 0;  // samples of this batch
  double loss_ = 0;
  int64_t counted_ = 0, counted_in_all_ = 0;
  double whole_batches_ = 0;
  std::vector<bool> left_out_;
  std::vector<std::pair<std::string, std::pair<const Layer*, int>>> makers_;  // by output
};

}  // namespace crema::tools
