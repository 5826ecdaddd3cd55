#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <thread>

#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/databases/database_writer.hpp"
#include "data/databases/leveldb_database.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/leveldb_log.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Records;
using testing::HasSubstr;

/// The files of a folder and their contents.
std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.emplace(entry.path().filename(), test::read_file(entry.path()));
  }
  return files;
}

Records various(int count, int bytes = 3000) {
  Records records;
  for (int i = 0; i < count; ++i) {
    char key[16];
    std::snprintf(key, sizeof key, "%05d", i);
    std::string value(static_cast<size_t>(i * 37 % bytes), 'x');
    Random random(7, 8, static_cast<uint64_t>(i));  // which no compression makes small
    for (char& c : value) c = static_cast<char>(random.below(256));
    records.emplace_back(key, value);
  }
  return records;
}

class LevelDb : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithLevelDb) GTEST_SKIP() << "needs LevelDB: configure with CREMA_LEVELDB=ON";
  }
  void write(const Records& records) {
    test::write_database(folder_ / "db", records, DatabaseKind::leveldb);
  }
  std::shared_ptr<RecordSource> open(LockMode lock = LockMode::automatic) {
    return open_database({.path = folder_ / "db", .kind = DatabaseKind::leveldb, .lock = lock});
  }
  std::unique_ptr<DatabaseWriter> writer(bool overwrite = false) {
    return make_database_writer(DatabaseKind::leveldb, folder_ / "db", overwrite);
  }
  std::string file_like(const std::string& ending) {
    for (const auto& [name, bytes] : contents_of(folder_ / "db")) {
      if (name.ends_with(ending) || name.starts_with(ending)) return folder_ / ("db/" + name);
    }
    throw Error("no file is named like ", ending);
  }
  test::ScratchFolder folder_;
};

TEST_F(LevelDb, ReadsWhatWasWrittenInOrderOfKeys) {
  write({{"b", "2"}, {"a", std::string("\0\1", 2)}, {"c", ""}});
  EXPECT_EQ(test::read_database(folder_ / "db"),
            (Records{{"a", std::string("\0\1", 2)}, {"b", "2"}, {"c", ""}}));
}

