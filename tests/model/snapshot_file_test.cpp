// Weights and states in both formats: what the files hold, and that damage is noticed.
#include "model/snapshot_file.hpp"

#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "model/hdf5_file.hpp"
#include "model/weights_origin.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/hdf5_arrays.hpp"
#include "support/memory_limit.hpp"
#include "support/needs.hpp"
#include "support/temp_folder.hpp"
#include "support/values.hpp"

namespace crema {
namespace {

using google::protobuf::UnknownFieldSet;

void add_blob(LayerParameter& layer, std::initializer_list<int64_t> dims, float first) {
  BlobProto* blob = layer.add_blobs();
  int64_t count = 1;
  for (const int64_t dim : dims) {
    blob->mutable_shape()->add_dim(dim);
    count *= dim;
  }
  for (int64_t i = 0; i < count; ++i) blob->add_data(first + static_cast<float>(i));
}

NetParameter some_weights() {
  NetParameter net;
  net.add_layer()->set_name("relu");
  for (const char* name : {"conv1", "ip"}) {
    LayerParameter* layer = net.add_layer();
    layer->set_name(name);
    add_blob(*layer, {4, 3}, 0.5F);
    add_blob(*layer, {4}, 7);
  }
  return net;
}

SolverState some_state() {
  SolverState state;
  state.set_iter(300);
  state.set_learned_net("some/net_iter_300.caffemodel");
  state.set_current_step(2);
  state.set_seed(0xFEDCBA9876543210);
  state.set_type("SGD");
  auto* cursor = state.add_data_cursor();
  cursor->set_layer("data");
  cursor->set_position(17);
  // Behind index 9, names and numbers have different orders.
  for (int i = 0; i < 12; ++i) {
    BlobProto* history = state.add_history();
    history->mutable_shape()->add_dim(2);
    history->add_data(static_cast<float>(i));
    history->add_data(0.25F);
  }
  return state;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class SnapshotFile : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (is_hdf5_name(GetParam()) && !test::kBuiltWithHdf5)
      GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
  std::string path(const std::string& name) const { return folder_.path(name + GetParam()); }

  /// Calls `body` with contents of the file that are not those that were written.
  template <class Body>
  static void for_damaged(const std::string& whole, const Body& body) {
    // An odd step meets each bit of a byte.
    const size_t step = whole.size() * 8 / 600 | 1;
    for (size_t bit = 0; bit < whole.size() * 8; bit += bit < 2048 ? 3 : step) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      body(damaged, text("bit ", bit, " of ", whole.size() * 8));
    }
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 500) {
      body(whole.substr(0, size), text("the first ", size, " of ", whole.size(), " bytes"));
    }
    body(whole + '\0', "a byte more");
    body(whole + whole, "twice");
  }

  TempFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Formats, SnapshotFile, ::testing::Values("", ".h5"),
                         [](const auto& of) { return *of.param ? "hdf5" : "binary"; });

