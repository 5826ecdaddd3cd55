#include "data/databases/class_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/databases/database_writer.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::IsEmpty;

void write(DatabaseKind kind, const std::string& path, std::vector<std::string> names) {
  const auto writer = make_database_writer(kind, path, true);
  writer->put("key", "value");
  writer->name_classes(std::move(names));
  writer->finish();
}

TEST(ClassFile, GoesWithItsDatabase) {
  const ScratchFolder folder;
  std::vector<DatabaseKind> kinds = {DatabaseKind::lmdb};
  if (test::kBuiltWithLevelDb) kinds.push_back(DatabaseKind::leveldb);
  for (const DatabaseKind kind : kinds) {
    const std::string path = folder / "db";
    write(kind, path, {"cat", "Great Dane"});
    EXPECT_EQ(test::read_file(path + "/class_names.txt"), "cat\nGreat Dane\n");
    EXPECT_THAT(open_database({.path = path, .kind = kind})->class_names(),
                ElementsAre("cat", "Great Dane"));
    EXPECT_EQ(open_database({.path = path, .kind = kind})->count(), 1);
    // The next database has its own names, or none.
    write(kind, path, {});
    EXPECT_FALSE(has_class_file(path));
    EXPECT_THAT(open_database({.path = path, .kind = kind})->class_names(), IsEmpty());
    write(kind, path, {"dog"});
    EXPECT_THAT(read_class_file(path), ElementsAre("dog"));
  }
}

TEST(ClassFile, NamesAreLines) {
  const ScratchFolder folder;
  for (const std::string name : {" cat", "cat ", "two\nlines", "two\rlines"})
    expect_error(
        [&] {
          write(DatabaseKind::lmdb, folder / "db", {"ant", name});
        },
        {"cannot be a line"});
  expect_error(
      [&] {
        write(DatabaseKind::lmdb, folder / "db", {"ant", "", "bee"});
      },
      {"label 1 has no name"});
  EXPECT_TRUE(fs::is_empty(folder.path())) << "nothing is left of it";
}

TEST(ClassFile, OneThatCannotBeReadIsAnError) {
  const ScratchFolder folder;
  write(DatabaseKind::lmdb, folder / "db", {"cat"});
  folder.write("db/class_names.txt", "cat\ncat\n");
  expect_error([&] { open_database({.path = folder / "db"}); }, {"class_names.txt:2", "twice"});
}

}  // namespace
}  // namespace crema
