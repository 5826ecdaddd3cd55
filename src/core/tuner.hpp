// Tuner: measured times of candidates for a problem, and the candidates that were chosen.
//
// A problem is a text such as "convolution tuned forward 2t ..."; a candidate is the name of an
// implementation, with the revision of its code, or the layouts of a layer. Each pair is measured
// once.
//
// Candidates differ in rounding. Two runs have the same bits only if they choose the same
// candidates. Snapshots therefore save the choices, and a restored run uses them.
//
// Threads: all methods may be called at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace crema {

/// The reason why the path cannot be a tuner's file, such as "holds no measured times"; "" if it
/// can. A missing folder is no reason, because save() makes it. Nor is a file that can be read but
/// not written, because its times count.
std::string why_no_tuning_file(const std::string& path);

class Tuner {
 public:
  /// Seconds of one run of `candidate` for `problem`. The first call for a pair measures: `measure`
  /// runs the candidate once, and the fastest of several runs counts. Measuring stops after two
  /// runs if both are much slower than `beat`, the seconds of the fastest candidate so far.
  double seconds(const std::string& problem, const std::string& candidate,
                 const std::function<void()>& measure,
                 double beat = std::numeric_limits<double>::infinity());

  /// The same where the caller has a clock of its own, such as that of a device: `clock` returns
  /// the seconds of one run; infinite ones stand for a candidate that cannot run, and are not kept.
  double timed(const std::string& problem, const std::string& candidate,
               const std::function<double()>& clock);

  struct Time {
    std::string problem, candidate;
    double seconds = 0;
  };
  /// All measured times of problems whose names start with `prefix`, sorted by problem.
  std::vector<Time> measured(const std::string& prefix) const;

  /// Reads the times of a file that save() wrote. A file of another processor or library version is
  /// ignored, and a missing file too.
  void load(const std::string& path);
  /// Writes all times, and those that other processes added to the file, to a temporary file and
  /// renames it. Returns false if the file cannot be written.
  bool save(const std::string& path);
  /// Whether a time was measured since the last save().
  bool has_news() const;

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
  struct Problem {
    std::map<std::string, double> seconds;  // by candidate
    std::string chosen;                     // "": none
    uint64_t when = 0;                      // of the choice: the number of choices before it
  };

  mutable std::mutex mutex_;
  std::map<std::string, Problem> problems_;
  std::map<uint64_t, std::string> order_;  // problems with a choice, by Problem::when
  uint64_t choices_made_ = 0;
  bool news_ = false;
};

}  // namespace crema
