// Names of classes, from a list and from the YAML file of a data set.
#include "data/records/class_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/records/class_names.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;

class ClassListTest : public testing::Test {
 protected:
  std::vector<std::string> read(const std::string& name, const std::string& text) const {
    return read_class_list(folder_.write(name, text));
  }
  void refuses(const std::string& text, std::initializer_list<std::string_view> words) const {
    SCOPED_TRACE(text);
    expect_error([&] { read("data.yaml", text); }, words);
  }
  test::ScratchFolder folder_;
};

class YamlListTest : public ClassListTest {
 protected:
  void SetUp() override {
    if (!reads_yaml())
      GTEST_SKIP() << "needs yaml-cpp: configure with CREMA_ANNOTATIONS=ON, libyaml-cpp-dev";
  }
};

TEST_F(ClassListTest, ALineEach) {
  EXPECT_THAT(read("names.txt", "cat\n\n big dog \n"), ElementsAre("cat", "big dog"));
  // Another ending is no YAML.
  EXPECT_THAT(read("names", "names: [a]\n"), ElementsAre("names: [a]"));
  expect_error([&] { read("names.txt", "cat\ndog\ncat\n"); },
               {"names.txt:3", "'cat' comes twice", "class 0"});
  expect_error([&] { read("names.txt", "\n"); }, {"is empty", "one a line"});
}

TEST_F(ClassListTest, YamlIsNotReadAsLines) {
  if (reads_yaml()) GTEST_SKIP() << "needs a build without yaml-cpp";
  refuses("names: [a]", {"data.yaml", "libyaml-cpp-dev", "one a line"});
}

TEST_F(YamlListTest, NamesAsAListAndAsAMap) {
  const char* const block =
      "path: ../d\ntrain: images/train\n\nnc: 3\nnames:\n  - cat\n  - big dog\n  - 'no'\n";
  EXPECT_THAT(read("data.yaml", block), ElementsAre("cat", "big dog", "no"));
  EXPECT_THAT(read("data.yml", "names: [cat, \"big dog\", no]"),
              ElementsAre("cat", "big dog", "no"));
  EXPECT_THAT(read("data.yaml", "names:\n  0: cat  # first\n  1: big dog\n"),
              ElementsAre("cat", "big dog"));
  EXPECT_THAT(read("data.yaml", "names: {1: dog, 0: cat}"), ElementsAre("cat", "dog"));
  EXPECT_THAT(read("data.yaml", "- cat\n- dog\n"), ElementsAre("cat", "dog"));
  EXPECT_THAT(read("data.yaml", "names: [12, 7]"), ElementsAre("12", "7"));
}

TEST_F(YamlListTest, WhatIsNoListOfNames) {
  refuses("nc: 3\n", {"data.yaml:1", "no names", "names: [cat, dog]"});
  refuses("nc: 3\nnames: cat\n", {"data.yaml:2", "no list and no map"});
  refuses("nc: 3\nnames: [cat, dog]\n", {"data.yaml:1", "nc is 3", "2"});
  refuses("nc: many\nnames: [cat, dog]\n", {"nc is many"});
  refuses("names:\n  0: cat\n  2: dog\n", {"class 1 has no name", "class 2"});
  refuses("names:\n  1: cat\n", {"class 0 has no name"});
  refuses("names:\n  0: cat\n  one: dog\n", {"data.yaml:3", "'one' is no number"});
  refuses("names:\n  0: cat\n  -1: dog\n", {"data.yaml:3", "'-1'"});
  refuses("names:\n  - cat\n  - [a, b]\n", {"data.yaml:3", "class 1"});
  refuses("names:\n  - cat\n  -\n", {"class 1 has no name"});
  refuses("names:\n  - cat\n  - dog\n  - cat\n", {"data.yaml:4", "'cat' comes twice", "class 0"});
  refuses("names: []\n", {"names is empty"});
  refuses("names: {}\n", {"names is empty"});
  refuses("names: [cat\nnc: 1", {"data.yaml:2", "no YAML"});
  refuses("", {"no names"});
  expect_error([] { read_class_list("/nowhere/data.yaml"); },
               {"/nowhere/data.yaml", "No such file"});
}

/// The class_names of data layers are the same files.
TEST_F(YamlListTest, FoldersOfClassesTakeItToo) {
  const std::string path = folder_.write("data.yaml", "names: {0: dog, 1: cat}");
  EXPECT_EQ(classes_in_order({"cat", "dog"}, path, "folder", nullptr),
            (std::vector<std::string>{"dog", "cat"}));
  expect_error([&] { classes_in_order({"cow"}, path, "folder", nullptr); }, {"'cow'", "data.yaml"});
}

}  // namespace
}  // namespace crema
