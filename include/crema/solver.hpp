// Solver: trains a net by the settings of a solver prototxt.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

class Communicator;     // src/parallel/communicator.hpp
class SolverParameter;  // proto/solver.proto
class SourceMap;        // src/model/source_map.hpp
class Trainer;          // src/solver/trainer.hpp

struct SolverOptions {
  /// Level and stages of the training net, as in Caffe: train_state of the solver may replace the
  /// level and adds its stages. Test nets have those of test_state alone.
  int level = 0;
  std::vector<std::string> stages = {};
  DType dtype = DType::f32;
  bool fuse = true;
  /// NetOptions::keep_all of all nets.
  bool keep_all = false;
  /// NetOptions::memory_budget of the training net, for it and the arrays of the update rule and of
  /// the average of the weights. Test nets need memory besides.
  size_t memory_budget = 0;
  /// The seed. It replaces the solver's random_seed, and the seed of a state that restore() reads.
  std::optional<uint64_t> seed = {};
  /// Weights files to load in this order, instead of those in the solver's `weights`.
  std::optional<std::vector<std::string>> weights = {};
  /// Error unless these files together contain every layer of the net that has parameters, and no
  /// other layer.
  bool strict_weights = false;
  /// NetOptions::freeze of the training net.
  std::vector<std::string> freeze = {};
  /// Values in place of those in the files, each as "FIELD=VALUE": "base_lr=0.01" of the solver;
  /// "net.LAYER.FIELD" of the layers of that name in all nets, "train_net.LAYER.FIELD" and
  /// "test_net.LAYER.FIELD" in those of training or of tests. FIELD may go into messages
  /// ("convolution_param.num_output") and have an index ("param[0].lr_mult"). A layer's field may
  /// also be one of its own settings ("num_output"), of transform_param or of loss_param. A list
  /// is replaced as a whole, by values that commas separate. Error for what is no field, or no
  /// value of one. Snapshots name them.
  std::vector<std::string> set = {};
  /// Error in place of a warning if the training net has no loss.
  bool needs_loss = false;
  /// NetOptions::graphs of all nets.
  bool graphs = true;
  /// Test nets keep the scores that SoftmaxWithLoss and Accuracy read, so that Net::blob() has them
  /// behind a test.
  bool keep_scores = false;
  /// On a device, the host queues an iteration while the one before runs. An Error about an
  /// iteration comes when the next one is queued; parameters are those before it. What is
  /// displayed, tested or snapshotted is waited for, as is the last iteration of step(), and each
  /// one with lr_policy "plateau", which needs the loss, or with debug_info. False: each one is
  /// done before the next begins, as on the CPU.
  bool queues_ahead = true;
  /// The processes that train together, each with a solver of the same settings, net and data
  /// (tools/parallel.md). All of them call the same functions in the same order. Process 0 writes
  /// the snapshots; reports of iterations and tests are of all of them. Null: this process alone.
  std::shared_ptr<Communicator> processes = {};
};

/// A request to a running solver; the result of Solver::poll.
enum class SolverAction : uint8_t { none, snapshot, stop };

/// Why solve() or step() returned.
enum class SolverEnd : uint8_t {
  none,       // it has not been called, or it threw
  finished,   // all iterations are done
  stopped,    // by `poll`
  early,      // by early_stop of the settings
  time_over,  // by max_hours of the settings
};

/// The argument of Solver::on_iteration.
struct IterationReport {
  int iteration = 0;  // the number of this iteration, from 0
  int max_iterations = 0;
  double loss = 0;           // of this iteration
  double smoothed_loss = 0;  // mean over the last average_loss iterations
  double rate = 0;           // learning rate
  double seconds = 0;        // wall time of this iteration
  double data_wait = 0;      // seconds of it that forward waited for data
  int64_t images = 0;        // records read
};

/// The result of one test net: the values of each output, averaged over test_iter batches. Of an
/// output of DetectionEvaluate, the mean average precision over the detections of all batches, of
/// each image once.
struct TestReport {
  int iteration = 0;  // number of iterations done
  int net = 0;        // index of the test net
  double loss = 0;    // weighted sum of the losses, averaged over the batches
  struct Output {
    std::string name;
    int index;
    double value;
    float loss_weight;
  };
  /// Without outputs whose rows differ in number from batch to batch, as those of DetectionOutput:
  /// their places mean nothing together.
  std::vector<Output> outputs;
  /// Whether it is the best so far by the solver's snapshot_best.
  bool is_best = false;
  /// With show_per_class_result, for outputs of DetectionEvaluate: classes with true boxes.
  struct Class {
    std::string output;
    int64_t label;
    double average_precision;
    std::string name;  // of the label map of the net's AnnotatedData layer; "" without one
  };
  std::vector<Class> classes;
};

