// crema diff, inspect and merge-bn, as a user runs them.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "crema/net.hpp"
#include "model/binary_format.hpp"
#include "model/origin.hpp"
#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/database.hpp"
#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace {

using namespace crema;
using namespace crema::test;

class ModelFilesCliTest : public CliTest {
 protected:
  /// Layers "a" with arrays of 2x3 and 2, and "b" with one of 4.
  static NetParameter weights() {
    NetParameter net;
    parse_text_proto(R"(name: "tiny"
layer { name: "a" type: "InnerProduct" blobs { shape { dim: 2 dim: 3 } data: [1, 2, 3, 4, 5, 6] }
        blobs { shape { dim: 2 } data: [0, -1] } }
layer { name: "relu" type: "ReLU" }
layer { name: "b" type: "Scale" blobs { shape { dim: 4 } data: [1, 1, 1, 1] } })",
                     "tiny", net);
    return net;
  }
  /// Scripts tell files that differ from those that cannot be read.
  static void expect_diff_error(const std::string& arguments,
                                std::initializer_list<std::string> parts) {
    expect_refusal(arguments, parts, 2);
  }
  std::string save(const std::string& name, const google::protobuf::Message& message) const {
    write_binary_proto_atomically(path(name), message);
    return path(name);
  }
};

TEST_F(ModelFilesCliTest, DiffOfEqualFiles) {
  const std::string a = save("a.caffemodel", weights()), b = save("b.caffemodel", weights());
  const Output output = run("diff " + a + " " + b);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("3 equal (3 to the bit), 0 within tolerance, 0 different"))
      << output.text;
}

// Arrays of raw bytes, as a fork writes them, have values; arrays without their values are refused.
TEST_F(ModelFilesCliTest, DiffReadsRawValues) {
  const auto with_raw = [](const std::string& bytes) {
    NetParameter net = weights();
    BlobProto& blob = *net.mutable_layer(2)->mutable_blobs(0);
    blob.clear_data();
    blob.set_raw_data_type(ValueType::FLOAT16);
    blob.set_raw_data(bytes);
    return net;
  };
  const std::string ones("\0\x3c\0\x3c\0\x3c\0\x3c", 8), two("\0\x3c\0\x3c\0\x3c\0\x40", 8);
  const std::string a = save("a.caffemodel", with_raw(ones));
  const Output same = run("diff " + a + " " + save("floats.caffemodel", weights()));
  EXPECT_EQ(same.status, 0) << same.text;
  EXPECT_TRUE(same.says("3 equal (2 to the bit)")) << same.text;
  const Output other = run("diff " + a + " " + save("two.caffemodel", with_raw(two)));
  EXPECT_EQ(other.status, 1) << other.text;
  EXPECT_TRUE(other.says("1 different")) << other.text;
  const std::string few = save("few.caffemodel", with_raw(ones.substr(2)));
  expect_diff_error("diff " + few + " " + few, {"array 0 of 'b'", "holds 3 values"});
}