TEST_P(SnapshotFile, ReadsWhatItWrote) {
  write_weights(path("a.caffemodel"), some_weights());
  write_solver_state(path("a.solverstate"), some_state());
  NetParameter weights, expected = some_weights();
  SolverState state;
  read_weights(path("a.caffemodel"), weights);
  read_solver_state(path("a.solverstate"), state);
  // HDF5 has layers with parameters only.
  if (is_hdf5_name(GetParam())) expected.mutable_layer()->DeleteSubrange(0, 1);
  EXPECT_EQ(weights.SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(state.SerializeAsString(), some_state().SerializeAsString());
  EXPECT_TRUE(check_snapshot_file(path("a.caffemodel")));
  EXPECT_TRUE(check_snapshot_file(path("a.solverstate")));
}

// Names of many classes take more than an attribute of HDF5 has room for.
TEST_P(SnapshotFile, KeepsWhereItComesFrom) {
  for (const int classes : {2, 20000}) {
    NetParameter weights = some_weights(), read;
    Origin& origin = *weights.mutable_origin();
    origin.set_program("crema 0.1.0");
    origin.set_solver("models/a/solver.prototxt");
    origin.set_net("net \xC3\xA9.prototxt");
    for (int i = 0; i < classes; ++i) origin.add_class_name(text("class of number ", i));
    origin.mutable_transform()->set_mean_file("mean \"file\"");
    origin.mutable_transform()->set_scale(0.017F);
    for (const float mean : {104.5F, 0.1F}) origin.add_channel_mean(mean);
    SolverState state = some_state(), read_state;
    *state.mutable_origin() = origin;
    const std::string file = path("a.caffemodel");
    write_weights(file, weights);
    write_solver_state(path("a.solverstate"), state);
    read_weights(file, read);
    read_solver_state(path("a.solverstate"), read_state);
    EXPECT_EQ(read.origin().SerializeAsString(), origin.SerializeAsString());
    EXPECT_EQ(read_state.SerializeAsString(), state.SerializeAsString());
    EXPECT_TRUE(check_snapshot_file(file)) << "has a checksum";
    EXPECT_TRUE(renew_checksum(file));
    const std::string once = content_of(file);
    write_weights(file, weights);
    EXPECT_TRUE(content_of(file) == once) << "the same bytes each time";
  }
}

TEST_P(SnapshotFile, FilesAreTakenForWhatTheyHold) {
  write_weights(path("a.caffemodel"), some_weights());
  const std::string other = folder_.write("b", content_of(path("a.caffemodel")));
  NetParameter weights;
  read_weights(other, weights);
  EXPECT_EQ(weights.layer(weights.layer_size() - 1).blobs(0).data(11), 11.5F);
  SolverState state;
  expect_error([&] { read_solver_state(other, state); },
               {other, "is not a solver's state but a weights file"});
  write_solver_state(path("a.solverstate"), some_state());
  expect_error([&] { read_weights(path("a.solverstate"), weights); },
               {"is not a weights file but a solver's state"});
}

// Weights that only their owner may read stay so, and a file that its owner protected is replaced.
TEST_P(SnapshotFile, AFileThatIsReplacedKeepsItsMode) {
  namespace fs = std::filesystem;
  for (const auto mode : {fs::perms::owner_read | fs::perms::owner_write, fs::perms::owner_read}) {
    const std::string file = folder_.write(std::string("a.caffemodel") + GetParam(), "old");
    fs::permissions(file, mode);
    write_weights(file, some_weights());
    EXPECT_EQ(fs::status(file).permissions(), mode);
    EXPECT_TRUE(check_snapshot_file(file));
    fs::remove(file);
  }
}

// A flipped bit, or a missing end, went unnoticed where the rest still parsed.
TEST_P(SnapshotFile, EveryDamageOfWeightsIsAnError) {
  write_weights(path("a.caffemodel"), some_weights());
  const std::string whole = content_of(path("a.caffemodel"));
  for_damaged(whole, [&](const std::string& damaged, const std::string& what) {
    SCOPED_TRACE(what);
    NetParameter weights;
    expect_error([&] { read_weights(folder_.write("damaged", damaged), weights); }, {"damaged"});
  });
  NetParameter weights;
  read_weights(folder_.write("damaged", whole), weights);
}

TEST_P(SnapshotFile, EveryDamageOfStatesIsAnError) {
  write_solver_state(path("a.solverstate"), some_state());
  const std::string whole = content_of(path("a.solverstate"));
  for_damaged(whole, [&](const std::string& damaged, const std::string& what) {
    SCOPED_TRACE(what);
    SolverState state;
    expect_error([&] { read_solver_state(folder_.write("damaged", damaged), state); }, {"damaged"});
  });
}

TEST_P(SnapshotFile, SaysThatContentsChangedAndHowToAcceptThem) {
  const std::string file = path("a.caffemodel");
  write_weights(file, some_weights());
  std::string content = content_of(file);
  const float before = 11.5F, after = 12.5F;
  const size_t at = content.rfind(std::string(reinterpret_cast<const char*>(&before), 4));
  ASSERT_NE(at, std::string::npos);
  content.replace(at, 4, reinterpret_cast<const char*>(&after), 4);
  folder_.write(std::string("a.caffemodel") + GetParam(), content);
  NetParameter weights;
  expect_error([&] { read_weights(file, weights); },
               {file, "its contents changed after it was written", "take an earlier one",
                "crema checksum --accept " + file});
  EXPECT_TRUE(renew_checksum(file));
  read_weights(file, weights);
  EXPECT_EQ(weights.layer(weights.layer_size() - 1).blobs(0).data(11), 12.5F);
}

/// The numbers of the fields of a message, in the order of the file.
std::vector<int> fields_of(const UnknownFieldSet& message) {
  std::vector<int> numbers;
  for (int i = 0; i < message.field_count(); ++i) numbers.push_back(message.field(i).number());
  return numbers;
}

// Published readers know neither field, and skip them.
TEST(ChecksumOfWeights, IsThatOfTheContents) {
  const TempFolder folder;
  NetParameter other = some_weights();
  other.mutable_layer(1)->mutable_blobs(0)->set_data(0, 9);
  for (const std::string format : {"", ".h5"}) {
    if (!format.empty() && !has_hdf5()) continue;
    const std::string one = folder.path("one.caffemodel" + format),
                      two = folder.path("two.caffemodel" + format);
    write_weights(one, some_weights());
    write_weights(two, some_weights());
    EXPECT_EQ(checksum_of_weights(one).size(), 16U);
    EXPECT_EQ(checksum_of_weights(one), checksum_of_weights(two));
    write_weights(two, other);
    EXPECT_NE(checksum_of_weights(one), checksum_of_weights(two));
  }
  EXPECT_EQ(checksum_of_weights(folder.path("none")), "");
  EXPECT_EQ(checksum_of_weights(folder.write("text", "no weights")), "");
  EXPECT_EQ(checksum_of_weights(folder.write("empty", "")), "");
}

TEST(SnapshotFileBinary, HoldsThePublishedFieldsBetweenTwoOfItsOwn) {
  const TempFolder folder;
  NetParameter net = some_weights();
  net.set_name("net");
  write_weights(folder.path("a"), net);
  UnknownFieldSet weights, layer, blob;
  ASSERT_TRUE(weights.ParseFromString(content_of(folder.path("a"))));
  EXPECT_EQ(fields_of(weights), (std::vector<int>{10001, 1, 100, 100, 100, 10001}));
  EXPECT_EQ(weights.field(0).fixed64(), content_of(folder.path("a")).size());
  ASSERT_TRUE(layer.ParseFromString(weights.field(3).length_delimited()));
  EXPECT_EQ(fields_of(layer), (std::vector<int>{1, 7, 7}));
  ASSERT_TRUE(blob.ParseFromString(layer.field(1).length_delimited()));
  EXPECT_EQ(fields_of(blob), (std::vector<int>{5, 7}));

  write_solver_state(folder.path("b"), some_state());
  UnknownFieldSet state;
  ASSERT_TRUE(state.ParseFromString(content_of(folder.path("b"))));
  const std::vector<int> numbers = fields_of(state);
  EXPECT_EQ(numbers.front(), 10004);
  EXPECT_EQ(numbers[1], 1);
  EXPECT_EQ(numbers[2], 2);
  EXPECT_EQ(numbers[3], 3);
  EXPECT_EQ(numbers.back(), 10004);
}

TEST(SnapshotFileBinary, FilesWithoutChecksumAreRead) {
  const TempFolder folder;
  const std::string file = folder.write("a", some_weights().SerializeAsString());
  NetParameter weights;
  read_weights(file, weights);
  EXPECT_EQ(weights.SerializeAsString(), some_weights().SerializeAsString());
  EXPECT_FALSE(check_snapshot_file(file));
  EXPECT_TRUE(renew_checksum(file));
  EXPECT_TRUE(check_snapshot_file(file));
}

// A program that rewrites the message keeps the fields that it does not know.
TEST(SnapshotFileBinary, ARewrittenFileIsAccepted) {
  const TempFolder folder;
  write_weights(folder.path("a"), some_weights());
  UnknownFieldSet message;
  ASSERT_TRUE(message.ParseFromString(content_of(folder.path("a"))));
  message.AddLengthDelimited(1, "renamed");
  std::string content;
  message.SerializeToString(&content);
  folder.write("a", content);
  NetParameter weights;
  expect_error([&] { read_weights(folder.path("a"), weights); }, {"changed after it was written"});
  renew_checksum(folder.path("a"));
  read_weights(folder.path("a"), weights);
  EXPECT_EQ(weights.name(), "renamed");
  EXPECT_FALSE(weights.has_checksum());
}

class SnapshotFileHdf5 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
  TempFolder folder_;
};