/// The argument of Solver::try_rates().
struct RateTrial {
  double from = 1e-7, to = 10;  // the first and the last rate, positive
  int steps = 100;              // iterations, at least 2
  /// Of the mean of the losses before, in [0, 1): each smoothed loss has that part of it.
  double smoothing = 0.8;
  /// The trial ends where the smoothed loss is so many times the least one; above 1.
  double stop = 4;
};

/// The result of Solver::try_rates(): what the losses say of the rates.
struct RateCurve {
  struct Step {
    double rate, loss, smoothed;
  };
  std::vector<Step> steps;
  bool diverged = false;  // it ended before its last rate
  /// The rate where the smoothed loss falls fastest, and a tenth of the one where it is least.
  /// None where it does not fall.
  std::optional<double> steepest, tenth_of_least;
};

/// The argument of Solver::try_batches().
struct BatchTrial {
  size_t memory = 0;    // bytes that a plan may take; 0: what is free
  int64_t most = 4096;  // records in a batch
  int iterations = 5;   // timed, behind one that is not
};

/// One size of Solver::try_batches().
struct BatchResult {
  int64_t batch = 0;   // records in a batch of each data layer
  size_t planned = 0;  // bytes, of the net and the arrays of the update rule
  bool fits = false;
  double seconds = 0;    // of one iteration; 0: not timed
  double images = 0;     // records a second
  double data_wait = 0;  // part of the time that forward waited for data, 0 to 1
};

/// Solvers of one context on the CPU may run at the same time in different threads. One thread at a
/// time may use a solver.
class Solver {
 public:
  /// Error for wrong settings, such as no net, several nets, a policy without its fields, or a
  /// snapshot folder that cannot be written or has too little space. Removes incomplete files of
  /// killed runs with the same snapshot prefix.
  Solver(const std::string& prototxt, Context& context, SolverOptions options = {});
  Solver(const SolverParameter& param, Context& context, SolverOptions options = {});
  /// The same for a message that was read from a text file. Errors name positions in that file, and
  /// files that the solver names are also searched for in its folder.
  Solver(const SolverParameter& param, const SourceMap& source, Context& context,
         SolverOptions options = {});
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  Net& net();
  std::vector<std::unique_ptr<Net>>& test_nets();
  /// Number of iterations done; on a device, of those that are done or queued.
  int iteration() const;
  /// The solver's max_iter, or the iterations of its max_epochs; 0 if it has neither.
  int max_iterations() const;
  /// How many iterations take each record of the training data once, by the data layer that needs
  /// the most of them. None where no data layer of the training net counts its records.
  std::optional<double> iterations_of_epoch() const;
  /// Seconds in solve() and step(), with tests and snapshots. With max_hours, also those of earlier
  /// parts of the run.
  double seconds() const;
  /// The learning rate of the next iteration. "plateau" may lower it by the loss of that one.
  double rate() const;
  /// The factor on the losses in backward, divided out of the gradients by the update; at first the
  /// solver's loss_scale. May be changed between iterations. Error unless positive and finite. On a
  /// device, where it may follow the gradients, it is that of the iterations that are done.
  double loss_scale() const;
  void set_loss_scale(double scale);

