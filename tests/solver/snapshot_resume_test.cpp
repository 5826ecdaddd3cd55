// Which snapshot a run resumes from, and what it refuses to resume from.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <climits>

#include "model/hdf5_file.hpp"
#include "model/snapshot_file.hpp"
#include "proto/net.pb.h"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_run.hpp"
#include "support/expect_error.hpp"
#include "support/memory_limit.hpp"
#include "support/needs.hpp"
#include "support/net_test.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::params_of;

class SnapshotResumeTest : public test::SnapshotRun {};

// As a run that is killed between the two files leaves them.
TEST_F(SnapshotResumeTest, WeightsOfAnotherRunAreNotTakenForThoseOfTheState) {
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !test::kBuiltWithHdf5) continue;
    for (const char* ending : {".caffemodel", "_ema.caffemodel"}) {
      SCOPED_TRACE(ending + format);
      Context context = logging();
      const std::string settings = text("max_iter: 4 snapshot: 2 ema_decay: 0.5 snapshot_format: ",
                                        format.empty() ? "BINARYPROTO" : "HDF5");
      Solver(solver_param(settings), context).solve();
      const std::string state = file(4, ".solverstate" + format),
                        weights = file(4, ending + format);
      const std::string of_state = test::read_file(state);
      Solver(solver_param(settings + " random_seed: 7 type: 'Nesterov'"), context).solve();
      std::ofstream(state, std::ios::binary) << of_state;
      // The other run's state of iteration 2, and with its type, is whole.
      Solver solver(solver_param(settings), context);
      expect_error([&] { solver.restore(state); },
                   {state, file(4, ""), "were not written with the state", "--weights"});
      EXPECT_NE(why_damaged(state, true).find("were not written with the state"),
                std::string::npos);
      warnings_.clear();
      Solver other(solver_param(settings + " type: 'Nesterov'"), context);
      EXPECT_EQ(other.resume(), file(2, ".solverstate" + format));
      EXPECT_TRUE(warned("the snapshot '" + state + "' is passed over")) << warnings_;
      // Both formats of the same weights fit.
      Solver(solver_param(settings), context).solve();
      NetParameter same;
      read_weights(weights, same);
      write_weights(weights, same);
      Solver(solver_param(settings), context).restore(state);
      // Another average alone.
      for (LayerParameter& layer : *same.mutable_layer()) {
        for (BlobProto& blob : *layer.mutable_blobs()) blob.set_data(0, 77);
      }
      write_weights(weights, same);
      expect_error([&] { solver.restore(state); }, {state, weights, "were not written with"});
      // Published states cannot tell.
      SolverState published;
      read_solver_state(state, published);
      published.clear_learned_net_values();
      published.clear_average_net_values();
      write_solver_state(state, published);
      Solver(solver_param(settings), context).restore(state);
      for (const int i : {2, 4}) {
        for (const char* one : {".solverstate", ".caffemodel", "_ema.caffemodel"})
          fs::remove(file(i, one + format));
      }
    }
  }
}

// A better test is no part of the run that it interrupts.
TEST_F(SnapshotResumeTest, TheBestSnapshotResumesAsWithoutABreak) {
  Context context;
  const std::string settings =
      "max_iter: 6 snapshot_after_train: false test_iter: 1 test_interval: 3 "
      "snapshot_best: 'loss' snapshot: 100";
  Solver solver(solver_param(settings), context);
  solver.solve();
  Solver resumed(solver_param(settings), context);
  resumed.restore(file(3, ".solverstate"));
  resumed.solve();
  EXPECT_EQ(params_of(resumed.net()), params_of(solver.net()));
}

