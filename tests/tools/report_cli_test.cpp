// crema report: the page of a run, its evaluation, and several runs beside each other.
#include <cmath>
#include <filesystem>
#include <fstream>

#include "model/hdf5_file.hpp"
#include "monitor/report/run_files.hpp"
#include "monitor/run_folder.hpp"
#include "support/database.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;
using namespace crema;
using namespace crema::test;

class ReportCliTest : public CliTest {
 protected:
  /// The pixels of a record are the scores of three classes, which an InnerProduct without training
  /// passes on. `records` come in the order of their classes; of class 2, all are taken for 0.
  std::string data(int records) const {
    Records all;
    for (int i = 0; i < records; ++i) {
      const int label = i * 3 / records, seen = label == 2 ? 0 : label;
      Datum datum = byte_datum(3, 1, 1, label);
      std::string pixels(3, '\1');
      pixels[static_cast<size_t>(seen)] = '\5';
      datum.set_data(pixels);
      char key[16];
      std::snprintf(key, sizeof key, "%08d", i);
      all.emplace_back(key, datum.SerializeAsString());
    }
    fs::remove_all(path("data"));
    write_database(path("data"), all);
    return path("data");
  }

  /// A run's folder by hand, with weights that crema trained.
  std::string run_folder(const std::string& name, int records = 60, double rate = 0) const {
    const std::string layers =
        "layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: 'data' "
        "backend: LMDB batch_size: 4 } }\n"
        "layer { name: 'ip' type: 'Scale' bottom: 'data' top: 'ip' }\n"
        "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
        "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' "
        "include { phase: TEST } }\n";
    data(records);
    const std::string folder = path(name);
    fs::create_directories(folder + "/snapshots");
    const std::string net = write(name + "/net.prototxt", layers);
    write(name + "/test_net_0.prototxt", layers);
    const std::string solver =
        write(name + "/solver.prototxt", text("net: '", net, "' base_lr: ", rate,
                                              " lr_policy: 'fixed' max_iter: 2 display: 1 "
                                              "snapshot_prefix: '",
                                              folder, "/snapshots/s' random_seed: 1\n"));
    const Output trained = run("train --solver " + solver, "cd " + path("") + " && " CREMA_TOOL);
    EXPECT_EQ(trained.status, 0) << trained.text;
    fs::copy_file(folder + "/snapshots/s_iter_2.caffemodel", folder + "/snapshots/last.caffemodel");
    RunInfo info;
    info.set_name(name);
    info.set_folder(path(""));
    RunInfo::Setting& setting = *info.add_settings();
    setting.set_name("base_lr");
    setting.set_value(text(rate));
    write(name + "/run.json", json_line(info) + "\n");
    RunRecord record;
    record.set_kind(RunRecord::TRAIN);
    record.set_iteration(2);
    record.set_loss(0.5);
    write(name + "/metrics.jsonl", json_line(record) + "\n");
    return folder;
  }

  /// A run of crema train that ends with its evaluation, with snapshots at the path "shared".
  Output trained_run(const std::string& name, const std::string& more,
                     const std::string& flags = "") const {
    const std::string solver =
        write("trained.prototxt",
              text("net: '", path("trained_net.prototxt"),
                   "' base_lr: 0.01 lr_policy: 'fixed' max_iter: 4 display: 1 test_iter: 15 "
                   "test_interval: 2 snapshot: 2 snapshot_prefix: '",
                   path("shared"), "' random_seed: 1 ", more, "\n"));
    return run("train --threads=1 --overwrite --run_dir=" + path(name) + " " + flags +
                   " --solver=" + solver,
               "cd " + path("") + " && " CREMA_TOOL);
  }
  void write_trained_net() const {
    data(60);
    write("trained_net.prototxt",
          "name: 'n' layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { "
          "source: 'data' backend: LMDB batch_size: 4 } }\n"
          "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { "
          "num_output: 3 weight_filler { type: 'xavier' } } }\n"
          "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' "
          "}\n"
          "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' "
          "include { phase: TEST } }\n");
  }

  static std::string page_in(const std::string& folder) {
    return text_of_file(folder + "/report.html").value_or("");
  }
};

