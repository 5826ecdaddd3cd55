// crema upgrade-solver-proto-text: rewrites an old solver prototxt in the current form.
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "proto/solver.pb.h"
#include "tools/command.hpp"
#include "tools/upgrade_report.hpp"

namespace crema::tools {
namespace {

/// Writes out the defaults of a net inside the solver.
void write_out_nested(NetParameter& net, const std::string& path, Upgrade& done) {
  for (const std::string& change : write_out_defaults(net))
    done.changes.push_back(path + ": " + change);
}

/// Whether the file is a solver prototxt, of any form.
bool is_solver_text(const std::string& path) try {
  SolverParameter solver;
  read_text_proto(path, solver);
  return true;
} catch (const Error&) {
  return false;
}

int upgrade_solver_proto_text(const std::vector<std::string>& arguments) {
  SolverParameter solver;
  return upgrade_file(
      "upgrade-solver-proto-text", arguments,
      [&](const std::string& path) {
        SourceMap source;
        read_text_proto(path, solver, &source);
        Upgrade done = upgrade_solver(solver, source);
        if (solver.has_net_param())
          write_out_nested(*solver.mutable_net_param(), "net_param", done);
        if (solver.has_train_net_param())
          write_out_nested(*solver.mutable_train_net_param(), "train_net_param", done);
        for (int i = 0; i < solver.test_net_param_size(); ++i)
          write_out_nested(*solver.mutable_test_net_param(i), text("test_net_param[", i, "]"),
                           done);
        return done;
      },
      [&](const std::string& path) { write_text_proto_atomically(path, solver); },
      {"solver prototxt", is_solver_text});
}

}  // namespace

extern const Command kUpgradeSolverProtoText = {
    "upgrade-solver-proto-text",
    "rewrites an old solver prototxt in the current form",
    "  crema upgrade-solver-proto-text OLD NEW\n"
    "\n"
    "OLD is a solver with solver_type (SGD, NESTEROV, ADAGRAD, RMSPROP, ADADELTA, ADAM), or with\n"
    "old nets inside. With --overwrite, NEW may exist, and may be the same file; it is replaced\n"
    "when the new one is whole. By the published name, upgrade_solver_proto_text, an earlier "
    "solver\n"
    "at NEW is replaced without it. Comments are not kept. crema trains with old solvers as they\n"
    "are, too.",
    {"overwrite"},
    upgrade_solver_proto_text};

}  // namespace crema::tools
