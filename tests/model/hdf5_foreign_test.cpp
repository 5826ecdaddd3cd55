// What other programs write to HDF5 files: booleans, bits, and texts as attributes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/hdf5_file.hpp"
#include "model/snapshot_file.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/hdf5_arrays.hpp"
#include "support/needs.hpp"
#include "support/temp_folder.hpp"
#include "support/values.hpp"

namespace crema {
namespace {

using test::add_hdf5;
using test::add_hdf5_attribute;
using test::Hdf5Kind;
using test::link_hdf5;
using test::values_of;
using testing::ElementsAre;

class Hdf5Foreign : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
  TempFolder folder_;
};

TEST_F(Hdf5Foreign, BooleansAreZeroAndOne) {
  const std::string path = folder_.path("a.h5");
  add_hdf5(path, "flags", Hdf5Kind::flag, {2, 3}, {0, 1, 1, 0, 0, 1});
  add_hdf5(path, "bits", Hdf5Kind::bits, {4}, {1, 0, 0, 1});
  const Hdf5Reader file(path);
  EXPECT_EQ(file.shape("flags"), (Shape{2, 3}));
  EXPECT_EQ(file.dtype("flags"), DType::f32);
  EXPECT_THAT(values_of(file.read("flags", DType::f32)), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(values_of(file.read("flags", DType::f64)), ElementsAre(0, 1, 1, 0, 0, 1));
  EXPECT_THAT(values_of(file.read("bits", DType::f32)), ElementsAre(1, 0, 0, 1));
}

TEST_F(Hdf5Foreign, WeightsOfBooleansAreRead) {
  const std::string path = folder_.path("a.caffemodel.h5");
  add_hdf5(path, "mask", Hdf5Kind::flag, {2, 2}, {1, 0, 0, 1});
  link_hdf5(path, "data/ip/0", "mask");
  NetParameter net;
  read_weights(path, net);
  ASSERT_EQ(net.layer_size(), 1);
  EXPECT_THAT(net.layer(0).blobs(0).data(), ElementsAre(1, 0, 0, 1));
  EXPECT_FALSE(net.has_origin());
}

/// A damaged length of a text would make the library take any memory.
TEST_F(Hdf5Foreign, TextsOfTheRootGroupAreReadOfFilesWithAChecksumAlone) {
  const std::string path = folder_.path("a.caffemodel.h5");
  const auto add_texts = [&] {
    add_hdf5_attribute(path, "origin_program", "crema 9.9", true);
    add_hdf5_attribute(path, "origin_solver", "solver.prototxt", false);
    add_hdf5_attribute(path, "origin_net", "net.prototxt", true);
    add_hdf5_attribute(path, "origin_class_name", "cat\ndog house\n", true);
  };
  add_hdf5(path, "w", Hdf5Kind::f32, {1}, {1});
  link_hdf5(path, "data/ip/0", "w");
  add_texts();
  EXPECT_FALSE(renew_checksum(path)) << "there is none to renew";
  NetParameter net;
  read_weights(path, net);
  EXPECT_FALSE(net.has_origin());
  EXPECT_EQ(Hdf5Reader(path).attribute("origin_program"), "");

  net.Clear();
  LayerParameter* const layer = net.add_layer();
  layer->set_name("ip");
  layer->add_blobs()->add_data(1);
  layer->mutable_blobs(0)->mutable_shape()->add_dim(1);
  write_weights(path, net);
  add_texts();
  EXPECT_TRUE(renew_checksum(path));
  NetParameter read;
  read_weights(path, read);
  EXPECT_EQ(read.origin().program(), "crema 9.9");
  EXPECT_EQ(read.origin().solver(), "solver.prototxt");
  EXPECT_EQ(read.origin().net(), "net.prototxt");
  EXPECT_THAT(read.origin().class_name(), ElementsAre("cat", "dog house"));
  EXPECT_EQ(Hdf5Reader(path).attribute("none"), "");
}

TEST_F(Hdf5Foreign, StatesKeepTheirOrigin) {
  SolverState state;
  state.set_iter(3);
  state.mutable_origin()->set_program("crema 9.9");
  const std::string path = folder_.path("a.solverstate.h5");
  write_solver_state(path, state);
  SolverState read;
  read_solver_state(path, read);
  EXPECT_EQ(read.origin().program(), "crema 9.9");
}

}  // namespace
}  // namespace crema