TEST_F(SnapshotResumeTest, ResumesFromTheNewestWholeSnapshot) {
  Context context = logging();
  Solver straight(solver_param("max_iter: 8 snapshot: 2"), context);
  EXPECT_EQ(straight.resume(), "");
  straight.solve();
  const auto resumed_from = [&] {
    warnings_.clear();
    Solver solver(solver_param("max_iter: 8 snapshot_after_train: false"), context);
    const std::string path = solver.resume();
    if (!path.empty()) {
      solver.solve();
      EXPECT_EQ(params_of(solver.net()), params_of(straight.net()));
    }
    return path;
  };
  folder_.write("s_iter_9.solverstate.tmp", "no snapshot");
  folder_.write("s_iter_x.solverstate", "no snapshot");
  EXPECT_EQ(resumed_from(), file(8, ".solverstate"));
  EXPECT_EQ(warnings_, "");
  damage(file(8, ".solverstate"));
  EXPECT_EQ(resumed_from(), file(6, ".solverstate"));
  EXPECT_TRUE(warned("the snapshot '" + file(8, ".solverstate") + "' is passed over")) << warnings_;
  EXPECT_TRUE(warned("copy or download it again")) << warnings_;
  damage(file(6, ".caffemodel"));
  fs::remove(file(4, ".caffemodel"));
  EXPECT_EQ(resumed_from(), file(2, ".solverstate"));
  EXPECT_TRUE(warned(file(6, ".caffemodel"))) << warnings_;
  EXPECT_TRUE(warned("put the weights of the same snapshot next to it")) << warnings_;
  fs::resize_file(file(2, ".solverstate"), 40);
  // From scratch the run would write over them.
  expect_error(resumed_from, {"none of the snapshots", file(8, ".solverstate"), "from scratch"});
}

TEST_F(SnapshotResumeTest, SnapshotsOfARelativePrefixAreNamedAsItIs) {
  Context context;
  Solver(solver_param("max_iter: 3"), context).solve();
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const std::vector<std::string> found = snapshots_of("s");
  fs::current_path(before);
  EXPECT_EQ(found, std::vector<std::string>{"s_iter_3.solverstate"});
}

// An earlier run with the same prefix went further.
TEST_F(SnapshotResumeTest, WarnsWhenAnotherSnapshotWasWrittenLater) {
  Context context = logging();
  Solver(solver_param("max_iter: 6 snapshot: 3"), context).solve();
  Solver(solver_param("max_iter: 6"), context).resume();
  EXPECT_FALSE(warned("was written after it")) << warnings_;
  fs::last_write_time(file(3, ".solverstate"),
                      fs::last_write_time(file(6, ".solverstate")) + std::chrono::seconds(5));
  Solver solver(solver_param("max_iter: 8"), context);
  EXPECT_EQ(solver.resume(), file(6, ".solverstate"));
  EXPECT_TRUE(warned("'" + file(3, ".solverstate") + "' was written after it")) << warnings_;
  EXPECT_TRUE(warned("--snapshot " + file(3, ".solverstate"))) << warnings_;
}

// The average is of no use to a solver without one.
TEST_F(SnapshotResumeTest, ResumesWithoutAnAverageThatItDoesNotNeed) {
  Context context = logging();
  const std::string settings = "max_iter: 4 snapshot: 2 ";
  Solver(solver_param(settings + "ema_decay: 0.5"), context).solve();
  fs::remove(file(4, "_ema.caffemodel"));
  Solver plain(solver_param(settings), context);
  EXPECT_EQ(plain.resume(), file(4, ".solverstate"));
  Solver averaging(solver_param(settings + "ema_decay: 0.5"), context);
  EXPECT_EQ(averaging.resume(), file(2, ".solverstate"));
  EXPECT_TRUE(warned("'" + file(4, ".solverstate") + "' is passed over")) << warnings_;
}

// The weights that the run started from may be gone by then.
TEST_F(SnapshotResumeTest, ASnapshotIsFoundBeforeNetsAreMade) {
  Context context = logging();
  const SolverParameter param = solver_param("max_iter: 4 snapshot: 2 weights: 'gone.caffemodel'");
  EXPECT_FALSE(Solver::has_snapshot(param, {}));
  Solver(solver_param("max_iter: 4 snapshot: 2"), context).solve();
  damage(file(4, ".solverstate"));
  EXPECT_TRUE(Solver::has_snapshot(param, {}));
  expect_error([&] { Solver(param, context); }, {"gone.caffemodel"});
  Solver solver(param, context, {.weights = std::vector<std::string>()});
  EXPECT_EQ(solver.resume(), file(2, ".solverstate"));
  EXPECT_TRUE(warned("passed over")) << warnings_;
  EXPECT_EQ(solver.iteration(), 2);
}

