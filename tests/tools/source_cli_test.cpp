// Training on sources of data that are no databases.
#include <fstream>
#include <iterator>

#include "support/hdf5_arrays.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

class SourceCli : public CliTest {
 protected:
  std::string solver_of(const std::string& data) const {
    const std::string net = write("data_net.prototxt", data + R"(
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
        inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
    return write("data_solver.prototxt",
                 "net: '" + net + "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 4 display: 1 " +
                     "random_seed: 3 snapshot: 2 snapshot_prefix: '" + path("s") + "'");
  }
  /// Trains, and again from iteration 2: both write the same weights.
  void expect_trains(const std::string& data) {
    const std::string train = "train --solver=" + solver_of(data);
    const Output done = run(train);
    EXPECT_EQ(done.status, 0) << done.text;
    const std::string weights = read("s_iter_4.caffemodel");
    EXPECT_FALSE(weights.empty());
    const Output again = run(train + " --snapshot=" + path("s_iter_2.solverstate"));
    EXPECT_EQ(again.status, 0) << again.text;
    EXPECT_EQ(read("s_iter_4.caffemodel"), weights);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(SourceCli, TrainsOnDummyData) {
  expect_trains(R"(
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 8 dim: 3 } shape { dim: 8 }
  data_filler { type: "gaussian" } data_filler { type: "constant" value: 2 } } })");
}

TEST_F(SourceCli, TrainsOnHdf5Data) {
  if (!kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  std::vector<double> data, labels;
  for (int i = 0; i < 10; ++i) {
    data.insert(data.end(), {0.1 * i, 1 - 0.1 * i, 1.0});
    labels.push_back(i % 4);
  }
  add_hdf5(path("rows.h5"), "data", Hdf5Kind::f32, {10, 3}, data);
  add_hdf5(path("rows.h5"), "label", Hdf5Kind::i64, {10}, labels);
  const std::string list = write("list.txt", path("rows.h5") + "\n");
  expect_trains(
      "layer { name: 'data' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { "
      "source: '" +
      list + "' batch_size: 3 shuffle: true } }");
}

TEST_F(SourceCli, MemoryDataSaysThatCommandsCannotFeedIt) {
  const std::string solver = solver_of(
      "layer { name: 'data' type: 'MemoryData' top: 'data' top: 'label' memory_data_param { "
      "batch_size: 3 channels: 3 height: 1 width: 1 } }");
  expect_refusal("train --solver=" + solver, {"layer 'data' (MemoryData)", "no data", "HDF5Data"});
}

}  // namespace
}  // namespace crema::test
