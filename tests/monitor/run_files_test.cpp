// Reading the folder of a run for its report.
#include "monitor/report/run_files.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "monitor/report/display_line.hpp"
#include "monitor/run_folder.hpp"
#include "monitor/run_folder_fake.hpp"
#include "support/expect_error.hpp"

namespace crema::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int> iterations_of(const Curve& curve) {
  std::vector<int> all;
  for (const CurvePoint& point : curve) all.push_back(point.iteration);
  return all;
}

TEST(DisplayLine, ReadsWhatTheMessageWrites) {
  RunRecord record;
  record.set_kind(RunRecord::TRAIN);
  record.set_iteration(1200300);
  record.set_epoch(3.5);
  record.set_time(12.25);
  record.set_wall(1.75e9);
  record.set_loss(0.1);
  record.set_smoothed_loss(1e-30);
  record.set_rate(1e-5);
  record.set_images_per_second(1234.5);
  record.set_data_wait(0);
  record.set_gradient_norm(std::numeric_limits<double>::quiet_NaN());
  record.set_memory(4e9);
  record.set_seconds(-HUGE_VAL);
  (*record.mutable_outputs())["loss"] = HUGE_VAL;
  DisplayLine line;
  ASSERT_TRUE(read_display(json_line(record) + "\n", line));
  EXPECT_EQ(line.iteration, 1200300);
  EXPECT_EQ(line.epoch, 3.5);
  EXPECT_EQ(line.time, 12.25);
  EXPECT_EQ(line.wall, 1.75e9);
  EXPECT_EQ(line.loss, 0.1);
  EXPECT_EQ(line.smoothed_loss, 1e-30);
  EXPECT_EQ(line.rate, 1e-5);
  EXPECT_EQ(line.images_per_second, 1234.5);
  EXPECT_EQ(line.data_wait, 0);
  EXPECT_TRUE(std::isnan(line.gradient_norm.value()));
  EXPECT_EQ(line.memory, 4e9);
  EXPECT_EQ(line.seconds, -HUGE_VAL);
  ASSERT_EQ(line.outputs.size(), 1U);
  EXPECT_EQ(line.outputs[0].first, "loss");
  EXPECT_EQ(line.outputs[0].second, HUGE_VAL);
}

TEST(DisplayLine, LeavesTheRestToTheMessage) {
  DisplayLine line;
  for (const char* other :
       {"", "{}", "{\"kind\":\"TEST\",\"iteration\":1}", "{\"iteration\":1}",
        "{\"kind\":\"TRAIN\"}", "{\"kind\":\"TRAIN\",\"iteration\":1", "[1]",
        "{\"kind\":\"TRAIN\",\"iteration\":1} x", "{\"kind\":\"TRAIN\",\"iteration\":-1}",
        "{\"kind\":\"TRAIN\",\"iteration\":1,\"loss\":\"much\"}",
        "{\"kind\":\"TRAIN\",\"iteration\":1,\"later\":3}",
        "{\"kind\":\"TRAIN\",\"iteration\":1,\"outputs\":{\"a\\u0041\":1}}"})
    EXPECT_FALSE(read_display(other, line)) << other;
  EXPECT_TRUE(read_display(" { \"kind\" : \"TRAIN\" , \"iteration\" : 1 } \r", line));
}

TEST(ReadRun, CurvesAreThoseOfTheLines) {
  FakeRun fake;
  fake.add_event(RunRecord::START, 0);
  fake.add_display(10, 2.5);
  fake.add_test(10, 0.5, 2);
  fake.add_display(20, 1.5);
  fake.add_test(20, 0.75, 1, true);
  // A name with a character that JSON escapes: the message reads the line.
  RunRecord record;
  record.set_kind(RunRecord::TRAIN);
  record.set_iteration(30);
  record.set_loss(1.25);
  (*record.mutable_outputs())["a \"b\""] = 7;
  fake.add(record);
  fake.add_event(RunRecord::END, 30);
  const RunFiles run = fake.read();
  EXPECT_THAT(run.warnings, ElementsAre());
  ASSERT_EQ(run.loss.size(), 3U);
  EXPECT_EQ(run.loss[1].iteration, 20);
  EXPECT_EQ(run.loss[1].value, 1.5);
  EXPECT_EQ(run.loss[2].value, 1.25);
  EXPECT_EQ(run.outputs.at("a \"b\"").at(0).value, 7);
  EXPECT_EQ(run.tests.at(0).outputs.at("accuracy").at(1).value, 0.75);
  EXPECT_EQ(run.tests.at(0).loss.at(0).value, 2);
  EXPECT_EQ(run.iterations, 30);
  EXPECT_EQ(run.time.back().value, 10);
  EXPECT_EQ(run.state(), RunOutcome::finished);
  ASSERT_NE(run.best(), nullptr);
  EXPECT_EQ(run.best()->iteration(), 20);
}

