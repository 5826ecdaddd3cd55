// What weights and states say of where they come from.
#include "model/origin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/data_source.hpp"
#include "crema/registry.hpp"
#include "model/snapshot_file.hpp"
#include "proto/net.pb.h"
#include "solver/snapshot_run.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

/// A source of (2, 3) zeros and of labels 0, whose classes have names.
class NamedClassesLayer : public Layer, public DataSource {
 public:
  using Layer::Layer;
  const DataSource* data_source() const override { return this; }
  Arity arity() const override { return {0, 0, 2, 2}; }
  void reshape(Blobs, Blobs top) override {
    top[0]->reshape(Shape{2, 3});
    top[1]->reshape(Shape{2});
  }
  void forward_cpu(Blobs, Blobs top) override {
    for (Blob* blob : {top[0], top[1]}) blob->data.fill(0);
  }

  RecordCursor cursor() const override { return {}; }
  void set_cursor(const RecordCursor&) override {}
  void restart() override {}
  int64_t records_per_batch() const override { return 2; }
  double take_wait_seconds() override { return 0; }
  std::string record_key(int64_t) const override { return ""; }
  std::vector<std::string> class_names() const override { return {"cat", "Great Dane"}; }
};

class OriginTest : public test::SnapshotRun {
 protected:
  static void SetUpTestSuite() { Registry::instance().add<NamedClassesLayer>("TestNamedClasses"); }

  void SetUp() override {
    folder_.write("net.prototxt",
                  "name: 'falling' layer { name: 'x' type: 'TestNamedClasses' top: 'x' "
                  "top: 'label' } layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' "
                  "inner_product_param { num_output: 4 } } layer { name: 'loss' "
                  "type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }");
  }
  /// Runs the solver of a file to its end. Its net is found beside it.
  std::string solve(const std::string& settings, const std::string& from = "") {
    const std::string path = folder_.write(
        "solver.prototxt", text("base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 net: 'net.prototxt' "
                                "snapshot_prefix: '",
                                folder_ / "s", "' ", settings));
    Context context;
    Solver solver(path, context);
    if (!from.empty()) solver.restore(from);
    solver.solve();
    return path;
  }
};

Origin origin_of_weights(const std::string& path) {
  NetParameter net;
  read_weights(path, net);
  return net.origin();
}

Origin origin_of_state(const std::string& path) {
  SolverState state;
  read_solver_state(path, state);
  return state.origin();
}

TEST_F(OriginTest, FilesOfARunNameProgramSolverNetAndClasses) {
  EXPECT_THAT(program_version(), StartsWith("crema "));
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !test::kBuiltWithHdf5) continue;
    SCOPED_TRACE(format);
    const std::string solver =
        solve(text("ema_decay: 0.5 snapshot_format: ", format.empty() ? "BINARYPROTO" : "HDF5"));
    for (const Origin& origin : {origin_of_weights(file(4, ".caffemodel" + format)),
                                 origin_of_weights(file(4, "_ema.caffemodel" + format)),
                                 origin_of_state(file(4, ".solverstate" + format))}) {
      EXPECT_EQ(origin.program(), program_version());
      EXPECT_EQ(origin.solver(), solver);
      EXPECT_EQ(origin.net(), "net.prototxt");
      EXPECT_THAT(origin.class_name(), ElementsAre("cat", "Great Dane"));
    }
  }
}

// A run with a break writes the same files as one without.
TEST_F(OriginTest, IsTheSameAfterABreak) {
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !test::kBuiltWithHdf5) continue;
    SCOPED_TRACE(format);
    const std::string settings =
        text("ema_decay: 0.5 snapshot: 2 type: 'AdamW' amsgrad: true snapshot_format: ",
             format.empty() ? "BINARYPROTO" : "HDF5");
    solve(settings);
    const auto contents = [&] {
      std::vector<std::string> files;
      for (const char* ending : {".caffemodel", "_ema.caffemodel", ".solverstate"})
        files.push_back(test::read_file(file(4, ending + format)));
      return files;
    };
    const std::vector<std::string> straight = contents();
    for (const char* ending : {".caffemodel", "_ema.caffemodel", ".solverstate"})
      fs::remove(file(4, ending + format));
    solve(settings, file(2, ".solverstate" + format));
    EXPECT_TRUE(contents() == straight);
  }
}

// Of weights that a program saves, there is no solver.
TEST_F(OriginTest, SavedWeightsNameProgramAndNet) {
  Context context;
  const std::string path = folder_ / "net.prototxt";
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !test::kBuiltWithHdf5) continue;
    const std::string weights = folder_ / ("w.caffemodel" + format);
    Net(path, context).save_weights(weights);
    const Origin origin = origin_of_weights(weights);
    EXPECT_EQ(origin.program(), program_version());
    EXPECT_FALSE(origin.has_solver());
    EXPECT_EQ(origin.net(), path);
    EXPECT_THAT(origin.class_name(), ElementsAre("cat", "Great Dane"));
  }
}

// Solvers and nets that are messages have no file.
TEST_F(OriginTest, MessagesHaveNoFiles) {
  Context context;
  Solver(solver_param("max_iter: 1"), context).solve();
  const Origin origin = origin_of_weights(file(1, ".caffemodel"));
  EXPECT_EQ(origin.program(), program_version());
  EXPECT_FALSE(origin.has_solver());
  EXPECT_FALSE(origin.has_net());
  EXPECT_THAT(origin.class_name(), IsEmpty());
}

// What it says is part of what the checksum is of.
TEST_F(OriginTest, IsCoveredByTheChecksum) {
  solve("snapshot_format: BINARYPROTO");
  const std::string path = file(4, ".caffemodel");
  std::string content = test::read_file(path);
  const size_t at = content.find("Great Dane");
  ASSERT_NE(at, std::string::npos);
  content[at] = 'T';
  std::ofstream(path, std::ios::binary) << content;
  NetParameter net;
  EXPECT_THROW(read_weights(path, net), Error);
}

}  // namespace
}  // namespace crema
