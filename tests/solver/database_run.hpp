// Runs of a small net over the records of a database, with tests and snapshots in a folder.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/data_source.hpp"
#include "crema/solver.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/net_test.hpp"

namespace crema::test {

class DatabaseRun : public ::testing::Test {
 protected:
  /// 40 records of 2 classes, 4 in a batch: an epoch is 10 iterations.
  void SetUp() override {
    Records records = counting_records(40, 2, 6, 6);
    for (size_t i = 0; i < records.size(); ++i) {
      Datum datum;
      ASSERT_TRUE(datum.ParseFromString(records[i].second));
      datum.set_label(static_cast<int>(i % 2));
      records[i].second = datum.SerializeAsString();
    }
    write_database(folder_ / "records", records);
  }

  /// `more_layers` stand between the data and the loss, and make "x" of "data".
  SolverParameter solver_param(const std::string& more, int batch = 4,
                               const std::string& more_layers = "") const {
    const std::string data_param =
        text("transform_param { scale: 0.01 } data_param { source: '", folder_ / "records",
             "' backend: LMDB batch_size: ", batch, " }");
    const std::string between =
        more_layers.empty() ? "layer { name: 'bn' type: 'BatchNorm' bottom: 'data' top: 'x' } "
                              "layer { name: 'drop' type: 'Dropout' bottom: 'x' top: 'x' } "
                            : more_layers;
    SolverParameter param;
    parse_text_proto(
        text(
            "net_param { name: 'small' layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
            "include { phase: TRAIN } ",
            data_param,
            "} layer { name: 'data' type: 'Data' top: 'data' top: 'label' include { phase: TEST } ",
            data_param, "} ", between,
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { "
            "num_output: 2 weight_filler { type: 'xavier' } } } "
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: "
            "'loss' } layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' "
            "top: 'accuracy' include { phase: TEST } } } base_lr: 0.02 momentum: 0.9 "
            "snapshot_prefix: '",
            folder_ / "s", "' ", more),
        "solver.prototxt", param);
    return param;
  }

  std::string state(int iteration) const {
    return text(folder_ / "s", "_iter_", iteration, ".solverstate");
  }
  static DataSource& source(Solver& solver) { return *solver.net().layer("data").data_source(); }

  /// What a run did, to compare runs bit by bit.
  struct Course {
    std::vector<double>
        values;  // parameters at the end, and losses and rates from the last resume on
    int iterations = 0;
    SolverEnd end = SolverEnd::none;
    std::vector<std::string> notes;
  };
  /// A run to its end; from the state, if there is one. `prepare` may set hooks.
  Course run(const SolverParameter& param, const std::string& from = "",
             const std::function<void(Solver&)>& prepare = {}) {
    Context context = logging();
    Solver solver(param, context);
    if (!from.empty()) solver.restore(from);
    return finish(solver, prepare);
  }
  static Course finish(Solver& solver, const std::function<void(Solver&)>& prepare = {}) {
    Course course;
    solver.on_note = [&](const std::string& note) { course.notes.push_back(note); };
    if (prepare) prepare(solver);
    solver.solve();
    course.values = params_of(solver.net());
    course.iterations = solver.iteration();
    course.end = solver.end();
    return course;
  }

  Context logging() {
    return Context({.engine = "reference", .logger = [this](Severity severity, const auto& text) {
                      log_ += text + "\n";
                      if (severity == Severity::warning) warnings_ += text + "\n";
                    }});
  }

  ScratchFolder folder_;
  std::string log_, warnings_;
};

}  // namespace crema::test
