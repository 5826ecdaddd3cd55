// Solver: reads the prototxt, and hands everything to its Trainer.
#include "crema/solver.hpp"

#include <utility>

#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/trainer.hpp"

namespace crema {

Solver::Solver(const SolverParameter& param, Context& context, SolverOptions options)
    : Solver(param, SourceMap(), context, std::move(options)) {}

Solver::Solver(const SolverParameter& param, const SourceMap& source, Context& context,
               SolverOptions options)
    : trainer_(std::make_unique<Trainer>(param, source, context, options, *this)) {}

Solver::Solver(const std::string& prototxt, Context& context, SolverOptions options) {
  SolverParameter param;
  SourceMap source;
  read_text_proto(prototxt, param, &source);
  trainer_ = std::make_unique<Trainer>(param, source, context, options, *this);
}

Solver::~Solver() = default;

Net& Solver::net() { return trainer_->net(); }
std::vector<std::unique_ptr<Net>>& Solver::test_nets() { return trainer_->test_nets(); }
int Solver::iteration() const { return trainer_->iteration(); }
int Solver::max_iterations() const { return trainer_->max_iterations(); }
std::optional<double> Solver::iterations_of_epoch() const {
  return trainer_->iterations_of_epoch();
}
double Solver::seconds() const { return trainer_->seconds(); }
double Solver::rate() const { return trainer_->rate(); }
double Solver::loss_scale() const { return trainer_->loss_scale(); }
void Solver::set_loss_scale(double scale) { trainer_->set_loss_scale(scale); }

bool Solver::solve() { return trainer_->solve(); }
bool Solver::step(int iterations) { return trainer_->step(iterations); }
SolverEnd Solver::end() const { return trainer_->end(); }
std::vector<TestReport> Solver::test() { return trainer_->test(); }
RateCurve Solver::try_rates(const RateTrial& trial) { return trainer_->try_rates(trial); }
std::vector<BatchResult> Solver::try_batches(const BatchTrial& trial,
                                             const std::function<void(const BatchResult&)>& each) {
  return trainer_->try_batches(trial, each);
}
void Solver::apply_update() {
  if (trainer_->net().context().on_gpu())
    throw Error("apply_update runs on the CPU alone; call step() on a device");
  trainer_->update();
}
std::string Solver::snapshot() { return trainer_->snapshot(); }
void Solver::restore(const std::string& solverstate) { trainer_->restore(solverstate); }
std::string Solver::resume() { return trainer_->resume(); }

void Solver::set_run_folder(const std::string& folder) { trainer_->set_run_folder(folder); }
std::string Solver::run_folder() const { return trainer_->run_folder(); }

std::optional<Solver::Best> Solver::best() const { return trainer_->best(); }

bool Solver::has_snapshot(const SolverParameter& param, const SourceMap& source) {
  return !snapshots_of(snapshot_prefix(param, source.file())).empty();
}

}  // namespace crema
