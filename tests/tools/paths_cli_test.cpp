// Paths, names and texts of strange forms, as a user meets them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/utf8.hpp"
#include "model/binary_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAtHome = "HOME=/home/me SETS=/data/sets " CREMA_TOOL;

class PathsCliTest : public CliTest {
 protected:
  /// Expects a refusal that has each of the parts, and no advice to make what is not there.
  static void refused(const std::string& words, std::initializer_list<std::string> parts) {
    const Output output = run(words, kAtHome);
    EXPECT_EQ(output.status, 1) << words << "\n" << output.text;
    for (const std::string& part : parts)
      EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
    for (const char* advice : {"make it", "did you mean"})
      EXPECT_FALSE(output.says(advice)) << output.text;
  }
  /// A net whose layer has these settings.
  std::string net_of(const std::string& type, const std::string& settings) {
    return write("of.prototxt", "layer { name: 'x' type: '" + type + "' " + settings + " }");
  }
  static std::string text_of(const std::string& file) {
    std::stringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return text.str();
  }
};

TEST_F(PathsCliTest, FieldsWithATildeOrAVariableSayThatItIsNotReplaced) {
  const struct {
    const char *type, *settings;
  } kFields[] = {
      {"Data", "top: 'd' data_param { source: '@' batch_size: 1 backend: LMDB }"},
      {"Data", "top: 'd' data_param { source: '@' batch_size: 1 backend: LEVELDB }"},
      {"Data", "top: 'd' data_param { source: '@' batch_size: 1 backend: IMAGE_LIST }"},
      {"Data", "top: 'd' data_param { source: '@' batch_size: 1 backend: FOLDER }"},
      {"Data", "top: 'd' data_param { source: '@' batch_size: 1 backend: TAR }"},
      {"ImageData", "top: 'd' top: 'l' image_data_param { source: '@' batch_size: 1 }"},
      {"HDF5Data", "top: 'd' hdf5_data_param { source: '@' batch_size: 1 }"},
      {"WindowData",
       "top: 'd' top: 'l' transform_param { crop_size: 8 } window_data_param { "
       "source: '@' batch_size: 1 }"},
      {"DenseImageData", "top: 'd' top: 'l' dense_image_data_param { source: '@' batch_size: 1 }"},
      {"AnnotatedData", "top: 'd' top: 'l' data_param { source: '@' batch_size: 1 }"},
  };
  for (const auto& [type, settings] : kFields) {
    for (const auto& [written, meant] :
         {std::pair{"~/data/x", "~ is not replaced here: write '/home/me/data/x'"},
          {"${SETS}/x", "${SETS} is not replaced here: write '/data/sets/x'"},
          {"$CREMA_NOT_SET/x", "CREMA_NOT_SET is not set"}}) {
      std::string text = settings;
      text.replace(text.find('@'), 1, written);
      refused("summary --model " + net_of(type, text), {written, meant});
    }
  }
}

TEST_F(PathsCliTest, FilesBesideTheDataToo) {
  write("list.txt", "a.jpg 0\n");
  const std::string images =
      "top: 'd' top: 'l' image_data_param { batch_size: 1 source: '" + path("list.txt") + "' ";
  refused("summary --model " + net_of("ImageData", images + "root_folder: '~/images/' }"),
          {"~ is not replaced here: write '/home/me/images/a.jpg'"});
  refused("summary --model " +
              net_of("ImageData", images + "} transform_param { mean_file: '$SETS/mean' }"),
          {"$SETS is not replaced here: write '/data/sets/mean'"});
  write("h5.txt", "~/a.h5\n");
  refused(
      "summary --model " + net_of("HDF5Data", "top: 'd' hdf5_data_param { batch_size: 1 source: '" +
                                                  path("h5.txt") + "' }"),
      {"~ is not replaced here: write '/home/me/a.h5'"});
}

