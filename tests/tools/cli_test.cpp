// The command line as a user meets it: what it prints, and its exit status.
#include "tools/cli.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "model/binary_format.hpp"
#include "proto/blob.pb.h"
#include "proto/layer.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/memory_limit.hpp"
#include "support/needs.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

TEST_F(CliTest, MemoryBudgetDropsActivations) {
  std::string text = R"(
layer { name: "x" type: "Input" top: "x" top: "label"
        input_param { shape { dim: 16 dim: 3 dim: 32 dim: 32 } shape { dim: 16 } } })";
  std::string bottom = "x";
  for (const std::string name : {"a", "b", "c", "d"}) {
    text += R"(
layer { name: ")" +
            name + R"(" type: "Convolution" bottom: ")" + bottom + R"(" top: ")" + name + R"("
        convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "n)" +
            name + R"(" type: "BatchNorm" bottom: ")" + name + R"(" top: "n)" + name + R"(" })";
    bottom = "n" + name;
  }
  text += R"(
layer { name: "ip" type: "InnerProduct" bottom: ")" +
          bottom + R"(" top: "ip"
        inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })";
  // Of engines that are timed, another run may choose others, with other memory.
  const std::string model = " --threads=1 --tune=false --model=" + write("net.prototxt", text);
  EXPECT_TRUE(run("summary --memory-budget=1.5GiB" + model).says("nothing is dropped"));
  const Output least = run("summary --memory-budget 1000" + model);
  EXPECT_EQ(least.status, 1);
  EXPECT_TRUE(least.says("net.prototxt")) << least.text;
  // "which needs 6.9 MB, or 3.2 MB in the"
  std::smatch found;
  ASSERT_TRUE(
      std::regex_search(least.text, found, std::regex("needs ([0-9.]+) MB, or ([0-9.]+) MB")))
      << least.text;
  EXPECT_GT(std::stod(found[1]), std::stod(found[2]));
  const Output timed = run("time --iterations=1" + model);
  std::smatch planned;
  ASSERT_TRUE(std::regex_search(timed.text, planned, std::regex("([0-9.]+) MB planned")));
  EXPECT_NEAR(std::stod(planned[1]), std::stod(found[1]), 0.11) << timed.text;
  const std::string enough = " --memory-budget=" + std::to_string(std::stod(found[2]) + 0.3) + "MB";
  for (const std::string command : {"summary", "time --iterations=1"}) {
    const Output output = run(command + enough + model);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("computed again")) << output.text;
  }
  const std::string solver =
      write("solver.prototxt", "net: '" + path("net.prototxt") +
                                   "' base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 max_iter: 2");
  expect_refusal("train --memory-budget=1kB --solver=" + solver,
                 {"memory budget", "smallest plan found"});
  const Output trained = run("train --threads=1 --tune=false" + enough + " --solver=" + solver);
  EXPECT_EQ(trained.status, 0) << trained.text;
  EXPECT_TRUE(trained.says("computed again")) << trained.text;
}

// libgomp's threads spun for 3 ms and more: two other programs on two cores made training four
// times as slow. The program has teams of its own, of which libgomp knows nothing.
class ThreadsTest : public CliTest {
 protected:
  /// In an environment that sets nothing else.
  static Output run_in(const std::string& environment, const std::string& arguments) {
    return run(arguments,
               "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY " + environment + " " CREMA_TOOL);
  }
  /// A net whose losses show a share that was not run, or run twice.
  std::string deep() const {
    return write("deep.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" top: "label"
        dummy_data_param { shape { dim: 8 dim: 16 dim: 14 dim: 14 } shape { dim: 8 }
                           data_filler { type: "gaussian" } data_filler { type: "constant" value: 1 } } }
layer { name: "a" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "msra" } } }
layer { name: "n" type: "BatchNorm" bottom: "a" top: "n" }
layer { name: "r" type: "ReLU" bottom: "n" top: "n" }
layer { name: "b" type: "Convolution" bottom: "n" top: "b"
        convolution_param { num_output: 32 kernel_size: 1 weight_filler { type: "msra" } } }