TEST_F(SnapshotFileHdf5, HasThePublishedLayout) {
  NetParameter net = some_weights();
  for (int i = 0; i < 4; ++i) net.mutable_layer(2)->mutable_blobs(1)->add_diff(-1);
  const std::string weights = folder_.path("a.caffemodel.h5"),
                    state = folder_.path("a.solverstate.h5");
  write_weights(weights, net);
  const Hdf5Reader file(weights);
  std::string names;
  for (const auto& [name, is_group] : file.entries("/data"))
    names += name + (is_group ? "/ " : " ");
  EXPECT_EQ(names, "conv1/ ip/ relu/ ");
  EXPECT_EQ(file.entries("/data/ip").size(), 2U);
  EXPECT_EQ(file.shape("/data/ip/0"), (Shape{4, 3}));
  EXPECT_EQ(file.dtype("/data/ip/0"), DType::f32);
  EXPECT_EQ(test::values_of(file.read("/data/ip/1", DType::f32)),
            (std::vector<double>{7, 8, 9, 10}));
  EXPECT_EQ(test::values_of(file.read("/diff/ip/1", DType::f32)),
            (std::vector<double>{-1, -1, -1, -1}));

  write_solver_state(state, some_state());
  const Hdf5Reader saved(state);
  EXPECT_EQ(saved.shape("iter"), Shape{1});
  EXPECT_EQ(saved.read("iter", DType::f32).at(0), 300);
  EXPECT_EQ(saved.read("current_step", DType::f32).at(0), 2);
  EXPECT_EQ(saved.text("learned_net"), "some/net_iter_300.caffemodel");
  EXPECT_EQ(saved.entries("/history").size(), 12U);
  EXPECT_EQ(test::values_of(saved.read("/history/11", DType::f32)),
            (std::vector<double>{11, 0.25}));
}