// They were read to look for damage, to compare them with the state, and to load them.
TEST_F(SnapshotResumeTest, WeightsAreReadOnce) {
  Context context;
  SolverParameter param = solver_param("max_iter: 1 ema_decay: 0.9");
  param.mutable_net_param()->mutable_layer(1)->mutable_inner_product_param()->set_num_output(
      400'000);  // 6.4 MB of weights
  Solver(param, context).solve();
  const auto bytes_read = [] {
    std::ifstream counts("/proc/self/io");
    std::string name;
    size_t bytes = 0;
    counts >> name >> bytes;  // rchar
    return bytes;
  };
  Solver solver(param, context);
  const size_t before = bytes_read();
  if (before == 0) GTEST_SKIP() << "needs /proc/self/io";
  solver.resume();
  const size_t newest = bytes_read() - before;
  solver.restore(file(1, ".solverstate"));
  const size_t named = bytes_read() - before - newest;
  size_t files = 0;
  for (const char* ending : {".caffemodel", "_ema.caffemodel", ".solverstate"}) {
    files += fs::file_size(file(1, ending));
  }
  EXPECT_GE(newest, files);
  EXPECT_LT(newest, files + files / 10);
  EXPECT_LT(named, files + files / 10);
}

// A run whose machine is too small for the moment would go on from an older snapshot.
TEST_F(SnapshotResumeTest, WhatMemoryCannotHoldIsNoDamageOfAWholeFile) {
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !test::kBuiltWithHdf5) continue;
    SCOPED_TRACE(format);
    NetParameter weights;
    LayerParameter& layer = *weights.add_layer();
    layer.set_name("ip");
    BlobProto& blob = *layer.add_blobs();
    blob.mutable_shape()->add_dim(20'000'000);
    blob.mutable_data()->Resize(20'000'000, 1);
    write_weights(file(6, ".caffemodel" + format), weights);
    SolverState state;
    state.set_iter(6);
    state.set_learned_net(file(6, ".caffemodel" + format));
    write_solver_state(file(6, ".solverstate" + format), state);
    const std::string path = file(6, ".solverstate" + format);
    EXPECT_EQ(why_damaged(path, false), "");
    weights.Clear();
    const test::MemoryLimit limit(size_t{40} << 20);
    expect_error([&] { EXPECT_EQ(why_damaged(path, false), ""); },
                 {file(6, ".caffemodel" + format), "the memory does not suffice", "is whole"});
  }
}

// A file that cannot be opened for a while is whole: an older snapshot must not take its place.
TEST_F(SnapshotResumeTest, WhatTheSystemRefusesIsNoDamage) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "needs a build without sanitizers, which open pipes to look at memory: set no "
                  "CREMA_SANITIZE";
#endif
  Context context = logging();
  Solver(solver_param("max_iter: 4 snapshot: 2"), context).solve();
  Solver solver(solver_param("max_iter: 4"), context);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit few = {static_cast<rlim_t>(next), before.rlim_max};
  const auto refused = [&] {
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::string damage;
    try {
      damage = why_damaged(file(4, ".solverstate"), false);
    } catch (...) {
      ::setrlimit(RLIMIT_NOFILE, &before);
      throw;
    }
    ::setrlimit(RLIMIT_NOFILE, &before);
    ADD_FAILURE() << "taken for damage: " << damage;
  };
  expect_error(refused, {"cannot read '" + file(4, ".solverstate"), "no damage"});
  EXPECT_EQ(warnings_, "");
  EXPECT_EQ(solver.resume(), file(4, ".solverstate"));
}

TEST_F(SnapshotResumeTest, RefusesTheStateOfAnotherTypeOrNet) {
  Context context;
  Solver(solver_param("max_iter: 1"), context).solve();
  const std::string state = file(1, ".solverstate");
  SolverState saved;
  read_solver_state(state, saved);
  EXPECT_EQ(saved.type(), "SGD");
  saved.set_type("AdaGrad");  // which has as many histories
  write_solver_state(state, saved);
  Solver sgd(solver_param("max_iter: 1"), context);
  expect_error([&] { sgd.restore(state); },
               {state, "of a solver of type 'AdaGrad', this solver's is 'SGD'", "--weights"});
  // Published states do not name the type.
  saved.clear_type();
  saved.clear_net();
  for (int i = 0; i < 2; ++i) *saved.add_history() = saved.history(i);
  write_solver_state(state, saved);
  expect_error([&] { sgd.restore(state); },
               {"the state has 4 history blobs, this solver of type 'SGD' and this net need 2"});

  Solver(solver_param("max_iter: 1"), context).solve();
  SolverParameter other = solver_param("max_iter: 1");
  other.mutable_net_param()->set_name("other");
  other.mutable_net_param()->mutable_layer(1)->mutable_inner_product_param()->set_num_output(5);
  Solver wider(other, context);
  expect_error([&] { wider.restore(state); },
               {"parameter 0 of layer 'ip' has 12 values, the net 15", "its net is 'falling'",
                "this one 'other'"});
}