layer { name: "ip" type: "InnerProduct" bottom: "b" top: "ip"
        inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  }
  /// The last line of a training's losses.
  std::string last_loss(const std::string& environment) const {
    const std::string solver = write(
        "deep_solver.prototxt", "net: '" + deep() +
                                    "' base_lr: 0.01 lr_policy: 'fixed' max_iter: 20 display: 1 "
                                    "random_seed: 3 snapshot_after_train: false");
    const Output trained =
        run_in(environment, "train --overwrite --threads=3 --tune=false --solver=" + solver);
    EXPECT_EQ(trained.status, 0) << trained.text;
    const size_t at = trained.text.rfind("loss = ");
    EXPECT_NE(at, std::string::npos) << trained.text;
    return trained.text.substr(at, trained.text.find('\n', at) - at);
  }
};

TEST_F(ThreadsTest, ComputeTheSameWithAndWithoutSpinningAndByLibgomp) {
  const std::string loss = last_loss("");
  EXPECT_EQ(last_loss("OMP_WAIT_POLICY=passive"), loss);
  EXPECT_EQ(last_loss("GOMP_SPINCOUNT=100"), loss);
}

// Published names are links; arguments may hold blanks and come from standard input.
TEST_F(ThreadsTest, KeepNamesAndArguments) {
  fs::create_symlink(CREMA_TOOL, path("caffe.bin"));
  fs::create_directory(path("a folder"));
  fs::rename(net(), path("a folder/net.prototxt"));
  const Output named =
      run("time --iterations=1 --model='" + path("a folder/net.prototxt") + "'", path("caffe.bin"));
  EXPECT_EQ(named.status, 0) << named.text;
  EXPECT_TRUE(named.says("tiny: forward")) << named.text;
}

TEST_F(CliTest, TimesThePartsOfAStart) {
  const Output timed = run("time --startup --json --iterations=2 --model=" + net());
  EXPECT_EQ(timed.status, 0) << timed.text;
  for (const char* part :
       {"program ", "read ", "build ", "weights ", "plan ", "first ", "all ", "second "})
    EXPECT_TRUE(timed.says(part)) << part << timed.text;
  EXPECT_TRUE(timed.says("medians of 2 starts")) << timed.text;
  // The parts up to the first result are all of it.
  const auto ms = [&](const std::string& part) {
    std::smatch found;
    const std::string name = "\"" + part + "_ms\": ([0-9.]+)";
    return std::regex_search(timed.text, found, std::regex(name)) ? std::stod(found[1]) : -1;
  };
  EXPECT_GT(ms("program"), 0) << timed.text;
  EXPECT_GE(ms("all"), ms("program")) << timed.text;
  expect_refusal("time --startup --model=" + path("none.prototxt"), {"none.prototxt"});
}

TEST_F(CliTest, DeviceQuerySaysWhatLimitsTheThreads) {
  const Output whole = run("device-query");
  EXPECT_TRUE(std::regex_search(whole.text, std::regex("[0-9]+ threads \\([^)]*cores?[^)]*\\)")))
      << whole.text;
  const Output bound = run("0 env -u OMP_NUM_THREADS " CREMA_TOOL " device-query", "taskset -c");
  if (bound.status != 0) GTEST_SKIP() << "needs taskset";
  EXPECT_TRUE(bound.says("1 threads (1 of ") || bound.says("1 threads (1 core)")) << bound.text;
}

// "filesystem error: status: Too many levels of symbolic links [...]"
TEST_F(CliTest, LinksInACircleAreExplained) {
  const std::string loop = path("loop");
  fs::create_symlink("loop", loop);
  const std::string data = write("x", "");
  for (const std::string& command :
       {"inspect " + loop, "convert-mnist " + loop, "classify --model=" + net() + " " + loop,
        "compute-image-mean " + data + " " + loop, "merge-bn " + loop + " a b c",
        "time --model=" + net() + " --tuning_file=" + loop + "/tuning"}) {
    const Output output = run(command);
    EXPECT_EQ(output.status, 1) << command << "\n" << output.text;
    EXPECT_FALSE(output.says("filesystem error")) << command << "\n" << output.text;
  }
  expect_refusal("inspect " + loop, {loop, "symbolic links"});
  expect_refusal("convert-mnist " + loop, {"no folder '" + loop + "'", "symbolic links"});
  expect_refusal("merge-bn " + loop + " a b c", {loop, "symbolic links"});
}

