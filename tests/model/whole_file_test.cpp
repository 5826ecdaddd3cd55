#include "model/whole_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public ::testing::Test {
 protected:
  int64_t files() const { return std::distance(fs::directory_iterator(folder_.path()), {}); }

  test::ScratchFolder folder_;
  const std::string path_ = folder_ / "a";
};

TEST_F(WholeFileTest, HasItsNameWhenItIsWhole) {
  folder_.write("a", "the old one");
  WholeFile file(path_);
  file.append("12345");
  file.append("678");
  file.replace_head("AB");
  file.sync();
  EXPECT_EQ(test::read_file(path_), "the old one");
  EXPECT_EQ(test::read_file(file.beside()), "AB345678");
  file.finish();
  EXPECT_EQ(test::read_file(path_), "AB345678");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, LeavesNothingOfWhatIsNotFinished) {
  folder_.write("a", "the old one");
  { WholeFile(path_).append("12345"); }
  EXPECT_EQ(test::read_file(path_), "the old one");
  EXPECT_EQ(files(), 1);
}

TEST_F(WholeFileTest, ASecondWriterIsAnErrorAndTheFirstIsWhole) {
  WholeFile first(path_);
  first.append("first");
  expect_error([&] { WholeFile second(path_); }, {"cannot write", path_, "writing it already"});
  EXPECT_FALSE(remove_abandoned(first.beside()));
  first.finish();
  EXPECT_EQ(test::read_file(path_), "first");
}

// An earlier process with the same number was killed.
TEST_F(WholeFileTest, WhatKilledProcessesLeftIsOverwrittenOrRemoved) {
  std::ofstream(unfinished_path(path_)) << "longer than the new contents";
  WholeFile file(path_);
  file.append("new");
  file.finish();
  EXPECT_EQ(test::read_file(path_), "new");
  std::ofstream(unfinished_path(path_)) << "left";
  EXPECT_TRUE(remove_abandoned(unfinished_path(path_)));
  EXPECT_FALSE(remove_abandoned(path_));
  EXPECT_EQ(files(), 1);
}

// A link was replaced by a file, and what it led to kept the old contents.
TEST_F(WholeFileTest, LinksStayAndWhatTheyLeadToIsWritten) {
  const auto write = [](const std::string& path, const char* text) {
    WholeFile file(path);
    file.append(text);
    file.finish();
  };
  fs::create_directory(folder_ / "far");
  folder_.write("far/b", "the old one");
  fs::create_symlink("far/b", folder_ / "link");
  fs::create_symlink(folder_ / "link", folder_ / "a");
  write(path_, "new");
  EXPECT_EQ(test::read_file(folder_ / "far/b"), "new");
  EXPECT_EQ(fs::read_symlink(path_), folder_ / "link");
  EXPECT_EQ(fs::read_symlink(folder_ / "link"), "far/b");
  // A link to nothing yet.
  fs::remove(folder_ / "far/b");
  write(path_, "newer");
  EXPECT_EQ(test::read_file(folder_ / "far/b"), "newer");
  EXPECT_TRUE(fs::is_symlink(path_));
  fs::remove_all(folder_ / "far");
  expect_error([&] { WholeFile file(path_); },
               {"cannot write", path_, "a link to", folder_ / "far/b", "create the folder"});
  fs::create_symlink("round", folder_ / "round");
  expect_error([&] { WholeFile file(folder_ / "round"); }, {"cannot write", "round"});
  EXPECT_TRUE(fs::is_symlink(folder_ / "round"));
}

// Whoever may write to /dev had the device replaced by a file.
TEST_F(WholeFileTest, DevicesAndPipesStay) {
  expect_error([] { WholeFile file("/dev/null"); }, {"'/dev/null'", "device or a pipe", "a file"});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(WholeFileTest, SaysWhatToDo) {
  expect_error([&] { WholeFile(folder_ / "none/a"); },
               {"cannot write", "none/a", "No such file", "create the folder"});
}

}  // namespace
}  // namespace crema