TEST_F(SnapshotResumeTest, RefusesIterationsThatNoRunHas) {
  Context context = logging();
  Solver(solver_param("max_iter: 4 snapshot: 2"), context).solve();
  const std::string state = file(4, ".solverstate");
  SolverState whole;
  read_solver_state(state, whole);
  Solver solver(solver_param("max_iter: 4"), context);
  for (const int value : {-1, INT_MIN}) {
    SolverState saved = whole;
    saved.set_iter(value);
    write_solver_state(state, saved);
    expect_error([&] { solver.restore(state); }, {state, text("iter ", value), "damaged"});
    EXPECT_EQ(solver.resume(), file(2, ".solverstate"));
    saved = whole;
    saved.set_current_step(value);
    write_solver_state(state, saved);
    expect_error([&] { solver.restore(state); }, {state, text("current_step ", value)});
  }
  whole.set_iter(INT_MAX);
  write_solver_state(state, whole);
  solver.restore(state);
  expect_error([&] { solver.step(1); }, {"iteration 2147483647"});
}

TEST_F(SnapshotResumeTest, AChangedSourceIsNamedAndStartsFromTheBeginning) {
  test::write_counting_database(folder_ / "records", 20);
  test::write_counting_database(folder_ / "longer", 21);
  const auto param = [&](const char* source) {
    SolverParameter result;
    parse_text_proto(
        text("net_param { layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param {"
             " source: '",
             folder_ / source,
             "' backend: LMDB batch_size: 5 } }"
             "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
             "inner_product_param { num_output: 40 } }"
             "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
             "top: 'loss' } } base_lr: 0.001 lr_policy: 'fixed' max_iter: 3 snapshot_prefix: '",
             folder_ / "s", "'"),
        "solver.prototxt", result);
    return result;
  };
  Context context = logging();
  Solver(param("records"), context).solve();
  Solver(param("records"), context).restore(file(3, ".solverstate"));
  EXPECT_EQ(warnings_, "");
  Solver longer(param("longer"), context);
  longer.restore(file(3, ".solverstate"));
  EXPECT_TRUE(warned("the data of 'data' changed: it has 21 records, and had 20")) << warnings_;
  EXPECT_FALSE(warned("does not say how far")) << warnings_;
  longer.step(1);
  EXPECT_EQ(longer.net().blob("label").data.at(0), 0);
}

class Hdf5Snapshots : public SnapshotResumeTest {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
};

TEST_F(Hdf5Snapshots, ResumeBitForBitInBothTypes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Context context;
    const SolverOptions options{.dtype = dtype};
    const std::string settings = "max_iter: 6 snapshot: 3 snapshot_format: HDF5";
    Solver straight(solver_param(settings), context, options);
    straight.solve();
    EXPECT_FALSE(fs::exists(file(3, ".solverstate")));
    Solver resumed(solver_param(settings), context, options);
    resumed.restore(file(3, ".solverstate.h5"));
    resumed.solve();
    EXPECT_EQ(params_of(resumed.net()), params_of(straight.net()));
    Solver newest(solver_param(settings), context, options);
    EXPECT_EQ(newest.resume(), file(6, ".solverstate.h5"));
    expect_error([&] { newest.restore(file(6, ".caffemodel.h5")); },
                 {"that is a weights file; use --weights"});
    Net loaded(solver_param("").net_param(), context, {.phase = Phase::test, .dtype = dtype});
    EXPECT_TRUE(loaded.load_weights(file(6, ".caffemodel.h5"), true).missing.empty());
    EXPECT_EQ(params_of(loaded), params_of(straight.net()));
  }
}

// What memory cannot hold, and what no file system can name, is damage as any other.
TEST_F(Hdf5Snapshots, ResumePassesOverStatesThatCannotBeTrue) {
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  Context context = logging();
  Solver straight(solver_param("max_iter: 4 snapshot: 2 snapshot_format: HDF5"), context);
  straight.solve();
  {
    Hdf5Writer writer(file(9, ".solverstate.h5"));
    Tensor rows(Shape{4099}, DType::f32);
    rows.fill(1);
    writer.put("iter", 9);
    for (int i = 0; i < 9; ++i) writer.append(text("/history/", i), rows);
    writer.finish();
  }
  std::string bytes = test::read_file(file(9, ".solverstate.h5"));
  const std::string size("\x03\x10\0\0\0\0\0\0", 8);
  for (size_t at = bytes.find(size); at != std::string::npos; at = bytes.find(size, at + 1)) {
    bytes[at + 2] = '\xe0';  // 58 MB
  }
  folder_.write("s_iter_9.solverstate.h5", bytes);
  SolverState nameless;
  nameless.set_iter(8);
  nameless.set_learned_net(std::string(5000, 'x'));
  write_solver_state(file(8, ".solverstate"), nameless);
  Solver solver(solver_param("max_iter: 4 snapshot_format: HDF5"), context);
  const test::MemoryLimit limit(size_t{300} << 20);
  EXPECT_EQ(solver.resume(), file(4, ".solverstate.h5"));
  EXPECT_TRUE(warned("'" + file(9, ".solverstate.h5") + "' is passed over")) << warnings_;
  EXPECT_TRUE(warned("the memory does not suffice")) << warnings_;
  EXPECT_TRUE(warned("'" + file(8, ".solverstate") + "' is passed over")) << warnings_;
}

