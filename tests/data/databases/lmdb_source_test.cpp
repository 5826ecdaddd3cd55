#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/databases/lmdb_check.hpp"
#include "data/databases/lmdb_environment.hpp"
#include "data/databases/open_database.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Records;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::HasSubstr;

/// Records whose sizes go through inline values and overflow pages.
Records various(int count) {
  Records records;
  for (int i = 0; i < count; ++i) {
    char key[32];
    std::snprintf(key, sizeof key, "%05d_%s", i,
                  std::string(static_cast<size_t>(i % 20), 'k').c_str());
    records.emplace_back(key,
                         std::string(static_cast<size_t>(i * 37 % 6000), static_cast<char>(i)));
  }
  return records;
}

struct Notes {
  std::vector<std::string> texts;
  Logger logger() {
    return [this](Severity, const std::string& text) { texts.push_back(text); };
  }
};

TEST(LmdbSource, ReadsInOrderOfKeys) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"b", "2"}, {"a", "1"}, {"c", ""}});
  EXPECT_THAT(
      test::read_database(folder / "db"),
      ElementsAre(testing::Pair("a", "1"), testing::Pair("b", "2"), testing::Pair("c", "")));
}

TEST(LmdbSource, AnyOrderOfReadingGivesTheSameRecords) {
  ScratchFolder folder;
  const Records records = various(300);
  test::write_database(folder / "db", records);
  const auto source = open_database({.path = folder / "db"});
  ASSERT_EQ(source->count(), 300);
  for (const ReadOrder order : {ReadOrder::forward, ReadOrder::random}) {
    const auto reader = source->reader(order);
    for (const int64_t i : {0, 299, 16, 15, 17, 17, 0, 200, 33, 34, 299, 1, 160, 159, 161, 40}) {
      const Record record = reader->read(i);
      EXPECT_EQ(record.key, records[static_cast<size_t>(i)].first);
      EXPECT_EQ(record.value, records[static_cast<size_t>(i)].second);
    }
    expect_error([&] { reader->read(300); }, {"no record 300", "holds 300"});
    expect_error([&] { reader->read(-1); }, {"no record -1"});
  }
}

TEST(LmdbSource, ManyReadersAndSourcesShareOneEnvironment) {
  ScratchFolder folder;
  const Records records = various(200);
  test::write_database(folder / "db", records);
  fs::create_directory_symlink(folder / "db", folder / "link");
  const auto one = LmdbEnvironment::open(folder / "db", LockMode::automatic, {});
  const auto two = LmdbEnvironment::open(folder / "link", LockMode::none, {});
  EXPECT_EQ(one, two);

  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const auto source = open_database({.path = folder / "db"});
      const auto reader = source->reader(t % 2 ? ReadOrder::random : ReadOrder::forward);
      for (int i = 0; i < 200; ++i) {
        const auto at = static_cast<size_t>((i * (t + 1) * 7) % 200);
        if (reader->read(static_cast<int64_t>(at)).value != records[at].second) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LmdbSource, EnvironmentsCloseAndOpenAgainFromManyThreads) {
  ScratchFolder folder;
  test::write_database(folder / "db", various(20));
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        try {
          open_database({.path = folder / "db"})->reader(ReadOrder::forward)->read(i % 20);
        } catch (const Error&) {
          ++failed;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

TEST(LmdbSource, TwoEnvironmentsOfAnotherPathAreApart) {
  ScratchFolder folder;
  test::write_database(folder / "a", {{"k", "1"}});
  test::write_database(folder / "b", {{"k", "2"}});
  EXPECT_NE(LmdbEnvironment::open(folder / "a", LockMode::automatic, {}),
            LmdbEnvironment::open(folder / "b", LockMode::automatic, {}));
}

TEST(LmdbSource, LockModeDecidesAboutTheLockFile) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"k", "v"}});
  { EXPECT_FALSE(LmdbEnvironment::open(folder / "db", LockMode::none, {})->locked()); }
  EXPECT_FALSE(fs::exists(folder / "db/lock.mdb"));
  { EXPECT_TRUE(LmdbEnvironment::open(folder / "db", LockMode::automatic, {})->locked()); }
  EXPECT_TRUE(fs::exists(folder / "db/lock.mdb"));
}

