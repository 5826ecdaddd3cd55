#include "model/upgrade/old_layers.hpp"
#include "proto/solver.pb.h"

namespace crema {
namespace {

void upgrade_type(SolverParameter& solver, const SourceMap& source, Upgrade& result) {
  if (!solver.has_solver_type()) return;
  const std::string name = SolverParameter::SolverType_Name(solver.solver_type());
  const Position place = source.position("solver_type");
  if (solver.has_type())
    throw Error("the solver gives both type \"", solver.type(), "\" and the old solver_type ", name,
                "; keep type")
        .at(place);
  const std::string type = successor_of_solver_type(solver);
  if (type.empty())
    throw Error("solver_type ", name,
                " has no successor; give another one: SGD, NESTEROV, ADAGRAD, RMSPROP, ADADELTA or "
                "ADAM")
        .at(place);
  solver.set_type(type);
  solver.clear_solver_type();
  result.changes.push_back(text("solver_type: ", name, " became type: \"", type, "\""));
  result.is_old = true;
}

void upgrade_nested(NetParameter& net, const SourceMap& solver, const std::string& path,
                    Upgrade& result) {
  const Upgrade done = upgrade_net(net, solver.nested(path));
  for (const auto& change : done.changes) result.changes.push_back(path + ": " + change);
  result.warnings.insert(result.warnings.end(), done.warnings.begin(), done.warnings.end());
  result.is_old |= done.is_old;
}

}  // namespace

std::string successor_of_solver_type(const SolverParameter& solver) {
  switch (solver.solver_type()) {
    case SolverParameter::SGD:
      return "SGD";
    case SolverParameter::NESTEROV:
      return "Nesterov";
    case SolverParameter::ADAGRAD:
      return "AdaGrad";
    case SolverParameter::RMSPROP:
      return "RMSProp";
    case SolverParameter::ADADELTA:
      return "AdaDelta";
    case SolverParameter::ADAM:
      return "Adam";
    case SolverParameter::SAG:
      break;
  }
  return "";
}

Upgrade upgrade_solver(SolverParameter& solver, const SourceMap& source) {
  Upgrade result;
  upgrade_type(solver, source, result);
  if (solver.has_net_param())
    upgrade_nested(*solver.mutable_net_param(), source, "net_param", result);
  if (solver.has_train_net_param())
    upgrade_nested(*solver.mutable_train_net_param(), source, "train_net_param", result);
  for (int i = 0; i < solver.test_net_param_size(); ++i) {
    upgrade_nested(*solver.mutable_test_net_param(i), source, text("test_net_param[", i, "]"),
                   result);
  }
  return result;
}

}  // namespace crema