TEST_F(ReportCliTest, EvaluatesARunOnceAndShowsIt) {
  const std::string folder = run_folder("runs-1");
  const Output output = run("report " + folder);
  ASSERT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("runs-1/report.html")) << output.text;
  RunFiles measured = read_run(folder);
  ASSERT_TRUE(measured.evaluation) << output.text;
  const Evaluation& evaluation = *measured.evaluation;
  EXPECT_EQ(evaluation.notes_size(), 0);
  EXPECT_EQ(evaluation.records(), 60);
  EXPECT_EQ(evaluation.records_of_data(), 60);
  EXPECT_EQ(evaluation.iteration(), 2);
  EXPECT_EQ(evaluation.weights(), "snapshots/last.caffemodel");
  EXPECT_NEAR(evaluation.outputs().at("accuracy"), 2 / 3.0, 1e-6);
  const auto& classes = evaluation.classes();
  EXPECT_NEAR(classes.accuracy(), 2 / 3.0, 1e-9);
  ASSERT_EQ(classes.counts_size(), 9);
  EXPECT_EQ(classes.counts(2 * 3 + 0), 20) << "of class 2, all are taken for 0";
  EXPECT_EQ(classes.counts(0), 20);
  EXPECT_EQ(classes.confusions(0).count(), 20);
  EXPECT_EQ(classes.classes(1).average_precision(), 1);
  EXPECT_LT(classes.classes(2).average_precision(), 0.5);
  ASSERT_EQ(classes.mistakes_size(), 20);
  const auto& mistake = classes.mistakes(0);
  EXPECT_EQ(mistake.label(), 2);
  EXPECT_EQ(mistake.prediction(), 0);
  // Scores 5, 1, 1 of a softmax.
  EXPECT_NEAR(mistake.score(), 1 / (1 + 2 * std::exp(-4)), 1e-5);
  EXPECT_TRUE(mistake.image().starts_with("\x89PNG"));
  ASSERT_TRUE(measured.layers);
  EXPECT_EQ(measured.layers->layers(1).name(), "ip");
  EXPECT_EQ(measured.layers->layers(1).parameters(), 3);
  EXPECT_TRUE(measured.layers->layers(1).has_forward_ms() ||
              measured.layers->layers(1).has_fused_into());
  EXPECT_GE(measured.layers->passes(), 1);
  const std::string page = page_in(folder);
  for (const char* part : {"66.67%", "taken for", "data:image/png;base64,", "4 × 3"})
    EXPECT_NE(page.find(part), std::string::npos) << part;

  // It is up to date: the file stays as it is, to the second that it took.
  const std::string before = text_of_file(folder + "/evaluation.json").value();
  EXPECT_EQ(run("report " + folder).status, 0);
  EXPECT_EQ(text_of_file(folder + "/evaluation.json").value(), before);
  // Other weights are evaluated anew.
  fs::last_write_time(folder + "/snapshots/last.caffemodel",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(run("report " + folder).status, 0);
  EXPECT_NE(text_of_file(folder + "/evaluation.json").value(), before);
}

TEST_F(ReportCliTest, ASampleIsSpreadOverTheData) {
  // The first 12 records are all of class 0.
  const std::string folder = run_folder("run");
  const Output output = run("report --records 12 " + folder);
  ASSERT_EQ(output.status, 0) << output.text;
  const RunFiles measured = read_run(folder);
  ASSERT_TRUE(measured.evaluation);
  EXPECT_EQ(measured.evaluation->records(), 12);
  EXPECT_EQ(measured.evaluation->records_of_data(), 60);
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(measured.evaluation->classes().classes(c).support(), 4) << c;
  EXPECT_NE(page_in(folder).find("over 12 of 60 records"), std::string::npos);
  // More are evaluated anew.
  EXPECT_EQ(run("report --records 30 " + folder).status, 0);
  EXPECT_EQ(read_run(folder).evaluation->records(), 28) << "whole batches of 4";
}

