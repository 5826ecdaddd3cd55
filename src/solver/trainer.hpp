// Trainer: the inside of a Solver, which has one. trainer.cpp has the loop, trainer_device.cpp that
// on a device, trainer_snapshots.cpp the snapshots.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/loss_scaler.hpp"
#include "crema/solver.hpp"

namespace crema {

class Communicator;      // parallel/communicator.hpp
class DataSource;        // core/data_source.hpp
class Origin;            // proto/net.proto
class MemoryError;       // core/memory_error.hpp
class NotFiniteError;    // net/not_finite.hpp
class Overrides;         // solver/overrides.hpp
class EarlyStop;         // solver/early_stop.hpp
class GradientExchange;  // solver/gradient_exchange.hpp
class InStep;            // data/batches/in_step.hpp
class RatePolicy;        // solver/rate_policy.hpp
class SnapshotKeeper;    // solver/snapshot_keeper.hpp
class SolverState;       // proto/solver.proto
class UpdateRule;        // solver/update_rule.hpp
class WeightAverage;     // solver/weight_average.hpp
class DetectionScores;   // solver/average_precision.hpp
struct NetSource;        // solver/settings.hpp
struct DeviceReport;     // core/device_report.hpp
struct RecordCursor;     // core/data_source.hpp
struct RecordCursors;    // solver/snapshot.hpp
struct SavedSnapshot;    // solver/snapshot.hpp
struct TrainingState;    // solver/snapshot.hpp
struct UpdateStep;       // backend/update_math.hpp

class Trainer {
 public:
  Trainer(const SolverParameter& param, const SourceMap& source, Context& context,
          const SolverOptions& options, const Solver& hooks);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // As the functions of Solver.
  Net& net() { return *net_; }
  std::vector<std::unique_ptr<Net>>& test_nets() { return test_nets_; }
  int iteration() const { return iteration_; }
  int max_iterations() const;
  std::optional<double> iterations_of_epoch() const;
  double seconds() const;
  double rate() const;
  double loss_scale() const { return loss_scale_; }
  void set_loss_scale(double scale);
  bool solve();
  bool step(int iterations);
  SolverEnd end() const { return end_; }
  std::vector<TestReport> test();
  RateCurve try_rates(const RateTrial& trial);
  std::vector<BatchResult> try_batches(const BatchTrial& trial,
                                       const std::function<void(const BatchResult&)>& each);
  /// Updates the parameters by their gradients.
  void update();
  std::string snapshot();
  void restore(const std::string& solverstate);
  std::string resume();
  std::optional<Solver::Best> best() const;
  void set_run_folder(const std::string& folder);
  std::string run_folder() const;

 private:
  class TestScope;
  /// What the batches of a test gave of each output.
  struct TestSums;
  class TrialScope;
  class Timed;

  /// Sets the solver's fields that the caller gave, then as build_from().
  void build(const SolverParameter& given, const SourceMap& source, const SolverOptions& options);
  void build_from(const SolverParameter& param, const SourceMap& source,
                  const SolverOptions& options, Overrides& overrides);
  void take_settings(const SolverParameter& param, const SourceMap& source,
                     const SolverOptions& options);
  void build_nets(const SolverParameter& param, const SourceMap& source,
                  const SolverOptions& options, Overrides& overrides);
  /// With half the batch, where the memory does not suffice and the settings say so.
  void build_training_net(NetSource& train, const SourceMap& source);
  void make_policy(const SourceMap& source);
  /// What max_epochs and test_every_epochs are in iterations.
  void take_epochs(const SourceMap& source);
  void log_lines(const std::vector<std::string>& lines);
  /// Logs what the solver does by itself, and tells the hook; of the begin, once it is there.
  void note(Severity severity, const std::string& text);
  void tell_notes();
  void prepare_snapshots();
  /// Sets iteration and pass of the run state.
  void begin_pass(int pass);