TEST_F(LevelDb, AnyOrderOfReadingGivesTheSameRecords) {
  const Records records = various(300);
  write(records);
  const auto source = open();
  ASSERT_EQ(source->count(), 300);
  EXPECT_EQ(source->name(), "LevelDB '" + (folder_ / "db") + "'");
  for (const ReadOrder order : {ReadOrder::forward, ReadOrder::random}) {
    const auto reader = source->reader(order);
    for (const int64_t i : {0, 299, 16, 15, 17, 17, 0, 200, 33, 34, 299, 1, 160, 159, 161, 40}) {
      const Record record = reader->read(i);
      EXPECT_EQ(record.key, records[static_cast<size_t>(i)].first);
      EXPECT_EQ(record.value, records[static_cast<size_t>(i)].second);
    }
    expect_error([&] { reader->read(300); }, {"LevelDB '", "no record 300", "holds 300"});
  }
  // Readers of several threads, and after the source has gone.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([reader = source->reader(ReadOrder::random), &records, t] {
      for (size_t i = 0; i < 300; ++i) {
        const size_t at = (i * 7 + static_cast<size_t>(t)) % 300;
        EXPECT_EQ(reader->read(static_cast<int64_t>(at)).value, records[at].second);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// LevelDB itself replays the log, renames files and compacts as it opens a database.
TEST_F(LevelDb, ReadingChangesNothingInTheFolder) {
  const Records records = various(200);
  test::write_leveldb_log(folder_ / "db", records);
  const auto before = contents_of(folder_ / "db");
  {
    const auto one = open();
    EXPECT_EQ(test::read_database(folder_ / "db"), records);
    EXPECT_EQ(one->reader(ReadOrder::random)->read(199).key, "00199");
  }
  EXPECT_EQ(contents_of(folder_ / "db"), before);
}

TEST_F(LevelDb, AFinishedDatabaseHasAnEmptyLogAndNoOtherFiles) {
  write(various(50));
  for (const auto& [name, bytes] : contents_of(folder_ / "db")) {
    EXPECT_TRUE(!name.ends_with(".log") || bytes.empty()) << name << " of " << bytes.size();
    EXPECT_FALSE(name.starts_with("LOG")) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(LevelDb, TablesThatWaitForCompactionAreReadAsTheyAre) {
  Records records;
  for (int round = 0; round < 8; ++round) {  // each becomes tables that overlap the others'
    Records part;
    for (int i = 0; i < 40; ++i) {
      char key[16];
      std::snprintf(key, sizeof key, "%03d_%d", i, round);
      part.emplace_back(key, std::string(20000, static_cast<char>('a' + round)));
    }
    test::write_leveldb_log(folder_ / "db", part);
    records.insert(records.end(), part.begin(), part.end());
  }
  std::ranges::sort(records);
  const auto before = contents_of(folder_ / "db");
  EXPECT_EQ(test::read_database(folder_ / "db"), records);
  EXPECT_EQ(contents_of(folder_ / "db"), before);
}

TEST_F(LevelDb, EitherNameOpensEitherKindAndSaysSo) {
  write({{"k", "v"}});
  std::vector<std::string> notes;
  const Logger logger = [&](Severity, const std::string& text) { notes.push_back(text); };
  EXPECT_EQ(open_database({.path = folder_ / "db", .logger = logger})->count(), 1);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("is a LevelDB database"));
  EXPECT_THAT(notes[0], HasSubstr("backend: LEVELDB"));
  notes.clear();
  const auto inside = open_database(
      {.path = folder_ / "db/CURRENT", .kind = DatabaseKind::leveldb, .logger = logger});
  EXPECT_EQ(inside->count(), 1);
  EXPECT_THAT(notes, testing::ElementsAre(HasSubstr("opening the folder")));
}

/// A process that has the database open as LevelDB does.
class Holder {
 public:
  explicit Holder(const std::string& folder) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const int file = ::open((folder + "/LOCK").c_str(), O_RDWR);
      struct flock lock = {};
      lock.l_type = F_WRLCK;
      const bool held = ::fcntl(file, F_SETLK, &lock) == 0;
      if (::write(ready[1], held ? "y" : "n", 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char held = 0;
    EXPECT_EQ(::read(ready[0], &held, 1), 1);
    EXPECT_EQ(held, 'y');
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Holder() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  pid_t id() const { return child_; }

 private:
  pid_t child_;
};

TEST_F(LevelDb, ADatabaseThatAnotherProcessHasOpenIsAnErrorWithoutLockNone) {
  write({{"k", "v"}});
  {
    const Holder holder(folder_ / "db");
    expect_error([&] { open(); },
                 {"is open in another process", text("(", holder.id(), ")"), "lock: NONE"});
    EXPECT_EQ(open(LockMode::none)->count(), 1);
  }
  EXPECT_EQ(open()->count(), 1);
  fs::remove(folder_ / "db/LOCK");  // a copy has none
  EXPECT_EQ(open()->count(), 1);
}

TEST_F(LevelDb, WhileItIsReadNobodyOpensItForWriting) {
  write({{"k", "v"}});
  const auto source = open();
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open((folder_ / "db/LOCK").c_str(), O_RDWR);
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    ::_exit(::fcntl(file, F_SETLK, &lock) == 0 ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(LevelDb, DamagedFilesAreErrors) {
  write(various(400));
  const auto whole = contents_of(folder_ / "db");
  const auto restore = [&] {
    fs::remove_all(folder_ / "db");
    for (const auto& [name, bytes] : whole) folder_.write("db/" + name, bytes);
  };
  const std::string table = file_like(".ldb"), manifest = file_like("MANIFEST");
  std::string bytes = test::read_file(table);
  bytes[bytes.size() / 2] ^= 1;
  folder_.write("db/" + fs::path(table).filename().string(), bytes);
  expect_error([&] { open(); }, {"LevelDB '", "behind record '", "Corruption", "copy or convert"});

  restore();
  fs::resize_file(table, bytes.size() / 2);
  expect_error([&] { open(); }, {"LevelDB '", "copy or convert"});
  restore();
  fs::remove(table);
  expect_error([&] { open(); }, {"LevelDB '", "missing files"});
  restore();
  fs::resize_file(manifest, 3);
  expect_error([&] { open(); }, {"LevelDB '", "copy or convert"});
  restore();
  folder_.write("db/CURRENT", "words");
  expect_error([&] { open(); }, {"LevelDB '", "CURRENT"});
  folder_.write("db/CURRENT", "MANIFEST-000099\n");
  expect_error([&] { open(); }, {"LevelDB '", "MANIFEST-000099"});
}

// Every byte has a checksum.
TEST_F(LevelDb, AFlippedBitIsAnErrorOrHasNoEffect) {
  const Records records = various(60, 500);
  write(records);
  const auto whole = contents_of(folder_ / "db");
  int errors = 0;
  for (const auto& [name, bytes] : whole) {
    for (uint64_t round = 0; round < 60 && !bytes.empty(); ++round) {
      Random random(1, 2, round);
      std::string damaged = bytes;
      damaged[random.below(damaged.size())] ^= static_cast<char>(1u << random.below(8));
      folder_.write("db/" + name, damaged);
      try {
        EXPECT_EQ(test::read_database(folder_ / "db"), records) << name;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("LevelDB '" + (folder_ / "db")));
        ++errors;
      }
    }
    folder_.write("db/" + name, bytes);
  }
  EXPECT_GT(errors, 60);
}

// LevelDB takes a record that is cut off for one that was never written.
TEST_F(LevelDb, ALogThatIsCutOffIsAnError) {
  Records records = various(50);
  records.emplace_back("large", std::string(100'000, 'v'));  // in several blocks of 32 KiB
  test::write_leveldb_log(folder_ / "db", records);
  const std::string log = file_like(".log");
  const std::string whole = test::read_file(log);
  ASSERT_GT(whole.size(), 100'000u);
  EXPECT_EQ(test::read_database(folder_ / "db"), records);
  const size_t block = whole.size() / 32768 * 32768;  // within the large record
  for (const size_t size : {whole.size() - 1, whole.size() - 100, block, block + 1, block + 7,
                            block - 1, size_t{20'000}, size_t{100}, size_t{5}}) {
    fs::resize_file(log, size);
    expect_error([&] { open(); }, {"LevelDB '", ".log", text("at byte ", size), "cut off"});
    folder_.write("db/" + fs::path(log).filename().string(), whole);
  }
  const std::string manifest = file_like("MANIFEST");
  fs::resize_file(manifest, fs::file_size(manifest) - 1);
  expect_error([&] { open(); }, {"LevelDB '", "MANIFEST", "cut off"});
}

TEST_F(LevelDb, AnEmptyDatabaseIsAnError) {
  write({});
  expect_error([&] { open(); }, {"is empty"});
}

TEST_F(LevelDb, KeysComeOnceAndInAnyOrder) {
  const auto database = writer();
  database->put("m", "1");
  database->put("c", "2");
  expect_error([&] { database->put("m", "3"); }, {"key 'm' comes twice"});
  expect_error([&] { database->put("c", "3"); }, {"key 'c' comes twice"});
  expect_error([&] { database->put("", "v"); }, {"0 bytes"});
  database->put("z", "4");
  database->finish();
  EXPECT_EQ(database->count(), 3);
  EXPECT_EQ(test::read_database(folder_ / "db"), (Records{{"c", "2"}, {"m", "1"}, {"z", "4"}}));
}

TEST_F(LevelDb, AWriterReplacesDatabasesOfBothKindsAndOnlyWhole) {
  test::write_database(folder_ / "db", {{"old", "lmdb"}});
  expect_error([&] { writer(); }, {"exists already", "--overwrite"});
  {
    const auto unfinished = writer(true);
    unfinished->put("new", "1");
  }
  EXPECT_EQ(test::read_database(folder_ / "db"), (Records{{"old", "lmdb"}}));
  const auto level = writer(true);
  level->put("new", "leveldb");
  level->finish();
  EXPECT_EQ(test::read_database(folder_ / "db"), (Records{{"new", "leveldb"}}));
  EXPECT_FALSE(fs::exists(folder_ / "db/data.mdb"));
  const auto lmdb = make_database_writer(DatabaseKind::lmdb, folder_ / "db", true);
  lmdb->put("again", "lmdb");
  lmdb->finish();
  EXPECT_EQ(contents_of(folder_ / "db").size(), 1u);
  EXPECT_EQ(test::read_database(folder_ / "db"), (Records{{"again", "lmdb"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(LevelDb, AFullDiskIsAnErrorAndLeavesTheOldDatabaseAlone) {
  write({{"old", "v"}});
  rlimit before;
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 200'000;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  expect_error(
      [&] {
        const auto database = writer(true);
        for (const auto& [key, value] : various(1000)) database->put(key, value);
        database->finish();
      },
      {"writing LevelDB '", "File too large", "ulimit -f"});
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(test::read_database(folder_ / "db"), (Records{{"old", "v"}}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

}  // namespace
}  // namespace crema