TEST_F(ReportCliTest, WeightsOfAnotherRunAreRefused) {
  write_trained_net();
  for (const char* more : {"", "snapshot_best: 'accuracy' snapshot_format: HDF5"}) {
    if (*more != '\0' && !has_hdf5()) continue;
    Output output = trained_run("one", more);
    ASSERT_EQ(output.status, 0) << output.text;
    EXPECT_FALSE(output.says("is not a file that this run wrote")) << output.text;
    const auto first = read_run(path("one")).evaluation;
    ASSERT_TRUE(first);
    EXPECT_EQ(first->notes_size(), 0) << first->notes(0);
    // Its own weights are known, also where they are asked for again.
    output = run("report --records 8 " + path("one"));
    EXPECT_FALSE(output.says("is not a file that this run wrote")) << output.text;
    ASSERT_EQ(run("report " + path("one")).status, 0);
    const auto own = read_run(path("one")).evaluation;

    output = trained_run("two", more, "--set base_lr=0");
    ASSERT_EQ(output.status, 0) << output.text;
    output = run("report --records 30 " + path("one"));
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(output.says("is not a file that this run wrote")) << output.text;
    EXPECT_TRUE(output.says("shared_")) << "where the link leads: " << output.text;
    const auto after = read_run(path("one")).evaluation;
    ASSERT_TRUE(after);
    EXPECT_EQ(after->weights_time(), own->weights_time()) << "what was measured before stays";
    EXPECT_EQ(after->records(), own->records());
    ASSERT_EQ(after->notes_size(), 1);
    EXPECT_NE(after->notes(0).find("not evaluated anew"), std::string::npos) << after->notes(0);
    EXPECT_NE(page_in(path("one")).find("Another run with the same snapshot_prefix"),
              std::string::npos);
    EXPECT_FALSE(run("report --records 30 " + path("two")).says("is not a file"));
    fs::remove_all(path("one"));
    fs::remove_all(path("two"));
  }
}

TEST_F(ReportCliTest, WithoutOwnWeightsNothingIsEvaluated) {
  write_trained_net();
  ASSERT_EQ(trained_run("one", "").status, 0);
  ASSERT_EQ(trained_run("two", "", "--set base_lr=0").status, 0);
  fs::remove(path("one/evaluation.json"));
  EXPECT_EQ(run("report " + path("one")).status, 0);
  const auto evaluation = read_run(path("one")).evaluation;
  ASSERT_TRUE(evaluation);
  EXPECT_FALSE(evaluation->has_classes());
  EXPECT_NE(page_in(path("one")).find("The weights are not evaluated: "), std::string::npos);
}

TEST_F(ReportCliTest, TheEvaluationCanBeLeftOut) {
  const std::string folder = run_folder("run");
  EXPECT_EQ(run("report --evaluate=false " + folder).status, 0);
  EXPECT_FALSE(fs::exists(folder + "/evaluation.json"));
  EXPECT_NE(page_in(folder).find("chart-loss"), std::string::npos);
}

TEST_F(ReportCliTest, WhatCannotBeEvaluatedIsSaid) {
  const std::string folder = run_folder("run");
  fs::remove_all(path("data"));
  const Output output = run("report " + folder);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("not evaluated")) << output.text;
  EXPECT_NE(page_in(folder).find("The weights could not be evaluated"), std::string::npos);
  EXPECT_NE(page_in(folder).find("chart-loss"), std::string::npos) << "the rest is there";
}

TEST_F(ReportCliTest, ComparesRuns) {
  const std::string first = run_folder("first", 60, 0), second = run_folder("second", 60, 0.5);
  const std::string file = path("both.html");
  const Output output = run(text("report ", first, " ", second, " -o ", file));
  EXPECT_EQ(output.status, 0) << output.text;
  const std::string page = text_of_file(file).value_or("");
  EXPECT_NE(page.find("Comparison of 2 runs"), std::string::npos);
  EXPECT_NE(page.find("<th scope=\"row\">base_lr</th>"), std::string::npos);
  EXPECT_FALSE(fs::exists(first + "/report.html"));
  EXPECT_FALSE(fs::exists(first + "/evaluation.json"));
}

TEST_F(ReportCliTest, RefusesWhatIsNoRun) {
  expect_refusal("report", {"needs the folder of a run"});
  expect_refusal("report " + path("none"), {"there is no such folder"});
  fs::create_directories(path("empty"));
  expect_refusal("report " + path("empty"), {"no folder of a run", "run.json"});
  const std::string folder = run_folder("run");
  expect_refusal("report --records 0 " + folder, {"--records 0"});
  expect_refusal("report -o " + path("no/page.html") + " " + folder, {"no/page.html"});
  write("run/run.json", "{");
  expect_refusal("report " + folder, {"run.json is damaged"});
}

TEST_F(ReportCliTest, DamagedLinesAreSaidWithTheirNumber) {
  const std::string folder = run_folder("run");
  std::ofstream(folder + "/metrics.jsonl", std::ios::app) << "{\"kind\":\n"
                                                          << "{\"kind\":\"TR";
  const Output output = run("report --evaluate=false " + folder);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("metrics.jsonl, line 2 is damaged")) << output.text;
  EXPECT_FALSE(output.says("line 3")) << output.text;
  EXPECT_NE(page_in(folder).find("line 2 is damaged"), std::string::npos);
}

}  // namespace
