// Tuner: which candidate was fastest for a problem, measured once and remembered.
//
// Choices decide rounding, so a run that is to be bit-equal to another has to make the same ones:
// they are saved in snapshots and restored before the nets are planned.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace crema {

class Tuner {
 public:
  /// Seconds that `candidate` needs for `problem`, from memory or by calling `measure` (which runs
  /// it once) a few times: the fastest of the runs. Where two runs take far longer than `beat`, the
  /// best of its rivals, they are all.
  double seconds(const std::string& problem, const std::string& candidate,
                 const std::function<void()>& measure,
                 double beat = std::numeric_limits<double>::infinity());

  struct Time {
    std::string problem, candidate;
    double seconds = 0;
  };
  /// What was measured of all problems whose names start with `prefix`, sorted by them.
  std::vector<Time> measured(const std::string& prefix) const;

  /// Adds the times of a file that save() wrote on the same machine with the same libraries; any
  /// other file, or none, adds nothing.
  void load(const std::string& path);
  /// Writes all times, with those that other processes added meanwhile, beside the file, and
  /// renames. False when it could not be written.
  bool save(const std::string& path);
  /// Whether something was measured since the last load or save.
  bool has_news() const;

  /// Decisions made: problem -> candidate. Kept apart from the times, since they are what counts.
  bool decided(const std::string& problem, std::string& candidate) const;
  void decide(const std::string& problem, const std::string& candidate);
  std::map<std::string, std::string> decisions() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, double> seconds_;  // "problem|candidate"
  bool news_ = false;
  std::map<std::string, std::string> decisions_;
};

}  // namespace crema
