#include "data/lmdb_writer.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "crema/error.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(LmdbWriter, NothingIsUnderTheNameBeforeFinish) {
  ScratchFolder folder;
  {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < 5000; ++i) writer.put(concat("key", 10000 + i), "value");
    EXPECT_FALSE(fs::exists(folder / "db"));
    writer.finish();
    EXPECT_EQ(writer.count(), 5000);
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
  EXPECT_EQ(names_in(folder / "db"), std::vector<std::string>{"data.mdb"});
  EXPECT_EQ(test::read_database(folder / "db").size(), 5000u);
}

TEST(LmdbWriter, UnfinishedLeavesNothing) {
  ScratchFolder folder;
  {
    LmdbWriter writer(folder / "db");
    writer.put("a", "1");
  }
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(LmdbWriter, KilledLeavesNoDatabaseAndTheNextOneStartsAnew) {
  ScratchFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < 3500; ++i) writer.put(concat("old", 10000 + i), std::string(1000, 'o'));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(fs::exists(folder / "db"));
  EXPECT_GT(fs::file_size(folder / "db.tmp/data.mdb"), 2'000'000u);  // it had got somewhere

  test::write_database(folder / "db", {{"new", "n"}});
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"new", "n"}}));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
}

TEST(LmdbWriter, TwoWritersOfOneNameAreRefused) {
  ScratchFolder folder;
  LmdbWriter first(folder / "db");
  first.put("a", "1");
  expect_error([&] { LmdbWriter(folder / "db"); }, {"being written by another process"});
  first.finish();
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"a", "1"}}));
}

TEST(LmdbWriter, GrowsBeyondItsFirstMap) {
  ScratchFolder folder;
  constexpr int kCount = 12;
  {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < kCount; ++i) {
      writer.put(concat("k", 100 + i), std::string(size_t{4} << 20, static_cast<char>('0' + i)));
    }
    writer.finish();
  }
  const auto source = open_database({.path = folder / "db"});
  EXPECT_EQ(source->count(), kCount);
  const auto reader = source->reader(Access::random);
  for (const int i : {0, 5, kCount - 1}) {
    const Record record = reader->read(i);
    EXPECT_EQ(record.key, concat("k", 100 + i));
    EXPECT_EQ(record.value.size(), size_t{4} << 20);
    EXPECT_EQ(record.value.back(), static_cast<char>('0' + i));
  }
}

TEST(LmdbWriter, KeysMayComeInAnyOrderButOnce) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"c", "3"}, {"a", "1"}, {"b", "2"}, {"d", "4"}});
  EXPECT_EQ(test::read_database(folder / "db"),
            (test::Records{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}}));
  for (const char* again : {"d", "a"}) {
    expect_error(
        [&] {
          test::write_database(folder / "twice", {{"a", ""}, {"d", ""}, {again, ""}});
        },
        {"key '", again, "comes twice"});
  }
  EXPECT_FALSE(fs::exists(folder / "twice"));
  EXPECT_FALSE(fs::exists(folder / "twice.tmp"));
}

TEST(LmdbWriter, KeysHaveOneTo511Bytes) {
  ScratchFolder folder;
  LmdbWriter writer(folder / "db");
  writer.put(std::string(511, 'k'), "v");
  expect_error([&] { writer.put(std::string(512, 'k'), "v"); }, {"512 bytes", "1 to 511"});
  expect_error([&] { writer.put("", "v"); }, {"0 bytes"});
  writer.finish();
  EXPECT_EQ(test::read_database(folder / "db")[0].first, std::string(511, 'k'));
}

TEST(LmdbWriter, OverwritesOnlyWhenAskedAndOnlyDatabases) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"old", "1"}});
  expect_error([&] { LmdbWriter(folder / "db"); }, {"exists already", "--overwrite"});

  const auto open_before = open_database({.path = folder / "db"});
  {
    LmdbWriter writer(folder / "db/", true);
    writer.put("new", "2");
    EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"old", "1"}}));
    writer.finish();
  }
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"new", "2"}}));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
  // Who had the old one open goes on reading it.
  EXPECT_EQ(open_before->reader(Access::forward)->read(0).key, "old");

  folder.write("photos/cat.jpg", "");
  expect_error([&] { LmdbWriter(folder / "photos", true); }, {"is not an LMDB database"});
  folder.write("file", "");
  expect_error([&] { LmdbWriter(folder / "file", true); }, {"is not an LMDB database"});
  EXPECT_TRUE(fs::exists(folder / "photos/cat.jpg"));
}

TEST(LmdbWriter, NeedsAFolderToWriteIn) {
  ScratchFolder folder;
  expect_error([&] { LmdbWriter(folder / "no/such/db"); },
               {"no/such' does not exist", "make it first"});
  expect_error([&] { LmdbWriter(""); }, {"no path"});
}

}  // namespace
}  // namespace crema