// "crema: std::bad_alloc"
TEST_F(CliTest, MemoryThatRunsOutIsExplained) {
  if (!kRefusesMemory) GTEST_SKIP() << kNeedsRefusedMemory;
  const auto interp = [&](const char* name, const char* size) {
    return write(name, text(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
layer { name: "large" type: "Interp" bottom: "x" top: "y" interp_param { height: )",
                            size, " width: ", size, " } }"));
  };
  const std::string small = interp("small.prototxt", "16");
  const std::string large = interp("large.prototxt", "2147483647");
  // Libraries take addresses, those of CUDA many; OpenBLAS waits for ever for what it lacks.
  std::string limited;
  for (const int gigabytes : {1, 2, 4, 8}) {
    limited = text("ulimit -v ", gigabytes, "000000; timeout 20 " CREMA_TOOL);
    if (run("summary --threads=1 --model=" + small, limited).status == 0) break;
    limited.clear();
  }
  if (limited.empty()) GTEST_SKIP() << "needs a program that starts in 8 GB of addresses";
  const std::string smaller = "crema: memory ran out; use a smaller batch_size or smaller inputs";
  const std::string raise = ", or raise the limit, if there is one (ulimit -v)\n";
  const Output summary = run("summary --threads=1 --model=" + large, limited);
  EXPECT_EQ(summary.status, 1) << summary.text;
  EXPECT_TRUE(summary.says(smaller + raise)) << summary.text;
  const Output time = run("time --threads=1 --model=" + large, limited);
  EXPECT_EQ(time.status, 1) << time.text;
  EXPECT_TRUE(time.says(smaller + " (`crema summary` prints what a net needs)" + raise))
      << time.text;
  // The same of a command without nets: a file that says it holds an array of 2 GB, most of it a
  // hole on the disk.
  std::string head;
  google::protobuf::io::StringOutputStream stream(&head);
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    using Wire = google::protobuf::internal::WireFormatLite;
    constexpr uint32_t kBytes = 2000000000;
    coded.WriteTag(Wire::MakeTag(NetParameter::kLayerFieldNumber, Wire::WIRETYPE_LENGTH_DELIMITED));
    coded.WriteVarint32(kBytes + 12);
    coded.WriteTag(
        Wire::MakeTag(LayerParameter::kBlobsFieldNumber, Wire::WIRETYPE_LENGTH_DELIMITED));
    coded.WriteVarint32(kBytes + 6);
    coded.WriteTag(Wire::MakeTag(BlobProto::kDataFieldNumber, Wire::WIRETYPE_LENGTH_DELIMITED));
    coded.WriteVarint32(kBytes);
  }
  const std::string weights = write("large.caffemodel", head);
  fs::resize_file(weights, head.size() + 2000000000);
  const Output inspect = run("inspect " + weights, limited);
  EXPECT_EQ(inspect.status, 1) << inspect.text;
  EXPECT_TRUE(inspect.says("crema: memory ran out; end other programs" + raise)) << inspect.text;
}

TEST_F(CliTest, TrainsAndLogsWhatParsersRead) {
  const std::string file = snapshotting_solver("max_iter: 4 display: 2");
  const Output output = run("train --solver=" + file);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"Iteration 0 (", "loss = ", "Train net output #0: loss = ", "(* 1 = ",
                           "Iteration 2, lr = 0.1", "Optimization Done"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  EXPECT_TRUE(fs::exists(path("s_iter_4.caffemodel")));
  const Output resumed =
      run("train --solver=" + file + " --snapshot=" + path("s_iter_4.solverstate"));
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  expect_refusal("train --solver=" + file + " --snapshot=" + path("s_iter_4.caffemodel"),
                 {"weights file", "--weights"});
  const Output tuned = run("train --overwrite --solver=" + file +
                           " --weights=" + path("s_iter_4.caffemodel") + " --strict");
  EXPECT_EQ(tuned.status, 0) << tuned.text;
  EXPECT_TRUE(tuned.says("1 layer loaded")) << tuned.text;
}

