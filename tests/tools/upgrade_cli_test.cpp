// crema upgrade-net-proto-text, upgrade-net-proto-binary and upgrade-solver-proto-text, and what
// other commands say of old files.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/binary_format.hpp"
#include "model/origin.hpp"
#include "model/text_format.hpp"
#include "proto/solver.pb.h"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

class UpgradeCliTest : public CliTest {
 protected:
  std::string old_net() const {
    return write("old.prototxt", R"(# a comment
name: "old" input: "x" input_dim: 1 input_dim: 1 input_dim: 8 input_dim: 8
layers { name: "conv" type: CONVOLUTION bottom: "x" top: "c" blobs_lr: 1 blobs_lr: 2
         convolution_param { num_output: 2 kernel_size: 3 } }
layers { layer { name: "pool" type: "pool" kernelsize: 2 stride: 2 } bottom: "c" top: "p" }
)");
  }
  static std::string content(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
};

TEST_F(UpgradeCliTest, TextNetsAreRewritten) {
  const std::string old = old_net(), before = content(old), fresh = path("new.prototxt");
  for (const char* command : {"upgrade-net-proto-text ", "upgrade_net_proto_text "}) {
    std::filesystem::remove(fresh);
    const Output output = run(command + old + " " + fresh);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("1 layer of the V0 format")) << output.text;
    EXPECT_TRUE(output.says("Input layer 'input'")) << output.text;
    EXPECT_TRUE(output.says("Wrote " + fresh)) << output.text;
    EXPECT_EQ(content(old), before);
    NetParameter net;
    read_text_proto(fresh, net);
    ASSERT_EQ(net.layer_size(), 3);
    EXPECT_EQ(net.layers_size(), 0);
    EXPECT_EQ(net.layer(1).type(), "Convolution");
    EXPECT_EQ(net.layer(1).param(1).lr_mult(), 2);
    EXPECT_EQ(net.layer(2).pooling_param().kernel_size(), 2u);
  }
  const Output summary = run("summary --model " + fresh);
  EXPECT_EQ(summary.status, 0) << summary.text;
  EXPECT_FALSE(summary.says("old form")) << summary.text;
  EXPECT_FALSE(std::filesystem::exists(path("new.prototxt.tmp")));
}

/// Other readers of prototxts have no defaults for them, or others.
TEST_F(UpgradeCliTest, FieldsOfDetectionLayersAreWrittenOut) {
  const std::string layers = R"(
layer { name: "prior" type: "PriorBox" bottom: "m" bottom: "x" top: "prior" prior_box_param { min_size: 30 } }
layer { name: "out" type: "DetectionOutput" bottom: "l" bottom: "c" bottom: "prior" top: "out"
        detection_output_param { num_classes: 3 nms_param { nms_threshold: 0.45 } } }
)";
  const auto check = [&](const NetParameter& net) {
    ASSERT_EQ(net.layer_size(), 2);
    const PriorBoxParameter& prior = net.layer(0).prior_box_param();
    EXPECT_TRUE(prior.has_clip() && !prior.clip() && prior.has_flip() && prior.flip());
    EXPECT_EQ(prior.variance_size(), 1);
    const DetectionOutputParameter& out = net.layer(1).detection_output_param();
    EXPECT_TRUE(out.has_share_location() && out.share_location());
    EXPECT_TRUE(out.has_background_label_id() && out.background_label_id() == 0);
    EXPECT_TRUE(out.has_code_type() && out.has_keep_top_k());
    EXPECT_EQ(out.nms_param().top_k(), -1);
    EXPECT_EQ(out.nms_param().nms_threshold(), 0.45F);
  };
  const std::string fresh = path("new.prototxt");
  const std::string old = write("old.prototxt", layers);
  const Output output = run("upgrade-net-proto-text " + old + " " + fresh);
  ASSERT_EQ(output.status, 0) << output.text;
  const std::string prior =
      "layer 'prior' (PriorBox): flip: true, clip: false, offset: 0.5, variance: 0.1 written out";
  EXPECT_TRUE(output.says(prior)) << output.text;
  EXPECT_FALSE(output.says("current form")) << output.text;
  NetParameter net;
  read_text_proto(fresh, net);
  check(net);
  // In place, too; the second time there is nothing to do.
  for (const bool again : {false, true}) {
    const Output in_place = run("upgrade-net-proto-text --overwrite " + old + " " + old);
    EXPECT_EQ(in_place.status, 0) << in_place.text;
    EXPECT_EQ(in_place.says("it stays as it is"), again) << in_place.text;
    EXPECT_EQ(content(old), content(fresh));
  }
  const std::string solver = path("solver.new");
  const Output nested =
      run("upgrade-solver-proto-text " +
          write("solver.prototxt", "type: 'Adam' base_lr: 1 lr_policy: 'fixed' test_net_param {" +
                                       layers + "} net_param {" + layers + "}") +
          " " + solver);
  ASSERT_EQ(nested.status, 0) << nested.text;
  EXPECT_TRUE(nested.says("test_net_param[0]: " + prior)) << nested.text;
  EXPECT_TRUE(nested.says("net_param: layer 'out' (DetectionOutput): share_location"))
      << nested.text;
  SolverParameter both;
  read_text_proto(solver, both);
  check(both.net_param());
  check(both.test_net_param(0));
}

