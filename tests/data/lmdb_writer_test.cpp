#include "data/lmdb_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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

// What the system refuses while a test asks for it: no file system here lacks these.
bool no_exchange = false;       // of two names, as on NFS
std::string refused_rename_to;  // renaming anything to this path

}  // namespace

// In the place of the C library's own, for this whole program.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                         unsigned flags) noexcept {
  if (no_exchange) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" int rename(const char* from, const char* to) noexcept {
  // Only of a new database: the way back stays open.
  if (to == refused_rename_to && std::string(from).ends_with(".tmp")) {
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

/// Writes a one-record database over another.
void overwrite(const std::string& path, const std::string& key) {
  LmdbWriter writer(path, true);
  writer.put(key, "v");
  writer.finish();
}

TEST(LmdbWriter, OverwritesWhereNamesCannotBeExchanged) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"old", "v"}});
  // Somebody's own, and what removing "db.old" on the way would have taken.
  folder.write("db.old/notes.txt", "mine");
  no_exchange = true;
  overwrite(folder / "db", "new");
  no_exchange = false;
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"new", "v"}}));
  EXPECT_EQ(names_in(folder / "db"), (std::vector<std::string>{"data.mdb", "lock.mdb"}));
  EXPECT_EQ(names_in(folder.path()), (std::vector<std::string>{"db", "db.old"}));
  EXPECT_EQ(test::read_file(folder / "db.old/notes.txt"), "mine");
}

TEST(LmdbWriter, TheOldDatabaseIsBackWhenTheNewOneCannotTakeItsName) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"old", "v"}});
  no_exchange = true;
  refused_rename_to = folder / "db";
  expect_error([&] { overwrite(folder / "db", "new"); }, {"cannot replace '", "Permission denied"});
  no_exchange = false;
  refused_rename_to.clear();
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
  EXPECT_EQ(names_in(folder / "db"), std::vector<std::string>{"data.mdb"});
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"old", "v"}}));
}

TEST(LmdbWriter, FoldersOfSomebodyElseAreLeftAlone) {
  ScratchFolder folder;
  folder.write("db.tmp/notes.txt", "mine");
  const auto write = [&] { test::write_database(folder / "db", {{"a", "1"}}); };
  expect_error(write, {"db' cannot be written", "db.tmp', which exists", "holds 'notes.txt'"});
  EXPECT_EQ(names_in(folder / "db.tmp"), std::vector<std::string>{"notes.txt"});
  fs::remove_all(folder / "db.tmp");

  // A database under that name is one that somebody made there: what we leave holds our mark.
  test::write_database(folder / "db.tmp", {{"theirs", "v"}});
  expect_error(write, {"db.tmp', which exists", "no writer.lock"});
  EXPECT_EQ(test::read_database(folder / "db.tmp"), (test::Records{{"theirs", "v"}}));
  fs::rename(folder / "db.tmp", folder / "theirs");

  // Nor is one reached through a link, or a file replaced.
  fs::create_directory_symlink(folder / "theirs", folder / "db.tmp");
  expect_error(write, {"db.tmp', which exists"});
  fs::remove(folder / "db.tmp");
  folder.write("db.tmp", "mine");
  expect_error(write, {"db.tmp', which exists"});
  EXPECT_EQ(test::read_file(folder / "db.tmp"), "mine");
  EXPECT_EQ(test::read_database(folder / "theirs"), (test::Records{{"theirs", "v"}}));
}

TEST(LmdbWriter, FilesThatTurnUpWhileItWritesStay) {
  ScratchFolder folder;
  {
    LmdbWriter writer(folder / "db");
    folder.write("db.tmp/notes.txt", "mine");
  }
  EXPECT_EQ(names_in(folder / "db.tmp"), std::vector<std::string>{"notes.txt"});
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

TEST(LmdbWriter, KilledBetweenExchangeAndRemovalIsClearedByTheNextOne) {
  ScratchFolder folder;
  // As it would be left: the old database under the name of the new one, marked.
  test::write_database(folder / "db", {{"new", "v"}});
  folder.write("db/writer.lock", "");
  test::write_database(folder / "old", {{"old", "v"}});
  fs::rename(folder / "old", folder / "db.tmp");
  folder.write("db.tmp/writer.lock", "");
  overwrite(folder / "db", "newer");
  EXPECT_EQ(test::read_database(folder / "db"), (test::Records{{"newer", "v"}}));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"db"});
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
    for (int i = 0; i < 100; ++i) writer.put(concat("k", 100 + i), std::string(100'000, 'v'));
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
               {"no/such' does not exist", "make it first"});
  expect_error([&] { LmdbWriter(""); }, {"no path"});
}

}  // namespace
}  // namespace crema
