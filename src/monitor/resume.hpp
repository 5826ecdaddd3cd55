// A run that goes on in its folder.
#pragma once

#include <string>
#include <vector>

#include "monitor/append_file.hpp"
#include "proto/run.pb.h"

namespace crema {

struct KeptRecords {
  double time = 0;                    // seconds of training behind the last one
  std::vector<RunRecord> milestones;  // SNAPSHOT and TEST records
  std::vector<RunRecord> at_once;     // TRAIN records of the snapshot's own iteration
};

/// Removes from metrics.jsonl and histograms.jsonl what a run that goes on from the snapshot of
/// `iteration` makes void, and lines that are cut; each of these names stands for a whole file at
/// any moment, and the files, which are open, go on as those. Error if that fails; readers pass
/// over what is void then.
KeptRecords drop_void(const std::string& folder, int iteration, AppendFile& metrics,
                      AppendFile& histograms);

}  // namespace crema
