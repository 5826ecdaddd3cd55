// Several runs beside each other.
#include <gmock/gmock.h>

#include <cmath>

#include "monitor/report/report.hpp"
#include "monitor/report_page.hpp"
#include "monitor/run_folder_fake.hpp"

namespace crema::test {
namespace {

using ::testing::ElementsAre;

TEST(Comparison, ShowsWhatDiffersBesideWhatWasReached) {
  std::vector<RunFiles> runs;
  for (const double rate : {0.1, 0.01}) {
    FakeRun fake(rate == 0.1 ? "fast" : "slow");
    fake.set("base_lr", text(rate));
    fake.set("momentum", "0.9375");
    if (rate == 0.1) fake.set("net.conv1.num_output", "32");
    fake.info.set_device("CPU");
    for (int at = 10; at <= 50; at += 10) fake.add_display(at, rate * at);
    fake.add_test(50, rate == 0.1 ? 0.875 : 0.75, 1);
    runs.push_back(fake.read());
  }
  const std::string page = comparison_report(runs);
  const std::string words = expect_well_formed(page);
  EXPECT_TRUE(has(words, "base_lr"));
  EXPECT_TRUE(has(words, "net.conv1.num_output"));
  EXPECT_FALSE(has(words, "0.9375")) << "the same in both";
  EXPECT_FALSE(has(words, "(device)"));
  EXPECT_TRUE(has(page, "<td class=\"number best\" data-v=\"0.875\">0.875</td>"));
  EXPECT_TRUE(has(page, "<td class=\"number\" data-v=\"0.75\">0.75</td>"));
  const auto data = data_of(page);
  EXPECT_THAT(line_of(data, "chart-loss", 0).values, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(line_of(data, "chart-loss", 1).values, ElementsAre(0.1, 0.2, 0.3, 0.4, 0.5));
  EXPECT_THAT(line_of(data, "chart-output-1", 1).values, ElementsAre(0.75));
}

TEST(Comparison, OfASweepTheBestIsFirst) {
  std::vector<RunFiles> runs;
  int number = 0;
  for (const double accuracy : {0.9, 0.92841, 0.92839, -1.0}) {
    FakeRun fake(text("trial-", ++number));
    fake.info.set_parent("rates-1");
    fake.set("net.ip1.inner_product_param.num_output", text(number));
    fake.add_display(10, 1);
    for (const int at : {10, 20}) {  // the output loss is the loss of the test, NaN or not
      RunRecord record = fake.test(at, accuracy, at == 10 ? 1 : std::nan(""));
      (*record.mutable_outputs())["loss"] = record.test_loss();
      if (accuracy < 0) record.clear_outputs();
      fake.add(record);
    }
    runs.push_back(fake.read());
  }
  const std::string page = comparison_report(runs);
  const std::string words = expect_well_formed(page);
  EXPECT_TRUE(has(words, "Sweep rates-1: 4 trials"));
  const size_t table = page.find("What was reached</h2>");
  const auto row = [&](const char* name) {
    return page.find(text("<th scope=\"row\">", name, "</th>"), table);
  };
  EXPECT_LT(row("trial-2"), row("trial-3"));
  EXPECT_LT(row("trial-3"), row("trial-1"));
  EXPECT_LT(row("trial-1"), row("trial-4")) << "without a value last";
  EXPECT_TRUE(has(words, "net.ip1.num_output"));
  EXPECT_FALSE(has(words, "inner_product_param"));
  // Both look like 0.9284.
  size_t best = 0;
  for (size_t at = table;
       (at = page.find("class=\"number best\" data-v=\"0.928", at)) != std::string::npos; ++at)
    ++best;
  EXPECT_EQ(best, 2U);
  EXPECT_FALSE(has(words, "Test: loss")) << "it is the test loss";
  EXPECT_FALSE(has(words, "best loss"));
}

TEST(Comparison, OfEqualAndOfEmptyRuns) {
  FakeRun fake;
  const RunFiles run = fake.read();
  const std::string words = expect_well_formed(comparison_report({run, run}));
  EXPECT_TRUE(has(words, "the same configuration"));
  EXPECT_TRUE(has(words, run.folder)) << "two runs of one name";
}

}  // namespace
}  // namespace crema::test