// The names of the attributes are those that other programs read.
TEST_F(SnapshotFileHdf5, HasItsOriginAsAttributes) {
  NetParameter weights = some_weights();
  weights.mutable_origin()->set_program("crema 0.1.0");
  weights.mutable_origin()->set_solver("solver.prototxt");
  weights.mutable_origin()->set_net("a.prototxt");
  weights.mutable_origin()->add_class_name("cat");
  weights.mutable_origin()->add_class_name("dog");
  write_weights(folder_.path("a.h5"), weights);
  const Hdf5Reader file(folder_.path("a.h5"));
  EXPECT_EQ(file.attribute("origin_program"), "crema 0.1.0");
  EXPECT_EQ(file.attribute("origin_solver"), "solver.prototxt");
  EXPECT_EQ(file.attribute("origin_net"), "a.prototxt");
  EXPECT_EQ(file.attribute("origin_class_name"), "cat\ndog");
  EXPECT_EQ(file.attribute("crema_checksum"), "") << "no text";
  NetParameter read;
  read_weights(folder_.path("a.h5"), read);
  EXPECT_EQ(read.origin().program(), "crema 0.1.0");
  EXPECT_EQ(read.origin().solver(), "solver.prototxt");
  EXPECT_EQ(read.origin().net(), "a.prototxt");
  EXPECT_EQ(read.origin().SerializeAsString(), weights.origin().SerializeAsString());
  EXPECT_EQ(read_hdf5_origin(folder_.path("a.h5")).SerializeAsString(),
            weights.origin().SerializeAsString());
  EXPECT_EQ(class_names_of_weights(std::vector{folder_.path("none.h5"), folder_.path("a.h5")}),
            (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(SnapshotFileHdf5, NamesWithSlashesAreGroupsInGroups) {
  NetParameter net;
  for (const char* name : {"a/b", "a/c/d"}) {
    net.add_layer()->set_name(name);
    add_blob(*net.mutable_layer(net.layer_size() - 1), {2}, 1);
  }
  write_weights(folder_.path("a.h5"), net);
  NetParameter read;
  read_weights(folder_.path("a.h5"), read);
  EXPECT_EQ(read.SerializeAsString(), net.SerializeAsString());
  EXPECT_NE(check_hdf5_layers({{"x", 1}, {"a/b", 1}}).find("layer 'a/b' has '/'"),
            std::string::npos);
  EXPECT_EQ(check_hdf5_layers({{"x", 1}, {"y", 1}, {"y", 0}, {"", 0}}), "");
  expect_error([] { check_hdf5_layers({{"x", 1}, {"x", 1}}); }, {"two layers are named 'x'"});
  for (const char* wrong : {"", ".", "a//b", "a/", "./a"}) {
    expect_error([&] { check_hdf5_layers({{wrong, 1}}); }, {"cannot be a group", "BINARYPROTO"});
  }
}

// A parameter of one layer and the group of another have one name.
TEST_F(SnapshotFileHdf5, ALayerInThePlaceOfAParameterIsRefused) {
  for (const char* inner : {"a/0", "a/1/x"}) {
    NetParameter net;
    for (const std::string name : {"a", inner}) {
      net.add_layer()->set_name(name);
      for (int i = 0; i < 2; ++i) add_blob(*net.mutable_layer(net.layer_size() - 1), {2}, 1);
    }
    expect_error([&] { write_weights(folder_.path("a.h5"), net); },
                 {text("layer '", inner, "'"), "of layer 'a' lies", "BINARYPROTO"});
    expect_error([&] { check_hdf5_layers({{inner, 0}, {"a", 2}}); }, {"of layer 'a' lies"});
  }
  EXPECT_NE(check_hdf5_layers({{"a/2", 1}, {"a", 2}}), "");
}

// 2^30 paths lead through these links.
TEST_F(SnapshotFileHdf5, LinksAreNotFollowedWithoutEndNorToOtherFiles) {
  const std::string many = folder_.path("a.h5"), other = folder_.path("b.h5");
  for (const std::string& file : {many, other}) {
    Hdf5Writer writer(file);
    writer.make_group("/data/ip");
    writer.finish();
    test::add_hdf5(file, "/data/ip/0", test::Hdf5Kind::f32, Shape{1}, {1});
  }
  for (int i = 0; i < 30; ++i) {
    const std::string target = i == 0 ? "/data/ip" : text("/g", i);
    for (const char* name : {"/x", "/y"}) test::link_hdf5(many, text("/g", i + 1, name), target);
  }
  test::link_hdf5(many, "/data/top", "/g30");
  NetParameter net;
  expect_error([&] { read_weights(many, net); }, {many, "without end", "damaged"});
  test::link_hdf5(other, "/data/elsewhere", "/data/ip", many);
  expect_error([&] { read_weights(other, net); }, {other, "'elsewhere' is a link to another file"});
}

// Caffe writes f64 nets as f64, and h5py makes files of its own kind.
TEST_F(SnapshotFileHdf5, ReadsFilesOfOtherPrograms) {
  const std::string file = folder_.path("a.h5");
  { Hdf5Writer(file).finish(); }
  expect_error(
      [&] {
        NetParameter weights;
        read_weights(file, weights);
      },
      {"is not a weights file but another HDF5 file: it has no group 'data'"});
  for (const char* const group :
       {"/model_weights/conv", "/_layer_checkpoint_dependencies/conv/vars",
        "/conv/conv/kernel:0"}) {
    const std::string keras = folder_.path("keras.h5");
    Hdf5Writer of_keras(keras);
    of_keras.make_group(group);
    of_keras.finish();
    expect_error(
        [&] {
          NetParameter weights;
          read_weights(keras, weights);
        },
        {"keras.h5", "is not a weights file but one of Keras; ", "in Python"});
  }
  Hdf5Writer writer(folder_.path("b.h5"));
  writer.make_group("/data/ip");
  writer.finish();
  test::add_hdf5(folder_.path("b.h5"), "/data/ip/0", test::Hdf5Kind::f64, Shape{2}, {0.1, 1e-300});
  NetParameter weights;
  read_weights(folder_.path("b.h5"), weights);
  EXPECT_EQ(weights.layer(0).blobs(0).double_data(1), 1e-300);
  EXPECT_FALSE(check_snapshot_file(folder_.path("b.h5")));
  EXPECT_FALSE(renew_checksum(folder_.path("b.h5")));
  test::add_hdf5(folder_.path("b.h5"), "/data/ip/x", test::Hdf5Kind::f32, Shape{2}, {0, 1});
  expect_error([&] { read_weights(folder_.path("b.h5"), weights); },
               {"b.h5", "array '/data/ip/x' is no parameter", "/data/LAYER/INDEX"});
}

// Whatever of the mark is damaged, the file gets a whole one; a file that cannot be read gets none.
TEST_F(SnapshotFileHdf5, ADamagedMarkIsRenewedAndAWreckIsNot) {
  namespace fs = std::filesystem;
  const std::string file = folder_.path("a.h5"), link = folder_.path("link.h5");
  write_weights(file, some_weights());
  fs::create_symlink(file, link);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  std::string bytes = content_of(file);
  const size_t at = bytes.find(std::string("\x8f\xc4\x92\x5b\xe0\xa7\xd1\x63", 8));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = 0;
  std::ofstream(file, std::ios::binary) << bytes;
  NetParameter read;
  expect_error([&] { read_weights(file, read); }, {"its checksum is damaged"});
  EXPECT_TRUE(renew_checksum(link));
  EXPECT_TRUE(check_snapshot_file(file));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::resize_file(file, fs::file_size(file) / 2);
  EXPECT_THROW(renew_checksum(file), Error);
  EXPECT_THROW(check_snapshot_file(file), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path("")), fs::directory_iterator()), 2)
      << "nothing is left beside";
}

// A header that was damaged takes no memory for what the file does not hold.
TEST_F(SnapshotFileHdf5, SizesBeyondTheFileAreErrors) {
  Hdf5Writer writer(folder_.path("a.h5"));
  Tensor rows(Shape{4099}, DType::f32);
  rows.fill(1);
  writer.append("/data/a/0", rows);
  writer.finish();
  NetParameter read;
  read_weights(folder_.path("a.h5"), read);
  std::string bytes = content_of(folder_.path("a.h5"));
  const size_t at = bytes.find(std::string("\x03\x10\0\0\0\0\0\0", 8));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 4] = 7;
  folder_.write("a.h5", bytes);
  expect_error([&] { read_weights(folder_.path("a.h5"), read); },
               {"a.h5", "has 30064775171 values of 4 bytes", "it is damaged"});
}

