// Which runs the board shows: the folders of runs below one folder, and the files of theirs that it
// may read. What a link leads out of that folder is not read, but for weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "monitor/report/run_files.hpp"

namespace crema {

struct RunPlace {
  std::string id;  // the path from the folder of runs: "lenet-1", "sweep-2/trial-03"
  std::string folder;
  std::string problem;  // why it cannot be shown; "": nothing is known against it
};

/// The runs in `root` and in folders of it, by their ids, numbers in order; or `root` itself, if it
/// is the folder of a run. A run with a file, or a folder, that is a link out of `root` has a
/// problem.
std::vector<RunPlace> find_runs(const std::string& root);

/// Changes with the files that a page shows, and with weights that come or go.
std::string state_of_files(const RunPlace& place);

/// A file with weights of a run.
struct PlacedWeights {
  std::string name;   // of the file or link: "best.caffemodel"
  std::string words;  // "best, iteration 500"
  std::string file;   // where it lies
};
/// Those that the run's folder links to, and beside them those that the run recorded there.
std::vector<PlacedWeights> weights_in_run(const RunPlace& place, const RunFiles& run);

/// The files of a run's folder that the board gives out, as far as they are there: run.json,
/// metrics.jsonl, log.txt, ...
std::vector<std::string> readable_files(const RunPlace& place);

/// The last lines of a file, at most; "" where there is none.
std::string last_lines(const std::string& path, int lines);

}  // namespace crema
