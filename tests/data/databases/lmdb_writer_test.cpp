#include "data/databases/lmdb_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "crema/error.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace {

std::string refused_rename_to;   // refuses to rename a new database to this path
bool killed_at_refusal = false;  // ends the process there instead

}  // namespace

// In the place of the C library's own, for this whole program.
extern "C" int rename(const char* from, const char* to) noexcept {
  if (to == refused_rename_to && std::string(from).ends_with("/new")) {
    if (killed_at_refusal) ::kill(::getpid(), SIGKILL);
    errno = EACCES;
    return -1;
  }
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

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
    for (int i = 0; i < 5000; ++i) writer.put(text("key", 10000 + i), "value");
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

/// Folders of writers that have not finished the database "db".
std::vector<fs::path> works_in(const ScratchFolder& folder) {
  std::vector<fs::path> works;
  for (const std::string& name : names_in(folder.path())) {
    if (name.starts_with("db.tmp.")) works.push_back(folder.path() / name);
  }
  return works;
}

TEST(LmdbWriter, KilledLeavesNoDatabaseAndIsInNobodysWay) {
  ScratchFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < 3500; ++i) writer.put(text("old", 10000 + i), std::string(1000, 'o'));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(fs::exists(folder / "db"));
  const auto left = works_in(folder);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_GT(fs::file_size(left[0] / "new/data.mdb"), 2'000'000u);  // it had got somewhere

  test::write_database(folder / "db", {{"new", "n"}});
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"new", "n"}}));
  EXPECT_EQ(works_in(folder), left);
}

TEST(LmdbWriter, OfTwoWritersOfOneNameTheSecondToFinishIsRefused) {
  ScratchFolder folder;
  {
    LmdbWriter first(folder / "db"), second(folder / "db");
    first.put("a", "1");
    second.put("b", "2");
    first.finish();
    expect_error([&] { second.finish(); }, {"db' exists already"});
  }
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"a", "1"}}));
  EXPECT_TRUE(works_in(folder).empty());
}

TEST(LmdbWriter, GrowsBeyondItsFirstMap) {
  ScratchFolder folder;
  constexpr int kCount = 12;
  {
    LmdbWriter writer(folder / "db");
    for (int i = 0; i < kCount; ++i) {
      writer.put(text("k", 100 + i), std::string(size_t{4} << 20, static_cast<char>('0' + i)));
    }
    writer.finish();
  }
  const auto source = open_database({.path = folder / "db"});
  EXPECT_EQ(source->count(), kCount);
  const auto reader = source->reader(ReadOrder::random);
  for (const int i : {0, 5, kCount - 1}) {
    const Record record = reader->read(i);
    EXPECT_EQ(record.key, text("k", 100 + i));
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
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
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
  EXPECT_EQ(open_before->reader(ReadOrder::forward)->read(0).key, "old");

  folder.write("photos/cat.jpg", "");
  expect_error([&] { LmdbWriter(folder / "photos", true); }, {"is not an LMDB database"});
  fs::create_directory(folder / "empty");
  expect_error([&] { LmdbWriter(folder / "empty", true); }, {"is not an LMDB database"});
  folder.write("file", "");
  expect_error([&] { LmdbWriter(folder / "file", true); }, {"is not an LMDB database"});
  EXPECT_TRUE(fs::exists(folder / "photos/cat.jpg"));
}

/// Writes a one-record database over another.
void overwrite(const std::string& path, const std::string& key) {
  LmdbWriter writer(path, true);
  writer.put(key, "v");
  writer.finish();
}

TEST(LmdbWriter, TheOldDatabaseIsBackWhenTheNewOneCannotTakeItsName) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"old", "v"}});
  refused_rename_to = folder / "db";
  expect_error([&] { overwrite(folder / "db", "new"); },
               {"cannot rename '", "/new' to it", "Permission denied"});
  refused_rename_to.clear();
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
  EXPECT_EQ(names_in(folder / "db"), std::vector<std::string>{"data.mdb"});
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"old", "v"}}));
}

TEST(LmdbWriter, KilledBetweenTheOldDatabaseAndTheNewOneLeavesBoth) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"old", "v"}});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    refused_rename_to = folder / "db";
    killed_at_refusal = true;
    overwrite(folder / "db", "new");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto left = works_in(folder);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(test::read_database(left[0] / "old"), (test::Records{{"old", "v"}}));
  EXPECT_EQ(test::read_database(left[0] / "new"), (test::Records{{"new", "v"}}));
}

TEST(LmdbWriter, FilesThatTurnUpWhileItWritesStay) {
  ScratchFolder folder;
  std::string work;
  {
    LmdbWriter writer(folder / "db");
    work = works_in(folder).at(0).filename().string();
    folder.write(work + "/new/notes.txt", "mine");
  }
  EXPECT_EQ(names_in(folder / (work + "/new")), std::vector<std::string>{"notes.txt"});

  // Nor is a database overwritten that is none any more.
  test::write_database(folder / "db", {{"old", "v"}});
  LmdbWriter writer(folder / "db", true);
  folder.write("db/notes.txt", "mine");
  expect_error([&] { writer.finish(); }, {"is not an LMDB database"});
  EXPECT_EQ(test::read_file(folder / "db/notes.txt"), "mine");
}

TEST(LmdbWriter, WritesThroughALink) {
  ScratchFolder folder;
  fs::create_directory(folder / "disk");
  test::write_database(folder / "disk/db", {{"old", "v"}});
  fs::create_directory_symlink(folder / "disk/db", folder / "link");
  overwrite(folder / "link", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(test::read_database(folder / "disk/db"), (test::Records{{"new", "v"}}));
  fs::create_directory_symlink(folder / "nowhere", folder / "dangling");
  expect_error([&] { overwrite(folder / "dangling", "new"); }, {"a link to nothing"});
}

/// Files cannot grow beyond a size: as a full disk to whoever writes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  sighandler_t handler_;
  rlimit before_{};
};

TEST(LmdbWriter, AFullDiskIsAnErrorAndLeavesTheOldDatabaseAlone) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"old", "v"}});
  {
    // A page and a half: the first write ends early, as one does that meets the end of the disk.
    const FileSizeLimit limit(size_t{1} << 20 | 6144);
    LmdbWriter writer(folder / "db", true);
    for (int i = 0; i < 100; ++i) writer.put(text("k", 100 + i), std::string(100'000, 'v'));
    expect_error([&] { writer.finish(); },
                 {"cannot write", "Input/output error", "may be full", "make room"});
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"old", "v"}}));
  {
    const FileSizeLimit limit(0);  // not a byte more
    expect_error([&] { overwrite(folder / "db", "new"); }, {"File too large", "ulimit -f"});
  }
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
}

TEST(LmdbWriter, NeedsAFolderToWriteIn) {
  ScratchFolder folder;
  expect_error([&] { LmdbWriter(folder / "no/such/db"); },
               {"there is no folder", "no/such'", "make it first"});
  expect_error([&] { LmdbWriter(""); }, {"no path"});
}

}  // namespace
}  // namespace crema
