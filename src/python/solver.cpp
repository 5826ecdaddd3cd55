// Solver in Python: its hooks call Python, and Ctrl-C stops it between two iterations.
#include "python/solver.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "crema/solver.hpp"
#include "model/upgrade/upgrade.hpp"
#include "monitor/recorder.hpp"
#include "monitor/report/report.hpp"
#include "monitor/run_folder.hpp"
#include "proto/solver.pb.h"
#include "python/batches_ahead.hpp"
#include "python/context.hpp"
#include "python/errors.hpp"
#include "python/fork.hpp"
#include "python/in_place.hpp"
#include "python/log.hpp"
#include "python/messages.hpp"
#include "python/net.hpp"
#include "solver/overrides.hpp"
#include "solver/settings.hpp"
#include "solver/snapshot_files.hpp"

namespace crema::python {
namespace {

/// The published name of the solver's type.
std::string type_of(const SolverParameter& param) {
  const std::string successor = param.has_solver_type() ? successor_of_solver_type(param) : "";
  return successor.empty() ? param.type() : successor;
}

class SolverHolder : public std::enable_shared_from_this<SolverHolder> {
 public:
  SolverHolder(std::shared_ptr<Context> context, const SolverParameter& param, const SourceMap& map,
               const SolverOptions& options)
      : context_(std::move(context)),
        param_(param),
        set_param_(param),
        solver_(std::make_unique<Solver>(param, map, *context_, options)) {
    SourceMap places = map;
    file_ = map.file();
    Overrides(options.set).apply(set_param_, places);
    solver_->poll = [this] { return poll(); };
    solver_->before_iteration = [this] {
      call(before_iteration);
      before_forward(solver_->net());
    };
    solver_->before_update = [this] { call(before_update); };
    solver_->on_iteration = [this](const IterationReport& report) { tell(report); };
    solver_->on_test = [this](const TestReport& report) {
      log_test(report);
      call(on_test, report);
    };
    solver_->on_snapshot = [this](const std::string& path) {
      log_snapshot(path);
      call(on_snapshot, path);
    };
    solver_->on_note = [this](const std::string& text) { call(on_note, text); };
  }
  ~SolverHolder() {
    if (is_forked()) {  // the threads that it would wait for are not in this process
      static_cast<void>(recorder_.release());
      static_cast<void>(solver_.release());
    } else if (BatchesAhead::makes_them_here()) {
      recorder_.reset();
      BatchesAhead::destroy_elsewhere(
          {solver_.release(), [context = context_](Solver* solver) { delete solver; }});
    }
  }
  SolverHolder(const SolverHolder&) = delete;
  SolverHolder& operator=(const SolverHolder&) = delete;

  Solver& solver() { return *solver_; }
  const SolverParameter& param() const { return param_; }

  /// Records in the folder of a run; "": in runs/<net>-<n>, or, of a run that goes on, in its own.
  /// Returns the folder.
  std::string start_recording(std::string folder, bool goes_on) {
    if (folder.empty() && goes_on && is_run_folder(solver_->run_folder()))
      folder = solver_->run_folder();
    if (folder.empty()) folder = make_numbered_run("runs", solver_->net().name());
    const bool is_run = is_run_folder(folder);
    if (is_run && !goes_on)
      throw Error("'", folder, "' has a run already; resume it, or give another run_dir");
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) throw Error("cannot make the folder '", folder, "': ", failed.message());
    const RunInfo info = describe_run(*solver_, set_param_);
    recorder_.reset();
    recorder_ = std::make_unique<Recorder>(*solver_, set_param_, info, folder,
                                           RecorderOptions{.resumed = is_run});
    recorder_->attach();
    recorder_->on_folder_changed = [folder] { write_report(folder); };
    return folder;
  }
  /// `failure`: the message of what ended it.
  void end_recording(bool finished, const std::string& failure) {
    if (!recorder_) return;
    recorder_->end(!failure.empty() ? RunRecord::FAILED
                   : finished       ? reason_of(solver_->end())
                                    : RunRecord::STOPPED,
                   failure);
    recorder_.reset();
  }

  /// Files that have the prefix of the snapshots that the solver takes.
  std::vector<std::string> present_snapshots() const {
    if (!takes_snapshots(set_param_)) return {};
    return files_of_snapshots(snapshot_prefix(set_param_, file_));
  }

  SharedNet net() { return shared(solver_->net()); }
  std::vector<SharedNet> test_nets() {
    std::vector<SharedNet> nets;
    for (const auto& net : solver_->test_nets()) nets.push_back(shared(*net));
    return nets;
  }

  /// Ends what runs behind the present iteration. Any thread may call it.
  void stop() { stops_ = true; }

  /// The reports of iterations since the last call. Any thread may call it.
  std::vector<IterationReport> take_reports() {
    const std::lock_guard lock(reports_mutex_);
    return std::exchange(reports_, {});
  }

