// By which a run knows the files of weights that it wrote: their checksums, in its records.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "crema/solver.hpp"
#include "proto/run.pb.h"

namespace crema {

class OwnWeights {
 public:
  explicit OwnWeights(std::string folder) : folder_(std::move(folder)) {}

  /// The iteration with which this part of the run begins.
  void begin(int iteration) { first_ = iteration; }
  /// Weights of a snapshot, whose record gets their checksum.
  void add(const std::string& weights, RunRecord& snapshot);
  /// After a test, which may write the best weights, and a snapshot anew.
  void tested() { is_tested_ = true; }
  /// Records of what was written since, if a test was; `always`: in any case. Those of the part
  /// before are left out: they have theirs, and what is there now may be another run's.
  std::vector<RunRecord> written(const Solver& solver, bool always = false);

 private:
  /// Whether the file has a checksum that no record has.
  bool is_new(const std::string& weights, std::string& checksum);

  std::string folder_, last_;  // the weights of the last snapshot
  int last_iteration_ = -1, first_ = 0;
  std::set<std::string> checksums_;
  bool is_tested_ = false;
};

}  // namespace crema