// In Caffe's files the owner alone has a shared parameter.
TEST_F(Hdf5Snapshots, SharedParametersMayBeThereOnce) {
  const auto layer = [](const char* name, const char* bottom) {
    return text("layer { name: '", name, "' type: 'InnerProduct' bottom: '", bottom, "' top: '",
                name, "' param { name: 'w' } inner_product_param { num_output: 3 bias_term: ",
                *name == 'b' ? "true" : "false", " } }");
  };
  const NetParameter param = test::net_param(
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }" +
      layer("a", "x") + layer("b", "a") + layer("c", "b"));
  Context context;
  Net net(param, context, {.phase = Phase::test});
  NetParameter once;
  net.save(once);
  for (int i = 0; i < 9; ++i) once.mutable_layer(1)->mutable_blobs(0)->set_data(i, i);
  once.mutable_layer(2)->clear_blobs();  // its bias is its own, and so missing
  once.mutable_layer(3)->clear_blobs();
  write_weights(folder_ / "once.h5", once);
  Net partial(param, context, {.phase = Phase::test});
  const LoadReport report = partial.load_weights(folder_ / "once.h5");
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(report.missing, (std::vector<std::string>{"b"}));
  EXPECT_EQ(params_of(partial)[8], 8);
}

// Snapshots of Caffe 1.0: ../shared/data/models.
TEST_F(Hdf5Snapshots, PublishedOnesContinue) {
  const fs::path models = test::shared_path("data/models");
  if (!fs::exists(models)) GTEST_SKIP() << "needs " << models << ": set CREMA_SHARED_DIR";
  struct Published {
    const char *folder, *state, *weights;
    int iteration;
  };
  for (const Published& published :
       {Published{"cifar10_quick", "iter_5000.solverstate.h5", "iter_5000.caffemodel.h5", 5000},
        {"cifar10_full_hdf5", "snapshot.solverstate.h5", "weights.caffemodel.h5", 60000}}) {
    SCOPED_TRACE(published.folder);
    const fs::path folder = models / published.folder;
    SolverState state;
    read_solver_state((folder / published.state).string(), state);
    EXPECT_EQ(state.iter(), published.iteration);
    // The deploy net with a loss stands for the training net, whose database is not there.
    SolverParameter param;
    parse_text_proto("base_lr: 0.001 momentum: 0.9 lr_policy: 'fixed' snapshot_after_train: false",
                     "solver.prototxt", param);
    NetParameter& net = *param.mutable_net_param();
    read_text_proto((folder / "deploy.prototxt").string(), net);
    LayerParameter& last = *net.mutable_layer(net.layer_size() - 1);
    ASSERT_EQ(last.type(), "Softmax");
    last.set_type("SoftmaxWithLoss");
    last.add_bottom("label");
    NetParameter label = test::net_param(
        "layer { name: 'label' type: 'Input' top: 'label' input_param { shape { dim: 1 } } }");
    label.mutable_layer()->MergeFrom(net.layer());
    for (LayerParameter& layer : *label.mutable_layer()) {
      if (layer.name() == "data") layer.mutable_input_param()->mutable_shape(0)->set_dim(0, 1);
    }
    *net.mutable_layer() = label.layer();
    const fs::path beside = folder_ / published.folder;
    fs::create_directories(beside);
    fs::copy(folder / published.state, beside / "state");
    fs::copy(folder / published.weights, beside / fs::path(state.learned_net()).filename());
    Context context = logging();
    Solver solver(param, context);
    solver.restore((beside / "state").string());
    EXPECT_EQ(solver.iteration(), published.iteration);
    EXPECT_TRUE(solver.step(1));
  }
}

}  // namespace
}  // namespace crema