TEST(LmdbSource, LockFileThatCannotBeOpenedIsDoneWithout) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"k", "v"}});
  fs::create_directory(folder / "db/lock.mdb");  // refused to every user
  Notes notes;
  const auto source = open_database({.path = folder / "db", .logger = notes.logger()});
  EXPECT_EQ(source->reader(ReadOrder::forward)->read(0).value, "v");
  ASSERT_EQ(notes.texts.size(), 1u);
  EXPECT_THAT(notes.texts[0], HasSubstr("without a lock"));
}

TEST(LmdbSource, ReadOnlyFolderOfAnotherUserIsRead) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"k", "v"}});
  ::chmod((folder / "db/data.mdb").c_str(), 0444);
  ::chmod((folder / "db").c_str(), 0555);
  // Permissions do not bind root: as somebody else, in a process of its own.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::seteuid(kNobody) != 0) ::_exit(3);
    try {
      const auto environment = LmdbEnvironment::open(folder / "db", LockMode::automatic, {});
      const auto source = open_database({.path = folder / "db"});
      const bool right = source->reader(ReadOrder::random)->read(0).value == "v";
      ::_exit(right && !environment->locked() ? 0 : 1);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::chmod((folder / "db").c_str(), 0755);
}

TEST(OpenDatabase, FileInsideADatabaseMeansTheFolder) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"k", "v"}});
  Notes notes;
  const auto source = open_database({.path = folder / "db/data.mdb", .logger = notes.logger()});
  EXPECT_EQ(source->count(), 1);
  ASSERT_EQ(notes.texts.size(), 1u);
  EXPECT_THAT(notes.texts[0], HasSubstr("opening the folder"));
}

TEST(OpenDatabase, LmdbUnderThePublishedDefaultBackendIsOpened) {
  ScratchFolder folder;
  test::write_database(folder / "db", {{"k", "v"}});
  Notes notes;
  const auto source = open_database(
      {.path = folder / "db", .kind = DatabaseKind::leveldb, .logger = notes.logger()});
  EXPECT_EQ(source->count(), 1);
  ASSERT_EQ(notes.texts.size(), 1u);
  EXPECT_THAT(notes.texts[0], HasSubstr("backend: LMDB"));
}

TEST(OpenDatabase, SaysWhatIsWrongWithASource) {
  ScratchFolder folder;
  expect_error([] { open_database({.path = ""}); }, {"no path"});
  expect_error([] { open_database({.path = "no/such_lmdb"}); },
               {"'no/such_lmdb' does not exist", "relative to '", "make it with crema convert-"});
  folder.write("file.txt", "text");
  expect_error([&] { open_database({.path = folder / "file.txt"}); }, {"is a file", "data.mdb"});
  folder.write("images/cat.jpg", "");
  expect_error([&] { open_database({.path = folder / "images"}); },
               {"no data.mdb", "no CURRENT", "convert-imageset"});
}

TEST(OpenDatabase, EmptyDatabaseIsAnError) {
  ScratchFolder folder;
  test::write_database(folder / "db", {});
  expect_error([&] { open_database({.path = folder / "db"}); }, {"is empty"});
}

TEST(OpenDatabase, DamagedFilesAreErrors) {
  ScratchFolder folder;
  folder.write("text/data.mdb", std::string(20000, 'x'));
  expect_error([&] { open_database({.path = folder / "text"}); }, {"not an LMDB file"});
  folder.write("void/data.mdb", "");
  expect_error([&] { open_database({.path = folder / "void"}); }, {"is an empty file"});

  test::write_database(folder / "db", various(500));
  const std::string whole = test::read_file(folder / "db/data.mdb");
  for (const double part : {0.9, 0.5, 0.01}) {
    const auto size = static_cast<size_t>(part * static_cast<double>(whole.size()));
    const std::string name = text("cut", size);
    folder.write(name + "/data.mdb", whole.substr(0, size));
    expect_error([&] { open_database({.path = folder / name}); }, {"is truncated", text(size)});
  }
}