TEST(ReadRun, WhatAResumeMadeVoidIsLeftOut) {
  FakeRun fake;
  fake.add_event(RunRecord::START, 0);
  for (const int at : {10, 20, 30, 40}) fake.add_display(at, at);
  fake.add_test(20, 0.5, 2);
  fake.add_test(40, 0.9, 2, true);
  fake.add_event(RunRecord::SNAPSHOT, 20);
  fake.add_event(RunRecord::SNAPSHOT, 40);
  fake.add_event(RunRecord::END, 40);
  fake.add_event(RunRecord::RESUME, 20);
  fake.add_test(20, 0.5, 2);
  fake.add_display(30, 31);
  const RunFiles run = fake.read();
  EXPECT_THAT(iterations_of(run.loss), ElementsAre(10, 20, 30));
  EXPECT_EQ(run.loss.back().value, 31);
  EXPECT_THAT(iterations_of(run.tests.at(0).loss), ElementsAre(20));
  EXPECT_THAT(iterations_of(run.rate), ElementsAre(10, 20, 30));
  EXPECT_THAT(iterations_of(run.time), ElementsAre(10, 20, 30));
  EXPECT_EQ(run.state(), RunOutcome::unknown);
  EXPECT_EQ(run.best(), nullptr) << "it was behind the snapshot";
  int tests = 0, snapshots = 0;
  for (const RunRecord& event : run.events) {
    tests += event.kind() == RunRecord::TEST ? 1 : 0;
    snapshots += event.kind() == RunRecord::SNAPSHOT ? 1 : 0;
  }
  EXPECT_EQ(tests, 1) << "the test at the snapshot came again";
  // As all who read the records see it.
  std::vector<int> displays;
  for (const RunRecord& one : read_run_records(run.folder)) {
    if (one.kind() == RunRecord::TRAIN) displays.push_back(one.iteration());
    EXPECT_NE(one.kind(), RunRecord::END);
  }
  EXPECT_EQ(displays, iterations_of(run.loss));
  EXPECT_EQ(snapshots, 1);
  EXPECT_EQ(run.iterations, 30);
}

TEST(ReadRun, AStartMakesAllBeforeItVoid) {
  FakeRun fake;
  fake.add_display(10, 1);
  fake.add_test(10, 0.5, 2);
  fake.add_event(RunRecord::START, 0);
  fake.add_display(5, 3);
  const RunFiles run = fake.read();
  EXPECT_THAT(iterations_of(run.loss), ElementsAre(5));
  EXPECT_TRUE(run.tests.empty());
}

TEST(ReadRun, IterationsNeverFall) {
  FakeRun fake;
  for (const int at : {10, 20, 30}) fake.add_display(at, at);
  fake.add_event(RunRecord::NOTE, 10, "back to the snapshot at 10");
  fake.add_display(20, 21);
  const RunFiles run = fake.read();
  EXPECT_THAT(iterations_of(run.loss), ElementsAre(10, 20));
  EXPECT_EQ(run.loss.back().value, 21);
}

TEST(ReadRun, DamagedLinesAreNamedAndLeftOut) {
  FakeRun fake;
  fake.add_display(10, 1);
  fake.metrics += "{\"kind\":\"TRAIN\",\"iterat{\"kind\":\"TRAIN\"}\n\n";
  fake.add_display(20, 2);
  fake.metrics += "{\"iteration\":3}\n";
  fake.metrics += "{\"kind\":\"TRAIN\",\"iteration\":30,\"lo";  // killed
  const RunFiles run = fake.read();
  EXPECT_THAT(iterations_of(run.loss), ElementsAre(10, 20));
  ASSERT_EQ(run.warnings.size(), 2U);
  EXPECT_THAT(run.warnings[0], HasSubstr("metrics.jsonl, line 2 is damaged"));
  EXPECT_THAT(run.warnings[1], HasSubstr("metrics.jsonl, line 5 is damaged"));
  EXPECT_THAT(run.warnings[1], HasSubstr("no kind"));
}

