// `crema find-lr` and `crema find-batch`.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/database.hpp"
#include "tools/cli.hpp"
#include "tools/rate_plot.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class FindCli : public CliTest {
 protected:
  void SetUp() override {
    write_counting_database(path("records"), 40, 1, 6, 6);
    write("net.prototxt",
          text("name: 'small <net>' layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
               "transform_param { scale: 0.01 } data_param { source: '",
               path("records"),
               "' backend: LMDB batch_size: 8 } } layer { name: 'ip' type: 'InnerProduct' bottom: "
               "'data' top: 'ip' inner_product_param { num_output: 40 weight_filler { type: "
               "'xavier' } } } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: "
               "'label' top: 'loss' }"));
    solver_ = write("solver.prototxt",
                    text("net: '", path("net.prototxt"),
                         "' base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' max_iter: 10 test_iter: "
                         "1 test_interval: 5 snapshot: 2 snapshot_prefix: '",
                         path("s"), "'"));
  }
  std::set<std::string> files() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path(""))) found.insert(entry.path());
    return found;
  }

  std::string solver_;
};

TEST_F(FindCli, ARateIsProposedAndNothingIsWritten) {
  const auto before = files();
  const std::string command = "find-lr --threads=1 --tune=false --solver=" + solver_;
  const Output output = run(command + " --from_rate=1e-4 --to_rate=1000 --steps=60");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_THAT(output.text, ContainsRegex("the loss falls fastest at [0-9.e-]+; a tenth of the rate "
                                         "of the least loss is [0-9.e-]+"));
  EXPECT_THAT(output.text, ContainsRegex("crema train --solver [^ ]+ --set base_lr=[0-9.e-]+"));
  EXPECT_THAT(output.text, ContainsRegex("0\\.0001 +learning rate +[0-9.e+]+"));
  EXPECT_EQ(files(), before);
}

TEST_F(FindCli, TheCurveIsAPictureAndALine) {
  const Output output = run("find-lr --threads=1 --tune=false --steps=20 --json -o " +
                            path("curve.svg") + " --solver=" + solver_ + " 2>/dev/null");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_THAT(output.text, HasSubstr("{\"steepest\":"));
  EXPECT_THAT(output.text, HasSubstr("\"steps\":[{\"rate\":1e-07,\"loss\":"));
  const std::string svg = read_file(path("curve.svg"));
  EXPECT_THAT(svg, HasSubstr("Rates of small &lt;net&gt;"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  expect_refusal("find-lr -o " + path("curve.svg") + " --solver=" + solver_,
                 {"curve.svg", "--overwrite"});
}

TEST_F(FindCli, StartsFromASnapshot) {
  ASSERT_EQ(run("train --threads=1 --solver=" + solver_).status, 0);
  const Output output = run("find-lr --threads=1 --tune=false --steps=5 --json --snapshot=" +
                            path("s_iter_10.solverstate") + " --solver=" + solver_);
  EXPECT_EQ(output.status, 0) << output.text;
  expect_refusal("find-lr --snapshot=a --weights=b --solver=" + solver_,
                 {"--snapshot", "--weights"});
}

TEST_F(FindCli, WrongRangesAreRefused) {
  const std::string command = "find-lr --threads=1 --solver=" + solver_;
  expect_refusal(command + " --from_rate=-1", {"begins at a positive rate, not at -1"});
  expect_refusal(command + " --from_rate=1 --to_rate=0.1", {"above the first one"});
  expect_refusal(command + " --steps=1", {"at least 2 steps"});
  expect_refusal("find-lr " + solver_, {"--solver=FILE"});
}

TEST_F(FindCli, TheLargestAndTheFastestBatchAreFound) {
  const auto before = files();
  const std::string command =
      "find-batch --threads=1 --tune=false --max_batch=16 --solver=" + solver_;
  const Output all = run(command);
  EXPECT_EQ(all.status, 0) << all.text;
  EXPECT_THAT(all.text, ContainsRegex(" +batch +planned +ms/iteration +images/s +data wait\n"));
  EXPECT_THAT(all.text, HasSubstr("the largest that fits: 16 (--max_batch); the fastest: "));
  EXPECT_EQ(files(), before);
  const Output json = run(command + " --json 2>/dev/null");
  EXPECT_THAT(json.text, HasSubstr("{\"largest\":16,\"fastest\":"));
  const Output none = run(command + " --memory=1kB");
  EXPECT_EQ(none.status, 1) << none.text;
  EXPECT_THAT(none.text, ContainsRegex("1 +[0-9.]+ k?B +does not fit"));
  EXPECT_THAT(none.text, HasSubstr("not even a batch of one record fits"));
}

TEST_F(FindCli, WrongLimitsAreRefused) {
  const std::string command = "find-batch --threads=1 --solver=" + solver_;
  expect_refusal(command + " --memory=much", {"--memory=much is no size"});
  expect_refusal(command + " --max_batch=0", {"--max_batch 0"});
}

TEST(RatePlot, HasAPointForEachStep) {
  RateCurve curve;
  for (int i = 0; i < 40; ++i) {
    const double loss = i < 30 ? 40 - i : 1000;
    curve.steps.push_back({1e-4 * std::pow(1.5, i), loss, loss});
  }
  for (const bool utf8 : {false, true}) {
    const std::vector<std::string> lines = tools::rate_plot(curve, 60, utf8);
    ASSERT_EQ(lines.size(), 13U);
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    EXPECT_EQ(all.find(utf8 ? "•" : "*") != std::string::npos, true);
    for (const std::string& line : lines) {
      if (!utf8) {
        EXPECT_LE(line.size(), 60U) << line;
        for (const char sign : line) EXPECT_GE(sign, 0);
      }
    }
  }
  // The losses of 1000 are beyond the frame: no sign of the plot stands for them, and arrows of the
  // picture do. Its ticks are round.
  size_t signs = 0;
  for (const std::string& line : tools::rate_plot(curve, 200, false))
    signs += static_cast<size_t>(std::ranges::count(line, '*'));
  EXPECT_EQ(signs, 30U);
  const std::string svg = tools::rate_svg(curve, "Rates");
  const auto count = [&](const std::string& part) {
    size_t found = 0;
    for (size_t at = 0; (at = svg.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("<circle class=\"loss\""), 30U);
  EXPECT_EQ(count("<path class=\"loss\""), 10U);
  for (const char* tick : {">20</text>", ">30</text>", ">40</text>"})
    EXPECT_EQ(count(tick), 1U) << svg;
  curve.steps.resize(1);
  EXPECT_TRUE(tools::rate_plot(curve, 60, false).empty());
}

}  // namespace
}  // namespace crema::test