TEST(OpenDatabase, DamagedPagesAreErrorsWhenTheyAreMet) {
  ScratchFolder folder;
  const Records records = various(500);
  test::write_database(folder / "db", records);
  std::string bytes = test::read_file(folder / "db/data.mdb");
  // Page headers name their kind at offset 10; no kind is 0.
  for (size_t page = 2 * 4096; page < bytes.size(); page += 4096) bytes[page + 10] = 0;
  folder.write("damaged/data.mdb", bytes);
  expect_error([&] { test::read_database(folder / "damaged"); }, {"damaged"});
}

// LMDB has no checksums: what is left of its pages may be read, and nothing beside them.
TEST(OpenDatabase, FlippedBitsAreErrorsOrLeaveRecords) {
  ScratchFolder folder;
  const Records records = various(120);
  test::write_database(folder / "db", records);
  const std::string whole = test::read_file(folder / "db/data.mdb");
  int errors = 0;
  for (uint64_t round = 0; round < 500; ++round) {
    Random random(11, 12, round);
    std::string damaged = whole;
    // The headers' 200 bytes and those of all other pages get most of it.
    const size_t pages = whole.size() / 4096;
    const size_t page = round % 4 == 0 ? random.below(2) : random.below(pages);
    const size_t at = page * 4096 + random.below(round % 3 == 0 ? 4096 : 200);
    damaged[at] ^= static_cast<char>(1u << random.below(8));
    folder.write("damaged/data.mdb", damaged);
    SCOPED_TRACE(text("byte ", at));
    try {
      const auto source = open_database({.path = folder / "damaged"});
      ASSERT_EQ(source->count(), 120);
      for (const ReadOrder order : {ReadOrder::forward, ReadOrder::random}) {
        const auto reader = source->reader(order);
        EXPECT_LE(test::different_records(*reader, records), 1);  // the byte's own
      }
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("LMDB '" + (folder / "damaged")));
      ++errors;
    }
  }
  EXPECT_GT(errors, 10);
}

template <class T>
T number_at(const std::string& bytes, size_t place) {
  T value;
  std::memcpy(&value, &bytes[place], sizeof value);
  return value;
}

/// The places of the nodes of all pages of a kind, page by page.
std::vector<std::vector<size_t>> nodes_of(const std::string& file, uint16_t kind) {
  std::vector<std::vector<size_t>> pages;
  for (size_t page = 2 * 4096; page < file.size(); page += 4096) {
    if (number_at<uint64_t>(file, page) != page / 4096) continue;
    if (number_at<uint16_t>(file, page + 10) != kind) continue;
    std::vector<size_t>& nodes = pages.emplace_back();
    for (size_t i = 16; i < number_at<uint16_t>(file, page + 12); i += 2) {
      nodes.push_back(page + number_at<uint16_t>(file, page + i));
    }
  }
  return pages;
}

// Pages with equally many records: the totals stay the same.
TEST(OpenDatabase, ABranchThatLeadsToAnotherPageIsAnError) {
  ScratchFolder folder;
  Records records;
  for (int i = 1000; i < 1300; ++i) records.emplace_back(text(i), std::string(500, 'v'));
  test::write_database(folder / "db", records);
  const std::string whole = test::read_file(folder / "db/data.mdb");
  const auto branches = nodes_of(whole, 1);
  ASSERT_EQ(branches.size(), 1u);
  ASSERT_GT(branches[0].size(), 20u);
  for (const size_t node : branches[0]) {
    for (int bit = 0; bit < 7; ++bit) {
      std::string damaged = whole;
      damaged[node] ^= static_cast<char>(1u << bit);
      folder.write("damaged/data.mdb", damaged);
      expect_error([&] { open_database({.path = folder / "damaged"}); }, {"is damaged (page "});
    }
  }
  // Two pages that have changed places, and a key that leads to the wrong page.
  std::string damaged = whole;
  std::swap(damaged[branches[0][3]], damaged[branches[0][4]]);
  folder.write("damaged/data.mdb", damaged);
  expect_error([&] { open_database({.path = folder / "damaged"}); }, {"does not come behind"});
  damaged = whole;
  damaged[branches[0][5] + 8 + 3] = '~';
  folder.write("damaged/data.mdb", damaged);
  expect_error([&] { open_database({.path = folder / "damaged"}); }, {"does not come behind"});
}