  /// Calls poll and takes the snapshot that it requests. Returns true to stop.
  bool asked_to_stop();
  /// The loop of step(), up to iteration `stop`; goes back to snapshots where the settings say so.
  bool train_to(int stop);
  bool loop_to(int stop);
  /// An iteration.
  void advance();
  /// The snapshot and the test behind the last iteration of a run that began at `begin`. Returns
  /// false if stopped.
  bool finish_run(int begin);
  /// Whether early_stop or max_hours end the run here, which is noted.
  bool is_over();
  /// Forward, backward and update of the present iteration.
  IterationReport iterate();
  /// Forward and backward of iter_size batches. Returns the mean loss; gradients are summed.
  double run_passes();
  /// The mean of the losses of the last average_loss iterations, of which `loss` is the last.
  double smoothed(double loss);
  /// With F16: a gradient was not finite. Error if the scale cannot become smaller.
  void lower_loss_scale(int iteration);
  void follow_updates();
  /// Takes the scale of scaler_. On a device, what updates do changes it there too.
  void take_loss_scale();
  /// The numbers of the present iteration's update, without the limit of the gradients' norm and
  /// without the loss scale.
  UpdateStep update_step() const;

  // trainer_rescue.cpp.
  /// Back to a snapshot with a lower rate, within the handler of the error. Throws it where the
  /// settings, or the number of times, do not allow that.
  void go_back(const NotFiniteError& error);
  /// Writes the snapshot that the run went back to anew, so that a run that is resumed goes on as
  /// this one does. The later ones, of these iterations, lose their states.
  void save_rollback(const std::vector<int>& undone);
  /// The newest snapshot of this run to go back to.
  SavedSnapshot snapshot_behind_failure(const std::string& why);
  /// As advance(). Where the memory does not suffice, once more with half the batch.
  void try_iteration();
  void halve_batch(const MemoryError& error);
  /// An Error of memory in `body` says that batches are halved already.
  static void with_halved(const std::function<void()>& body);
  void note_halved(const MemoryError& error, const std::string& halved);
  [[noreturn]] static void throw_not_halved(const MemoryError& error, const Error& reason);
  /// What the run has done by itself, as the state of a snapshot says.
  void take_rescues(const SolverState& saved);

  // trainer_processes.cpp: several processes that train together. Each function is called by all of
  // them, but is_first().
  /// Takes the communicator, and the rank of this process. Error for settings of one process alone.
  void take_processes(const SolverOptions& options, const SourceMap& source);
  /// With batch_semantics DIVIDED: the batches of the training net become those of one process.
  void divide_batches(NetSource& train, const SourceMap& source);
  /// The batches of each process in a test.
  void divide_tests();
  /// Before the first iteration: Error unless all processes train the same. All of them get the
  /// parameters of the first.
  void meet();
  void check_records() const;
  /// Gives the layers that compute over processes the communicator, or takes it from them.
  void set_processes_of_layers(Communicator* processes);
  int64_t world_size() const { return run_.world_size; }
  /// Whether this process writes what the run writes.
  bool is_first() const { return run_.rank == 0; }
  /// The greatest of the values of all processes; `value` in one alone.
  int agree(int value) const;
  /// What a poll asks for in any of the processes.
  SolverAction asked();
  /// Runs `write` in the first process. Its Error is one in all of them.
  void in_first(const std::function<void()>& write) const;
  /// Before the last backward pass of an iteration: its loss, and gradients that are complete, go
  /// to the other processes from now on.
  void begin_exchange(double loss);
  /// Waits for what begin_exchange() began, where the pass behind it failed: it writes to memory
  /// that goes with the trainer.
  void abandon_exchange();
  /// Behind that pass: the mean over the processes of the loss, `own` that of this one. Error where
  /// it is not finite. The gradients are on their way, or come here.
  double loss_of_all(double own);
  /// Waits for the gradients of all processes, and updates by each bucket of them while the next
  /// ones come. Where something looks at all of them first, it returns false, and does no update.
  bool update_by_buckets();
  /// Behind an update: the means of weights of the modes LOCAL and GOSSIP.
  void average_weights();
  void gossip();
  /// Before a test or a snapshot: statistics, and with LOCAL or GOSSIP weights and histories,
  /// become means over the processes, which then hold the same.
  void bring_together();
  /// Parameters and histories of the first process become those of all.
  void share_state();
  /// The test's values become means over the processes.
  void merge_tests(TestReport& report, TestSums& sums) const;
  void add_detections(const Tensor& rows, DetectionScores& scores) const;
  /// What a snapshot holds of the state of layers, of all processes.
  RecordCursors cursors_of_all(const TrainingState& state) const;
  void compare_processes(const SolverState& saved) const;

