#include "tools/shown_flags.hpp"

#include <gflags/gflags.h>

#include <algorithm>

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
      {"format", {"lmdb", "leveldb", "hdf5", "npy", "csv"}},
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

/// Flags whose values are texts of the user's own. All others that take a text take a path.
constexpr const char* kTexts[] = {"boxes",  "from",          "from_key", "gpu",    "key",
                                  "like",   "memory_budget", "outputs",  "priors", "resize",
                                  "scores", "shape",         "stage",    "to_key"};

ShownFlag shown(const std::string& name) {
  gflags::CommandLineFlagInfo info;
  if (!gflags::GetCommandLineFlagInfo(name.c_str(), &info))
    throw Error("there is no flag --", name);
  ShownFlag flag{name, info.description, info.default_value, FlagValue::number, {}};
  if (flag.default_value == "-1") flag.default_value.clear();
  const auto words = std::ranges::find(flags_of_words(), name, &Words::flag);
  if (info.type == "bool") {
    flag.takes = FlagValue::none;
  } else if (words != flags_of_words().end()) {
    flag.takes = FlagValue::words;
    flag.words = words->words;
  } else if (std::ranges::count(kTexts, name) > 0) {
    flag.takes = FlagValue::text;
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

std::vector<ShownFlag> own_flags(const Command& command) {
  std::vector<ShownFlag> flags;
  for (const std::string& name : command.flags) flags.push_back(shown(name));
  return flags;
}

std::vector<ShownFlag> shared_flags() {
  std::vector<ShownFlag> flags;
  for (const std::string& name : common_flags()) {
    if (name != "help" && name != "version") flags.push_back(shown(name));
  }
  return flags;
}

}  // namespace crema::tools