  /// Runs `body` without the GIL, when no other thread runs one of the nets. Raises what stopped
  /// it.
  template <class Body>
  auto alone(const Body& body) {
    need_threads();
    close_unused_views();
    auto result = [&] {
      const nb::gil_scoped_release release;
      const std::lock_guard lock(*busy_);
      const Run run(*this);
      return body();
    }();
    if (raised_) {
      nb::python_error raised = std::move(*raised_);
      raised_.reset();
      raised.restore();
      throw nb::python_error();
    }
    return result;
  }

  /// Callables, or None.
  nb::object before_iteration, before_update, on_iteration, on_test, on_snapshot, on_note;

 private:
  SharedNet shared(Net& net) {
    return {std::make_shared<NetHolder>(context_, shared_from_this(), busy_, net)};
  }

  using Clock = std::chrono::steady_clock;

  /// While something runs. Hooks may run something else meanwhile, such as a test.
  class Run {
   public:
    explicit Run(SolverHolder& solver) : solver_(solver) {
      if (solver_.depth_++ > 0) return;
      solver_.stops_ = false;
      solver_.raised_.reset();  // of a run that another exception has ended
      solver_.look_at_ = Clock::time_point::min();
    }
    ~Run() { --solver_.depth_; }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    SolverHolder& solver_;
  };

  SolverAction poll() {
    if (stops_) return SolverAction::stop;
    const auto now = Clock::now();
    if (now < look_at_) return SolverAction::none;
    // A thread that computes in Python gives the GIL after 5 ms only, so that short iterations do
    // not ask for it each time.
    look_at_ = now + std::chrono::milliseconds(20);
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) {
      raised_.emplace();
      return SolverAction::stop;
    }
    return stops_ ? SolverAction::stop : SolverAction::none;
  }

  template <class... Args>
  void call(const nb::object& hook, const Args&... args) {
    // No Python object is touched here without the GIL, but for this pointer.
    if (!hook.is_valid()) return;
    call_python([&] {
      const nb::object held = hook;  // which may set another one
      held(argument(args)...);
      close_unused_views();
    });
  }
  template <class T>
  static const T& argument(const T& value) {
    return value;
  }
  static nb::object argument(const std::string& path) { return decoded(path); }

  void tell(const IterationReport& report) {
    {
      // Python reads them when it looks at the history: an iteration does not wait for the GIL.
      const std::lock_guard lock(reports_mutex_);
      reports_.push_back(report);
    }
    seconds_ += report.seconds;
    ++iterations_;
    if (param_.display() > 0 && report.iteration % param_.display() == 0) {
      log_iteration(solver_->net(), report, seconds_, iterations_);
      seconds_ = 0;
      iterations_ = 0;
    }
    if (!on_iteration.is_valid()) return;
    call_python([&] {
      const nb::object held = on_iteration;
      if (held(report).is(Py_True)) stop();
      close_unused_views();
    });
  }

  std::shared_ptr<Context> context_;
  SolverParameter param_;
  SolverParameter set_param_;  // with the settings of the caller
  std::string file_;           // of the solver; "" for a message
  std::shared_ptr<std::recursive_mutex> busy_ = std::make_shared<std::recursive_mutex>();
  std::unique_ptr<Solver> solver_;
  std::unique_ptr<Recorder> recorder_;      // ends before the solver
  std::optional<nb::python_error> raised_;  // by a signal
  std::mutex reports_mutex_;
  std::vector<IterationReport> reports_;
  std::atomic<bool> stops_ = false;
  int depth_ = 0;
  Clock::time_point look_at_ = Clock::time_point::min();  // for signals
  double seconds_ = 0;
  int iterations_ = 0;
};

struct SharedSolver {
  std::shared_ptr<SolverHolder> holder;
};

void make_solver(SharedSolver* made, const SharedContext& context, const nb::bytes& source,
                 const std::string& kind, const std::optional<std::string>& type,
                 const std::vector<std::string>& set,
                 const std::optional<std::vector<nb::bytes>>& weights, std::optional<uint64_t> seed,
                 bool optimize, size_t memory_budget) {
  SolverOptions options;
  options.set = set;
  if (weights) {
    options.weights.emplace();
    for (const nb::bytes& path : *weights) options.weights->push_back(string_of(path));
  }
  options.seed = seed;
  options.keep_all = !optimize;
  options.memory_budget = memory_budget;
  const std::string bytes = string_of(source);
  need_threads();
  const nb::gil_scoped_release release;
  SolverParameter param;
  SourceMap map;
  read_message(bytes, kind, param, map);
  if (type && type_of(param) != *type) {
    param.clear_solver_type();
    param.set_type(*type);
  }
  new (made) SharedSolver{std::make_shared<SolverHolder>(context.context, param, map, options)};
}