  // trainer_trials.cpp.
  void need_one_process() const;
  /// An iteration that no hook is told of, done.
  IterationReport tried_iteration();
  BatchResult try_batch(int64_t batch, const BatchTrial& trial, size_t memory);

  // trainer_device.cpp.
  /// An iteration whose report has not been read.
  struct QueuedIteration {
    IterationReport report;
    uint64_t number = 0;      // of the report of the device
    uint64_t first_pass = 0;  // passes that had been queued before
  };
  /// As iterate(), and tells of iterations that are done.
  void iterate_on_device();
  /// Forward, backward and update of the present iteration, queued.
  void queue_iteration();
  /// What the iteration computes, and its update.
  void queue_passes();
  /// The same for an iteration of one pass, which a device may record as a whole.
  void queue_whole();
  bool queues_whole() const;
  void queue_update();
  Tensor* average_values() const;
  /// Waits for the loss of the present iteration, which the rate policy reads.
  void observe_now();
  /// Whether somebody looks at the iteration before the next one begins.
  bool is_looked_at(int iteration) const;
  /// Counts a queued pass, and keeps the positions of the sources behind it.
  void note_pass();
  /// Whether a pass has taken batches that are not noted.
  bool has_taken_batches() const;
  std::vector<RecordCursor> positions() const;
  /// Waits for the queued iterations but the last `left`, and tells of them. Error for one that
  /// failed. Within on_iteration, they are told of when that returns.
  void settle(size_t left);
  void tell_done();
  /// Behind an Error of the host: Error for what the device has found in the same iteration.
  void throw_found(uint64_t first_pass);
  /// With F16: what the iteration has made of the loss scale on the device.
  void follow_scale(const QueuedIteration& done, const DeviceReport& found);
  [[noreturn]] void throw_failure(const QueuedIteration& failed, const DeviceReport& found);

  bool test_due() const;
  /// As test(). Returns false if stopped.
  bool run_tests() { return test().size() == test_nets_.size() && !stopped_behind_tests_; }
  /// Runs one batch of the report's net and adds its values.
  void test_batch(TestReport& report, TestSums& sums);
  /// Says once that an output of a test net has no mean; Error if snapshot_best names it.
  void warn_of_no_mean(const std::string& output, int net, size_t values, size_t others);
  /// Writes the outputs, in the net's order, to the report.
  void report_outputs(const TestSums& sums, TestReport& report);

  /// Writes the files of a snapshot, and returns the state's path. `best`: the value by which it is
  /// the best so far.
  std::string write_files(std::optional<double> best);
  /// Takes a snapshot unless this iteration has one; with `best` that one is written anew, and says
  /// so. A failure is an Error if `needed`, else a warning.
  void snapshot_once(bool needed, std::optional<double> best = {});
  TrainingState training_state();
  /// Goes on with the seed of a snapshot, unless another one was asked for.
  void take_seed(uint64_t saved);
  /// restore() from what was read. `back`: of this run, which has failed.
  void restore_from(SavedSnapshot& saved, bool back = false);
  /// Takes the snapshot of this iteration if a test was the best so far, and keeps it.
  void keep_best(const std::vector<TestReport>& reports);
  /// Writes what was tested, while the net holds it, to PREFIX_best.caffemodel.
  void write_best(double value);
  /// Makes PREFIX_last.* lead to the snapshot of this iteration.
  void link_last();
  /// Remembers the outputs for files that are written from now on.
  void remember_test(const std::vector<TestReport>& reports);
  /// Says where the run of a snapshot had other settings from its caller than this one.
  void compare_settings(const Origin& saved) const;

