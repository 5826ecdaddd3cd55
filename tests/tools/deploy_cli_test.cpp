// crema deploy: the file for inference, and what the command says.
#include <fstream>
#include <sstream>

#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace {

using namespace crema;
using namespace crema::test;

class DeployCliTest : public CliTest {};

TEST_F(DeployCliTest, WritesANetThatRuns) {
  // Data that are never here.
  std::ifstream published(source_path("models/lenet/train_val.prototxt"));
  std::string net((std::istreambuf_iterator<char>(published)), {});
  for (size_t at = 0; (at = net.find("source: \"", at)) != std::string::npos; at += 9)
    net.insert(at + 9, "none/");
  const std::string lenet = write("lenet.prototxt", net);
  expect_refusal("deploy " + lenet,
                 {"layer 'data'", "the shape of 'data' cannot be told", "--shape=data=3x224x224"});
  const Output made = run("deploy " + lenet + " " + path("deploy.prototxt") + " --shape 1x28x28");
  ASSERT_EQ(made.status, 0) << made.text;
  for (const char* part : {"input 'data' of 1x1x28x28", "output 'prob' of 1x10",
                           "left out: accuracy (Accuracy)", "crema classify --model "})
    EXPECT_TRUE(made.says(part)) << part << " is not in: " << made.text;
  std::ifstream file(path("deploy.prototxt"));
  std::string comment;
  std::getline(file, comment);
  EXPECT_EQ(comment, "# The net of " + lenet + " for inference, as `crema deploy` derives it.");
  std::getline(file, comment);
  EXPECT_NE(comment.find("a pixel p of 0 to 255 has to become p * 0.00390625."), std::string::npos)
      << comment;
  EXPECT_EQ(run("summary --phase TEST --model " + path("deploy.prototxt")).status, 0);
  expect_refusal("deploy " + lenet + " " + path("deploy.prototxt") + " --shape 1x28x28",
                 {"deploy.prototxt", "exists", "--overwrite"});
  expect_refusal("deploy " + lenet + " " + lenet + " --overwrite", {"lenet.prototxt"});
}

TEST_F(DeployCliTest, PrintsWithoutAFile) {
  const Output printed = run("deploy " + net() + " --batch 3");
  EXPECT_EQ(printed.status, 0) << printed.text;
  EXPECT_TRUE(printed.says("type: \"Softmax\"")) << printed.text;
  EXPECT_TRUE(printed.says("dim: 3\n      dim: 3")) << printed.text;
  // What needs quotes in a shell has them; scores are no probabilities.
  const Output quoted = run("deploy " + net() + " '" + path("a net.prototxt") + "'");
  EXPECT_TRUE(quoted.says("--model \"" + path("a net.prototxt") + "\"")) << quoted.text;
  const Output inner = run("deploy " + net() + " --outputs ip");
  EXPECT_FALSE(inner.says("Softmax")) << inner.text;
}

TEST_F(DeployCliTest, RefusesWhatItCannotUse) {
  expect_refusal("deploy", {"takes TRAIN_VAL"});
  expect_refusal("deploy " + net() + " --shape x", {"--shape", "'x' is no shape"});
  expect_refusal("deploy " + net() + " --shape 3,4", {"two shapes of one input"});
  expect_refusal("deploy " + net() + " --batch 0", {"--batch=0"});
  expect_refusal("deploy " + net() + " --outputs ips", {"no blob 'ips'", "'ip'"});
  expect_refusal("deploy " + net() + " --outputs ,", {"--outputs=, names no blob"});
  expect_refusal("deploy " + net() + " --overwrite", {"--overwrite"});
  expect_refusal("deploy " + solver(""), {"solver.prototxt"});
}

}  // namespace