/// A property that is a hook.
void bind_hook(nb::class_<SharedSolver>& type, const char* name, nb::object SolverHolder::*hook) {
  type.def_prop_rw(
      name,
      [hook](const SharedSolver& self) {
        const nb::object& set = (*self.holder).*hook;
        return set.is_valid() ? set : nb::none();
      },
      [hook](const SharedSolver& self, const nb::object& set) {
        (*self.holder).*hook = set.is_none() ? nb::object() : set;
      },
      nb::for_setter(nb::arg("hook").none()));
}

/// As texts of Python; "" for none.
const char* to_string(SolverEnd end) {
  switch (end) {
    case SolverEnd::none:
      break;
    case SolverEnd::finished:
      return "finished";
    case SolverEnd::stopped:
      return "stopped";
    case SolverEnd::early:
      return "early";
    case SolverEnd::time_over:
      return "time_over";
  }
  return "";
}

void bind_trials(nb::module_& module) {
  nb::class_<RateCurve>(module, "RateCurve", "What the losses say of learning rates.")
      .def_prop_ro(
          "steps",
          [](const RateCurve& curve) {
            nb::list steps;
            for (const RateCurve::Step& step : curve.steps)
              steps.append(nb::make_tuple(step.rate, step.loss, step.smoothed));
            return steps;
          },
          "(rate, loss, smoothed loss) of each iteration.")
      .def_ro("diverged", &RateCurve::diverged, "Whether it ended before its last rate.")
      .def_ro("steepest", &RateCurve::steepest,
              "The rate where the smoothed loss falls fastest; None where it does not fall.")
      .def_ro("tenth_of_least", &RateCurve::tenth_of_least,
              "A tenth of the rate where the smoothed loss is least; None where it does not fall.");
  nb::class_<BatchResult>(module, "BatchResult", "A size of the batch that was tried.")
      .def_ro("batch", &BatchResult::batch, "The records in a batch of each data layer.")
      .def_ro("planned", &BatchResult::planned, "The bytes that the plan of the nets takes.")
      .def_ro("fits", &BatchResult::fits, "Whether it fits into the memory.")
      .def_ro("seconds", &BatchResult::seconds, "The time of one iteration; 0: it was not timed.")
      .def_ro("images_per_second", &BatchResult::images, "The records a second.")
      .def_ro("data_wait", &BatchResult::data_wait,
              "The part of the time that forward waited for data, 0 to 1.");
}

void bind_reports(nb::module_& module) {
  nb::class_<IterationReport>(module, "IterationReport", "What an iteration gave.")
      .def_ro("iteration", &IterationReport::iteration, "The number of the iteration, from 0.")
      .def_ro("max_iterations", &IterationReport::max_iterations,
              "max_iter of the settings; 0 without.")
      .def_ro("loss", &IterationReport::loss, "The loss of this iteration.")
      .def_ro("smoothed_loss", &IterationReport::smoothed_loss,
              "The mean loss over the last average_loss iterations.")
      .def_ro("rate", &IterationReport::rate, "The learning rate.")
      .def_ro("seconds", &IterationReport::seconds, "The wall time of this iteration.")
      .def_ro("data_wait", &IterationReport::data_wait,
              "The seconds of it that forward waited for data.")
      .def_ro("images", &IterationReport::images,
              "The records read; 0 where no data layer counts them.")
      .def("__repr__", [](const IterationReport& report) {
        return text("<crema.IterationReport of iteration ", report.iteration, ": loss ",
                    report.loss, ", rate ", report.rate, ">");
      });
  nb::class_<TestReport>(module, "TestReport", "What a test gave.")
      .def_ro("iteration", &TestReport::iteration, "The number of iterations done.")
      .def_ro("net", &TestReport::net, "The index of the test net.")
      .def_ro("loss", &TestReport::loss,
              "The weighted sum of the losses, averaged over the batches.")
      .def_ro("is_best", &TestReport::is_best,
              "Whether it is the best so far by snapshot_best of the settings.")
      .def_prop_ro(
          "outputs",
          [](const TestReport& report) {
            nb::list outputs;
            for (const TestReport::Output& output : report.outputs)
              outputs.append(nb::make_tuple(output.name, output.index, output.value));
            return outputs;
          },
          "(name, index, value) of each value of the outputs, averaged over the batches.")
      .def("__repr__", [](const TestReport& report) {
        std::string said = text("<crema.TestReport at iteration ", report.iteration);
        if (report.net > 0) said += text(" of net ", report.net);
        for (const TestReport::Output& output : report.outputs) {
          said += said.find(':') == std::string::npos ? ": " : ", ";
          said += output.name;
          if (output.index > 0) said += text("[", output.index, "]");
          said += text(" ", output.value);
        }
        return said + ">";
      });
}

}  // namespace