  std::unique_ptr<SolverParameter> param_;  // without its nets
  Context& context_;
  const Solver& hooks_;  // has the functions that a caller set
  std::unique_ptr<RatePolicy> policy_;
  std::unique_ptr<UpdateRule> rule_;
  std::optional<uint64_t> asked_seed_;
  RunState run_;                    // of all nets of the solver
  std::string solver_file_;         // "": a message
  std::unique_ptr<Origin> origin_;  // what the caller set, and the last test
  std::string prefix_;              // of snapshots
  std::unique_ptr<SnapshotKeeper> keeper_;
  std::unique_ptr<EarlyStop> early_stop_;
  std::unique_ptr<Net> net_;
  std::vector<std::unique_ptr<Net>> test_nets_;
  std::vector<int> test_iterations_;  // batches of each test net
  std::vector<Tensor> history_;
  std::unique_ptr<WeightAverage> average_;      // null without ema_decay
  std::shared_ptr<Communicator> processes_;     // null: this process alone
  std::unique_ptr<GradientExchange> exchange_;  // null without, and with LOCAL and GOSSIP
  /// On its way: the sum over the processes of losses, and what polls ask for.
  std::array<double, 2> loss_and_action_ = {};
  uint64_t loss_ticket_ = 0;
  std::optional<SolverAction> agreed_;  // in the iteration that is done
  int together_at_ = -1;                // the iteration of the last bring_together()
  double loss_scale_ = 1;
  std::optional<LossScaler> scaler_;                    // none: the program sets loss_scale_
  std::vector<DataSource*> sources_;                    // of net_
  std::vector<InStep> in_step_;                         // of net_, then of the test nets
  std::set<std::pair<int, std::string>> without_mean_;  // outputs of test nets that were warned of
  std::vector<double> losses_;                  // of the last average_loss iterations, in order
  std::unique_ptr<RecordCursors> before_test_;  // during a test: positions in the data before it
  std::deque<QueuedIteration> queued_;          // on a device
  uint64_t passes_queued_ = 0;                  // ever
  /// Behind each of the last passes: what follows a failed one is read again.
  std::deque<std::vector<RecordCursor>> positions_;
  std::deque<IterationReport> done_;  // on_iteration is to be told of them
  bool telling_ = false;
  bool stopped_behind_tests_ = false;  // by poll, when the last tests were complete
  bool queues_ahead_ = true;
  std::vector<std::string> notes_;        // before there was a hook
  double test_every_ = 0;                 // iterations, of test_every_epochs; 0 without
  std::optional<IterationReport> tried_;  // the last iteration of a trial
  std::optional<double> tried_rate_;      // of a range test
  double rate_factor_ = 1;                // what failures made of all rates
  int rollbacks_ = 0, rollback_to_ = -1;  // how often, and the iteration of the last one
  bool tries_memory_ = false;             // no iteration has shown that the memory suffices
  bool halved_batch_ = false;
  bool ends_by_settings_ = false;  // within solve()
  SolverEnd end_ = SolverEnd::none;
  double seconds_ = 0;  // in solve() and step(), without the present call
  std::optional<std::chrono::steady_clock::time_point> started_;  // the present call
  int iteration_ = 0;
  int last_snapshot_ = -1;    // its iteration
  int failed_snapshot_ = -1;  // likewise, of the last one that failed
};

}  // namespace crema
