// What `crema train` says: on terminals of several kinds, with --quiet and --verbose, and into a
// file, where programs read it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/database.hpp"
#include "tools/cli.hpp"
#include "tools/on_terminal.hpp"
#include "tools/sparkline.hpp"

namespace crema::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(SparklineTest, ShowsTheCourseOfAllValues) {
  tools::Sparkline falling(4);
  EXPECT_EQ(falling.text(), "");
  falling.add(3);
  EXPECT_EQ(falling.text(), "") << "one value is no course";
  for (const double value : {2.0, 1.0, 0.0}) falling.add(value);
  EXPECT_EQ(falling.text(), "█▆▃▁");
  // Five values do not fit: pairs of them do, the last one alone.
  falling.add(-2);
  EXPECT_EQ(falling.text(), "█▅▁");
  falling.add(NAN);
  EXPECT_EQ(falling.text(), "█▅▁");
  tools::Sparkline level(4);
  for (int i = 0; i < 9; ++i) level.add(1);
  EXPECT_EQ(level.text(), "") << "a value that stays has no course";
}

class ProgressCli : public CliTest {
 protected:
  void SetUp() override {
    write_counting_database(path("records"), 20, 1, 4, 4);
    write("net.prototxt",
          text("name: 'small' layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
               "transform_param { scale: 0.01 } data_param { source: '",
               path("records"),
               "' backend: LMDB batch_size: 4 } } layer { name: 'ip' type: 'InnerProduct' bottom: "
               "'data' top: 'ip' inner_product_param { num_output: 20 weight_filler { type: "
               "'xavier' } } } layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: "
               "'label' top: 'loss' } layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' "
               "bottom: 'label' top: 'accuracy' include { phase: TEST } }"));
  }
  std::string train(const std::string& more = "") const {
    return "train --threads=1 --solver=" +
           write("solver.prototxt",
                 text("net: '", path("net.prototxt"),
                      "' base_lr: 0.5 lr_policy: 'fixed' test_iter: 5 test_interval: 10 display: 5 "
                      "max_iter: 40 snapshot_after_train: false ",
                      more));
  }
};

TEST_F(ProgressCli, TheLineSaysEpochLossAndItsCourse) {
  const Variable locale("LC_ALL", "C.UTF-8"), term("TERM", "xterm"), colours("NO_COLOR", "1");
  const Output run = run_on_terminal(train(), 120);
  EXPECT_EQ(run.status, 0) << run.text;
  EXPECT_THAT(
      run.text,
      ContainsRegex("40/40  epoch 8\\.0  loss [0-9.]+ [^ 0-9a-z]+  acc [0-9.]+ \\(best "
                    "[0-9.]+\\)  [0-9.]+ it/s  0s left  data [0-9]+%  lr 0\\.5  [0-9]+ images/s"));
  EXPECT_THAT(run.text, HasSubstr("█"));
  EXPECT_THAT(run.text, Not(HasSubstr("\033[3"))) << "NO_COLOR";
}

TEST_F(ProgressCli, WithoutUtf8OnlyAsciiIsDrawn) {
  const Variable locale("LC_ALL", "C"), term("TERM", "xterm"), colours("NO_COLOR", "1");
  const Output run = run_on_terminal(train(), 120);
  EXPECT_EQ(run.status, 0) << run.text;
  for (const char sign : run.text) ASSERT_GE(sign, 0) << run.text;
}

TEST_F(ProgressCli, ATestSaysWhatChangedSinceTheOneBefore) {
  const Variable colours("NO_COLOR", "1");
  const Output run = run_on_terminal(train(), 120);
  EXPECT_THAT(run.text, ContainsRegex("test at 0  accuracy [0-9.]+  loss [0-9.]+\r\n"))
      << "nothing was before that it could be better than";
  EXPECT_THAT(run.text, ContainsRegex("test at 10  accuracy [^\r]*  loss [0-9.]+ "
                                      "\\([+-][0-9.]+\\)\r\n"));
  const Output best =
      run_on_terminal(train("snapshot_best: 'loss' snapshot_prefix: '" + path("s") + "'"), 120);
  EXPECT_THAT(best.text, ContainsRegex("test at 10  loss [0-9.]+ \\(-[0-9.]+, best\\)  accuracy"));
}

