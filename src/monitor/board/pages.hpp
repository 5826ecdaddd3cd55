// What the board's pages have beside the reports: script, style, frame, and the list of runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitor/board/run_places.hpp"
#include "monitor/report/report.hpp"

namespace crema {

extern const char* const kBoardScript;
extern const char* const kBoardStyle;
extern const char* const kBoardIcon;  // SVG

/// A run in the list.
struct ListedRun {
  std::string id, name, net, parent, device;
  std::string problem;  // why it cannot be shown; "": it can
  std::string state;
  bool is_live = false;
  bool is_bad = false;
  int iterations = 0, max_iterations = 0;
  std::optional<MainOutput> main;
  std::optional<double> loss;
  double seconds = 0, started = 0, last_wall = 0;
};

/// The sections of the list, those that train first, then the newest.
std::vector<PageSection> list_sections(std::vector<ListedRun> runs);

/// The part that takes images.
PageSection images_section();
/// The end of the log, and the run's files.
PageSection log_section(const RunPlace& place);
PageSection files_section(const RunPlace& place);

/// The frame of a page: `data` is JSON for the script.
PageFrame board_frame(const std::string& above, const std::string& data);

}  // namespace crema
