// Solver: trains a net as a solver prototxt says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crema/net.hpp"

namespace crema {

class DataSource;       // src/data/data_source.hpp
class RatePolicy;       // src/solver/rate_policy.hpp
class SmoothedLoss;     // src/solver/smoothed_loss.hpp
class SolverParameter;  // proto/solver.proto
class SourceMap;        // src/model/source_map.hpp
class UpdateRule;       // src/solver/update_rule.hpp
struct RecordCursors;   // src/solver/snapshot.hpp
struct TrainingState;   // src/solver/snapshot.hpp

struct SolverOptions {
  int level = 0;
  std::vector<std::string> stages = {};
  DType dtype = DType::f32;
  bool fuse = true;
  /// The seed to use, whatever the solver's random_seed or the state of restore() says.
  std::optional<uint64_t> seed = {};
  /// Weights files to start from, one after the other, instead of the solver's `weights`.
  std::optional<std::vector<std::string>> weights = {};
  /// Every parameter has to be in one of those files, and every layer of theirs in the net.
  bool strict_weights = false;
};

/// What a request (a signal, a callback) asks of the running solver.
enum class SolverAction : uint8_t { none, snapshot, stop };

/// Called after each iteration with what a progress line shows.
struct IterationReport {
  int iteration = 0;  // the one that was run, counted from 0
  int max_iterations = 0;
  double loss = 0;  // of this iteration
  double smoothed_loss = 0;
  double rate = 0;
  double seconds = 0;    // wall time of this iteration
  double data_wait = 0;  // seconds of it spent waiting for data
  int64_t images = 0;    // records consumed by it
};

/// Result of one test net: each output blob's values averaged over test_iter batches.
struct TestReport {
  int iteration = 0;  // iterations done before it
  int net = 0;
  double loss = 0;  // weighted sum of the losses, averaged likewise
  struct Output {
    std::string name;
    int index;
    double value;
    float loss_weight;
  };
  std::vector<Output> outputs;
};

/// Solvers of one context on the CPU may run at the same time in different threads.
class Solver {
 public:
  /// Error for settings that cannot work, as early as they can be told: no net or several, a policy
  /// without what it needs, a snapshot folder that cannot be written or is too full. Removes what
  /// killed runs of the same snapshot prefix left half written.
  Solver(const std::string& prototxt, Context& context, SolverOptions options = {});
  Solver(const SolverParameter& param, Context& context, SolverOptions options = {});
  /// The same for a message of a text: Errors name its places, and what the solver names is also
  /// looked for beside it.
  Solver(const SolverParameter& param, const SourceMap& source, Context& context,
         SolverOptions options = {});
  ~Solver();
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;

  Net& net() { return *net_; }
  std::vector<std::unique_ptr<Net>>& test_nets() { return test_nets_; }
  /// Iterations done.
  int iteration() const { return iteration_; }
  /// The learning rate of the present iteration.
  double rate() const;

  /// Trains to max_iter, testing and snapshotting on the way. Returns false when stopped by
  /// request. Error where the solver has no max_iter.
  bool solve();
  /// Trains `iterations` more; likewise.
  bool step(int iterations);
  /// Runs all test nets. Asked to stop between two batches, it leaves out what it has not finished;
  /// that test is then run anew, on the same data, by whoever continues.
  std::vector<TestReport> test();

  /// Writes PREFIX_iter_N.caffemodel and .solverstate; returns the latter's path. Each is written
  /// beside, synced and renamed: what stands under the final name is whole. Error when that fails.
  /// Of those that are taken while training, only one at a stop or at the end is an Error; for any
  /// other a warning is logged, and the next one is tried at its time.
  std::string snapshot();
  /// Continues from a .solverstate: weights (those beside it, or else as it names them), history,
  /// iteration, data cursor, seed, engine choices.
  void restore(const std::string& solverstate);

  /// Asked before each iteration and each batch of a test. `snapshot` takes one in any case, `stop`
  /// only where the solver takes snapshots at all.
  std::function<SolverAction()> poll;
  std::function<void(const IterationReport&)> on_iteration;
  std::function<void(const TestReport&)> on_test;
  std::function<void(const std::string&)> on_snapshot;

 private:
  class TestScope;

  void build(const SolverParameter& param, const SourceMap& source, const SolverOptions& options);
  void take_settings(const SolverParameter& param, const SourceMap& source,
                     const SolverOptions& options);
  void build_nets(const SolverParameter& param, const SourceMap& source,
                  const SolverOptions& options);
  void prepare_snapshots();
  /// Random numbers of the passes to come are those of this iteration and pass.
  void begin_pass(int pass);

  /// Does what poll asks for; true: stop.
  bool asked_to_stop();
  /// Forward, backward and update of the present iteration.
  IterationReport iterate();
  /// Forward and backward of iter_size batches: the mean loss. Gradients hold their sum.
  double run_passes();
  void update();

  bool test_due() const;
  /// test(), false when stopped.
  bool run_tests(std::vector<TestReport>& reports);
  /// Adds the next batch of the report's net to it.
  void test_batch(TestReport& report);

  /// Whether the solver takes snapshots by itself.
  bool takes_snapshots() const;
  /// snapshot() unless there is one of this iteration. `needed`: failure is an Error, otherwise a
  /// warning.
  void snapshot_once(bool needed);
  TrainingState training_state();

  std::unique_ptr<SolverParameter> param_;  // without its nets
  Context& context_;
  std::unique_ptr<RatePolicy> policy_;
  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<SmoothedLoss> smoothed_;
  std::optional<uint64_t> asked_seed_;
  RunState run_;         // of all nets of the solver
  std::string prefix_;  // of snapshots
  std::unique_ptr<Net> net_;
  std::vector<std::unique_ptr<Net>> test_nets_;
  std::vector<int> test_iterations_;  // batches of each test net
  std::vector<Tensor> history_;
  std::vector<DataSource*> sources_;            // of net_
  std::unique_ptr<RecordCursors> before_test_;  // where data stood before a test that runs
  int iteration_ = 0;
  int last_snapshot_ = -1;  // iteration of it
};

}  // namespace crema
