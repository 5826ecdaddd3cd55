// The list of commands: their help, and the names that they go by.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "proto/layer.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/paths.hpp"
#include "tools/cli.hpp"
#include "tools/markdown.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class CommandsCliTest : public CliTest {};

/// The lines of tools/commands.txt: a command, and the published programs that it stands for.
std::vector<std::vector<std::string>> listed_commands() {
  std::ifstream list(source_path("tools/commands.txt"));
  std::vector<std::vector<std::string>> all;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    if (!line.starts_with('#') && !line.starts_with('='))
      all.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  return all;
}

TEST_F(CommandsCliTest, HelpListsCommandsAndFlags) {
  const Output all = run("help");
  EXPECT_EQ(all.status, 0);
  size_t at = 0;
  for (const auto& names : listed_commands()) {
    const size_t found = all.text.find("\n  " + names[0] + ' ', at);
    ASSERT_NE(found, std::string::npos) << names[0] << " is not there, or before the one above it";
    at = found;
  }
  const Output train = run("help train");
  EXPECT_EQ(train.status, 0);
  for (const char* flag : {"--solver", "--snapshot", "--weights", "--sigint_effect", "--gpu"}) {
    EXPECT_TRUE(train.says(flag)) << flag;
  }
  EXPECT_EQ(run("train --help").text, train.text);
  EXPECT_EQ(run("").status, 1);
}

TEST_F(CommandsCliTest, HelpFitsTheTerminal) {
  for (const int width : {60, 100}) {
    const std::string crema = text("COLUMNS=", width, " " CREMA_TOOL);
    std::vector<std::string> words = {"help", "help layers", "models", "layers"};
    if (width == 100) {
      for (const auto& names : listed_commands()) words.push_back("help " + names[0]);
    }
    for (const std::string& word : words) {
      if (width < 100 && word == "models") continue;  // names and columns of numbers are wider
      std::istringstream lines(run(word, crema).text);
      for (std::string line; std::getline(lines, line);)
        EXPECT_LE(line.size(), static_cast<size_t>(width)) << word << ": " << line;
    }
  }
}

TEST_F(CommandsCliTest, HelpHoldsTheWordsOfItsCommandAlone) {
  const Output classify = run("help classify"), test = run("help test");
  EXPECT_TRUE(classify.says("--labels=string") && classify.says("the name of each class"));
  EXPECT_FALSE(classify.says("blob of labels")) << classify.text;
  EXPECT_TRUE(test.says("The blob of labels that belongs to --scores."));
  EXPECT_FALSE(test.says("the name of each class")) << test.text;
  EXPECT_TRUE(run("help convert-imageset").says("Seed of --shuffle. Default: 1701."));
  EXPECT_FALSE(run("help train").says("--shuffle"));
  EXPECT_TRUE(run("help time").says("Seed of all random numbers. Default: 1701."));
  for (const auto& names : listed_commands()) {
    const Output help = run("help " + names[0]);
    for (const auto& others : listed_commands())
      EXPECT_FALSE(help.says("Of " + others[0] + ":")) << help.text;
  }
}

/// The first word of each line that is indented by two spaces.
std::set<std::string> first_words(const std::string& text) {
  std::set<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ") && !line.starts_with("   "))
      words.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  return words;
}

TEST_F(CommandsCliTest, HelpHasAllSettings) {
  const auto expect_all = [](const std::string& help,
                             std::initializer_list<const google::protobuf::Descriptor*> messages) {
    const std::set<std::string> shown = first_words(help);
    for (const auto* const message : messages) {
      for (int i = 0; i < message->field_count(); ++i) {
        const auto* const field = message->field(i);
        const bool is_of_a_type =
            message == LayerParameter::descriptor() && field->name().ends_with("_param") &&
            field->name() != "transform_param" && field->name() != "loss_param";
        EXPECT_EQ(shown.contains(field->name()), !is_of_a_type)
            << message->name() << "." << field->name();
      }
    }
  };
  const Output solver = run("help solver");
  EXPECT_EQ(solver.status, 0) << solver.text;
  expect_all(solver.text, {SolverParameter::descriptor()});
  for (const char* part : {"\nTesting.\n", "batches a test, one for each test net",
                           "inv          base_lr * (1 + gamma", "CPU | GPU [GPU]", "float [0.999]",
                           "text [SGD]", "LEAST for outputs with a loss weight"})
    EXPECT_TRUE(solver.says(part)) << part << solver.text;
  expect_all(run("help net").text, {NetParameter::descriptor(), LayerParameter::descriptor(),
                                    ParamSpec::descriptor(), FillerParameter::descriptor()});
  const Output data = run("help data");
  expect_all(data.text, {DataParameter::descriptor(), TransformationParameter::descriptor(),
                         ResizeParameter::descriptor(), MixParameter::descriptor()});
  EXPECT_TRUE(data.says("FOLDER: a folder with a folder of images for each class"));
  EXPECT_EQ(run("help Convolution").text, run("layers Convolution").text);
  // Tables within comments keep their lines.
  for (const char* part : {"\nweight_decay_policy   weight decay at iteration i\nfixed     ",
                           "\nlarc, \"scale\"   the learning rate * larc_eta * |w| / |g|\n",
                           "\n== early_stop { }\n", "\n  patience"})
    EXPECT_TRUE(solver.says(part)) << part << solver.text;
  const Output early = run("help early_stop");
  EXPECT_EQ(early.status, 0) << early.text;
  expect_all(early.text, {EarlyStopParameter::descriptor()});
  EXPECT_TRUE(run("help transform_param").says("crop_size"));
}

