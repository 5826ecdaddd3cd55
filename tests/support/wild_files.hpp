// The nets and solvers that people published, of all formats and forks. They are not in the
// repository: tests read them where CREMA_SHARED_DIR says, with an index of what each is.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/paths.hpp"

namespace crema::test {

struct PublishedFile {
  std::string path;      // below the folder
  std::string kind;      // net, solver, other
  std::string dialects;  // "y" or "n" for each published schema: whether the file parses under it
  bool parses_somewhere() const { return dialects.find('y') != std::string::npos; }
};

/// The files that the folder's index names; none if there is no index. The test fails if
/// CREMA_SHARED_DIR is set all the same.
inline std::vector<PublishedFile> published_files(const std::filesystem::path& folder) {
  std::ifstream index(folder / "INDEX.tsv");
  if (!index) {
    EXPECT_EQ(std::getenv("CREMA_SHARED_DIR"), nullptr) << "there is no INDEX.tsv in " << folder;
  }
  std::vector<PublishedFile> files;
  std::string line;
  std::getline(index, line);  // the heading
  while (std::getline(index, line)) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '\t');) cells.push_back(cell);
    files.push_back({cells.at(0), cells.at(6), cells.at(8)});
  }
  return files;
}

}  // namespace crema::test