// Each file has a part of the net: strictness is about all of them together.
TEST_F(CliTest, StrictWeightsMayComeInPieces) {
  const std::string model = write("two.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 4 } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 2 } }
layer { name: "l" type: "EuclideanLoss" bottom: "b" bottom: "b" top: "l" })");
  const std::string file =
      write("two_solver.prototxt", "net: '" + model +
                                       "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 "
                                       "snapshot_prefix: '" +
                                       path("two") + "'");
  ASSERT_EQ(run("train --solver=" + file).status, 0);
  NetParameter all;
  read_binary_proto(path("two_iter_1.caffemodel"), all);
  for (const char* keep : {"a", "b"}) {
    NetParameter part;
    for (const LayerParameter& layer : all.layer()) {
      if (layer.name() == keep) *part.add_layer() = layer;
    }
    write_binary_proto_atomically(path(std::string(keep) + ".caffemodel"), part);
  }
  const std::string both = path("a.caffemodel") + "," + path("b.caffemodel");
  for (const std::string& command :
       {"test --iterations=1 --model=" + model, "train --overwrite --solver=" + file}) {
    const Output output = run(command + " --strict --weights=" + both);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("b.caffemodel: weights: 1 layer loaded")) << output.text;
    EXPECT_TRUE(output.says("together: 2 layers loaded, 0 missing")) << output.text;
    expect_refusal(command + " --strict --weights=" + path("a.caffemodel"),
                   {"a.caffemodel do not fit", "strict", "1 missing (b)"});
  }
}

TEST_F(CliTest, SolverModeGpuTrainsOnTheCpuWithAWarning) {
  const Output output =
      run("train --solver=" + solver("max_iter: 1 solver_mode: GPU snapshot_after_train: false"),
          "CUDA_VISIBLE_DEVICES= " CREMA_TOOL);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("training on the CPU")) << output.text;
}

// Whoever asks for a seed means it, whatever the files say.
TEST_F(CliTest, SeedWinsOverRandomSeed) {
  const std::string file = snapshotting_solver("max_iter: 1 random_seed: 1");
  auto seed_after = [&](const std::string& flags) {
    const Output output = run("train --overwrite --solver=" + file + flags);
    EXPECT_EQ(output.status, 0) << output.text;
    SolverState state;
    read_binary_proto(path("s_iter_1.solverstate"), state);
    return state.seed();
  };
  EXPECT_EQ(seed_after(""), 1U);
  EXPECT_EQ(seed_after(" --seed=7"), 7U);
}

TEST_F(CliTest, ASnapshotWithNothingToTrainIsWarnedOf) {
  const std::string file = snapshotting_solver("max_iter: 2");
  ASSERT_EQ(run("train --solver=" + file).status, 0);
  const std::string resume =
      "train --solver=" + file + " --snapshot=" + path("s_iter_2.solverstate");
  const Output done = run(resume);
  EXPECT_EQ(done.status, 0) << done.text;
  EXPECT_TRUE(done.says("the snapshot is at iteration 2, max_iter is 2: nothing to train"));
  EXPECT_FALSE(done.says("replaces the seed")) << done.text;
  EXPECT_TRUE(run(resume + " --seed=7").says("the seed 7 replaces that of the snapshot"));
}

TEST_F(CliTest, AWrongTuningFileIsNamed) {
  const std::string time = "time --iterations=1 --model=" + net() + " --tuning_file=";
  expect_refusal(time + net(), {"--tuning_file=" + net() + " holds no measured times"});
  expect_refusal(time + net() + "/times", {"cannot be below '" + net() + "'"});
  EXPECT_EQ(run(time + path("times")).status, 0);
  // The folders of the usual place are made; those of a named file are more likely misspelt.
  expect_refusal(time + path("new/times"), {"there is no folder '" + path("new") + "'", "make it"});
  EXPECT_FALSE(fs::exists(path("new")));
  const std::string usual = "time --iterations=1 --model=" + net();
  const Output fresh = run(usual, "XDG_CACHE_HOME=" + path("cache") + " " CREMA_TOOL);
  EXPECT_EQ(fresh.status, 0) << fresh.text;
  EXPECT_FALSE(fresh.says("are not kept")) << fresh.text;
  const Output homeless = run(usual, "XDG_CACHE_HOME=" + net() + " " CREMA_TOOL);
  EXPECT_EQ(homeless.status, 0) << homeless.text;
  EXPECT_EQ(homeless.count("measured times are not kept"), 1) << homeless.text;
  EXPECT_TRUE(homeless.says("--tuning_file=FILE")) << homeless.text;
}