void bind_solver(nb::module_& module) {
  bind_reports(module);
  bind_trials(module);
  nb::class_<SharedSolver> type(module, "Solver", nb::is_weak_referenceable());
  type.def("__init__", make_solver, nb::arg("context"), nb::arg("source"), nb::arg("kind"),
           nb::kw_only(), nb::arg("type").none(), nb::arg("set"), nb::arg("weights").none(),
           nb::arg("seed").none(), nb::arg("optimize"), nb::arg("memory_budget"));
  type.def_prop_ro("type", [](const SharedSolver& self) { return type_of(self.holder->param()); });
  type.def("net", [](const SharedSolver& self) { return self.holder->net(); });
  type.def("test_nets", [](const SharedSolver& self) { return self.holder->test_nets(); });
  type.def_prop_ro("iteration",
                   [](const SharedSolver& self) { return self.holder->solver().iteration(); });
  type.def_prop_ro("max_iterations",
                   [](const SharedSolver& self) { return self.holder->solver().max_iterations(); });
  type.def_prop_ro("rate", [](const SharedSolver& self) { return self.holder->solver().rate(); });
  type.def_prop_ro("display",
                   [](const SharedSolver& self) { return self.holder->param().display(); });
  type.def_prop_ro("message",
                   [](const SharedSolver& self) { return bytes_of(self.holder->param()); });
  type.def("stop", [](const SharedSolver& self) { self.holder->stop(); });
  type.def("take_reports", [](const SharedSolver& self) { return self.holder->take_reports(); });
  type.def("solve", [](const SharedSolver& self) {
    log_solve(self.holder->solver().net().name(), self.holder->param());
    const bool done = self.holder->alone([&] { return self.holder->solver().solve(); });
    if (done) log(Severity::info, "Optimization Done.");
    return done;
  });
  type.def("step", [](const SharedSolver& self, int iterations) {
    return self.holder->alone([&] { return self.holder->solver().step(iterations); });
  });
  type.def("test", [](const SharedSolver& self) {
    return self.holder->alone([&] { return self.holder->solver().test(); });
  });
  type.def_prop_ro("end",
                   [](const SharedSolver& self) { return to_string(self.holder->solver().end()); });
  type.def(
      "try_rates",
      [](const SharedSolver& self, double first, double last, int steps, double smoothing,
         double stop) {
        const RateTrial trial{first, last, steps, smoothing, stop};
        return self.holder->alone([&] { return self.holder->solver().try_rates(trial); });
      },
      nb::arg("first"), nb::arg("last"), nb::arg("steps"), nb::arg("smoothing"), nb::arg("stop"));
  type.def(
      "try_batches",
      [](const SharedSolver& self, size_t memory, int64_t most, int iterations) {
        const BatchTrial trial{memory, most, iterations};
        return self.holder->alone([&] { return self.holder->solver().try_batches(trial); });
      },
      nb::arg("memory"), nb::arg("most"), nb::arg("iterations"));
  type.def("apply_update", [](const SharedSolver& self) {
    self.holder->alone([&] {
      self.holder->solver().apply_update();
      return true;
    });
  });
  type.def("snapshot", [](const SharedSolver& self) {
    return decoded(self.holder->alone([&] { return self.holder->solver().snapshot(); }));
  });
  type.def("restore", [](const SharedSolver& self, const nb::bytes& path) {
    const std::string name = string_of(path);
    self.holder->alone([&] {
      self.holder->solver().restore(name);
      return true;
    });
  });
  type.def("resume", [](const SharedSolver& self) {
    return decoded(self.holder->alone([&] { return self.holder->solver().resume(); }));
  });
  type.def("start_recording", [](const SharedSolver& self, const nb::bytes& folder, bool goes_on) {
    const std::string name = string_of(folder);
    std::string made;
    self.holder->alone([&] {
      made = self.holder->start_recording(name, goes_on);
      return true;
    });
    return decoded(made);
  });
  type.def("end_recording",
           [](const SharedSolver& self, bool finished, const std::string& failure) {
             self.holder->alone([&] {
               self.holder->end_recording(finished, failure);
               return true;
             });
           });
  type.def("present_snapshots", [](const SharedSolver& self) {
    nb::list files;
    for (const std::string& file : self.holder->present_snapshots()) files.append(decoded(file));
    return files;
  });
  bind_hook(type, "before_iteration", &SolverHolder::before_iteration);
  bind_hook(type, "before_update", &SolverHolder::before_update);
  bind_hook(type, "on_iteration", &SolverHolder::on_iteration);
  bind_hook(type, "on_test", &SolverHolder::on_test);
  bind_hook(type, "on_snapshot", &SolverHolder::on_snapshot);
  bind_hook(type, "on_note", &SolverHolder::on_note);
}

}  // namespace crema::python
