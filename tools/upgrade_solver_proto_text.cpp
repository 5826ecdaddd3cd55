// crema upgrade-solver-proto-text: rewrites an old solver prototxt in the current form.
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "tools/command.hpp"
#include "tools/upgrade_report.hpp"

namespace crema::tools {
namespace {

int upgrade_solver_proto_text(const std::vector<std::string>& arguments) {
  SolverParameter solver;
  return upgrade_file(
      "upgrade-solver-proto-text", arguments,
      [&](const std::string& path) {
        SourceMap source;
        read_text_proto(path, solver, &source);
        return upgrade_solver(solver, source);
      },
      [&](const std::string& path) { write_text_proto_atomically(path, solver); });
}

}  // namespace

const Command kUpgradeSolverProtoText = {
    "upgrade-solver-proto-text",
    "rewrites an old solver prototxt in the current form",
    "  crema upgrade-solver-proto-text OLD NEW\n"
    "\n"
    "OLD is a solver with solver_type (SGD, NESTEROV, ADAGRAD, RMSPROP, ADADELTA, ADAM), or with\n"
    "old nets inside. NEW may be the same file; it is replaced when the new one is whole.\n"
    "Comments are not kept. crema trains with old solvers as they are, too.",
    {},
    upgrade_solver_proto_text};

}  // namespace crema::tools
