// crema report: a run, or several beside each other, as a page.
#include "monitor/report/report.hpp"

#include <gflags/gflags.h>

#include <filesystem>
#include <optional>

#include "core/utf8.hpp"
#include "model/text_file.hpp"
#include "model/whole_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/in_folder.hpp"
#include "tools/run_report.hpp"
#include "tools/terminal.hpp"

DEFINE_bool(evaluate, true,
            "Run the best weights, or the last, over test data, and time the layers, unless that "
            "is done already.");
DEFINE_int32(records, 1000, "Evaluate on this many records, spread over the test data.");
DECLARE_string(o);
DECLARE_bool(rgb);

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

void say_warnings(const RunFiles& run) {
  for (const std::string& warning : run.warnings)
    say(Severity::warning, text(printable(run.folder), ": ", warning));
}

/// Paths in the run's nets are those of where it was started.
void evaluate(const std::string& folder, Context& context) {
  EvaluationBounds bounds;
  bounds.records = FLAGS_records;
  bounds.rgb = FLAGS_rgb;
  const std::string path = fs::absolute(folder).string();
  const RunFiles run = read_run(path);
  const InFolder in_folder(run.info.folder());
  evaluate_folder(path, context, bounds);
}

int report(const std::vector<std::string>& arguments) {
  if (arguments.empty())
    throw Error("report needs the folder of a run, as in: crema report runs/lenet-1");
  if (FLAGS_records < 1) throw Error("--records ", FLAGS_records, " must be at least 1");
  const bool compares = arguments.size() > 1;
  std::string output = FLAGS_o;
  if (output.empty())
    output = compares ? "comparison.html" : (fs::path(arguments[0]) / "report.html").string();
  // Before anything takes time.
  std::vector<RunFiles> runs;
  for (const std::string& folder : arguments) runs.push_back(read_run(folder));
  check_output_file(output, "the report");
  if (FLAGS_evaluate && !compares) {
    Context context(context_options());
    evaluate(arguments[0], context);
    runs[0] = read_run(arguments[0]);
  }
  for (const RunFiles& run : runs) say_warnings(run);
  write_text_atomically(output, compares ? comparison_report(runs) : run_report(runs[0]));
  say(printable(output));
  return 0;
}

}  // namespace

extern const Command kReport = {
    "report",
    "shows a run, or several beside each other, as a page",
    "  crema report runs/lenet-1\n"
    "  crema report runs/lenet-1 --records 10000 --gpu 0\n"
    "  crema report runs/lenet-1 runs/lenet-2 runs/lenet-3 -o comparison.html\n"
    "\n"
    "Writes RUN/report.html: curves, the evaluation of the best weights, or of the last ones, the\n"
    "net, the time of its layers, its weights, the configuration, and how to continue. `crema\n"
    "train` writes it at each snapshot, and with an evaluation at the end. The file needs no\n"
    "network.\n"
    "\n"
    "The weights run on --records records, spread over the data of the test net, for two minutes\n"
    "at most, and the layers are timed. evaluation.json and layers.json in the run's folder keep\n"
    "the results; they are measured anew when the weights are others or more records are asked\n"
    "for. --evaluate=false leaves that out. The nets name their data relative to the folder where\n"
    "the run was started. --rgb: raw records have red first; those of convert-cifar are known.\n"
    "\n"
    "Of several runs, the curves lie over each other, and a table has what differs in the\n"
    "configuration beside what was reached: comparison.html, or the file that -o names.",
    {"evaluate", "records", "rgb", "o", "gpu", "threads", "engine", "tune", "tuning_file",
     "plugin"},
    report,
    1,
    NetUse::runs};

}  // namespace crema::tools
