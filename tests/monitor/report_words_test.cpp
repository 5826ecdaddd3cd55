// How runs that failed, were resumed or gave little are shown.
#include <gmock/gmock.h>

#include <cmath>

#include "monitor/report/charts.hpp"
#include "monitor/report/report.hpp"
#include "monitor/report_page.hpp"
#include "monitor/run_folder_fake.hpp"

namespace crema::test {
namespace {

using ::testing::ElementsAre;

TEST(Report, AFailureHasFewWordsAndItsMessageBeside) {
  FakeRun fake;
  fake.add_display(10, 1);
  RunRecord end;
  end.set_kind(RunRecord::END);
  end.set_reason(RunRecord::FAILED);
  end.set_iteration(1038);
  end.set_text("the loss is nan at iteration 1038: of all things");
  fake.add(end);
  EXPECT_EQ(state_words(fake.read()), "failed: not finite at 1,038");
  const std::string page = comparison_report({fake.read(), fake.read()});
  expect_well_formed(page);
  EXPECT_TRUE(has(page,
                  "<td class=\"bad\" title=\"the loss is nan at iteration 1038: of all "
                  "things\">failed: not finite at 1,038</td>"));
}

TEST(Report, TestsThatAreNotFiniteAreNoSuccess) {
  for (const bool is_loss : {true, false}) {
    FakeRun fake;
    fake.add_test(0, 0.1, 2);
    fake.add_test(50, is_loss ? 0.1 : std::nan(""), is_loss ? std::nan("") : 2);
    fake.add_event(RunRecord::END, 100);
    EXPECT_EQ(state_words(fake.read()), "finished, tests not finite");
    EXPECT_TRUE(has(run_report(fake.read()), "<span class=\"state bad\">finished, tests not"));
  }
  FakeRun well;
  well.add_test(50, 0.1, std::nan(""));
  well.add_test(100, 0.9, 1);
  well.add_event(RunRecord::END, 100);
  EXPECT_EQ(state_words(well.read()), "finished") << "the last test counts";
}

// Displays are seldom, and a run may end between two.
TEST(Report, TimeAndEpochsAreThoseOfTheLastRecord) {
  FakeRun fake;
  fake.add_display(1, 2);
  RunRecord end;
  end.set_kind(RunRecord::END);
  end.set_reason(RunRecord::FAILED);
  end.set_iteration(20);
  end.set_epoch(0.3125);
  end.set_time(1.25);
  fake.add(end);
  const RunFiles run = fake.read();
  EXPECT_EQ(seconds_of_run(run), 1.25);
  EXPECT_EQ(epochs_of_run(run), 0.3125);
  const std::string page = run_report(run);
  EXPECT_TRUE(has(page, "<b>0.3125</b><span>epochs"));
  EXPECT_TRUE(has(page, "<b>1.25s</b><span>of training"));
  const std::string both = comparison_report({run, run});
  EXPECT_TRUE(has(both, "data-v=\"0.3125\">0.3125</td><td class=\"number\" data-v=\"1.25\">1.25s"));
}

TEST(Report, OnePointIsADotAndTheAxisReachesTheEnd) {
  FakeRun fake;
  fake.add_display(1, 2);
  RunRecord end;
  end.set_kind(RunRecord::END);
  end.set_reason(RunRecord::FAILED);
  end.set_iteration(3);
  fake.add(end);
  const std::string page = run_report(fake.read());
  EXPECT_TRUE(has(page, "<g class=\"line k1 one\">"));
  EXPECT_TRUE(has(page, "\"last\":3,"));
  EXPECT_TRUE(has(page, ">1</span>"));
  EXPECT_FALSE(has(page, ">0.5</span><span style=\"left")) << "no half iterations";
  FakeRun more;
  more.add_display(1, 2);
  more.add_display(2, 3);
  EXPECT_FALSE(has(run_report(more.read()), " one\">"));
}

TEST(Report, SaysWhyNothingIsEvaluated) {
  const auto words = [](bool has_snapshot) {
    FakeRun fake;
    fake.add_display(10, 1);
    if (has_snapshot) {
      RunRecord snapshot;
      snapshot.set_kind(RunRecord::SNAPSHOT);
      snapshot.set_iteration(10);
      snapshot.set_weights("snapshots/s.caffemodel");
      fake.add(snapshot);
    }
    fake.write("test_net_0.prototxt", "name: 'n'");
    fake.add_event(RunRecord::END, 10);
    return expect_well_formed(run_report(fake.read()));
  };
  EXPECT_TRUE(has(words(true), "`crema report "));
  EXPECT_FALSE(has(words(false), "`crema report "));
  EXPECT_TRUE(has(words(false), "without a snapshot"));
}

TEST(Report, OfAResumeTheMemoryIsTheLargestAndTheFirstIterationNoThroughput) {
  FakeRun fake;
  for (const int at : {10, 20, 21, 30, 40}) {
    if (at == 21) fake.add_event(RunRecord::RESUME, 20);
    RunRecord record;
    record.set_kind(RunRecord::TRAIN);
    record.set_iteration(at);
    record.set_loss(1);
    record.set_memory(at <= 20 ? 3e6 : 2e6);
    record.set_images_per_second(at == 21 ? 9000 : 100);
    fake.add(record);
  }
  const std::string page = run_report(fake.read());
  const auto data = data_of(page);
  EXPECT_THAT(line_of(data, "chart-memory", 0).values, ElementsAre(3e6, 3e6, 3e6, 3e6, 3e6));
  EXPECT_THAT(line_of(data, "chart-speed", 0).iterations, ElementsAre(10, 20, 30, 40));
  EXPECT_TRUE(has(page, "A dashed vertical line"));
  // No data wait is 0% of 100%, and not the middle between two signs.
  FakeRun still;
  for (const int at : {10, 20}) {
    RunRecord record;
    record.set_kind(RunRecord::TRAIN);
    record.set_iteration(at);
    record.set_data_wait(0);
    still.add(record);
  }
  EXPECT_FALSE(has(run_report(still.read()), ">-"));
  EXPECT_TRUE(has(page, "3.0 MB</b><span>largest memory"));
}

TEST(Report, TheSecondParameterIsABiasWhereTheLayerHasOne) {
  FakeRun fake;
  for (const char* layer : {"ip", "bn"}) {
    ValueHistogram histogram;
    histogram.set_iteration(0);
    histogram.set_layer(layer);
    histogram.set_parameter(1);
    histogram.set_least(0);
    histogram.set_greatest(1);
    for (const double edge : {0.0, 0.5, 1.0}) histogram.add_edges(edge);
    histogram.add_counts(0);
    histogram.add_counts(4);
    fake.histograms += json_line(histogram) + "\n";
  }
  fake.add_display(10, 1);
  fake.write("net.prototxt",
             "layer { name: 'ip' type: 'InnerProduct' } layer { name: 'bn' type: 'BatchNorm' }");
  const std::string page = run_report(fake.read());
  EXPECT_TRUE(has(page, "ip, bias"));
  EXPECT_TRUE(has(page, "bn, parameter 1"));
  // The area begins and ends at the base line, at 104.
  const size_t at = page.find("d=\"M", page.find("ip, bias"));
  const std::string path = page.substr(at + 3, page.find('"', at + 3) - at - 3);
  EXPECT_TRUE(path.starts_with("M2 104L")) << path;
  EXPECT_TRUE(path.ends_with("L198 104")) << path;
}

TEST(Report, NamesOfAConfusionAllStandOrAllLie) {
  for (const bool has_long : {false, true}) {
    FakeRun fake;
    fake.add_display(10, 1);
    RunFiles run = fake.read();
    Evaluation evaluation;
    Evaluation::Classes& classes = *evaluation.mutable_classes();
    for (const char* name : {"cat", has_long ? "automobile" : "dog"}) {
      Evaluation::Class& one = *classes.add_classes();
      one.set_name(name);
      one.set_label(classes.classes_size() - 1);
    }
    for (int i = 0; i < 4; ++i) classes.add_counts(1);
    run.evaluation = evaluation;
    const std::string page = run_report(run);
    size_t turned = 0;
    for (size_t at = 0; (at = page.find("rotate(-45", at)) != std::string::npos; ++at) ++turned;
    EXPECT_EQ(turned, has_long ? 2U : 0U);
  }
}

}  // namespace
}  // namespace crema::test
