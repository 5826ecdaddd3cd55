// Flags and other words of the command line: how they are read, and what is refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "crema/error.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class FlagsCliTest : public CliTest {};

TEST_F(FlagsCliTest, FlagsAreReadAsPeopleWriteThem) {
  const std::string model = net();
  const std::string plan = run("summary --model=" + model).text;
  EXPECT_TRUE(run("help time").says("--forward_only"));
  for (const std::string& words :
       {"summary --model " + model, "summary -model=" + model, "--model " + model + " summary",
        "summary --tuning-file= --model=" + model, "summary --fuse=on --model=" + model,
        "summary --flagfile=" + write("flags", "# a comment\n\n  --model=" + model + " \n")}) {
    const Output output = run(words);
    EXPECT_EQ(output.status, 0) << words << "\n" << output.text;
    EXPECT_TRUE(output.says("8 parameters")) << words << "\n" << output.text;
  }
  // ReLU goes into the inner product, or stays a layer of its own.
  const std::string relu = write("relu.prototxt", R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "ip" })");
  EXPECT_TRUE(run("summary --model=" + relu).says("in 'ip'"));
  for (const char* off : {"--fuse=off", "--fuse=false", "--nofuse", "--no-fuse"}) {
    const Output output = run("summary --model=" + relu + " " + off);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_FALSE(output.says("in 'ip'")) << off << "\n" << output.text;
  }
}

TEST_F(FlagsCliTest, ArgumentsWithoutAPlaceAreNamed) {
  for (const char* command : {"test", "time", "summary"}) {
    expect_refusal(text(command, " net.prototxt"),
                   {command, " takes no argument 'net.prototxt'", "--model=FILE"});
  }
  expect_refusal("train a.prototxt b.prototxt", {"no argument 'a.prototxt'", "--solver=FILE"});
  expect_refusal("train --solver=a.prototxt b.prototxt", {"no argument 'b.prototxt'"});
  expect_refusal("device-query 0", {"no argument '0'", "--gpu=INDEX"});
  expect_refusal("summary --flagfile=" + write("words", "--fuse\nmodel.prototxt\n"),
                 {"'model.prototxt' is no flag"});
}

TEST_F(FlagsCliTest, TrainTakesItsSolverWithoutTheFlag) {
  const std::string file = solver("max_iter: 1 snapshot_after_train: false");
  const Output output = run("train --threads=1 " + file);
  EXPECT_EQ(output.status, 0) << output.text;
  expect_refusal("train " + path("none.prototxt"), {"none.prototxt"});
}

// Else the flag takes the next one for its value, and what follows that for an argument.
TEST_F(FlagsCliTest, AFlagIsNoValueOfTheOneBefore) {
  expect_refusal("train --run_dir --set base_lr=1 --solver=a",
                 {"--run_dir needs a text", "--run_dir=VALUE"});
  expect_refusal("train --run_dir --tune=off --solver=a", {"--run_dir needs a text"});
  expect_refusal("train --solver --no_fuse", {"--solver needs a text"});
}

TEST_F(FlagsCliTest, WrongValuesOfFlagsAreExplained) {
  const std::string time = "time --model=" + net();
  expect_refusal(time + " --fuse=perhaps", {"--fuse", "'perhaps'", "on or off"});
  expect_refusal(time + " --threads=x", {"--threads", "'x'", "whole number"});
  for (const std::string& model_command : {time, "summary --model=" + net()}) {
    expect_refusal(model_command + " --engine=refrence",
                   {"--engine=refrence: no layer has", "did you mean 'reference'? there are"});
  }
  expect_refusal(time + " --fuse off", {"write --fuse=off"});
  for (const char* size : {"much", "2XB", "0", "-1GB", "1e30"}) {
    expect_refusal(text(time, " --memory-budget=", size), {"--memory_budget", size, "1.5GB"});
  }
  const Output threads = run(time + " --iterations=1 --threads=999");
  EXPECT_EQ(threads.status, 0) << threads.text;
  EXPECT_EQ(threads.count("--threads=999"), 1) << threads.text;
  expect_refusal(time + " --iterations=2.5", {"--iterations", "'2.5'", "whole number"});
  expect_refusal(time + " --iterations=99999999999", {"--iterations", "32 bits"});
  expect_refusal(time + " --iterations", {"--iterations needs"});
  expect_refusal("time -modell=x", {"--modell", "--model?"});
  expect_refusal("--model=x", {"no command"});
  expect_refusal("time --flagfile=" + write("flags", "model=x\n"), {"flagfile", "'model=x'"});
  expect_refusal("time --flagfile=" + path("none"), {"flagfile", "none"});
  for (const char* none : {"", ","})
    expect_refusal(text("time --model=", net(), " --flagfile=", none),
                   {"--flagfile needs a value"});
  expect_refusal("time --model=" + net() + " --flagfile=" + path(""),
                 {"cannot read --flagfile=" + path(""), "folder"});
  const std::string circle = path("circle");
  expect_refusal("time --flagfile=" + write("circle", "--flagfile=" + circle), {"--flagfile"});
}

// glog said COULD NOT CREATE A LOGGINGFILE for each level, and the command went on.
TEST_F(FlagsCliTest, AFolderForLogsThatCannotBeWrittenIsAnError) {
  for (const std::string& folder : {path("none"), net()}) {
    const std::string summary = "summary --model=" + net() + " --log_dir=" + folder;
    expect_refusal(summary, {"--log_dir=" + folder, "no file can be made there", "name another"});
    EXPECT_FALSE(run(summary).says("COULD NOT CREATE"));
  }
  fs::create_directory(path("logs"));
  EXPECT_EQ(run("summary --model=" + net() + " --log_dir=" + path("logs")).status, 0);
}