// The header may say less than the file could hold in compressed form, and more than the memory
// does.
TEST_F(SnapshotFileHdf5, SizesBeyondTheMemoryAreErrors) {
  if (!test::kRefusesMemory) GTEST_SKIP() << test::kNeedsRefusedMemory;
  Hdf5Writer writer(folder_.path("a.h5"));
  Tensor rows(Shape{4099}, DType::f32);
  rows.fill(1);
  writer.put("iter", 1);
  for (int i = 0; i < 9; ++i) {
    writer.append(text("/data/a/", i), rows);
    writer.append(text("/history/", i), rows);
  }
  writer.finish();
  std::string bytes = content_of(folder_.path("a.h5"));
  const std::string size("\x03\x10\0\0\0\0\0\0", 8);
  int found = 0;
  for (size_t at = bytes.find(size); at != std::string::npos; at = bytes.find(size, at + 1)) {
    bytes[at + 2] = '\xe0';  // 58 MB
    ++found;
  }
  ASSERT_EQ(found, 18);
  const std::string file = folder_.write("a.h5", bytes);
  NetParameter net;
  SolverState state;
  const test::MemoryLimit limit(size_t{300} << 20);
  expect_error([&] { read_weights(file, net); }, {file, "the memory does not suffice", "damaged"});
  expect_error([&] { read_solver_state(file, state); }, {file, "the memory does not suffice"});
  expect_error([&] { renew_checksum(file); }, {file, "the memory does not suffice"});
}