TEST(RunReader, ReadsWhatHasCome) {
  FakeRun fake;
  fake.add_event(RunRecord::START, 0);
  for (const int at : {10, 20, 30}) fake.add_display(at, at);
  RunReader reader(fake.read().folder);
  EXPECT_THAT(iterations_of(reader.read().loss), ElementsAre(10, 20, 30));
  // A line that was read is not read again: one of them is another one now, of the same length.
  const std::string path = fake.read().folder + "/metrics.jsonl";
  std::string all = text_of_file(path).value();
  const size_t place = all.find("\"iteration\":10,");
  ASSERT_NE(place, std::string::npos);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(place)) << "\"iteration\":11,";
  file.seekp(0, std::ios::end)
      << "{\"kind\":\"TRAIN\",\"iteration\":40,\"loss\":4}\n{\"kind\":\"TR";
  file.flush();
  EXPECT_THAT(iterations_of(reader.read().loss), ElementsAre(10, 20, 30, 40));
  file << "AIN\",\"iteration\":50,\"loss\":5}\nbroken\n{\"kind\":\"RESUME\",\"iteration\":20}\n";
  file.flush();
  const RunFiles& run = reader.read();
  EXPECT_THAT(iterations_of(run.loss), ElementsAre(10, 20));
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_THAT(run.warnings[0], HasSubstr("metrics.jsonl, line 7 is damaged"));
  EXPECT_THAT(iterations_of(read_run(run.folder).loss), ElementsAre(11, 20)) << "all of it";
}

TEST(RunReader, ReadsAnotherFileFromItsBeginning) {
  FakeRun fake;
  for (const int at : {10, 20, 30}) fake.add_display(at, at);
  RunReader reader(fake.read().folder);
  EXPECT_EQ(reader.read().loss.size(), 3U);
  fake.metrics.clear();
  for (const int at : {10, 25}) fake.add_display(at, at);
  fake.read();  // writes the file, which is shorter
  EXPECT_THAT(iterations_of(reader.read().loss), ElementsAre(10, 25));
  fake.metrics.clear();
  for (const int at : {1, 2, 3, 4, 5, 6, 7, 8}) fake.add_display(at, at);
  fake.read();  // a longer one
  EXPECT_THAT(iterations_of(reader.read().loss), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(ReadRun, ManyDamagedLinesAreCounted) {
  FakeRun fake;
  for (int i = 0; i < 100; ++i) fake.metrics += "x\n";
  const RunFiles run = fake.read();
  ASSERT_EQ(run.warnings.size(), 6U);
  EXPECT_THAT(run.warnings.back(), HasSubstr("95 more lines"));
}

TEST(ReadRun, HistogramsOfARepeatedPartComeOnce) {
  FakeRun fake;
  fake.add_display(40, 1);
  for (const int at : {0, 20, 40, 20}) {
    ValueHistogram histogram;
    histogram.set_iteration(at);
    histogram.set_layer("conv");
    histogram.add_edges(0);
    histogram.add_edges(1);
    histogram.add_counts(at + 1);
    fake.histograms += json_line(histogram) + "\n";
  }
  fake.histograms += "{\"iteration\":40,\"layer\":\"conv\",\"edges\":[0,1],\"counts\":[1,2]}\n";
  const RunFiles run = fake.read();
  ASSERT_EQ(run.histograms.size(), 2U);
  EXPECT_EQ(run.histograms[1].iteration(), 20);
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_THAT(run.warnings[0], HasSubstr("histograms.jsonl, line 5"));
}

TEST(ReadRun, FoldersThatAreNoRuns) {
  const TempFolder empty;
  expect_error([&] { read_run(empty.path("nothing")); }, {"there is no such folder", "nothing"});
  expect_error([&] { read_run(empty.path("")); }, {"no folder of a run", "run.json"});
  const std::string file = empty.write("file", "x");
  expect_error([&] { read_run(file); }, {"there is no such folder"});
  empty.write("run.json", "{\"name\": ");
  expect_error([&] { read_run(empty.path("")); }, {"run.json is damaged"});
}

TEST(ReadRun, ARunWithoutRecordsIsOne) {
  FakeRun fake;
  const RunFiles run = fake.read();
  EXPECT_FALSE(run.has_records());
  EXPECT_EQ(run.iterations, 0);
  EXPECT_EQ(run.state(), RunOutcome::unknown);
}

TEST(ReadRun, DamagedMeasurementsAreLeftOut) {
  FakeRun fake;
  fake.write("evaluation.json", "{\"records\": \"many\"}");
  fake.write("layers.json", "");
  const RunFiles run = fake.read();
  EXPECT_FALSE(run.evaluation);
  EXPECT_FALSE(run.layers);
  ASSERT_EQ(run.warnings.size(), 2U);
  EXPECT_THAT(run.warnings[0], HasSubstr("evaluation.json is damaged"));
}

TEST(ReadRun, FieldsOfALaterVersionAreNoDamage) {
  FakeRun fake;
  fake.metrics = "{\"kind\":\"TRAIN\",\"iteration\":5,\"loss\":1,\"later\":{\"a\":[1]}}\n";
  const RunFiles run = fake.read();
  EXPECT_THAT(run.warnings, ElementsAre());
  EXPECT_THAT(iterations_of(run.loss), ElementsAre(5));
}

}  // namespace
}  // namespace crema::test