// Of `--snapshot=$LATEST` with an unset variable, a run started from scratch.
TEST_F(FlagsCliTest, EmptyTextsAreNoValues) {
  const std::string train = "train --solver=" + snapshotting_solver("max_iter: 1");
  for (const char* flag :
       {"--snapshot=", "--weights=", "--weights=,", "--engine=", "--gpu=", "--snapshot ''"}) {
    const std::string shown = flag == std::string("--snapshot ''") ? "--snapshot=" : flag;
    expect_refusal(text(train, " ", flag), {shown + " is empty", "leave the flag out"});
  }
  expect_refusal("train --flagfile=" + write("flags", "--snapshot=\n") + " --solver=x",
                 {"--snapshot= is empty"});
  EXPECT_FALSE(fs::exists(path("s_iter_1.caffemodel")));
  expect_refusal("train --solver=", {"--solver= is empty"});
  expect_refusal("classify --mean= --model=" + net() + " x.jpg", {"--mean= is empty"});
  expect_refusal("convert-imageset --encode_type= r l o", {"--encode_type= is empty"});
  // Scripts of published programs give empty texts.
  const Output published = run("convert_imageset --encode_type= r l o");
  EXPECT_FALSE(published.says("is empty")) << published.text;
  // Under a name of both, nothing tells the scripts apart.
  fs::create_symlink(CREMA_TOOL, path("caffe"));
  const Output both = run(train + " --snapshot=", path("caffe"));
  EXPECT_TRUE(both.says("--snapshot= is empty")) << both.text;
  for (const char* flag : {"--stage=", "--tuning_file="})
    EXPECT_EQ(run(text("summary --model=", net(), " ", flag)).status, 0) << flag;
}

TEST_F(FlagsCliTest, WordsBehindTwoDashesStayAsTheyAre) {
  expect_refusal("convert-imageset -- --my-root --my-list out", {"--my-list"});
  expect_refusal("convert-mnist -- --no-such_folder", {"'--no-such_folder'"});
}

TEST_F(FlagsCliTest, MissingAndContradictingFlagsAreExplained) {
  expect_refusal("train", {"--solver"});
  expect_refusal("test --model=" + net(), {"--weights"});
  expect_refusal("train --solver=x --snapshot=a --weights=b", {"exclude"});
  expect_refusal("time --model=" + net() + " --iterations=0", {"--iterations 0"});
  expect_refusal("time --model=" + net() + " --phase=TRIAN", {"TRIAN", "TRAIN"});
  expect_refusal("train --solver=" + solver("max_iter: 1") + " --sigint_effect=explode",
                 {"explode"});
  expect_refusal("train --solver=" + path(""), {"folder"});
  expect_refusal("train --solver=" + path("none"), {"none"});
}

TEST_F(FlagsCliTest, DevicesAreNamedOneAtATime) {
  const std::string tool = "CUDA_VISIBLE_DEVICES= " CREMA_TOOL;
  const Output all = run("device_query --gpu all", tool);
  EXPECT_EQ(all.status, 0) << all.text;
  EXPECT_TRUE(all.says("CUDA: no device")) << all.text;
  const Output one = run("device_query --gpu 0", tool);
  EXPECT_EQ(one.status, 1) << one.text;
  EXPECT_TRUE(one.says("no CUDA device 0")) << one.text;
  for (const char* wrong : {"0,1", "-1", "x", "1x"}) {
    expect_refusal("summary --model=" + net() + " --gpu=" + wrong, {wrong, "one device index"});
  }
}

TEST_F(FlagsCliTest, SeedsAreNotNegative) {
  for (const std::string& command :
       {"train --solver=" + solver("max_iter: 1 snapshot_after_train: false"),
        "time --iterations=1 --model=" + net()}) {
    expect_refusal(command + " --seed -5", {"--seed -5 is negative"});
    EXPECT_EQ(run(command + " --seed=-1").status, 0);
  }
}

TEST_F(FlagsCliTest, PhaseLevelAndStageChooseLayers) {
  const std::string model = write("rules.prototxt", R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "for_train" type: "ReLU" bottom: "x" top: "a" include { phase: TRAIN } }
layer { name: "for_test" type: "ReLU" bottom: "x" top: "b" include { phase: TEST } }
layer { name: "for_level" type: "ReLU" bottom: "x" top: "c" include { min_level: 2 } }
layer { name: "for_stage" type: "ReLU" bottom: "x" top: "d" include { stage: "deploy" stage: "int" } })");
  auto expect_layers = [&](const std::string& flags, bool train, bool test, bool level,
                           bool stage) {
    const Output output = run("summary --model=" + model + flags);
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_EQ(output.says("for_train"), train) << flags;
    EXPECT_EQ(output.says("for_test"), test) << flags;
    EXPECT_EQ(output.says("for_level"), level) << flags;
    EXPECT_EQ(output.says("for_stage"), stage) << flags;
  };
  expect_layers("", true, false, false, false);
  expect_layers(" --phase=TEST", false, true, false, false);
  expect_layers(" --level=1", true, false, false, false);
  expect_layers(" --level=2", true, false, true, false);
  expect_layers(" --stage=deploy", true, false, false, false);
  expect_layers(" --phase=TEST --stage=int,deploy", false, true, false, true);
  const Output unknown = run("summary --model=" + model + " --stage=deply");
  EXPECT_TRUE(unknown.says("stage 'deply' has no effect")) << unknown.text;
  EXPECT_TRUE(unknown.says("did you mean 'deploy'?")) << unknown.text;
}

}  // namespace
}  // namespace crema::test
