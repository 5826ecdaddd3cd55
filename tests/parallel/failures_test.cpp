// A process that fails ends all, by name, and leaves a whole snapshot; processes that cannot train
// together say why.
#include <chrono>
#include <filesystem>

#include "parallel/processes.hpp"

namespace crema::test {
namespace {

constexpr const char* kFlat =
    "layer { name: 'x' type: 'InnerProduct' bottom: 'data' top: 'x' inner_product_param { "
    "num_output: 5 weight_filler { type: 'xavier' } } } ";

class FailuresTest : public ProcessesTest {
 protected:
  void expect_refusal(int processes, const std::string& file,
                      std::initializer_list<std::string> parts) {
    const ProcessesOutput output = train(processes, text(file, " ", folder_ / "out"));
    EXPECT_NE(output.status, 0) << output.text;
    for (const std::string& part : parts)
      EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }

  /// The run fails in rank 1 at iteration 3; a snapshot is taken at each second one.
  void expect_end(const std::string& by, std::initializer_list<std::string> parts,
                  const std::string& flags = "") {
    const std::string file = solver(by, kFlat, "max_iter: 100000 snapshot: 2");
    const auto begin = std::chrono::steady_clock::now();
    const ProcessesOutput output =
        train(3, text(flags, " --rank=1 --at=3 --by=", by, " ", file, " ", folder_ / by));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_NE(output.status, 0) << output.text;
    EXPECT_LT(took.count(), 60) << output.text;
    for (const std::string& part : parts)
      EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
    EXPECT_FALSE(std::filesystem::exists(folder_ / (by + ".1"))) << "it went on to the end";
    Context context({.threads = 1, .tune = false});
    Solver next(file, context);
    EXPECT_NE(next.resume(), "");
    EXPECT_EQ(next.iteration(), 2);
  }
};

TEST_F(FailuresTest, AKilledProcessEndsAll) { expect_end("kill", {"process rank 1", "signal 9"}); }

TEST_F(FailuresTest, AStoppedProcessEndsAll) {
  expect_end("stop", {"rank 1 (host ", "has not been heard from for 4 s"});
}

TEST_F(FailuresTest, AProcessThatTakesNoPartEndsAll) {
  expect_end("hang", {"rank 1 (host ", "alive, but has taken no part", "for 15 s"},
             "--patience=15");
}

TEST_F(FailuresTest, AnErrorOfOneProcessEndsAll) {
  expect_end("error", {"rank 1 (host ", "this process has had enough"});
}

TEST_F(FailuresTest, FewerRecordsThanProcesses) {
  write_records("few", 3);
  expect_refusal(4, solver("few_records", kFlat, "", "few", 4),
                 {"layer 'data' has 3 records", "the 4 processes", "start 3 at most"});
}

TEST_F(FailuresTest, ABatchThatDoesNotDivide) {
  expect_refusal(3, solver("odd", kFlat, "", "records", 10),
                 {"odd.prototxt", "'data' has 10 records", "3 processes cannot share evenly"});
}

TEST_F(FailuresTest, OtherNetsDataAndSettings) {
  const std::string wider =
      "layer { name: 'x' type: 'InnerProduct' bottom: 'data' top: 'x' inner_product_param { "
      "num_output: 6 weight_filler { type: 'xavier' } } } ";
  solver("net0", kFlat, "");
  solver("net1", wider, "");
  expect_refusal(2, folder_ / "net%.prototxt",
                 {"do not train the same", "rank 1 (host ", "rank 0 (host ", "num_output: 6",
                  "num_output: 5"});
  write_records("longer", 51);
  solver("data0", kFlat, "");
  solver("data1", kFlat, "", "longer");
  expect_refusal(2, folder_ / "data%.prototxt",
                 {"do not train the same", "51 records", "50 records"});
  solver("rate0", kFlat, "");
  solver("rate1", kFlat, "momentum: 0.5");
  expect_refusal(2, folder_ / "rate%.prototxt", {"do not train the same", "momentum: 0.5"});
}

TEST_F(FailuresTest, SettingsOfOneProcess) {
  expect_refusal(2, solver("halves", kFlat, "on_oom: HALVE_BATCH"),
                 {"HALVE_BATCH is possible in one process alone"});
  expect_refusal(3, solver("cube", kFlat, "parallel_mode: GOSSIP gossip_partners: HYPERCUBE"),
                 {"HYPERCUBE needs 2, 4, 8, ... processes", "these are 3"});
}

TEST_F(FailuresTest, ALossThatIsNotFiniteEndsAll) {
  const std::string file = solver("nan", kFlat, "base_lr: 1e30 max_iter: 50 snapshot: 50");
  expect_refusal(2, file, {"rank 0 (host ", "not finite"});
}

}  // namespace
}  // namespace crema::test
