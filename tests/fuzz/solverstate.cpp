// A binary state of a solver: restored by a small solver, beside the weights that it names.
#include "crema/solver.hpp"
#include "fuzz/target.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "solver/snapshot.hpp"

using namespace crema;

namespace {

std::unique_ptr<Solver> make_solver() {
  SolverParameter param;
  parse_text_proto(R"(
      net_param {
        layer { name: "x" type: "DummyData" top: "x" top: "y"
                dummy_data_param { shape { dim: [2, 3] } shape { dim: [2, 2] } } }
        layer { name: "fc" type: "InnerProduct" bottom: "x" top: "fc"
                inner_product_param { num_output: 2 } }
        layer { name: "loss" type: "EuclideanLoss" bottom: "fc" bottom: "y" top: "loss" } }
      type: "Adam" base_lr: 0.01 lr_policy: "plateau" plateau_winsize: 5 gamma: 0.5
      max_iter: 10 average_loss: 3 snapshot_keep: 2)",
                   "solver.prototxt", param);
  param.set_snapshot_prefix(fuzz::working_folder().path("net"));
  auto solver = std::make_unique<Solver>(param, fuzz::quiet_context());
  solver->net().save_weights(fuzz::working_folder().path("net_iter_5.caffemodel"));
  return solver;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static const std::unique_ptr<Solver> solver = make_solver();
  // HDF5 files are those of another library.
  if (fuzz::text_of(bytes, count).starts_with("\x89HDF")) return 0;
  const std::string path = fuzz::write_input("net_iter_5.solverstate", bytes, count);
  const bool read = fuzz::attempt_in_little_memory([&] {
    SolverState state;
    read_state(path, state);
  });
  if (!read) return 0;
  fuzz::attempt([&] { why_damaged(path, false); });
  fuzz::attempt_in_little_memory([&] {
    solver->restore(path);
    solver->rate();
  });
  return 0;
}
