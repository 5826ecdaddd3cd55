// Tuner: times of candidates for problems, and the candidates that were chosen.
//
// A problem is a text such as "convolution tuned forward 2t ..."; a candidate is the name of an
// implementation, with the revision of its code, or the layouts of a layer. What measures is
// layer_support/tuning.hpp; here is what is known:
//
//   times     of candidates, with the load of the machine while they were measured. A time taken
//             under load is provisional: later runs measure it again, a few milliseconds a run.
//   a model   of how fast candidates probably are on problems that were not measured.
//   choices   of this run. They never change within a run, whatever becomes of the times.
//
// Candidates differ in rounding. Two runs have the same bits only if they choose the same
// candidates. Snapshots therefore save the choices, and a restored run uses them.
//
// Threads: all methods may be called at the same time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/load.hpp"
#include "core/speed_model.hpp"
#include "core/tuned_time.hpp"
#include "core/tuning_file.hpp"

namespace crema {

class Tuner {
 public:
  const Senses& senses() const { return senses_; }
  /// Others than those of the system, before anything is measured.
  void sense_by(Senses senses) { senses_ = std::move(senses); }

  /// From now on nothing is measured: what is not known is decided by the model. To be called
  /// before nets are planned.
  void measure_nothing() { measures_ = false; }
  bool measures() const { return measures_; }

  /// The times of a problem, by candidate, those that were not measured (TimeState::pruned) too.
  std::map<std::string, TunedTime> times(const std::string& problem) const;
  /// Keeps a time in place of an earlier one. `usual`: see SpeedModel. Times that are not pruned
  /// become samples of the model.
  void keep(const std::string& problem, const Workload& workload, const std::string& candidate,
            double usual, const TunedTime& time);
  /// The seconds of `candidate`. The first call measures: `clock` returns the seconds of one run;
  /// infinite ones stand for a candidate that cannot run, and are not kept.
  double timed(const std::string& problem, const std::string& candidate,
               const std::function<double()>& clock);

  struct Time : TunedTime {
    std::string problem, candidate;
  };
  /// All measured times of problems whose names start with `prefix`, sorted by problem.
  std::vector<Time> measured(const std::string& prefix) const;
  /// The same with pruned ones.
  std::vector<Time> all(const std::string& prefix) const;

  /// What the model expects of a candidate, by other problems. `usual`: see SpeedModel.
  Expectation predict(const std::string& problem, const Workload& workload,
                      const std::string& candidate, double usual) const;

  /// Takes seconds from what this run may spend on measuring again, kMostAgain in all. Returns
  /// whether they are granted. A wish that is larger than all of it is granted if nothing was
  /// taken.
  bool spend_again(double seconds);
  static constexpr double kMostAgain = 0.05;

  /// Puts the settled times of a problem in doubt. Confirmed ones stay. Returns whether there were
  /// settled ones.
  bool doubt(const std::string& problem);

  /// Reads the times of a file that save() wrote. A file of another processor or library version is
  /// ignored, and a missing file too.
  void load(const std::string& path);
  /// Writes all times, and those that other processes added to the file, to a temporary file and
  /// renames it. Of two times for one pair, the one that this run measured counts. Returns false if
  /// the file cannot be written.
  bool save(const std::string& path);
  /// Whether there are new times since the last save().
  bool has_news() const;
  /// Forgets all times, so that problems are measured anew; save() replaces those that were.
  void forget_times();

  /// The candidate that was chosen for `problem`; returns false if none was chosen. A restored run
  /// has choices without times.
  bool chosen(const std::string& problem, std::string& candidate) const;
  /// Keeps the choice. The last kMostChoices choices are kept: a net whose input has another size
  /// in each batch would otherwise collect them without end.
  void choose(const std::string& problem, const std::string& candidate);
  static constexpr size_t kMostChoices = 1 << 14;
  /// All choices, by problem.
  std::map<std::string, std::string> choices() const;

 private:
  struct Choice {
    std::string candidate;
    uint64_t when = 0;  // the number of choices before it
  };

  void add_sample(const std::string& problem, const std::string& candidate, const TunedTime& time,
                  double usual);
  /// Takes times that are not of this run.
  void take(const TuningTimes& times);

  Senses senses_ = system_senses();
  std::atomic<bool> measures_ = true;
  mutable std::mutex mutex_;
  TuningTimes times_;
  std::map<std::string, std::map<std::string, bool>> own_;  // pairs that this run measured
  SpeedModel model_;
  double again_ = 0;  // seconds spent
  bool anew_ = false;
  std::map<std::string, Choice> choices_;
  std::map<uint64_t, std::string> order_;  // problems with a choice, by Choice::when
  uint64_t choices_made_ = 0;
  bool news_ = false;
};

}  // namespace crema