TEST_F(UpgradeCliTest, PublishedNamesArePrograms) {
  const std::filesystem::path folder = std::filesystem::path(CREMA_TOOL).parent_path();
  const std::string fresh = path("new.prototxt");
  const Output output = run(old_net() + " " + fresh, (folder / "upgrade_net_proto_text").string());
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(std::filesystem::exists(fresh));
  for (const char* name : {"upgrade_net_proto_binary", "upgrade_solver_proto_text"}) {
    const Output help = run("--help", (folder / name).string());
    EXPECT_EQ(help.status, 0) << help.text;
    EXPECT_TRUE(help.says("OLD NEW")) << help.text;
  }
}

TEST_F(UpgradeCliTest, AFileMayBeRewrittenInPlace) {
  const std::string net = old_net(), before = content(net);
  for (const char* command : {"upgrade-net-proto-text ", "upgrade_net_proto_text "}) {
    expect_refusal(command + net + " " + net, {"the old file and the new one", "--overwrite"});
  }
  EXPECT_EQ(content(net), before);
  EXPECT_EQ(run("upgrade-net-proto-text --overwrite " + net + " " + net).status, 0);
  const std::string once = content(net);
  EXPECT_NE(once.find("type: \"Convolution\""), std::string::npos) << once;
  // The second time there is nothing to do, and the file keeps its comments.
  write("old.prototxt", "# mine\n" + once);
  const Output again = run("upgrade-net-proto-text " + net + " " + net);
  EXPECT_EQ(again.status, 0);
  EXPECT_TRUE(again.says("is in the current form already; it stays as it is")) << again.text;
  EXPECT_EQ(content(net), "# mine\n" + once);
}

// Whatever was at the place of the new file was replaced without a word.
TEST_F(UpgradeCliTest, ExistingFilesAreReplacedIfToldOrTheirOwnByThePublishedName) {
  const std::string old = old_net();
  NetParameter v1;
  v1.add_layers()->set_name("a");
  v1.mutable_layers(0)->set_type(V1LayerParameter::RELU);
  const std::string weights = path("old.caffemodel");
  write_binary_proto_atomically(weights, v1);
  const std::string solver = write("old_solver.prototxt", "net: 'a' solver_type: ADAM");
  struct Case {
    std::string command, published, in, kind, other;
  };
  for (const Case& of : {Case{"upgrade-net-proto-text ", "upgrade_net_proto_text ", old,
                              "net prototxt", write("notes", "my notes")},
                         Case{"upgrade-solver-proto-text ", "upgrade_solver_proto_text ", solver,
                              "solver prototxt", old},
                         Case{"upgrade-net-proto-binary ", "upgrade_net_proto_binary.bin ", weights,
                              "weights file", write("photo.jpg", "\xFF\xD8\xFF")}}) {
    const std::string fresh = path("new_of_" + of.kind.substr(0, 3)), other = content(of.other);
    EXPECT_EQ(run(of.command + of.in + " " + fresh).status, 0);
    const std::string written = content(fresh);
    expect_refusal(of.command + of.in + " " + fresh, {fresh, "exists already", "--overwrite"});
    const Output again = run(of.published + of.in + " " + fresh);
    EXPECT_EQ(again.status, 0) << again.text;
    EXPECT_TRUE(again.says(fresh + " exists already, a " + of.kind + ", and is replaced"))
        << again.text;
    EXPECT_EQ(content(fresh), written);
    for (const std::string& command : {of.command, of.published}) {
      expect_refusal(command + of.in + " " + of.other,
                     {of.other, "exists already, and is no " + of.kind, "--overwrite"});
    }
    EXPECT_EQ(content(of.other), other);
    const std::string told = path("told");
    std::filesystem::copy_file(of.other, told);
    EXPECT_EQ(run(of.command + "--overwrite " + of.in + " " + told).status, 0);
    EXPECT_EQ(content(told), written);
    std::filesystem::remove(told);
  }
}

// The command waited for ever for what it would read from there.
TEST_F(UpgradeCliTest, PipesAndDevicesAreRefusedWithoutReading) {
  const std::string pipe = path("pipe"), solver = write("solver.prototxt", "type: 'SGD'");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& out : {pipe, std::string("/dev/stdout"), std::string("/dev/null")}) {
    for (const std::string flag : {"", "--overwrite "}) {
      for (const std::string& command : {"upgrade-net-proto-text " + flag + old_net(),
                                         "upgrade-solver-proto-text " + flag + solver,
                                         "upgrade_net_proto_text " + flag + old_net()}) {
        expect_refusal(command + " " + out, {out, "is a device or a pipe", "name a file"});
      }
    }
  }
}