  /// Trains up to max_iter, with the tests and snapshots of the settings, or up to where early_stop
  /// or max_hours end it. Returns false if `poll` stopped it. Error if the solver has no max_iter.
  bool solve();
  /// Trains `iterations` iterations. Returns false if `poll` stopped it. Error if the number of the
  /// last one is beyond INT_MAX.
  bool step(int iterations);
  /// Why the last call of solve() or step() returned.
  SolverEnd end() const;
  /// Runs all test nets, with the average of the weights if there is one and the settings do not
  /// say ema_test: false. If `poll` stops it between two batches, the reports of complete tests are
  /// returned, and data sources and carried states are set back to those before the tests. With
  /// snapshot_best, a snapshot is written if the result is the best so far, and older ones are
  /// removed as snapshot_keep says.
  std::vector<TestReport> test();
  /// Trains with rates that rise from iteration to iteration, by the same factor each time, and
  /// then sets all back: parameters, statistics, histories, states and positions in the data. No
  /// hook but before_iteration and before_update is called, and nothing is written. Error for an
  /// argument out of its range.
  RateCurve try_rates(const RateTrial& trial = {});
  /// Plans for batches of 1, 2, 4, ... records, times those that fit into the memory, with a rate
  /// of 0, and looks for the largest that fits. Then sets all back, as try_rates(). `each`, if not
  /// empty, is told of each size. Error where a data layer cannot take batches of other sizes
  /// (on_oom in proto/solver.proto says which can).
  std::vector<BatchResult> try_batches(const BatchTrial& trial = {},
                                       const std::function<void(const BatchResult&)>& each = {});
  /// Updates the parameters by their gradients, as step() does behind backward. The iteration
  /// stays. Not on a device.
  void apply_update();

  /// Writes PREFIX_iter_N.caffemodel and PREFIX_iter_N.solverstate, and with ema_decay the average
  /// of the weights to PREFIX_iter_N_ema.caffemodel; all names end in .h5 for snapshot_format HDF5.
  /// Returns the path of the solverstate. The files name the program and its version, the solver
  /// and the net, and the classes of the training data where these have names. Then removes older
  /// snapshots as snapshot_keep and snapshot_best say. Each file is written under another name,
  /// synced and renamed, so a file of the final name is complete. Error if that fails. During
  /// training, a failed periodic snapshot is logged as a warning and training continues; a failed
  /// snapshot at a stop or at the end is an Error.
  std::string snapshot();
  /// Continues from a .solverstate: loads weights, history, iteration, positions in data, seed,
  /// choices of engines, and the loss scale if it was another one than that of the settings. The
  /// weights file is searched for beside it first, then at the path that it contains. A warning
  /// names sources whose positions it lacks. After an Error, restore() again. Both formats are
  /// read, whatever the file's name.
  void restore(const std::string& solverstate);
  /// Continues from the newest snapshot with the prefix of the solver, as restore(), and returns
  /// its path; "" if there is none. A snapshot that is damaged or incomplete is passed over with a
  /// warning that names it. Error if that is so for all of them, or if a file cannot be read for
  /// another reason than damage: a run from scratch would write over the snapshots.
  std::string resume();
  /// The folder of the run, which states name from now on; "": none. After restore() or resume(),
  /// the one that the snapshot names, until another one is set.
  void set_run_folder(const std::string& folder);
  std::string run_folder() const;
  /// The best test so far, by the solver's snapshot_best, which names `output` and `net`.
  struct Best {
    std::string output;
    int net = 0;
    double value = 0;
    int iteration = 0;
    std::string file;  // PREFIX_best.caffemodel; where it failed, the snapshot's weights; or ""
  };
  /// None without snapshot_best, and before the first test.
  std::optional<Best> best() const;
  /// Whether there is a snapshot for resume() of a solver with these settings, damaged or not: a
  /// run that has one needs no weights to start from (SolverOptions::weights).
  static bool has_snapshot(const SolverParameter& param, const SourceMap& source);

  /// Called before each iteration and before each batch of a test. The result `snapshot` writes a
  /// snapshot. `stop` ends solve(), step() or test(), after a snapshot if the solver takes
  /// snapshots.
  std::function<SolverAction()> poll;
  /// Called before the first pass of each iteration, and between its last backward pass and the
  /// update, where gradients may be changed. On a device, before_update is not called.
  std::function<void()> before_iteration, before_update;
  /// Called behind each iteration. On a device, it is told of an iteration when the next one is
  /// queued (SolverOptions::queues_ahead): iteration(), the net and its parameters are those behind
  /// that one. What it asks for by snapshot(), test() or restore() is of the state behind all that
  /// is queued; it is told of the iterations in between when it has returned.
  std::function<void(const IterationReport&)> on_iteration;
  std::function<void(const TestReport&)> on_test;
  std::function<void(const std::string&)> on_snapshot;
  /// Called with what the solver did by itself, which is in the log too: it went back to a snapshot
  /// (on_nan: ROLLBACK), halved the batch (on_oom: HALVE_BATCH), or ended early.
  std::function<void(const std::string&)> on_note;

 private:
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace crema