TEST_F(PathsCliTest, SolversAndFlagsToo) {
  const std::string here = "~ is not replaced here: write '/home/me/x'";
  refused("train --solver " + solver("max_iter: 1 snapshot_prefix: '~/x'"), {here});
  EXPECT_TRUE(
      run("train --solver " + solver("max_iter: 1 snapshot_prefix: '~/models/net'"), kAtHome)
          .says("~ is not replaced here: write '/home/me/models/net'"));
  // Without a folder, the files would be made here.
  refused("train --solver " + solver("max_iter: 1 snapshot_prefix: '$SETS'"),
          {"$SETS is not replaced here: write '/data/sets'"});
  refused(
      "train --solver " + solver("max_iter: 1 weights: '~/x' snapshot_prefix: '" + path("s") + "'"),
      {here});
  refused("train --solver " +
              write("s.prototxt", "net: '~/x' base_lr: 1 lr_policy: 'fixed' max_iter: 1"),
          {here});
  for (const std::string flag : {"--solver='~/x'", "-solver='~/x'"})
    refused("train " + flag, {here});
  refused("train --snapshot='~/x' --solver " + snapshotting_solver("max_iter: 1"), {here});
  refused("test --iterations 1 --weights='~/x' --model " + net(), {here});
  refused("summary --tuning_file='~/x' --model " + net(), {here});
  refused("summary --plugin='~/x' --model " + net(), {here});
  refused("summary --flagfile='~/x'", {here});
  refused("inspect '~/x'", {here});
  refused("checksum '~/x'", {here});
  refused("draw " + net() + " '~/x.svg'", {"~ is not replaced here: write '/home/me/x.svg'"});
  refused("draw " + net() + " '" + path("$SETS.dot") + "'",
          {"$SETS is not replaced here: write '"});
  refused("convert-imageset / '~/x' " + path("out"), {here});
  refused("convert-imageset / " + write("list.txt", "a.jpg 0\n") + " '~/x'", {here});
  EXPECT_FALSE(fs::exists("~"));
  EXPECT_FALSE(fs::exists(path("$SETS.dot")));
}

TEST_F(PathsCliTest, FilesThatHaveSuchNamesAreOpened) {
  for (const char* name : {"$SETS", "${SETS}", "~x", "%SETS%", "back\\slash"}) {
    fs::copy_file(net(), path(name));
    EXPECT_EQ(run("summary --model '" + path(name) + "'", kAtHome).status, 0) << name;
  }
}

TEST_F(PathsCliTest, PathsOfWindowsNameTheBackslash) {
  const auto source = [&](const std::string& text) {
    return net_of("Data",
                  "top: 'd' data_param { source: " + text + " batch_size: 1 backend: LMDB }");
  };
  refused("summary --model " + source(R"("D:\caffe\data\mnist_lmdb")"),
          {"write / or \\\\, as in \"D:/caffe/data/mnist_lmdb\""});
  const Output controls = run("summary --model " + source(R"("C:\train\new\bin_lmdb")"));
  EXPECT_TRUE(
      controls.says("data source 'C:\\train\\new\\bin_lmdb' does not exist; \\t, \\n, \\b are "
                    "control characters in a text: write the path with / or \\\\ in the "
                    "place of a backslash, as in 'C:/train/new/bin_lmdb'"))
      << controls.text;
  EXPECT_EQ(controls.text.find('\t'), std::string::npos);
  refused("summary --model " + source(R"("D:\\caffe\\data")"), {"'D:' is a drive of Windows"});
}