// A link was replaced by a file.
TEST_F(UpgradeCliTest, LinksStayLinks) {
  const std::string target = write("target", "kept where?");
  std::filesystem::create_symlink(target, path("link"));
  EXPECT_EQ(run("upgrade-net-proto-text --overwrite " + old_net() + " " + path("link")).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_NE(content(target).find("type: \"Convolution\""), std::string::npos) << content(target);
}

TEST_F(UpgradeCliTest, WhatFailsLeavesBothFiles) {
  const std::string bad = write("bad.prototxt", "name: 'a'\nlayers { name: 'b' type: NONE }\n");
  const std::string fresh = write("new.prototxt", "kept");
  expect_refusal("upgrade-net-proto-text " + bad + " " + fresh,
                 {bad + ":2:", "layer 'b'", "has no type"});
  EXPECT_EQ(content(fresh), "kept");
  expect_refusal("upgrade-net-proto-text " + old_net() + " " + path("no/new.prototxt"),
                 {"cannot write", "create the folder"});
  expect_refusal("upgrade-net-proto-text " + bad, {"an old file and the file to write", "1 arg"});
  expect_refusal("upgrade-net-proto-text " + path("none.prototxt") + " " + fresh,
                 {"none.prototxt"});
  expect_refusal("upgrade-net-proto-binary " + old_net() + " " + fresh, {"is not a weights file"});
  expect_refusal("upgrade-net-proto-binary " + write("a.h5", "\x89HDF\r\n\x1A\n") + " " + fresh,
                 {"an HDF5 file", "no old form", "read them as they are"});
  expect_refusal("upgrade-net-proto-text " + write("empty.prototxt", "name: 'a'") + " " + fresh,
                 {"has no layers"});
}

TEST_F(UpgradeCliTest, BinaryNetsKeepTheirWeights) {
  NetParameter old;
  parse_text_proto(R"(layers { name: "conv" type: CONVOLUTION bottom: "x" top: "c"
    convolution_param { num_output: 2 kernel_size: 1 }
    blobs { num: 2 channels: 1 height: 1 width: 1 data: 3 data: 4 }
    blobs { num: 1 channels: 1 height: 1 width: 2 data: 5 data: 6 } })",
                   "old", old);
  const std::string file = path("old.caffemodel"), fresh = path("new.caffemodel");
  write_binary_proto_atomically(file, old);
  for (const std::string& out : {fresh, file}) {
    const Output output = run("upgrade-net-proto-binary --overwrite " + file + " " + out);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("1 layer of the V1 format")) << output.text;
    NetParameter net;
    read_binary_proto(out, net);
    ASSERT_EQ(net.layer_size(), 1);
    EXPECT_EQ(net.layers_size(), 0);
    EXPECT_EQ(net.layer(0).type(), "Convolution");
    ASSERT_EQ(net.layer(0).blobs_size(), 2);
    EXPECT_EQ(net.layer(0).blobs(0).num(), 2);
    EXPECT_EQ(net.layer(0).blobs(1).data(1), 6);
    EXPECT_EQ(net.origin().program(), program_version());
    EXPECT_FALSE(net.origin().has_solver());
  }
}

TEST_F(UpgradeCliTest, SolversAreRewritten) {
  const std::string old = write("old.prototxt", "net: 'a' base_lr: 0.01 solver_type: NESTEROV");
  const std::string fresh = path("new.prototxt");
  const Output output = run("upgrade-solver-proto-text " + old + " " + fresh);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("solver_type: NESTEROV became type: \"Nesterov\"")) << output.text;
  SolverParameter solver;
  read_text_proto(fresh, solver);
  EXPECT_EQ(solver.type(), "Nesterov");
  EXPECT_FALSE(solver.has_solver_type());
  EXPECT_FLOAT_EQ(solver.base_lr(), 0.01F);
  expect_refusal("upgrade_solver_proto_text " +
                     write("both.prototxt", "net: 'a'\ntype: 'SGD'\nsolver_type: ADAM") + " " +
                     fresh,
                 {"both.prototxt:3:1", "keep type"});
}

TEST_F(UpgradeCliTest, OtherCommandsNameTheCommand) {
  const std::string net = old_net();
  const Output summary = run("summary --model " + net);
  EXPECT_EQ(summary.status, 0) << summary.text;
  EXPECT_EQ(summary.count("crema upgrade-net-proto-text " + net), 1) << summary.text;

  const std::string training = write("train.prototxt", R"(
layers { name: "x" type: DUMMY_DATA top: "x" dummy_data_param { num: 2 channels: 3 height: 1 width: 1 } }
layers { name: "ip" type: INNER_PRODUCT bottom: "x" top: "ip" inner_product_param { num_output: 3 } }
layers { name: "loss" type: EUCLIDEAN_LOSS bottom: "ip" bottom: "x" top: "loss" })");
  const std::string solver =
      write("solver.prototxt", "train_net: '" + training +
                                   "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 solver_type: SGD "
                                   "snapshot_after_train: false");
  const Output train = run("train --solver " + solver);
  EXPECT_EQ(train.status, 0) << train.text;
  EXPECT_EQ(train.count("crema upgrade-net-proto-text " + training), 1) << train.text;
  EXPECT_EQ(train.count("crema upgrade-solver-proto-text " + solver), 1) << train.text;
}

}  // namespace
}  // namespace crema::test
