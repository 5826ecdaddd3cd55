#include "tools/command_line.hpp"

#include <gflags/gflags.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>

#include "core/path_advice.hpp"
#include "core/split_list.hpp"
#include "tools/output_file.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

/// The type of a flag in the words of gflags; "" if there is no such flag.
std::string type_of(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(name.c_str(), &info) ? info.type : "";
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// "fuse" for nofuse and no_fuse, where that is a switch.
std::string negated(const std::string& name) {
  for (const char* prefix : {"no_", "no"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(std::string(prefix).size());
    if (type_of(rest) == "bool") return rest;
  }
  return "";
}

/// Whether the word names a flag, so that it is no value of the one before: "--set", "--tune=off".
bool names_flag(const std::string& word) {
  if (!word.starts_with("--")) return false;
  std::string name =
      word.substr(2, word.find('=') == std::string::npos ? std::string::npos : word.find('=') - 2);
  std::replace(name.begin(), name.end(), '-', '_');
  return !type_of(name).empty() || !negated(name).empty();
}

const char* what_it_takes(const std::string& type) {
  if (type == "bool") return "on or off";
  if (type == "int32") return "a whole number of 32 bits";
  if (type == "int64") return "a whole number";
  if (type == "uint64") return "a whole number, not negative";
  if (type == "double") return "a number";
  return "a text";
}

/// Whether an empty text says something: no prefix, no stages, the usual file.
bool may_be_empty(const std::string& name) {
  return name == "root_folder" || name == "stage" || name == "tuning_file";
}

/// An unset variable of a script leaves --snapshot=$LATEST empty, and a run that starts from
/// scratch instead writes over what was to be continued. Published programs count an empty text as
/// not given, and scripts for them give one: so does a published name that is none of ours.
/// `train`, `test` and `time` are called alike here and there, and refuse it.
void check_not_empty(const CommandLine::Flag& flag, const std::string& type) {
  if (type != "string" || !flag.value || may_be_empty(flag.name) || is_called_by_published_name())
    return;
  const bool is_list = flag.name == "weights" || flag.name == "plugin";
  if (is_list ? !split_list(*flag.value).empty() : !flag.value->empty()) return;
  throw Error(spelled_flag(flag.name), "=", *flag.value,
              " is empty; give a value, or leave the flag out");
}

bool is_truth(const std::string& word) {
  return word == "on" || word == "off" || word == "true" || word == "false";
}

void set_flag(const CommandLine::Flag& flag) {
  const std::string type = type_of(flag.name);
  const bool is_switch = type == "bool";
  if (!flag.value && !is_switch)
    throw Error(spelled_flag(flag.name), " needs ", what_it_takes(type), ", as in ",
                spelled_flag(flag.name), "=VALUE");
  check_not_empty(flag, type);
  std::string value = flag.value.value_or("true");
  if (is_switch && value == "on") value = "true";
  if (is_switch && value == "off") value = "false";
  // Lists that grow: the flag again, or a flag file, brings more. Values of --set and patterns of
  // --freeze may have commas.
  std::string before;
  const char* const between = flag.name == "plugin"                         ? ","
                              : flag.name == "set" || flag.name == "freeze" ? "\n"
                                                                            : nullptr;
  if (between != nullptr && gflags::GetCommandLineOption(flag.name.c_str(), &before) &&
      !before.empty()) {
    value = before + between + value;
  }
  if (gflags::SetCommandLineOption(flag.name.c_str(), value.c_str()).empty())
    throw Error(spelled_flag(flag.name), " cannot be '", value, "'; give ", what_it_takes(type));
}

/// One flag a line; empty lines and those that begin with # are skipped.
CommandLine read_flag_file(const std::string& path) {
  std::ifstream file(path);
  if (!file.is_open()) throw Error("cannot read --flagfile=", path, path_advice(path)).about(path);
  std::vector<std::string> words;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    words.push_back(line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin));
  }
  // A folder can be opened, but not read.
  if (file.bad()) throw Error("cannot read --flagfile=", path, "; is it a folder?");
  const CommandLine read = read_command_line(words);
  if (!read.arguments.empty()) {
    throw Error("--flagfile=", path, ": '", read.arguments[0],
                "' is no flag; give one a line, as --NAME=VALUE");
  }
  return read;
}

