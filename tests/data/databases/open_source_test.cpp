// Looking into every kind of source: verify, export and the mean image.
#include "data/databases/open_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/databases/export_images.hpp"
#include "data/databases/verify_database.hpp"
#include "data/records/record_range.hpp"
#include "data/transform/image_mean.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class OpenSource : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs a build with CREMA_OPENCV=ON";
    test::Records members;
    for (int i = 0; i < 4; ++i) {
      const std::string name = text(i < 3 ? "cat/" : "dog/", i, ".pgm");
      const std::string image = test::pgm(1, 2, std::string(2, static_cast<char>(10 * i)));
      folder_.write("images/" + name, image);
      members.emplace_back(name, image);
    }
    folder_.write("list.txt", "cat/0.pgm 0\ncat/1.pgm 7\n dog/3.pgm 1\n");
    folder_.write("a.tar", test::tar(members));
    folder_.write("shards.txt", "\n" + (folder_ / "a.tar") + "\n");
    test::write_counting_database(folder_ / "lmdb", 3);
  }
  std::shared_ptr<RecordSource> open(const std::string& name, const std::string& root = "") {
    const std::string path = folder_ / name;
    return open_source(
        {.path = path, .kind = guess_source_kind(path), .root_folder = root, .logger = {}});
  }
  void need_tar() {
    if (!test::kBuiltWithLibarchive) GTEST_SKIP() << "needs CREMA_LIBARCHIVE=ON";
  }
  test::ScratchFolder folder_;
};

TEST_F(OpenSource, TellsWhatIsThere) {
  const auto kind = [&](const std::string& name) { return guess_source_kind(folder_ / name); };
  EXPECT_EQ(kind("lmdb"), SourceKind::lmdb);
  EXPECT_EQ(kind("lmdb/data.mdb"), SourceKind::lmdb);
  EXPECT_EQ(kind("images"), SourceKind::folder);
  EXPECT_EQ(kind("list.txt"), SourceKind::image_list);
  EXPECT_EQ(kind("a.tar"), SourceKind::tar);
  std::filesystem::copy(folder_ / "a.tar", folder_ / "unnamed");
  EXPECT_EQ(kind("unnamed"), SourceKind::tar);
  EXPECT_EQ(kind("a.tar.gz"), SourceKind::tar);
  EXPECT_EQ(kind("a-{0..3}.tar"), SourceKind::tar);
  EXPECT_EQ(kind("shards.txt"), SourceKind::tar);
  EXPECT_EQ(kind("missing"), SourceKind::lmdb);
  EXPECT_EQ(kind("images/cat"), SourceKind::lmdb);
  EXPECT_EQ(source_kind("Image_List"), SourceKind::image_list);
  expect_error([] { source_kind("foldr"); }, {"'foldr'", "did you mean 'folder'?"});
  expect_error([&] { open("images/cat"); }, {"images/cat' is no database"});
  std::filesystem::create_directories(folder_ / "circle");
  std::filesystem::create_symlink("data.mdb", folder_ / "circle/data.mdb");
  expect_error(
      [&] { open_source({.path = folder_ / "circle", .kind = SourceKind::lmdb, .logger = {}}); },
      {"circle' cannot be read", "symbolic links"});
  // What a Data layer says of such a folder.
  expect_error(
      [&] { open_source({.path = folder_ / "images", .kind = SourceKind::lmdb, .logger = {}}); },
      {"images' is no database", "set backend: FOLDER"});
  expect_error(
      [&] { open_source({.path = folder_ / "list.txt", .kind = SourceKind::lmdb, .logger = {}}); },
      {"list.txt' is a file", "backend: IMAGE_LIST"});
  expect_error([&] { open("images", "x"); }, {"root_folder", "lists of images"});
  expect_error(
      [&] {
        open_source({.path = folder_ / "images",
                     .kind = SourceKind::lmdb,
                     .class_names = "x",
                     .logger = {}});
      },
      {"class_names", "folders of classes, lists and tar files", "images"});
}

TEST_F(OpenSource, VerifiesFilesAndGoesOnBehindBadOnes) {
  folder_.write("images/cat/1.pgm", "words");
  std::filesystem::remove(folder_ / "images/dog/3.pgm");
  folder_.write("list.txt", "cat/0.pgm 0\ncat/1.pgm 7\ndog/3.pgm 1\ncat/2.pgm 5\n");
  const VerifyReport list = verify_database(*open("list.txt", folder_ / "images"), {.classes = 5});
  EXPECT_EQ(list.records, 4);
  EXPECT_EQ(list.bad, 3);
  EXPECT_THAT(list.problems,
              ElementsAre(HasSubstr("cannot be decoded"),
                          testing::AllOf(HasSubstr("list.txt:3"), HasSubstr("dog/3.pgm"),
                                         HasSubstr("No such file")),
                          HasSubstr("its label 5 is not in 0 to 4")));
  EXPECT_THAT(list.shapes, ElementsAre(Pair(std::vector<int64_t>{1, 1, 2}, testing::_)));
  EXPECT_EQ(list.encoded, 2);
}

TEST_F(OpenSource, VerifiesFoldersAndTarFiles) {
  const VerifyReport folder = verify_database(*open("images"));
  EXPECT_EQ(folder.records, 4);
  EXPECT_TRUE(folder.ok());
  EXPECT_THAT(folder.labels, ElementsAre(Pair(0, 3), Pair(1, 1)));
  need_tar();
  if (IsSkipped()) return;
  for (const char* name : {"a.tar", "shards.txt"}) {
    EXPECT_THAT(verify_database(*open(name)).labels, ElementsAre(Pair(0, 3), Pair(1, 1))) << name;
  }
}

TEST_F(OpenSource, ExportsAndAverages) {
  const auto source = open("images");
  const ConvertReport report = export_images(*source, {.range = {1, 4}, .folder = folder_ / "out"});
  EXPECT_EQ(report.written, 3);
  EXPECT_EQ(test::read_file(folder_ / "out/list.txt"), "cat_1.pnm 0\ncat_2.pnm 0\ndog_3.pnm 1\n");
  EXPECT_THAT(image_mean(*source).values, ElementsAre(15, 15));
}

TEST_F(OpenSource, FindsFilesByTheEndOfTheirPaths) {
  folder_.write("images/dog/0.pgm", test::pgm(1, 1, "a"));
  const auto folder = open("images");
  EXPECT_EQ(find_key(*folder, "2.pgm"), 2);
  EXPECT_EQ(find_key(*folder, "dog/0.pgm"), 3);
  EXPECT_EQ(find_key(*folder, folder_ / "images/cat/0.pgm"), 0);
  expect_error([&] { find_key(*folder, "0.pgm"); }, {"cat/0.pgm", "dog/0.pgm", "the whole"});
  expect_error([&] { find_key(*folder, "gm"); }, {"no record with key 'gm'"});
  expect_error([&] { first_from_key(*folder, "2.pgm"); }, {"by number"});
  EXPECT_EQ(find_key(*open("list.txt"), "dog/3.pgm"), 2);
}

}  // namespace
}  // namespace crema
