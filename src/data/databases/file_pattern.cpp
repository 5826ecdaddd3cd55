#include "data/databases/file_pattern.hpp"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "core/parse_number.hpp"
#include "core/path_advice.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

constexpr int64_t kMostFiles = 1'000'000;

/// The texts that "000..015" or "a,b" stands for; none if it is neither.
std::vector<std::string> alternatives(std::string_view inside) {
  std::vector<std::string> texts;
  if (const size_t dots = inside.find(".."); dots != std::string_view::npos) {
    const auto first = parse_number<int64_t>(inside.substr(0, dots));
    const auto last = parse_number<int64_t>(inside.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < 0) return {};
    if (*last < *first || *last - *first >= kMostFiles)
      throw Error("{", inside, "} is no range of files; write the smaller number first");
    for (int64_t i = 0; i <= *last - *first; ++i) {
      const std::string digits = std::to_string(*first + i);
      const size_t width = std::max(dots, digits.size());
      texts.push_back(std::string(width - digits.size(), '0') + digits);
    }
  } else if (inside.find(',') != std::string_view::npos) {
    for (size_t begin = 0; begin <= inside.size();) {
      const size_t end = std::min(inside.find(',', begin), inside.size());
      texts.emplace_back(inside.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return texts;
}

/// Appends what the braces of `pattern` behind `from` stand for.
void expand(const std::string& pattern, size_t from, std::vector<std::string>& out) {
  const size_t open = pattern.find('{', from);
  const size_t close = open == std::string::npos ? open : pattern.find('}', open);
  if (close == std::string::npos) {
    if (static_cast<int64_t>(out.size()) >= kMostFiles)
      throw Error("more than ", kMostFiles, " files are named");
    out.push_back(pattern);
    return;
  }
  const auto texts = alternatives(std::string_view(pattern).substr(open + 1, close - open - 1));
  if (texts.empty()) return expand(pattern, close + 1, out);
  for (const std::string& text : texts) {
    expand(pattern.substr(0, open) + text + pattern.substr(close + 1), open + text.size(), out);
  }
}

void add_matches(const std::string& pattern, std::vector<std::string>& files) {
  std::error_code code;
  if (std::filesystem::exists(pattern, code)) return files.push_back(pattern);
  if (pattern.find_first_of("*?[") == std::string::npos)
    throw Error("'", pattern, "': ", std::strerror(ENOENT), path_advice(pattern)).about(pattern);
  glob_t found = {};
  const int result = ::glob(pattern.c_str(), 0, nullptr, &found);
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  if (result == GLOB_NOMATCH)
    throw Error("no file is named like '", pattern, "'", path_advice(pattern)).about(pattern);
  if (result != 0) throw Error("cannot look for files named like '", pattern, "'");
}

}  // namespace

std::vector<std::string> files_of(const std::string& pattern) {
  std::vector<std::string> patterns, files;
  expand(pattern, 0, patterns);
  for (const std::string& one : patterns) add_matches(one, files);
  return files;
}

}  // namespace crema