void set_flags(const Command& command, const CommandLine& line,
               const std::vector<std::string>& known) {
  for (const auto& flag : line.flags) {
    if (!contains(known, flag.name) || type_of(flag.name).empty()) {
      const std::string hint = nearest_name(flag.name, known);
      throw Error("crema ", command.name, " has no flag --", flag.name,
                  hint.empty() ? ";" : "; did you mean --" + hint + "?", " `crema help ",
                  command.name, "` lists them");
    }
    if (flag.name != "flagfile") {
      set_flag(flag);
      continue;
    }
    // Flag files do not name others: they could go round in circles.
    std::vector<std::string> known_there = known;
    std::erase(known_there, "flagfile");
    const std::vector<std::string> paths = split_list(flag.value.value_or(""));
    if (paths.empty()) throw Error("--flagfile needs a value: --flagfile=FILE");
    for (const auto& path : paths) {
      set_flags(command, read_flag_file(path), known_there);
    }
  }
}

}  // namespace

const std::vector<std::string>& common_flags() {
  static const std::vector<std::string> flags = {
      "help", "version",     "log_dir",         "minloglevel",
      "v",    "logtostderr", "alsologtostderr", "flagfile"};
  return flags;
}

std::string spelled_flag(const std::string& name) {
  return text(name.size() == 1 ? "-" : "--", name);
}

bool CommandLine::has_flag(const std::string& name) const {
  return std::any_of(flags.begin(), flags.end(), [&](const Flag& f) { return f.name == name; });
}

CommandLine read_command_line(const std::vector<std::string>& words) {
  CommandLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--") {
      line.arguments.insert(line.arguments.end(),
                            words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      break;
    }
    const size_t begin = word.find_first_not_of('-');
    // No flag begins with a digit: -5 is a number.
    const bool is_number = begin == 1 && word[1] >= '0' && word[1] <= '9';
    if (begin == 0 || begin == std::string::npos || is_number) {
      line.arguments.push_back(word);
      continue;
    }
    const size_t equals = std::min(word.find('='), word.size());
    CommandLine::Flag flag{word.substr(begin, equals - begin), std::nullopt};
    std::replace(flag.name.begin(), flag.name.end(), '-', '_');
    const std::string type = type_of(flag.name);
    if (equals < word.size()) {
      flag.value = word.substr(equals + 1);
    } else if (const std::string opposite = negated(flag.name); type.empty() && !opposite.empty()) {
      flag = {opposite, "false"};
    } else if (type == "bool" && i + 1 < words.size() && is_truth(words[i + 1])) {
      throw Error(word, " ", words[i + 1],
                  ": a switch takes its value after an equals sign; write ", word, "=",
                  words[i + 1]);
    } else if (!type.empty() && type != "bool" && i + 1 < words.size() &&
               !names_flag(words[i + 1])) {
      flag.value = words[++i];
    }
    line.flags.push_back(std::move(flag));
  }
  return line;
}

void refuse_arguments(std::string_view command, const std::vector<std::string>& arguments,
                      const std::string& instead) {
  if (arguments.empty()) return;
  throw Error(command, " takes no argument '", arguments[0], "'; ", instead);
}

void set_flags(const Command& command, const CommandLine& line) {
  std::vector<std::string> known = command.flags;
  known.insert(known.end(), common_flags().begin(), common_flags().end());
  set_flags(command, line, known);
}

bool called_as_caffe() {
  const std::string_view program = program_invocation_short_name;
  return program == "caffe" || program == "caffe.bin";
}

}  // namespace crema::tools
