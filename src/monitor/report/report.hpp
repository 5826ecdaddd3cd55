// The report of a run and the comparison of several: one file of HTML each, with all drawings,
// style and script in it, that needs no network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "monitor/report/charts.hpp"
#include "monitor/report/page.hpp"
#include "monitor/report/run_files.hpp"

namespace crema {

/// The output of the tests by which runs are told apart: that of the solver's snapshot_best, or
/// the first of the first test net that is no loss, or its loss.
struct MainOutput {
  std::string name;
  int net = 0;
  bool least_is_best = false;
  CurvePoint best = {}, last = {};
};
/// None without tests with finite values.
std::optional<MainOutput> main_output(const RunFiles& run);
/// The best point of a test output, by what its name says: of losses and errors the least.
std::optional<CurvePoint> best_of(const Curve& curve, bool least_is_best);
/// Whether the test net has a loss; those without one report 0.
bool has_loss(const TestCurves& test);
/// Whether both have the same points, but for rounding.
bool is_same_curve(const Curve& a, const Curve& b);

/// In a few words: "finished", "finished, tests not finite", "failed at 38", ... The message of an
/// error is in end().
std::string state_words(const RunFiles& run);
/// Whether the last test has a loss or an output that is not finite.
bool ends_with_bad_test(const RunFiles& run);
/// Of training, and the passes over the data, by the last record of any kind. None where nothing
/// counts records.
double seconds_of_run(const RunFiles& run);
std::optional<double> epochs_of_run(const RunFiles& run);
/// A setting of the solver as the run had it; "" without one.
std::string setting_of(const RunFiles& run, const std::string& name);

/// The command lines that go on with the run and that test its weights; with a line of comment
/// before each.
std::string commands_of(const RunFiles& run);

/// The parts of a run's report; `charts` gets the curves.
std::vector<PageSection> run_sections(const RunFiles& run, ChartPage& charts);
/// What stands above them: name, state and the numbers of the run.
std::string run_head(const RunFiles& run);

PageContent run_content(const RunFiles& run);
std::string run_report(const RunFiles& run);
/// Of two runs or more.
PageContent comparison_content(const std::vector<RunFiles>& runs);
std::string comparison_report(const std::vector<RunFiles>& runs);

/// Reads the run and writes its report.html, whole or not at all. Returns the run's warnings. Error
/// as of read_run(), and where the file cannot be written.
std::vector<std::string> write_report(const std::string& folder);

}  // namespace crema