// Forks write 16 bits of each value.
TEST_F(SnapshotFileHdf5, WritesRawValues) {
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->set_name("ip");
  const auto add = [&](ValueType::Type type, auto... values) {
    BlobProto* blob = layer->add_blobs();
    blob->mutable_shape()->add_dim(sizeof...(values));
    blob->set_raw_data_type(type);
    (blob->mutable_raw_data()->append(reinterpret_cast<const char*>(&values), sizeof values), ...);
  };
  add(ValueType::FLOAT16, uint16_t{0x3C00}, uint16_t{0xC100});  // 1, -2.5
  add(ValueType::FLOAT, 0.25F, 3.0F);
  add(ValueType::DOUBLE, 0.1, 1e-300);
  const std::string file = folder_.path("a.h5");
  write_weights(file, net);
  NetParameter read;
  read_weights(file, read);
  const auto& blobs = read.layer(0).blobs();
  ASSERT_EQ(blobs.size(), 3);
  EXPECT_EQ(blobs[0].data(0), 1);
  EXPECT_EQ(blobs[0].data(1), -2.5F);
  EXPECT_EQ(blobs[1].data(0), 0.25F);
  EXPECT_EQ(blobs[2].double_data(1), 1e-300);
  EXPECT_EQ(values_checksum(read), values_checksum(net));
  layer->mutable_blobs(0)->mutable_shape()->set_dim(0, 3);
  expect_error([&] { write_weights(file, net); }, {"parameter 0 of layer 'ip'", "holds 2 values"});
}