TEST_F(ModelFilesCliTest, DiffNamesWhatDiffers) {
  NetParameter other = weights();
  other.mutable_layer(0)->mutable_blobs(0)->set_data(5, 6.5F);   // 2x3
  other.mutable_layer(0)->mutable_blobs(1)->set_data(0, -0.0F);  // equal, other bits
  other.mutable_layer(2)->mutable_blobs(0)->mutable_shape()->set_dim(0, 2);
  other.mutable_layer(2)->mutable_blobs(0)->add_data(1);
  other.mutable_layer(2)->mutable_blobs(0)->mutable_data()->Truncate(2);
  *other.add_layer() = weights().layer(2);
  other.mutable_layer(3)->set_name("new");
  NetParameter first = weights();
  *first.add_layer() = weights().layer(2);
  first.mutable_layer(3)->set_name("old");
  const std::string a = save("a.caffemodel", first), b = save("b.caffemodel", other);
  const Output output = run("diff " + a + " " + b);
  EXPECT_EQ(output.status, 1) << output.text;
  // |6 - 6.5|, of 6.5, and the root of 0.25 / 6.
  EXPECT_TRUE(
      output.says("a 0   different                0.5     0.07692      0.2041            1  2x3"))
      << output.text;
  for (const char* part : {"shapes differ", "4 and 2", "old 0 only in A", "new 0 only in B",
                           "1 equal (0 to the bit), 0 within tolerance, 1 different, 1 of other "
                           "shapes, 1 only in A, 1 only in B"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
}

// What decides how a run goes on counts; the names of its files do not.
TEST_F(ModelFilesCliTest, DiffOfStatesComparesAllFields) {
  SolverState state;
  state.set_iter(3);
  state.set_learned_net("a.caffemodel");
  state.add_data_cursor()->set_position(5);
  state.add_recent_loss(std::numeric_limits<double>::quiet_NaN());
  const std::string a = save("a.solverstate", state);
  state.set_learned_net("b.caffemodel");
  state.mutable_origin()->set_solver("b/solver.prototxt");
  EXPECT_EQ(run("diff " + a + " " + save("b.solverstate", state)).status, 0);
  state.mutable_data_cursor(0)->set_position(6);
  state.set_type("Adam");
  const Output output = run("diff " + a + " " + save("b.solverstate", state));
  EXPECT_EQ(output.status, 1) << output.text;
  EXPECT_TRUE(output.says("data_cursor[0].position: 5 -> 6")) << output.text;
  EXPECT_TRUE(output.says("type: \"\" -> \"Adam\"")) << output.text;
}

TEST_F(ModelFilesCliTest, DiffWithinATolerance) {
  NetParameter other = weights();
  other.mutable_layer(0)->mutable_blobs(0)->set_data(5, 6.06F);  // 0.06 of 6.06
  const std::string files = save("a.caffemodel", weights()) + " " + save("b.caffemodel", other);
  EXPECT_EQ(run("diff " + files).status, 1);
  EXPECT_EQ(run("diff --tolerance 0.0098 " + files).status, 1);
  const Output near = run("diff --tolerance 0.01 " + files);
  EXPECT_EQ(near.status, 0) << near.text;
  EXPECT_TRUE(near.says("1 within tolerance")) << near.text;
  // A value that is not finite is never near.
  other.mutable_layer(0)->mutable_blobs(0)->set_data(5, std::numeric_limits<float>::quiet_NaN());
  save("b.caffemodel", other);
  EXPECT_EQ(run("diff --tolerance 1e30 " + files).status, 1);
  EXPECT_TRUE(run("diff --json " + files)
                  .says(R"("finding": "different", "bit_equal": false, )"
                        R"("differing": 1, "max_abs": null)"));
  expect_diff_error("diff --tolerance -1 " + files, {"--tolerance -1 is negative"});
  expect_diff_error("diff --tolerance nan " + files, {"--tolerance nan is no number"});
}

TEST_F(ModelFilesCliTest, DiffOfStates) {
  SolverState state;
  state.set_iter(10);
  state.set_seed(3);
  BlobProto* history = state.add_history();
  history->mutable_shape()->add_dim(2);
  history->add_data(0.5F);
  history->add_data(0.25F);
  const std::string a = save("a.solverstate", state);
  EXPECT_EQ(run("diff " + a + " " + a).status, 0);
  state.set_iter(20);
  const Output output = run("diff " + a + " " + save("b.solverstate", state));
  EXPECT_EQ(output.status, 1) << output.text;
  EXPECT_TRUE(output.says("iteration: 10 and 20")) << output.text;
  expect_diff_error("diff " + a + " " + save("w.caffemodel", weights()),
                    {"solver's state", "weights file", "one kind"});
  expect_diff_error("diff " + a, {"two files"});
  expect_diff_error("diff " + a + " " + path("none"), {"none"});
}

TEST_F(ModelFilesCliTest, InspectsWeights) {
  NetParameter net = weights();
  net.mutable_layer(2)->mutable_blobs(0)->set_data(1, std::numeric_limits<float>::quiet_NaN());
  net.mutable_layer(2)->mutable_blobs(0)->set_data(2, -std::numeric_limits<float>::infinity());
  const Output output = run("inspect " + save("a.caffemodel", net));
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"a.caffemodel: weights file, binary V2", "net: tiny",
                           // min, max, mean, and the root of 35 / 12
                           "a     InnerProduct   0 2x3        24 B           1           6         "
                           "3.5       1.708         0\n",
                           "NaN: 1 inf: 1", "3 arrays, 12 values, 48 B; 1 NaN, 1 infinite"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  const Output json = run("inspect --json " + path("a.caffemodel"));
  EXPECT_TRUE(json.says(
      R"("layer": "a", "type": "InnerProduct", "index": 1, "shape": [2], "values": 2, "bytes": 8, "min": -1, "max": 0, "mean": -0.5, "std": 0.5, "zeros": 1, "nan": 0, "inf": 0)"))
      << json.text;
}

TEST_F(ModelFilesCliTest, InspectTellsDamagedArraysByStatusAndJson) {
  NetParameter net = weights();
  net.mutable_layer(2)->mutable_blobs(0)->add_data(1);
  const std::string good = save("good.caffemodel", weights()), bad = save("bad.caffemodel", net);
  const Output output = run("inspect " + bad + " " + good);
  EXPECT_EQ(output.status, 1) << output.text;
  EXPECT_TRUE(output.says("damaged: 5 values")) << output.text;
  EXPECT_TRUE(output.says("good.caffemodel: weights file")) << "goes on\n" << output.text;
  const Output json = run("inspect --json " + bad);
  EXPECT_EQ(json.status, 1) << json.text;
  EXPECT_EQ(json.count("\"damaged\": true}"), 1) << json.text;
  const Output whole = run("inspect --json " + good);
  EXPECT_EQ(whole.status, 0) << whole.text;
  EXPECT_FALSE(whole.says("damaged")) << whole.text;
}

// The first bad file ended the command. Names that are no UTF-8 made JSON that nothing reads.
TEST_F(ModelFilesCliTest, InspectReportsBadFilesAndGoesOn) {
  NetParameter net;
  net.add_layer()->set_name("a\xE9");
  const std::string good = save("good.caffemodel", net), bad = write("b\xFF", "no weights");
  const Output output = run("inspect " + path("none") + " " + bad + " " + good);
  EXPECT_EQ(output.status, 1);
  for (const std::string& part : {std::string("crema: cannot open"), path("none"),
                                  path("b\\xff") + "' is not a", good + ": weights"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  const Output json = run("inspect --json " + bad + " " + good + " 2>/dev/null; exit $?");
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(json.count("\n"), 2) << json.text;
  EXPECT_TRUE(json.says("/b\xEF\xBF\xBD\", \"error\": \"")) << json.text;
  EXPECT_FALSE(json.says("\xFF")) << json.text;
}

TEST_F(ModelFilesCliTest, InspectsOldFormats) {
  NetParameter v1, v0;
  parse_text_proto(
      R"(layers { name: "ip" type: INNER_PRODUCT blobs { num: 1 channels: 1 height: 2 width: 1 data: [1, 2] } })",
      "v1", v1);
  parse_text_proto(
      R"(layers { layer { name: "ip" type: "innerproduct" blobs { num: 1 channels: 1 height: 2 width: 1 data: [1, 2] } } })",
      "v0", v0);
  const Output first = run("inspect " + save("v1.caffemodel", v1));
  EXPECT_TRUE(first.says("binary V1") && first.says("INNER_PRODUCT") && first.says("1x1x2x1"))
      << first.text;
  const Output second = run("inspect " + save("v0.caffemodel", v0));
  EXPECT_TRUE(second.says("binary V0") && second.says("innerproduct")) << second.text;
}

TEST_F(ModelFilesCliTest, InspectsStatesMeansAndDatabases) {
  SolverState state;
  state.set_iter(10);
  state.set_seed(3);
  state.set_learned_net("x.caffemodel");
  DataCursor* cursor = state.add_data_cursor();
  cursor->set_layer("data");
  cursor->set_epoch(2);
  cursor->set_position(5);
  BlobProto mean;
  mean.set_num(1);
  mean.set_channels(3);
  mean.set_height(1);
  mean.set_width(1);
  for (const float value : {1.0F, 2.0F, 3.0F}) mean.add_data(value);
  write_counting_database(path("db"), 7);
  const Output output = run("inspect " + save("a.solverstate", state) + " " +
                            save("mean.binaryproto", mean) + " " + path("db"));
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"a.solverstate: solver's state, binary", "iteration: 10", "seed: 3",
                           "weights: x.caffemodel", "position of data: epoch 2, record 5",
                           "mean.binaryproto: array, binary", "1x3x1x1", "database", "records: 7",
                           "first key: 00000000", "1x2x3 raw bytes, label 0"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  EXPECT_TRUE(run("inspect --json " + path("db")).says(R"("records": 7)"));
}

TEST_F(ModelFilesCliTest, InspectRefusesOtherFiles) {
  expect_refusal("inspect", {"inspect takes files"});
  expect_refusal("inspect " + net(), {"is not a", "text"});
  expect_refusal("inspect " + path("none"), {"none"});
  const std::string file = save("a.caffemodel", weights());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  expect_refusal("inspect " + file, {"its contents changed"});
}

TEST_F(ModelFilesCliTest, MergesANet) {
  const std::string model = write("deploy.prototxt", R"(name: "tiny"
input: "x" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 5
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 bias_term: false } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "last" type: "Scale" bottom: "conv" top: "last" }
layer { name: "prior" type: "PriorBox" bottom: "last" bottom: "x" top: "prior" prior_box_param { min_size: 2 } })");
  NetParameter net;
  parse_text_proto(R"(
layer { name: "conv" blobs { shape { dim: 3 dim: 2 dim: 3 dim: 3 } } }
layer { name: "norm" blobs { shape { dim: 3 } data: [1, 2, 3] } blobs { shape { dim: 3 } data: [1, 2, 3] } blobs { shape { dim: 1 } data: [1] } }
layer { name: "last" blobs { shape { dim: 3 } data: [1, 2, 3] } }
origin { program: "another" solver: "solver.prototxt" class_name: "cat" })",
                   "weights", net);
  for (int i = 0; i < 54; ++i) {
    net.mutable_layer(0)->mutable_blobs(0)->add_data(static_cast<float>(std::sin(i)));
  }
  const std::string weights_file = save("w.caffemodel", net);
  const std::string command = "merge-bn " + model + " " + weights_file + " " +
                              path("merged.prototxt") + " " + path("merged.caffemodel");
  const Output output = run(command);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"norm (BatchNorm): folded into 'conv'",
                           "last (Scale): not folded: layer 'relu' (ReLU) beside it has no weights",
                           "1 of 2 layers folded; outputs agree to"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  const Output summary = run("summary --phase TEST --model=" + path("merged.prototxt"));
  EXPECT_EQ(summary.status, 0) << summary.text;
  EXPECT_FALSE(summary.says("BatchNorm")) << summary.text;
  // Other programs have no such defaults.
  NetParameter written;
  read_text_proto(path("merged.prototxt"), written);
  const PriorBoxParameter& prior = written.layer(written.layer_size() - 1).prior_box_param();
  EXPECT_TRUE(prior.has_clip() && prior.has_flip() && prior.variance_size() == 1);
  Context context;
  Net merged(path("merged.prototxt"), context,
             {.phase = Phase::test, .weights = {path("merged.caffemodel")}, .strict = true});
  EXPECT_EQ(merged.forward(), 0);
  NetParameter written_weights;
  read_binary_proto(path("merged.caffemodel"), written_weights);
  EXPECT_EQ(written_weights.origin().program(), program_version());
  EXPECT_EQ(written_weights.origin().net(), model);
  EXPECT_FALSE(written_weights.origin().has_solver());
  ASSERT_EQ(written_weights.origin().class_name_size(), 1);
  EXPECT_EQ(written_weights.origin().class_name(0), "cat") << "that of the weights";
  expect_refusal(command, {"merged.prototxt", "exists already", "--overwrite"});
  EXPECT_EQ(run(command + " --overwrite").status, 0);
  // Neither an input nor the other output is written over.
  const std::string inputs = "merge-bn --overwrite " + model + " " + weights_file + " ";
  expect_refusal(inputs + path("x") + " " + path("x"), {"x' is given twice"});
  expect_refusal(inputs + model + " " + path("x"), {"deploy.prototxt' is given twice"});
  std::filesystem::create_symlink(weights_file, path("link.caffemodel"));
  expect_refusal(inputs + path("x") + " " + path("link.caffemodel"), {"given twice"});
  EXPECT_FALSE(std::filesystem::exists(path("x")));
  expect_refusal("merge-bn " + model, {"NET WEIGHTS OUT_NET OUT_WEIGHTS"});
  // Neither output appears without the other.
  expect_refusal(inputs + path("no/net.prototxt") + " " + path("alone.caffemodel"),
                 {"there is no folder", "make it"});
  EXPECT_FALSE(std::filesystem::exists(path("alone.caffemodel")));
  // A file of at most 1 KiB stands for a full disk: the weights fit, the net with its name does
  // not.
  NetParameter named;
  read_text_proto(model, named);
  named.set_name(std::string(2000, 'n'));
  write_text_proto_atomically(path("long.prototxt"), named);
  const Output full = run("merge-bn " + path("long.prototxt") + " " + weights_file + " " +
                              path("full.prototxt") + " " + path("alone.caffemodel"),
                          text("ulimit -f 2; ", CREMA_TOOL));
  EXPECT_EQ(full.status, 1) << full.text;
  EXPECT_TRUE(full.says("full.prototxt")) << full.text;
  for (const char* name : {"full.prototxt", "alone.caffemodel"})
    EXPECT_FALSE(std::filesystem::exists(path(name))) << name;
}

}  // namespace
