// The pages that people read first: their length, their links, and what they quote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "support/paths.hpp"
#include "support/temp_folder.hpp"
#include "tools/cli.hpp"
#include "tools/markdown.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// All pages, relative to the root: of the front page's folder that page alone.
std::vector<std::string> all_pages() {
  std::vector<std::string> pages = {"README.md"};
  for (const char* folder :
       {"data", "include", "layers", "models", "scripts", "src", "tests", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_path(folder))) {
      if (entry.path().extension() == ".md")
        pages.push_back(fs::relative(entry.path(), source_path("")).generic_string());
    }
  }
  return pages;
}

/// The lines outside of code, without code in them.
std::vector<std::string> prose_of(const std::string& page) {
  static const std::regex code("`[^`]*`");
  std::vector<std::string> lines;
  bool inside = false;
  for (const std::string& line : tools::lines_of(page)) {
    if (line.find("```") != std::string::npos) {
      inside = !inside;
    } else if (!inside && !line.starts_with("    ")) {
      lines.push_back(line);
    }
  }
  return lines;
}

/// The names that headings have in links: those of GitHub.
std::set<std::string> anchors_of(const std::string& page) {
  std::set<std::string> anchors;
  std::map<std::string, int> seen;
  for (const std::string& line : prose_of(page)) {
    if (!line.starts_with('#')) continue;
    const size_t begin = line.find_first_not_of("# ");
    if (begin == std::string::npos) continue;
    std::string anchor;
    for (const char c : tools::without_marks(line.substr(begin))) {
      const auto letter = static_cast<unsigned char>(c);
      if (c == ' ' || c == '-') anchor += '-';
      if (c == '_' || std::isalnum(letter) != 0) anchor += static_cast<char>(std::tolower(letter));
    }
    const int before = seen[anchor]++;
    anchors.insert(before > 0 ? anchor + '-' + std::to_string(before) : anchor);
  }
  return anchors;
}

/// The targets of the links and pictures of a page, without those on the web.
std::vector<std::string> links_of(const std::string& page) {
  static const std::regex link("\\]\\(([^)\\s]+)\\)");
  std::vector<std::string> targets;
  for (const std::string& line : prose_of(page)) {
    for (std::sregex_iterator at(line.begin(), line.end(), link), end; at != end; ++at) {
      const std::string target = (*at)[1];
      if (target.find("://") == std::string::npos) targets.push_back(target);
    }
  }
  return targets;
}

TEST(Documents, LinksLeadSomewhere) {
  size_t count = 0;
  for (const std::string& page : all_pages()) {
    const fs::path file = source_path(page);
    for (const std::string& target : links_of(text_of(file))) {
      ++count;
      const size_t hash = target.find('#');
      const std::string path = target.substr(0, hash);
      const fs::path there = path.empty() ? file : file.parent_path() / path;
      EXPECT_TRUE(fs::exists(there)) << page << ": " << target;
      if (hash == std::string::npos) continue;
      EXPECT_THAT(anchors_of(text_of(there)), ::testing::Contains(target.substr(hash + 1)))
          << page << ": " << target;
    }
  }
  EXPECT_GT(count, 100U);
}

TEST(Documents, PagesOfTheManualAreShort) {
  const auto lines = [](const std::string& page) {
    const std::string text = text_of(source_path(page));
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_LE(lines("README.md"), 130);
  for (const std::string& page : all_pages()) {
    const bool of_one_layer = page.starts_with("layers/") && page != "layers/README.md";
    if (of_one_layer || page.starts_with("models/")) continue;
    EXPECT_LE(lines(page), 250) << page;
  }
}

TEST(Documents, TheFrontPageReachesAllPagesOfTheManual) {
  std::set<std::string> reached = {"README.md"};
  std::vector<std::string> left = {"README.md"};
  while (!left.empty()) {
    const std::string page = left.back();
    left.pop_back();
    for (const std::string& target : links_of(text_of(source_path(page)))) {
      const fs::path path =
          (fs::path(page).parent_path() / target.substr(0, target.find('#'))).lexically_normal();
      std::string there = path.generic_string();
      if (there.ends_with('/')) there.pop_back();
      if (fs::is_directory(source_path(there))) there += "/README.md";
      if (there.ends_with(".md") && reached.insert(there).second) left.push_back(there);
    }
  }
  for (const std::string& page : all_pages()) {
    if (page.starts_with("models/") || page.starts_with("tests/")) continue;
    EXPECT_EQ(reached.count(page), 1U) << page;
  }
}

TEST(Documents, TheFrontPageQuotesAMessage) {
  const std::string front = text_of(source_path("README.md"));
  const size_t begin = front.find("crema: net.prototxt:");
  ASSERT_NE(begin, std::string::npos);
  const std::string quoted = front.substr(begin, front.find("```", begin) - begin);
  const TempFolder folder;
  std::string net = text_of(source_path("models/lenet/deploy.prototxt"));
  const std::string name = "name: \"relu1\"";
  net.replace(net.find(name), name.size(), "nam: \"relu1\"");
  folder.write("net.prototxt", net);
  const Output output =
      run("summary --model net.prototxt", "cd " + folder.path("") + " && " CREMA_TOOL);
  EXPECT_TRUE(output.says(quoted)) << output.text;
}

}  // namespace
}  // namespace crema::test
