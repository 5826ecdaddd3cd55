#include "monitor/own_weights.hpp"

#include <utility>

#include "core/utf8.hpp"
#include "model/snapshot_file.hpp"
#include "monitor/snapshot_links.hpp"

namespace crema {

bool OwnWeights::is_new(const std::string& weights, std::string& checksum) {
  checksum = checksum_of_weights(weights);
  return !checksum.empty() && checksums_.insert(checksum).second;
}

void OwnWeights::add(const std::string& weights, RunRecord& snapshot) {
  last_ = weights;
  last_iteration_ = snapshot.iteration();
  std::string checksum;
  is_new(weights, checksum);
  if (!checksum.empty()) snapshot.set_weights_checksum(checksum);
}

std::vector<RunRecord> OwnWeights::written(const Solver& solver, bool always) {
  std::vector<RunRecord> records;
  if (!std::exchange(is_tested_, false) && !always) return records;
  const auto look = [&](const std::string& weights, int iteration) {
    std::string checksum;
    if (weights.empty() || iteration < first_ || !is_new(weights, checksum)) return;
    RunRecord& record = records.emplace_back();
    record.set_kind(RunRecord::WEIGHTS);
    record.set_iteration(iteration);
    record.set_weights(as_utf8(path_in_run(folder_, weights)));
    record.set_weights_checksum(checksum);
  };
  look(last_, last_iteration_);
  if (const auto best = solver.best()) look(best->file, best->iteration);
  return records;
}

}  // namespace crema