TEST(OpenDatabase, PagesAreCheckedOnceForAllWhoReadThem) {
  ScratchFolder folder;
  test::write_database(folder / "db", various(20));
  fs::resize_file(folder / "db/data.mdb", (uint64_t{1} << 30) + 4096);  // with a hole
  Notes notes;
  const auto one = open_database({.path = folder / "db", .logger = notes.logger()});
  EXPECT_THAT(notes.texts, ElementsAre(HasSubstr("of 1024 MiB is checked")));
  const auto two = open_database({.path = folder / "db", .logger = notes.logger()});
  EXPECT_EQ(notes.texts.size(), 1u);
  EXPECT_EQ(two->count(), 20);
}

TEST(OpenDatabase, AFileThatChangesAllTheTimeIsNotTakenForChecked) {
  ScratchFolder folder;
  test::write_database(folder / "db", various(120));
  const std::string path = folder / "db/data.mdb";
  std::string bytes = test::read_file(path);
  const auto branches = nodes_of(bytes, 1);
  ASSERT_EQ(branches.size(), 1u);
  bytes[branches[0][1]] = bytes[branches[0][0]];
  folder.write("db/data.mdb", bytes);
  fs::resize_file(path, (uint64_t{1} << 30) + 4096);
  std::vector<std::string> texts;
  std::vector<Severity> severities;
  const auto commit = [&](Severity severity, const std::string& text) {
    texts.push_back(text);
    severities.push_back(severity);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 144);  // the number of the last transaction, in the second header
    file.put(static_cast<char>(++bytes[4096 + 144]));
  };
  check_lmdb_file(folder / "db", commit);
  EXPECT_THAT(texts, ElementsAre(HasSubstr("is checked"), HasSubstr("checked again"),
                                 HasSubstr("checked again"), HasSubstr("is being written to")));
  EXPECT_EQ(severities.back(), Severity::warning);
  // Nothing writes any more.
  expect_error([&] { check_lmdb_file(folder / "db", {}); }, {"is damaged (page "});
}

TEST(OpenDatabase, KeysThatAreComparedFromTheirEndsAreInOrder) {
  ScratchFolder folder;
  fs::create_directory(folder / "db");
  MDB_env* env = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi table = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, (folder / "db").c_str(), 0, 0664), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &transaction), 0);
  ASSERT_EQ(mdb_dbi_open(transaction, nullptr, MDB_REVERSEKEY, &table), 0);
  for (int i = 1000; i < 1300; ++i) {
    std::string key = text(i), bytes(200, 'v');
    MDB_val name{key.size(), key.data()}, value{bytes.size(), bytes.data()};
    ASSERT_EQ(mdb_put(transaction, table, &name, &value, 0), 0);
  }
  ASSERT_EQ(mdb_txn_commit(transaction), 0);
  mdb_env_close(env);
  const Records records = test::read_database(folder / "db");
  ASSERT_EQ(records.size(), 300u);
  EXPECT_EQ(records[0].first, "1000");
  EXPECT_EQ(records[1].first, "1100");
}