TEST_F(ProgressCli, AResumedRunKnowsTheBestOfThePartBefore) {
  const Variable colours("NO_COLOR", "1");
  const std::string more = text("snapshot: 20 snapshot_prefix: '", path("s"), "' ");
  for (const bool has_best : {false, true}) {
    const std::string best = has_best ? "snapshot_best: 'accuracy' " : "";
    const std::string flags = " --run_dir=" + path(has_best ? "with" : "without");
    const Output first =
        run_on_terminal(train(more + best) + " --overwrite --set max_iter=20" + flags, 120);
    ASSERT_EQ(first.status, 0) << first.text;
    // Weights that stay give the values of the last test again.
    const Output resumed =
        run_on_terminal(train(more + best) + " --resume --set base_lr=0" + flags, 120);
    ASSERT_EQ(resumed.status, 0) << resumed.text;
    EXPECT_THAT(resumed.text, Not(HasSubstr("best)  loss"))) << "of a test";
    EXPECT_THAT(resumed.text, ContainsRegex("test at 30  accuracy [0-9.]+  loss [0-9.]+\r\n"));
    EXPECT_THAT(resumed.text, ContainsRegex("21/40 [^\r]*  acc [0-9.]+ \\(best [0-9.]+\\)"))
        << "before its first test";
  }
  std::filesystem::remove_all(path("with"));
  std::filesystem::remove_all(path("without"));
  // Without a folder nothing says what was the best.
  const Output unknown =
      run_on_terminal(train(more) + " --resume --set max_iter=60 --run_dir=none", 120);
  EXPECT_THAT(unknown.text, Not(HasSubstr("best")));
}

TEST_F(ProgressCli, ANarrowTerminalKeepsTheTimeThatIsLeft) {
  const Variable locale("LC_ALL", "C.UTF-8"), colours("NO_COLOR", "1");
  const Output run = run_on_terminal(train(), 80);
  EXPECT_THAT(run.text, ContainsRegex("40/40 [^\r]* it/s  0s left"));
}

TEST_F(ProgressCli, ColoursAreForTerminalsThatTakeThem) {
  const std::string green = "\033[32m(", reset = "\033[0m";
  {
    const Variable term("TERM", "xterm"), none("NO_COLOR", nullptr);
    const Output run = run_on_terminal(train(), 120);
    EXPECT_THAT(run.text, HasSubstr(green));
    EXPECT_THAT(run.text, HasSubstr(reset));
    EXPECT_THAT(test::run(train()).text, Not(HasSubstr("\033["))) << "a pipe";
  }
  const Variable term("TERM", "dumb"), none("NO_COLOR", nullptr);
  EXPECT_THAT(run_on_terminal(train(), 120).text, Not(HasSubstr("\033[32m")));
}

TEST_F(ProgressCli, ColoursTakeNoColumns) {
  const Variable locale("LC_ALL", "C.UTF-8"), term("TERM", "xterm"), none("NO_COLOR", nullptr);
  const Output run = run_on_terminal(train(), 60);
  const std::regex colour("\033\\[[0-9]*[mK]");
  std::istringstream drawn(run.text);
  for (std::string state; std::getline(drawn, state, '\r');) {
    if (state.find("40/40") == std::string::npos) continue;
    std::string plain = std::regex_replace(state, colour, "");
    // A bar has three bytes and takes one column.
    const auto bytes =
        std::ranges::count_if(plain, [](char sign) { return (sign & 0xC0) == 0x80; });
    EXPECT_LT(plain.size() - static_cast<size_t>(bytes), 60U) << plain;
  }
}

TEST_F(ProgressCli, QuietRunsSayWarningsAndErrorsAlone) {
  const std::string warned = train("device_id: 3 ") + " --quiet";
  for (const Output& run : {run_on_terminal(warned, 100), test::run(warned)}) {
    EXPECT_EQ(run.status, 0) << run.text;
    EXPECT_THAT(run.text, HasSubstr("device_id has no effect"));
    for (const char* part : {"Iteration", "test at", "it/s", "Optimization", "Solving"})
      EXPECT_THAT(run.text, Not(HasSubstr(part)));
  }
  EXPECT_EQ(test::run(train() + " --quiet").text, "");
  const Output broken = test::run(train("type: 'None'") + " --quiet");
  EXPECT_EQ(broken.status, 1);
  EXPECT_THAT(broken.text, HasSubstr("None"));
  expect_refusal(train() + " --quiet --verbose", {"--quiet", "--verbose"});
}