// Damage of files without a checksum is for the library of HDF5 to find, or not: but never a crash.
TEST_F(SnapshotFileHdf5, DamageOfFilesOfOtherProgramsNeverCrashes) {
  Hdf5Writer writer(folder_.path("a.h5"));
  writer.put_attribute("origin_program", "crema 0.1.0");
  writer.put_attribute("origin_class_name", "cat\ndog");
  Tensor values(Shape{40}, DType::f32);
  values.fill(0.5);
  for (const char* name : {"/data/a/0", "/data/a/1", "/data/b/0"}) writer.put(name, values);
  writer.finish();
  const std::string whole = content_of(folder_.path("a.h5"));
  int refused = 0;
  for (size_t size = 0; size < whole.size(); size += 37) {
    NetParameter weights;
    try {
      read_weights(folder_.write("cut.h5", whole.substr(0, size)), weights);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size() / 37) - 2);
  // In a process of their own: the result is a message or an Error, no end of the process.
  const auto flip = [&] {
    for (size_t bit = 0; bit < whole.size() * 8; bit += 2 * (whole.size() / 250) + 1) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
      const std::string file = folder_.write("flipped.h5", damaged);
      NetParameter weights;
      try {
        read_weights(file, weights);
      } catch (const Error&) {
      }
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(flip(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace crema