TEST_F(CommandsCliTest, UnknownWordsGetTheNearestName) {
  expect_refusal("trian", {"'trian'", "did you mean 'train'?"});
  expect_refusal("train --solvr=x", {"--solvr", "--solver"});
  expect_refusal("summary --solver=x", {"summary has no flag --solver"});
  expect_refusal("help tme", {"'tme'"});
}

// "there is no command 'help'; did you mean 'help'?"
TEST_F(CommandsCliTest, HelpOfHelpIsTheList) {
  const Output output = run("help help");
  EXPECT_EQ(output.status, 0);
  EXPECT_EQ(output.text, run("help").text);
}

// The status was 0.
TEST_F(CommandsCliTest, HelpThatCannotBeWrittenIsAnError) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  for (const char* command : {"help", "help train", "--version", "layers"}) {
    for (const auto& [to, reason] :
         {std::pair("/dev/full", "No space left on device"), {"&-", "Bad file descriptor"}}) {
      const Output output = run(text(command, " >", to, ")"), "(" CREMA_TOOL);
      EXPECT_EQ(output.status, 1) << command << " to " << to;
      EXPECT_TRUE(output.says(text("standard output cannot be written: ", reason, "\n")))
          << output.text;
    }
  }
}

TEST_F(CommandsCliTest, PublishedProgramNamesAreLinks) {
  const fs::path link = fs::path(CREMA_TOOL).parent_path() / "convert_imageset";
  ASSERT_TRUE(fs::exists(link)) << link;
  const Output output = run("--nosuch /x /y /z", link.string());
  EXPECT_EQ(output.status, 1);
  EXPECT_TRUE(output.says("convert-imageset has no flag --nosuch")) << output.text;
}

TEST_F(CommandsCliTest, TheProgramsPageNamesAllCommands) {
  std::ifstream file(source_path("tools/README.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  std::vector<tools::TableRow> rows;
  for (const tools::Table& table : tools::tables_of(page)) {
    if (table[0][0] == "command") rows.assign(table.begin() + 1, table.end());
  }
  const Output help = run("help", "COLUMNS=200 " CREMA_TOOL);
  const std::vector<std::vector<std::string>> commands = listed_commands();
  ASSERT_EQ(rows.size(), commands.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string published;
    for (size_t k = 1; k < commands[i].size(); ++k)
      published += (k > 1 ? " `" : "`") + commands[i][k] + '`';
    ASSERT_EQ(rows[i].size(), 3U);
    EXPECT_EQ(rows[i][0], '`' + commands[i][0] + '`');
    EXPECT_EQ(rows[i][1], published);
    const size_t line = help.text.find("\n  " + commands[i][0] + ' ');
    ASSERT_NE(line, std::string::npos) << commands[i][0];
    const std::string said = help.text.substr(line, help.text.find('\n', line + 1) - line);
    EXPECT_TRUE(said.ends_with("  " + rows[i][2])) << said << "\nthe page: " << rows[i][2];
  }
}

/// Links of the name, and the name as the first word, mean the command.
void expect_published_name(const fs::path& folder, const std::string& name,
                           const std::string& command) {
  for (const char* ending : {"", ".bin"}) {
    const fs::path link = folder / text(name, ending);
    EXPECT_TRUE(fs::is_symlink(link)) << link;
    const std::string refusal = text(command, " has no flag --nosuch");
    EXPECT_TRUE(run("--nosuch", link.string()).says(refusal)) << link;
    EXPECT_TRUE(run(text(name, ending, " --nosuch")).says(refusal)) << name << ending;
  }
}

TEST_F(CommandsCliTest, PublishedNamesMayEndInBin) {
  const fs::path folder = fs::path(CREMA_TOOL).parent_path();
  for (const auto& names : listed_commands()) {
    for (size_t i = 1; i < names.size(); ++i) expect_published_name(folder, names[i], names[0]);
  }
  // Of other names, such as caffe.bin, the words name the command.
  fs::create_symlink(CREMA_TOOL, path("caffe.bin"));
  EXPECT_TRUE(run("train --nosuch", path("caffe.bin")).says("train has no flag --nosuch"));
}

}  // namespace
}  // namespace crema::test
