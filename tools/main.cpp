// crema: trains, tests, times and describes nets, and makes databases. One file a command.
#include <gflags/gflags.h>
#include <glog/logging.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include "tools/command.hpp"

namespace crema::tools {
namespace {

const std::vector<const Command*>& commands() {
  static const std::vector<const Command*> all = {
      &kTrain, &kTest, &kTime, &kSummary, &kConvertMnist, &kConvertImageset, &kDeviceQuery};
  return all;
}

const std::vector<std::string> kCommonFlags = {
    "help", "version", "log_dir", "minloglevel", "v", "logtostderr", "alsologtostderr", "flagfile"};

/// Published programs separate words by _, ours by -.
std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const Command* find_command(const std::string& name) {
  for (const Command* command : commands()) {
    if (command->name == with_dashes(name)) return command;
    for (const auto& alias : command->aliases) {
      if (alias == name) return command;
    }
  }
  return nullptr;
}

const Command& need_command(const std::string& name) {
  if (const Command* command = find_command(name)) return *command;
  std::vector<std::string> names = {"help"};
  for (const Command* command : commands()) names.push_back(command->name);
  const std::string hint = nearest_name(with_dashes(name), names);
  throw Error("there is no command '", name, "'",
              hint.empty() ? "" : "; did you mean '" + hint + "'?", " `crema help` lists them");
}

void print_help() {
  std::cout << "usage: crema COMMAND [FLAGS] [ARGUMENTS]\n\ncommands:\n";
  for (const Command* command : commands()) {
    std::printf("  %-18s %s\n", command->name.c_str(), command->summary.c_str());
  }
  std::cout << "  help [COMMAND]     this list, or all about a command\n";
}

void print_flag(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(name.c_str(), &info)) return;
  const std::string shown = info.type == "bool" ? name : name + "=" + info.type;
  std::printf("  --%-26s %s%s\n", shown.c_str(), info.description.c_str(),
              info.default_value.empty() || info.default_value == "-1"
                  ? ""
                  : (" [" + info.default_value + "]").c_str());
}

void print_help(const Command& command) {
  std::cout << "crema " << command.name << ": " << command.summary << "\n\n"
            << command.usage << "\n\nflags:\n";
  for (const auto& flag : command.flags) print_flag(flag);
}

/// Error for a flag that the command does not take, before gflags would end the program over it.
void check_flags(const Command& command, const std::vector<std::string>& words) {
  std::vector<std::string> known = command.flags;
  known.insert(known.end(), kCommonFlags.begin(), kCommonFlags.end());
  bool is_value = false;
  for (const auto& word : words) {
    if (word == "--") return;
    if (is_value || word.size() < 2 || word[0] != '-') {
      is_value = false;
      continue;
    }
    std::string name = word.substr(word.find_first_not_of('-'));
    const size_t equals = name.find('=');
    const bool has_value = equals != std::string::npos;
    name = name.substr(0, equals);
    std::replace(name.begin(), name.end(), '-', '_');
    auto takes = [&](const std::string& flag) {
      return std::find(known.begin(), known.end(), flag) != known.end();
    };
    gflags::CommandLineFlagInfo info;
    const bool negated = name.starts_with("no") && takes(name.substr(2)) &&
                         gflags::GetCommandLineFlagInfo(name.substr(2).c_str(), &info) &&
                         info.type == "bool";
    if (negated) continue;
    if (!takes(name) || !gflags::GetCommandLineFlagInfo(name.c_str(), &info)) {
      const std::string hint = nearest_name(name, known);
      throw Error("crema ", command.name, " has no flag --", name,
                  hint.empty() ? "" : "; did you mean --" + hint + "?", " `crema help ",
                  command.name, "` lists them");
    }
    is_value = !has_value && info.type != "bool";
  }
}

bool asks_for_help(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& w) {
    return w == "--help" || w == "-help" || w == "-h";
  });
}

int run(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  // Called by a published name (a link to this program), the command is the name.
  const std::string called = std::filesystem::path(argv[0]).filename().string();
  if (called != "crema" && find_command(called)) words.insert(words.begin(), called);
  if (words.empty()) {
    print_help();
    return 1;
  }
  if (words[0] == "help" || words[0] == "--help" || words[0] == "-h") {
    if (words.size() > 1) {
      print_help(need_command(words[1]));
    } else {
      print_help();
    }
    return 0;
  }
  if (words[0] == "--version") {
    std::cout << "crema " << gflags::VersionString() << "\n";
    return 0;
  }
  // Published scripts put flags before the command too: `train --solver=x` or `--solver=x train`.
  size_t at = 0;
  while (at < words.size() && words[at].starts_with("-")) ++at;
  require(at < words.size(), "names no command; `crema help` lists them");
  const Command& command = need_command(words[at]);
  words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
  if (asks_for_help(words)) {
    print_help(command);
    return 0;
  }
  check_flags(command, words);

  // Flags are spelled with _ or -; gflags knows _ only.
  std::vector<char*> arguments = {argv[0]};
  for (auto& word : words) {
    if (word.starts_with("--")) {
      const size_t end = std::min(word.find('='), word.size());
      std::replace(word.begin() + 2, word.begin() + static_cast<std::ptrdiff_t>(end), '-', '_');
    }
    arguments.push_back(word.data());
  }
  int count = static_cast<int>(arguments.size());
  char** values = arguments.data();
  gflags::ParseCommandLineNonHelpFlags(&count, &values, true);
  google::InitGoogleLogging(argv[0]);
  return command.run(std::vector<std::string>(values + 1, values + count));
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  gflags::SetVersionString(CREMA_VERSION);
  FLAGS_alsologtostderr = true;
  FLAGS_colorlogtostderr = false;
  try {
    return crema::tools::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "crema: " << error.what() << "\n";
    return 1;
  }
}
