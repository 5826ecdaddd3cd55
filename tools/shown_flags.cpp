#include "tools/shown_flags.hpp"

#include <gflags/gflags.h>

#include <algorithm>
#include <sstream>

#include "tools/command_line.hpp"

namespace crema::tools {
namespace {

struct Words {
  const char* flag;
  std::vector<std::string> words;
};

/// Flags whose values are a few words. Their descriptions name each of these.
const std::vector<Words>& flags_of_words() {
  static const std::vector<Words> all = {
      {"anno_type", {"detection", "classification"}},
      {"ap_version", {"11point", "MaxIntegral", "Integral"}},
      {"backend", {"lmdb", "leveldb"}},
      {"box_units", {"relative", "pixels"}},
      {"channel_swap", {"bgr", "rgb"}},
      {"crop", {"whole", "center", "ten"}},
      {"encode_type", {"jpg", "png"}},
      {"engine", {"reference", "onednn"}},
      {"interp", {"linear", "area", "nearest", "cubic", "lanczos4"}},
      {"keys", {"record", "index"}},
      {"kind", {"cifar10", "cifar100"}},
      {"label_type", {"xml", "json", "txt", "yolo"}},
      {"phase", {"TRAIN", "TEST"}},
      {"rankdir", {"LR", "TB", "BT", "RL"}},
      {"sighup_effect", {"snapshot", "stop", "none"}},
      {"sigint_effect", {"snapshot", "stop", "none"}},
      {"simd", {"baseline", "sse4", "avx2", "avx512"}},
  };
  return all;
}

constexpr const char* kFolders[] = {"log_dir", "output", "run_dir", "save_images", "save_mistakes"};
/// Flags whose values are texts of the user's own. All others that take a text take a file.
constexpr const char* kTexts[] = {
    "boxes",   "format", "freeze", "from",   "from_key", "gpu",   "key",   "like",  "memory_budget",
    "outputs", "priors", "resize", "scores", "set",      "shape", "stage", "to_key"};

/// The names in "Of train and test:", where that is at `at`; sets `behind` to what follows.
std::vector<std::string> commands_named(const std::string& text, size_t at, size_t& behind) {
  const size_t colon = text.find(':', at);
  if (text.compare(at, 3, "Of ") != 0 || (at > 0 && text[at - 1] != ' ') ||
      colon == std::string::npos)
    return {};
  std::vector<std::string> names;
  std::istringstream words(text.substr(at + 3, colon - at - 3));
  for (std::string word; words >> word;) {
    std::erase(word, ',');
    const bool is_command =
        word == "others" || std::ranges::any_of(commands(), [&](const ListedCommand& listed) {
          return listed.command->name == word;
        });
    if (word == "and") continue;
    if (!is_command) return {};
    names.push_back(word);
  }
  behind = std::min(text.find_first_not_of(' ', colon + 1), text.size());
  return names;
}

ShownFlag shown(const std::string& name, const std::string& command) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(name.c_str(), &info))
    throw Error("there is no flag --", name);
  ShownFlag flag{
      name, words_for(info.description, command), info.default_value, FlagValue::number, {}};
  if (flag.default_value == "-1" || flag.description.find("Default: ") != std::string::npos)
    flag.default_value.clear();
  const auto words = std::ranges::find(flags_of_words(), name, &Words::flag);
  if (info.type == "bool") {
    flag.takes = FlagValue::none;
  } else if (words != flags_of_words().end()) {
    flag.takes = FlagValue::words;
    flag.words = words->words;
  } else if (std::ranges::count(kTexts, name) > 0) {
    flag.takes = FlagValue::text;
  } else if (std::ranges::count(kFolders, name) > 0) {
    flag.takes = FlagValue::folder;
  } else if (info.type == "string") {
    flag.takes = FlagValue::file;
  }
  return flag;
}

}  // namespace

std::string ShownFlag::summary() const {
  std::string text = description.substr(0, description.find(". "));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string words_for(const std::string& description, const std::string& command) {
  std::string all, of_this, of_others, dropped;
  std::string* part = &all;
  for (size_t at = 0; at < description.size();) {
    size_t behind = 0;
    const std::vector<std::string> names = commands_named(description, at, behind);
    if (names.empty()) {
      *part += description[at++];
      continue;
    }
    part = std::ranges::count(names, command) > 0    ? &of_this
           : std::ranges::count(names, "others") > 0 ? &of_others
                                                     : &dropped;
    at = behind;
  }
  all += of_this.empty() ? of_others : of_this;
  return all.substr(0, all.find_last_not_of(' ') + 1);
}

std::vector<ShownFlag> own_flags(const Command& command) {
  std::vector<ShownFlag> flags;
  for (const std::string& name : command.flags) flags.push_back(shown(name, command.name));
  return flags;
}

std::vector<ShownFlag> shared_flags() {
  std::vector<ShownFlag> flags;
  for (const std::string& name : common_flags()) {
    if (name != "help" && name != "version") flags.push_back(shown(name, ""));
  }
  return flags;
}

}  // namespace crema::tools