TEST(OpenDatabase, PagesOfALargeRecordAreItsOwn) {
  ScratchFolder folder;
  Records records;
  for (int i = 1000; i < 1020; ++i) records.emplace_back(text(i), std::string(9000, 'v'));
  test::write_database(folder / "db", records);
  const std::string whole = test::read_file(folder / "db/data.mdb");
  const auto leaves = nodes_of(whole, 2);
  ASSERT_EQ(leaves.size(), 1u);
  const auto pages_of = [&](size_t i) { return leaves[0][i] + 8 + 4; };  // behind header and key
  const auto fails = [&](const std::string& damaged, std::string_view text) {
    folder.write("damaged/data.mdb", damaged);
    expect_error([&] { open_database({.path = folder / "damaged"}); }, {"is damaged (page ", text});
  };
  std::string damaged = whole;
  damaged[pages_of(7)] = damaged[pages_of(6)];
  fails(damaged, "is found twice");
  damaged = whole;
  ++damaged[pages_of(7)];
  fails(damaged, "has no value of 3 pages");
  const size_t header = number_at<uint64_t>(whole, pages_of(7)) * 4096;
  for (const size_t byte : {0, 10, 12}) {  // number, kind, count
    damaged = whole;
    damaged[header + byte] ^= 2;
    fails(damaged, "");
  }
}

/// Writes a database "db" and returns its file with damage that LMDB answers with an assertion:
/// branch pages without keys.
std::string without_keys_in_branches(const ScratchFolder& folder) {
  test::write_database(folder / "db", various(500));
  std::string bytes = test::read_file(folder / "db/data.mdb");
  const auto number = [&](size_t at) { return static_cast<unsigned char>(bytes[at]); };
  int branches = 0;
  for (size_t page = 2; page * 4096 < bytes.size(); ++page) {
    const size_t at = page * 4096;  // of its header: number, 2 bytes, kind, end of the keys
    if (number(at) + 256u * number(at + 1) != page || number(at + 10) != 1) continue;
    bytes[at + 12] = 16;  // the header's own size
    bytes[at + 13] = 0;
    ++branches;
  }
  EXPECT_GT(branches, 0);
  return bytes;
}

// LMDB asserts that branch pages have keys; by default that ends the process.
TEST(OpenDatabase, AFailedAssertionIsAnErrorAndTheEnvironmentIsNotUsedAgain) {
  ScratchFolder folder;
  const std::string damaged = without_keys_in_branches(folder);
  folder.write("damaged/data.mdb", test::read_file(folder / "db/data.mdb"));
  {
    const auto source = open_database({.path = folder / "damaged"});
    folder.write("damaged/data.mdb", damaged);  // while it is open
    const auto reader = source->reader(ReadOrder::forward);
    expect_error([&] { reader->read(0); }, {"is damaged (", "Assertion", "NUMKEYS"});
    expect_error([&] { source->reader(ReadOrder::forward); }, {"is damaged, as was found before"});
    expect_error([&] { LmdbEnvironment::open(folder / "damaged", LockMode::automatic, {}); },
                 {"is damaged, as was found before"});
    expect_error([&] { open_database({.path = folder / "damaged"}); },
                 {"is damaged, as was found before"});
  }
  expect_error([&] { open_database({.path = folder / "damaged"}); },
               {"is damaged (page ", "has 0 nodes"});
  // When all have let go, the file is looked at again: it may have been mended.
  fs::copy_file(folder / "db/data.mdb", folder / "damaged/data.mdb",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(test::read_database(folder / "damaged").size(), 500u);
}

// Whoever is told so may be the last owner by then: closing waited for a lock that it held itself.
TEST(OpenDatabase, ADamagedEnvironmentIsClosedByWhoeverWasRefused) {
  ScratchFolder folder;
  folder.write("damaged/data.mdb", without_keys_in_branches(folder));
  for (int round = 0; round < 300; ++round) {
    auto environment = LmdbEnvironment::open(folder / "damaged", LockMode::automatic, {});
    EXPECT_THROW(environment->index(), Error);
    std::atomic<int> refused = 0;
    std::thread opener([&] {
      const auto opens = [&] {
        try {
          LmdbEnvironment::open(folder / "damaged", LockMode::automatic, {});
          return true;  // anew, after the owner let go
        } catch (const Error&) {
          ++refused;
          return false;
        }
      };
      while (!opens()) {
      }
    });
    while (refused < 1 + round % 7) std::this_thread::yield();
    environment.reset();
    opener.join();
  }
}

}  // namespace
}  // namespace crema