TEST_F(CliTest, TestLossIsShownWhereAsked) {
  const std::string tests =
      "max_iter: 1 test_iter: 2 test_interval: 1 snapshot_after_train: false ";
  const Output plain = run("train --solver=" + solver(tests));
  EXPECT_FALSE(plain.says("Test loss:")) << plain.text;
  EXPECT_FALSE(plain.says("debug_info")) << plain.text;
  const Output asked =
      run("train --solver=" + solver(tests + "test_compute_loss: true debug_info: true"));
  EXPECT_TRUE(asked.says("Test loss: 0.69")) << asked.text;
  EXPECT_TRUE(asked.says("[Forward] Layer ")) << asked.text;
}

// A ReLU in place behind a layer that needs its own output: nobody has to ask for a summary to
// learn of the repair.
TEST_F(CliTest, RepairsAreSaid) {
  const std::string model = write("in_place.prototxt", R"(name: "in place"
layer { name: "x" type: "Input" top: "x" top: "label" input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "sigmoid" type: "Sigmoid" bottom: "ip" top: "s" }
layer { name: "relu" type: "ReLU" bottom: "s" top: "s" }
layer { name: "tanh" type: "TanH" bottom: "s" top: "s" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "s" bottom: "label" top: "accuracy" })");
  const std::string note = "TRAIN net: layer 'relu' runs in place on 's'";
  const std::string file =
      write("in_place_solver.prototxt",
            "net: '" + model +
                "' base_lr: 0.1 max_iter: 1 lr_policy: 'fixed' snapshot_after_train: false");
  for (const std::string& arguments :
       {"time --iterations=1 --model=" + model, "train --solver=" + file}) {
    const Output output = run(arguments);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says(note)) << output.text;
    EXPECT_FALSE(output.says("run on the CPU")) << output.text;
  }
  const Output summary = run("summary --model=" + model);
  EXPECT_TRUE(summary.says("note: layer 'relu' runs in place")) << summary.text;
  EXPECT_FALSE(summary.says(note)) << "once is enough: " << summary.text;
}

TEST_F(CliTest, NotesOfManyLayersNameSomeAndCountTheRest) {
  std::string layers = R"(
layer { name: "x" type: "Input" top: "x" top: "label" input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "s" inner_product_param { num_output: 2 } })";
  for (int i = 0; i < 7; ++i) {
    layers += text("\nlayer { name: 's", i, "' type: 'Sigmoid' bottom: 's",
                   i == 0 ? "" : text(i - 1), "' top: 's", i, "' } layer { name: 'r", i,
                   "' type: 'ReLU' bottom: 's", i, "' top: 's", i, "' }");
  }
  layers += "\nlayer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's6' bottom: 'label' }";
  const Output output = run("summary --model=" + write("many.prototxt", layers));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("; so do 'r1' 'r2' 'r3' and 3 more\n")) << output.text;
}

TEST_F(CliTest, SummaryCountsLearnedParametersAndStatistics) {
  const std::string convolution = R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "y" convolution_param { num_output: 5 kernel_size: 3 } })";
  Output output = run("summary --model=" + write("conv.prototxt", convolution));
  EXPECT_TRUE(output.says("\n140 parameters, 0.0")) << output.text;
  // Mean and variance of each channel, and how much of averages is in them.
  output = run("summary --model=" + write("norm.prototxt", convolution + R"(
layer { name: "norm" type: "BatchNorm" bottom: "y" top: "z" })"));
  EXPECT_TRUE(output.says("\n140 parameters and 11 statistics, 0.0")) << output.text;
}