TEST_F(ProgressCli, VerboseRunsSayThePublishedLinesOnATerminalToo) {
  const Output run = run_on_terminal(train() + " --verbose", 120);
  EXPECT_EQ(run.status, 0) << run.text;
  for (const char* part : {"Iteration 5 (", "Train net output #0: loss = ", "Iteration 5, lr = 0.5",
                           "Iteration 10, Testing net (#0)", "test at 10  accuracy", "it/s"})
    EXPECT_THAT(run.text, HasSubstr(part));
}

// Facts of published parsers. Both read lines of glog: a letter of the level, month and day in four
// digits, the time with a fraction of a second behind a point, a number of the thread, the place in
// the source and "] ". parse_log.py of Caffe takes the time of each line behind the first iteration
// from its first two words, the start from the line that has "Solving", and searches lines for the
// number behind "Iteration ", for outputs "Train net output #N: NAME = VALUE" and "Test net output
// #N: NAME = VALUE" with a name without blanks, and for "lr = VALUE". DIGITS looks at the message
// alone, from its first sign on but for blanks.
TEST_F(ProgressCli, ParsersOfPublishedLogsReadTheLog) {
  const Output run = test::run(train());
  EXPECT_EQ(run.status, 0) << run.text;
  const std::string number = "([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)";
  const std::regex prefix(
      R"(^([IWEF])([0-9]{2})([0-9]{2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})\.([0-9]+) +[0-9]+ [^ ]+:[0-9]+\] (.*)$)");
  const std::regex iteration("Iteration ([0-9]+)");
  const std::regex loss("^Iteration ([0-9]+) \\(.+\\), loss = " + number + "$");
  const std::regex testing("^Iteration ([0-9]+), Testing net \\(#([0-9]+)\\)$");
  const std::regex rate("^Iteration ([0-9]+), lr = " + number + "$");
  const std::regex output("^ *(Train|Test) net output #([0-9]+): ([^ ]+) = " + number +
                          "(?: \\(\\* " + number + " = " + number + " loss\\))?$");
  bool started = false;
  int at = -1;
  std::map<int, std::map<std::string, double>> trained, tested;
  std::map<int, double> losses, rates;
  std::istringstream in(run.text);
  for (std::string line; std::getline(in, line);) {
    std::smatch parts, found;
    // A line without a prefix would end the parser, which reads a date in each.
    ASSERT_TRUE(std::regex_match(line, parts, prefix)) << line;
    EXPECT_LE(std::stoi(parts[2]), 12);
    EXPECT_LE(std::stoi(parts[3]), 31);
    const std::string message = parts[8];
    started = started || message.find("Solving") != std::string::npos;
    if (std::regex_search(message, found, iteration)) {
      at = std::stoi(found[1]);
      EXPECT_TRUE(started) << "the start has to be told before: " << line;
    }
    if (std::regex_match(message, found, loss)) losses[at] = std::stod(found[2]);
    if (std::regex_match(message, found, rate)) rates[at] = std::stod(found[2]);
    if (std::regex_match(message, found, testing)) {
      EXPECT_EQ(found[2], "0");
    }
    if (std::regex_match(message, found, output))
      (found[1] == "Train" ? trained : tested)[at][found[3]] = std::stod(found[4]);
  }
  for (int i = 0; i < 40; i += 5) {
    EXPECT_EQ(losses.count(i), 1U) << i;
    EXPECT_EQ(rates[i], 0.5) << i;
    ASSERT_EQ(trained[i].count("loss"), 1U) << i;
    EXPECT_NEAR(trained[i]["loss"], losses[i], 1e-5) << i;
  }
  ASSERT_EQ(tested.size(), 5U);
  for (const auto& [i, outputs] : tested) {
    EXPECT_EQ(i % 10, 0);
    EXPECT_EQ(outputs.count("accuracy"), 1U);
    EXPECT_EQ(outputs.count("loss"), 1U);
  }
}

}  // namespace
}  // namespace crema::test