TEST_F(PathsCliTest, NamesDoNotSteerTheTerminal) {
  const std::string strange = write("strange.prototxt", R"(name: "n\033[2J\xe9"
layer { name: "x\033[2J\n\xe9" type: "DummyData" top: "x\t\xe9" top: "label" dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip\a" type: "InnerProduct" bottom: "x\t\xe9" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss\033\xe9" })");
  const std::string weights = path("w.caffemodel");
  NetParameter saved;
  saved.set_name("n\x1b\xe9");
  LayerParameter* layer = saved.add_layer();
  layer->set_name("ip\a");
  BlobProto* blob = layer->add_blobs();
  for (const int dim : {2, 3}) blob->mutable_shape()->add_dim(dim);
  for (int i = 0; i < 6; ++i) blob->add_data(1);
  write_binary_proto_atomically(weights, saved);
  const std::string solver =
      write("s.prototxt",
            "net: '" + strange +
                "' base_lr: 1 lr_policy: 'fixed' max_iter: 1 display: 1 snapshot_prefix: '" +
                path("s") + "'");
  for (const std::string& words :
       {"summary --model " + strange, "time --iterations 1 --model " + strange,
        "train --solver " + solver,
        "test --iterations 1 --weights " + weights + " --model " + strange,
        "test --json --iterations 1 --weights " + weights + " --model " + strange,
        "inspect " + weights, "inspect --json " + weights, "diff " + weights + " " + weights,
        "draw " + strange, "summary --model " + strange + "none\x1b\xe9"}) {
    const Output output = run(words);
    EXPECT_NE(output.text, "") << words;
    for (const char c : output.text)
      EXPECT_TRUE(c == '\n' || (c & 0x80) != 0 || c >= 0x20)
          << words << ": " << printable(output.text);
    EXPECT_EQ(as_utf8(output.text), output.text) << words;
  }
}

TEST_F(PathsCliTest, DrawingsAreWellFormedWhateverTheNamesHold) {
  const std::string drawn =
      write("strange.prototxt", R"(name: "a\xe9 <&> \" -- ]]> &eacute; &#1; \001"
layer { name: "caf\xe9 <b>&amp;\"\\N\n\033\xef\xbf\xbf" type: "Input" top: "d\xff\t" input_param { shape { dim: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "d\xff\t" top: "d\xff\t" })");
  const Output dot = run("draw " + drawn);
  EXPECT_EQ(dot.status, 0);
  EXPECT_TRUE(dot.says(R"(label="caf\\xe9 <b>&amp;amp;\"\\N\\n\\x1b)"
                       "\xEF\xBF\xBD"
                       R"(\nInput + ReLU")"))
      << dot.text;
  EXPECT_EQ(as_utf8(dot.text), dot.text);
  const Output svg = run("draw " + drawn + " " + path("net.svg"));
  EXPECT_EQ(svg.status, 0) << svg.text;
  EXPECT_EQ(svg.text, "");
  const std::string text = text_of(path("net.svg"));
  EXPECT_NE(text.find("caf\\xe9 &lt;b&gt;&amp;amp;&quot;\\N\\n\\x1b"), std::string::npos) << text;
  EXPECT_EQ(as_utf8(text), text);
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c & 0x80) != 0 || c >= 0x20) << text;
  // Each & begins an entity of XML.
  for (size_t at = 0; (at = text.find('&', at)) != std::string::npos; ++at) {
    const std::string entity = text.substr(at, text.find(';', at) - at);
    EXPECT_TRUE(entity == "&amp" || entity == "&lt" || entity == "&gt" || entity == "&quot")
        << entity;
  }
}

// What Graphviz says of fonts and labels is not the user's concern, and what it fails for is.
TEST_F(PathsCliTest, GraphvizSpeaksThroughTheMessage) {
  const std::string folder = path("bin");
  fs::create_directory(folder);
  const auto with_dot = [&](const std::string& script) {
    const std::string dot = write("bin/dot", "#!/bin/sh\n" + script);
    fs::permissions(dot, fs::perms::owner_all);
    return run("draw " + net() + " " + path("net.gif"), "PATH=" + folder + ":$PATH " CREMA_TOOL);
  };
  const Output fails = with_dot("echo 'Error: no fonts' >&2\nexit 3\n");
  EXPECT_EQ(fails.status, 1);
  EXPECT_TRUE(fails.says("could not write '" + path("net.gif") + "' (Error: no fonts);"))
      << fails.text;
  EXPECT_EQ(fails.count("\n"), 1) << fails.text;
  // More than a pipe holds.
  const Output warns = with_dot(
      "i=0; while [ $i -lt 3000 ]; do echo 'Warning: not UTF-8, of some length, again'; i=$((i + "
      "1)); done >&2\n"
      "echo '<svg/>' > \"$3\"\n");
  EXPECT_EQ(warns.status, 0) << warns.text;
  EXPECT_EQ(warns.text, "");
}

TEST_F(PathsCliTest, CaffeIsAPublishedName) {
  const std::string caffe = (fs::path(CREMA_TOOL).parent_path() / "caffe").string();
  ASSERT_EQ(fs::read_symlink(caffe), "crema");
  EXPECT_EQ(fs::read_symlink(caffe + ".bin"), "crema");
  const std::string solver = snapshotting_solver("max_iter: 2");
  const std::string state = path("s_iter_2.solverstate"), weights = path("s_iter_2.caffemodel");
  EXPECT_EQ(run("train --solver=" + solver + " -sigint_effect=stop -sighup_effect snapshot", caffe)
                .status,
            0);
  EXPECT_EQ(
      run("train -solver " + solver + " -snapshot " + state + " -level 0 -stage ''", caffe).status,
      0);
  EXPECT_EQ(
      run("test -model " + net() + " -weights " + weights + " -iterations 2 -phase TEST", caffe)
          .status,
      0);
  EXPECT_EQ(run("time -model " + net() + " -iterations 1", caffe).status, 0);
  EXPECT_EQ(run("device_query", caffe).status, 0);
  // All published commands have all published flags.
  const Output passed =
      run("train -solver " + solver + " -iterations 7 -model none -phase TEST", caffe);
  EXPECT_EQ(passed.status, 0) << passed.text;
  EXPECT_TRUE(passed.says("train has no use for --iterations, and passes over it")) << passed.text;
  EXPECT_TRUE(run("train -solver " + solver + " -iterations 7").says("no flag --iterations"));
  EXPECT_TRUE(run("train --nosuch", caffe).says("train has no flag --nosuch"));
}

TEST_F(PathsCliTest, InspectSaysWhereAFileComesFrom) {
  NetParameter net;
  net.set_name("tiny");
  net.add_layer()->set_name("a");
  SolverState state;
  state.set_iter(3);
  write_binary_proto_atomically(path("plain.caffemodel"), net);
  for (Origin* origin : {net.mutable_origin(), state.mutable_origin()}) {
    origin->set_program("crema 9.9");
    origin->set_solver("models/a/solver.prototxt");
    origin->set_net("models/a/train_val.prototxt");
    for (const char* name : {"cat", "dog\x1b"}) origin->add_class_name(name);
  }
  write_binary_proto_atomically(path("a.caffemodel"), net);
  write_binary_proto_atomically(path("a.solverstate"), state);
  for (const char* file : {"a.caffemodel", "a.solverstate"}) {
    const Output output = run("inspect " + path(file));
    EXPECT_EQ(output.status, 0) << output.text;
    for (const char* line :
         {"written by: crema 9.9\n", "solver's file: models/a/solver.prototxt\n",
          "net's file: models/a/train_val.prototxt\n", "class names: 2: cat, dog\\x1b\n"}) {
      EXPECT_TRUE(output.says(line)) << line << " is not in: " << output.text;
    }
    EXPECT_TRUE(
        run("inspect --json " + path(file))
            .says(R"("origin": {"program": "crema 9.9", "solver": "models/a/solver.prototxt", )"
                  R"("net": "models/a/train_val.prototxt", "class_names": ["cat", "dog\u001b"]})"));
  }
  EXPECT_FALSE(run("inspect " + path("plain.caffemodel")).says("written by"));
  EXPECT_FALSE(run("inspect --json " + path("plain.caffemodel")).says("origin"));
}

}  // namespace
}  // namespace crema::test