TEST_F(CliTest, FallbacksToTheCpuAreCounted) {
  const std::string model = write("fallback.prototxt", R"(
layer { name: "x" type: "Input" top: "x" top: "label" input_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" engine: "reference" })");
  const std::string time = "time --phase=TEST --iterations=1 --model=" + model;
  EXPECT_FALSE(run(time).says("on the CPU"));
  const std::string why = why_no_device();
  if (!why.empty()) GTEST_SKIP() << "needs a CUDA device: " << why;
  const Output output = run(time + " --gpu=0");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("TEST net: layer 'accuracy' (Accuracy) runs on the CPU")) << output.text;
  EXPECT_TRUE(output.says("1 of 2 layers run on the CPU")) << output.text;
}

TEST_F(CliTest, TimesAndSummarises) {
  const Output time = run("time --model=" + net() + " --iterations=3 --json");
  EXPECT_EQ(time.status, 0) << time.text;
  EXPECT_TRUE(time.says("\"total_ms\":"));
  EXPECT_TRUE(time.says("\nInnerProduct          1 ")) << time.text;
  const Output summary = run("summary --model=" + net());
  EXPECT_EQ(summary.status, 0) << summary.text;
  EXPECT_TRUE(summary.says("8 parameters"));
  EXPECT_EQ(run("device_query").status, 0);
}

TEST_F(CliTest, TestsScoreWeights) {
  const Output trained = run("train --solver=" + snapshotting_solver("max_iter: 1"));
  ASSERT_EQ(trained.status, 0) << trained.text;
  const std::string test = "test --model=" + net() + " --weights=" + path("s_iter_1.caffemodel");
  const Output output = run(test + " --iterations=3");
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"1 layer loaded", "Batch 0, loss = 0.6", "Batch 2, loss = 0.6",
                           "Loss: 0.6", "loss = 0.6", "(* 1 = 0.6"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  EXPECT_FALSE(output.says("Batch 3")) << output.text;
  expect_refusal(test + " --iterations=0", {"--iterations 0"});
  expect_refusal("test --model=" + net() + " --weights=" + path("none"), {"none"});
}

// The inputs were zeros, and their scores looked like any others.
TEST_F(CliTest, TestNeedsData) {
  const std::string deploy = write("deploy.prototxt", R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "prob" type: "Softmax" bottom: "x" top: "prob" })");
  expect_refusal("test --model=" + deploy, {"input 'x'", "no values", "zeros", "data layer"});
}

// A deploy net has no scores: thousands of lines told nothing. Accuracies of classes are scores.
TEST_F(CliTest, OutputsOfManyValuesAreSummedUp) {
  const std::string model = write("deploy.prototxt", R"(name: "tiny"
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 30 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
layer { name: "weighed" type: "Softmax" bottom: "ip" top: "weighed" loss_weight: 0.5 }
layer { name: "y" type: "DummyData" top: "y" dummy_data_param { shape { dim: 1 } } }
layer { name: "few" type: "ReLU" bottom: "y" top: "few" }
layer { name: "label" type: "DummyData" top: "label" dummy_data_param { shape { dim: 30 } } }
layer { name: "many" type: "InnerProduct" bottom: "x" top: "many" inner_product_param { num_output: 41 } }
layer { name: "accuracy" type: "Accuracy" bottom: "many" bottom: "label" top: "accuracy" top: "class" })");
  ASSERT_EQ(run("train --solver=" + snapshotting_solver("max_iter: 1")).status, 0);
  const Output output = run("test --model=" + model + " --weights=" + path("s_iter_1.caffemodel") +
                            " --iterations=2");
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part :
       {"Batch 1, prob (30x2): mean 0.5, min 0.475021, max 0.524979\n",
        " prob (30x2): mean 0.5, min 0.475021, max 0.524979\n",
        " max 0.524979 (sum 30 * 0.5 = 15 loss)\n", "Batch 1, few = 0\n", " few = 0\n"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  EXPECT_EQ(output.count(", class = "), 2 * 41) << output.text;
  EXPECT_EQ(output.count("] class = "), 41) << output.text;
  EXPECT_FALSE(output.says("prob = ")) << output.text;
}

// Both rows of scripts/bench have to mean the same work: pointwise layers do not count.
TEST_F(CliTest, TimeCountsConvolutionsAndInnerProducts) {
  const std::string model = write("work.prototxt", R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 10 dim: 20 dim: 10 dim: 10 } } }
