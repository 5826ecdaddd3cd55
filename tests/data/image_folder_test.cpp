#include "data/image_folder.hpp"

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
  std::vector<std::string> records(const std::string& names = "") {
    const auto source = open_image_folder(folder_ / "set", names,
                                          [this](Severity severity, const std::string& text) {
                                            if (severity == Severity::warning)
                                              warnings_.push_back(text);
                                          });
    std::vector<std::string> all;
    const auto reader = source->reader(Access::forward);
    for (int64_t i = 0; i < source->count(); ++i) {
      const Record record = reader->read(i);
      Datum datum;
      EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
      EXPECT_EQ(record.key, folder_ / ("set/" + datum.data()));
      all.push_back(concat(datum.data(), " ", datum.label()));
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

TEST_F(ImageFolder, AnImageThatIsGoneIsAnErrorWithItsPath) {
  file("a/1.jpg");
  const auto source = open_image_folder(folder_ / "set", "", {});
  std::filesystem::remove(folder_ / "set/a/1.jpg");
  expect_error([&] { source->reader(Access::forward)->read(0); },
               {"set/a/1.jpg'", "No such file or directory"});
}

}  // namespace
}  // namespace crema
