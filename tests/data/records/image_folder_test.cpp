#include "data/records/image_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ImageFolder : public testing::Test {
 protected:
  std::vector<std::string> records(const ClassRule& names = {}) {
    const auto source = open_image_folder(folder_ / "set", names,
                                          [this](Severity severity, const std::string& text) {
                                            if (severity == Severity::warning)
                                              warnings_.push_back(text);
                                          });
    std::vector<std::string> all;
    const auto reader = source->reader(ReadOrder::forward);
    for (int64_t i = 0; i < source->count(); ++i) {
      const Record record = reader->read(i);
      Datum datum;
      EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
      EXPECT_EQ(record.key, folder_ / ("set/" + datum.data()));
      all.push_back(text(datum.data(), " ", datum.label()));
    }
    return all;
  }
  /// A file that holds its own name.
  void file(const std::string& name) { folder_.write("set/" + name, name); }
  test::ScratchFolder folder_;
  std::vector<std::string> warnings_;
};

TEST_F(ImageFolder, ClassesAndImagesAreInTheOrderOfTheirNames) {
  for (const char* name : {"dog/b.jpg", "dog/a b.PNG", "Cat/z.jpeg", "ant/0.webp"}) file(name);
  EXPECT_THAT(records(),
              ElementsAre("Cat/z.jpeg 0", "ant/0.webp 1", "dog/a b.PNG 2", "dog/b.jpg 2"));
  EXPECT_TRUE(warnings_.empty());
  const std::string names = folder_.write("names.txt", "dog\nant\nCat\n");
  EXPECT_THAT(records(names),
              ElementsAre("Cat/z.jpeg 2", "ant/0.webp 1", "dog/a b.PNG 0", "dog/b.jpg 0"));
  expect_error([&] { records(folder_.write("names.txt", "dog\nants\nCat")); },
               {"class 'ant'", "names.txt", "did you mean 'ants'"});
}

TEST_F(ImageFolder, WhatIsNotReadIsTold) {
  for (const char* name : {"a/1.jpg", "a/notes.txt", "a/more/2.jpg", "top.jpg", "b/.x.jpg"})
    file(name);
  file(".git/c.jpg");
  EXPECT_THAT(records(), ElementsAre("a/1.jpg 0"));
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("1 files lie outside of the classes' folders and are not read, "
                                    "such as 'top.jpg'"),
                          HasSubstr("'a/more'"), HasSubstr("'a/notes.txt'"), HasSubstr("'b'")));
}

TEST_F(ImageFolder, FoldersWithoutImagesAreErrors) {
  expect_error([&] { records(); }, {"set' is no folder", "a folder of images for each class"});
  file("top.jpg");
  expect_error([&] { records(); }, {"has no folders"});
  file("a/b/1.jpg");
  expect_error([&] { records(); }, {"no image in its folders"});
}

ClassRule trained_on(std::vector<std::string> names, bool listed = false) {
  ClassRule rule;
  rule.training = ClassNames{.names = std::move(names), .from = "folder 'train'", .listed = listed};
  return rule;
}

// A folder without one of the classes gave all classes behind it the label of another.
TEST_F(ImageFolder, TrainingDataGiveTheLabels) {
  for (const char* name : {"c/1.jpg", "a/1.jpg", "d/1.jpg"}) file(name);
  expect_error(
      [&] {
        records(trained_on({"a", "b", "c", "d"}));
      },
      {"set' lacks the class 'b'", "folder 'train'", "4 classes", "class_names"});
  EXPECT_TRUE(warnings_.empty());
  EXPECT_THAT(records(trained_on({"a", "b", "c", "d"}, true)),
              ElementsAre("a/1.jpg 0", "c/1.jpg 2", "d/1.jpg 3"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no image of 1 classes of folder 'train', the "
                                               "first of them 'b'")));
  // An empty folder is there.
  std::filesystem::create_directory(folder_ / "set/b");
  EXPECT_THAT(records(trained_on({"a", "b", "c", "d"})),
              ElementsAre("a/1.jpg 0", "c/1.jpg 2", "d/1.jpg 3"));
  // Bytes count.
  expect_error(
      [&] {
        records(trained_on({"a", "b", "C", "d"}));
      },
      {"has the class 'c'", "folder 'train'", "did you mean 'C'"});
  expect_error([&] { records(trained_on({"a", "c"})); }, {"classes 'b', 'd'", "lack"});
}

TEST_F(ImageFolder, AFileOfNamesHasToAgreeWithTheTrainingData) {
  for (const char* name : {"b/1.jpg", "a/1.jpg"}) file(name);
  ClassRule rule = trained_on({"a", "b", "c"});
  rule.file = folder_.write("names.txt", "a\nb\nc\nd\n");
  EXPECT_THAT(records(rule), ElementsAre("a/1.jpg 0", "b/1.jpg 1"));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("no image of 2 classes of '")));
  folder_.write("names.txt", "b\na\nc\n");
  expect_error([&] { records(rule); },
               {"label 0 is class 'b' by class_names", "names.txt", "'a'", "folder 'train'"});
  file("d/1.jpg");
  folder_.write("names.txt", "a\nb\nc\nd\n");
  expect_error([&] { records(rule); }, {"has the class 'd'", "folder 'train'"});
}

TEST_F(ImageFolder, UnknownTrainingClassesAreTold) {
  for (const char* name : {"b/1.jpg", "a/1.jpg"}) file(name);
  ClassRule rule;
  rule.training = ClassNames{.names = {}, .from = "there is no such layer"};
  EXPECT_THAT(records(rule), ElementsAre("a/1.jpg 0", "b/1.jpg 1"));
  EXPECT_THAT(warnings_, ElementsAre(testing::AllOf(HasSubstr("own 2 class names"),
                                                    HasSubstr("there is no such layer"))));
}

TEST_F(ImageFolder, AnImageThatIsGoneIsAnErrorWithItsPath) {
  file("a/1.jpg");
  const auto source = open_image_folder(folder_ / "set", "", {});
  std::filesystem::remove(folder_ / "set/a/1.jpg");
  expect_error([&] { source->reader(ReadOrder::forward)->read(0); },
               {"set/a/1.jpg'", "No such file or directory"});
}

}  // namespace
}  // namespace crema