layer { name: "relu" type: "ReLU" bottom: "x" top: "y" }
layer { name: "conv" type: "Convolution" bottom: "y" top: "conv"
        convolution_param { num_output: 50 kernel_size: 1 bias_term: false } }
layer { name: "lrn" type: "LRN" bottom: "conv" top: "lrn" }
layer { name: "ip" type: "InnerProduct" bottom: "lrn" top: "ip" inner_product_param { num_output: 100 } })");
  const Output output = run("time --phase=TEST --iterations=1 --json --model=" + model);
  EXPECT_EQ(output.status, 0) << output.text;
  // 2 * 10 * 100 * (20 * 50 + 50 * 100) operations.
  EXPECT_TRUE(output.says("\"gflop_forward\": 0.012000")) << output.text;
  EXPECT_TRUE(output.says("GFLOP in convolutions, products, attention and recurrent layers"))
      << output.text;
}

TEST_F(CliTest, TimesAsJsonWhateverTheNetsName) {
  const std::string model = write("quoted.prototxt", R"(name: "a \"b\" \\ \n"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "x" top: "y" })");
  const Output output = run("time --phase=TEST --iterations=1 --json --model=" + model);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says(R"({"net": "a \"b\" \\ \u000a", "forward_ms": )")) << output.text;
}

// LeNet with num_output: 5 on ten classes gave garbage, or a crash, in older toolkits.
TEST_F(CliTest, ALabelOutOfRangeNamesTheRecord) {
  const std::string mini = std::string(CREMA_SOURCE_DIR) + "/data/mnist/mini/";
  const std::string digits = path("digits");
  const Output made = run("convert-mnist " + mini + "t10k-images-idx3-ubyte.gz " + mini +
                          "t10k-labels-idx1-ubyte.gz " + digits);
  ASSERT_EQ(made.status, 0) << made.text;
  const std::string model = write("five.prototxt", R"(name: "five"
layer { name: "data" type: "Data" top: "data" top: "label" data_param { source: ")" +
                                                       digits +
                                                       R"(" backend: LMDB batch_size: 64 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" })");
  write("solver5.prototxt", "net: '" + model +
                                "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 2 "
                                "snapshot_after_train: false");
  expect_refusal("train --solver=" + path("solver5.prototxt"),
                 {"layer 'loss' (SoftmaxWithLoss)", "[0, 5)", "num_output", "record '000000"});
}

// A database is opened by its folder, and by the file in it that people name instead.
TEST_F(CliTest, SourcesAreExplained) {
  auto with_source = [&](const std::string& source) {
    return write("data.prototxt", R"(layer { name: "data" type: "Data" top: "data" top: "label"
data_param { source: ")" + source + R"(" backend: LMDB batch_size: 4 } })");
  };
  expect_refusal("summary --model=" + with_source("/nowhere/lmdb"),
                 {"layer 'data'", "/nowhere/lmdb"});
  const std::string mini = std::string(CREMA_SOURCE_DIR) + "/data/mnist/mini/";
  const std::string digits = path("digits");
  ASSERT_EQ(run("convert-mnist " + mini + "t10k-images-idx3-ubyte.gz " + mini +
                "t10k-labels-idx1-ubyte.gz " + digits)
                .status,
            0);
  EXPECT_EQ(run("summary --model=" + with_source(digits + "/data.mdb")).status, 0);
  expect_refusal("convert-mnist " + mini + "t10k-images-idx3-ubyte.gz " + mini +
                     "t10k-labels-idx1-ubyte.gz " + digits,
                 {digits, "overwrite"});
  expect_refusal("convert-mnist " + path(""), {"train-images-idx3-ubyte"});
  const std::string all = "convert-mnist " + mini + " " + path("databases");
  expect_refusal(all, {"there is no folder '" + path("databases") + "'\n"});
  fs::create_directories(path("databases"));
  EXPECT_EQ(run(all).status, 0);
  EXPECT_EQ(run("summary --model=" + with_source(path("databases/test_lmdb"))).status, 0);
}

}  // namespace
}  // namespace crema::test
