// The files of a run's folder: records of events, lines of metrics, histograms, numbers of folders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "monitor/append_file.hpp"
#include "monitor/crc32c.hpp"
#include "monitor/event_file.hpp"
#include "monitor/fingerprint.hpp"
#include "monitor/git_state.hpp"
#include "monitor/histograms.hpp"
#include "monitor/run_folder.hpp"
#include "support/database.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::ScratchFolder;
using testing::ElementsAre;
using testing::SizeIs;

// The published vectors of RFC 3720, B.4, and the check value of the polynomial.
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string rising(32, '\0');
  std::iota(rising.begin(), rising.end(), '\0');
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(crc32c(""), 0U);
  // ((c >> 15) | (c << 17)) + 0xa282ead8 of the check value.
  EXPECT_EQ(masked_crc32c("123456789"), ((0xE3069283U >> 15) | (0xE3069283U << 17)) + 0xA282EAD8U);
}

/// The first record that TensorFlow's writers write but for the time: version 2 at time 1.5.
TEST(EventFile, RecordsAreThePublishedBytes) {
  tensorboard::Event event;
  event.set_wall_time(1.5);
  event.set_file_version("brain.Event:2");
  const std::string bytes = event.SerializeAsString();
  EXPECT_EQ(bytes, std::string("\x09\0\0\0\0\0\0\xF8\x3F\x1A\x0D", 11) + "brain.Event:2");
  const std::string record = event_record(bytes);
  ASSERT_THAT(record, SizeIs(12 + 24 + 4));
  // A length of 24 and its checksum, as in every file that TensorFlow begins.
  EXPECT_EQ(record.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xA3\x7F\x4B\x22", 12));
  EXPECT_EQ(record.substr(12, 24), bytes);
}

TEST(EventFile, ReadsWhatIsWholeOfAKilledRun) {
  const ScratchFolder folder;
  EventFile file;
  ASSERT_EQ(file.open(folder.path().string()), 0);
  for (int step = 1; step <= 3; ++step) {
    tensorboard::Event event;
    event.mutable_summary()->add_value()->set_simple_value(static_cast<float>(step));
    ASSERT_EQ(file.append(step, event), 0);
  }
  const std::string path = fs::directory_iterator(folder.path())->path().string();
  EXPECT_THAT(fs::path(path).filename().string(),
              testing::MatchesRegex("events\\.out\\.tfevents\\.[0-9]{10}\\..+"));
  const std::string all = read_file(path);
  auto events = read_events(path);
  ASSERT_THAT(events, SizeIs(4));
  EXPECT_EQ(events[0].file_version(), "brain.Event:2");
  EXPECT_EQ(events[3].step(), 3);
  EXPECT_GT(events[3].wall_time(), 1e9);
  const size_t first = 12 + static_cast<unsigned char>(all[0]) + 4;
  // Cut within the last record, at each place.
  const size_t last = (all.size() - first) / 3;
  for (size_t cut = 1; cut < last; ++cut) {
    folder.write("cut", all.substr(0, all.size() - cut));
    ASSERT_THAT(read_events(folder / "cut"), SizeIs(3)) << cut;
  }
  // A damaged one is passed over.
  std::string damaged = all;
  damaged[first + 12] ^= 1;
  folder.write("damaged", damaged);
  events = read_events(folder / "damaged");
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[1].step(), 2);
}

TEST(EventFile, LaterFilesHaveLaterNames) {
  const ScratchFolder folder;
  std::set<std::string> names;
  std::string before;
  for (int i = 0; i < 3; ++i) {
    EventFile file;
    ASSERT_EQ(file.open(folder.path().string()), 0);
    std::string latest;
    for (const auto& entry : fs::directory_iterator(folder.path()))
      latest = std::max(latest, entry.path().filename().string());
    EXPECT_GT(latest, before) << "within one second";
    before = latest;
  }
}

RunRecord record(RunRecord::Kind kind, int iteration) {
  RunRecord made;
  made.set_kind(kind);
  made.set_iteration(iteration);
  return made;
}

void append_lines(const std::string& path, std::initializer_list<RunRecord> records) {
  AppendFile file;
  ASSERT_EQ(file.open(path, true), 0);
  for (const RunRecord& one : records) ASSERT_EQ(file.append(json_line(one) + "\n"), 0);
}

TEST(Metrics, ALineKeepsEveryValue) {
  RunRecord written = record(RunRecord::TRAIN, 101);
  written.set_loss(0.1 + 0.2);
  written.set_smoothed_loss(std::nan(""));
  written.set_rate(-std::numeric_limits<double>::infinity());
  written.set_memory(123456789012345.0);
  (*written.mutable_outputs())["a \"name\"\n[1]"] = 1e-300;
  const std::string line = json_line(written);
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_TRUE(line.starts_with("{\"kind\":\"TRAIN\",\"iteration\":101,")) << line;
  EXPECT_NE(line.find("\"smoothed_loss\":\"NaN\""), std::string::npos) << line;
  RunRecord read;
  ASSERT_TRUE(parse_json_line(line, read));
  EXPECT_EQ(read.loss(), 0.1 + 0.2);
  EXPECT_TRUE(std::isnan(read.smoothed_loss()));
  EXPECT_EQ(read.rate(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read.memory(), 123456789012345.0);
  EXPECT_EQ(read.outputs().at("a \"name\"\n[1]"), 1e-300);
  // A field of a later version.
  EXPECT_TRUE(parse_json_line("{\"kind\":\"TEST\",\"later\":{\"a\":[1]}}", read));
  EXPECT_EQ(read.kind(), RunRecord::TEST);
  for (const char* no_line : {"", "  ", "{", "{\"kind\":\"TRA", "nonsense"})
    EXPECT_FALSE(parse_json_line(no_line, read)) << no_line;
}

TEST(Metrics, ACutLineIsPassedOverAndCutOffByTheNextWriter) {
  const ScratchFolder folder;
  const std::string path = folder / "metrics.jsonl";
  append_lines(path, {record(RunRecord::START, 0), record(RunRecord::TRAIN, 1)});
  const std::string whole = read_file(path);
  const std::string line = json_line(record(RunRecord::TRAIN, 2));
  for (size_t length = 1; length < line.size(); ++length) {
    folder.write("metrics.jsonl", whole + line.substr(0, length));
    EXPECT_THAT(read_run_records(folder.path().string()), SizeIs(2)) << length;
  }
  append_lines(path, {record(RunRecord::TEST, 2)});
  EXPECT_EQ(read_file(path), whole + json_line(record(RunRecord::TEST, 2)) + "\n");
  // Nothing but a part of the first line, longer than what is read at once.
  folder.write("metrics.jsonl", std::string(10000, 'x'));
  append_lines(path, {record(RunRecord::START, 0)});
  EXPECT_EQ(read_file(path), json_line(record(RunRecord::START, 0)) + "\n");
  EXPECT_THAT(read_run_records(folder / "no such folder"), SizeIs(0));
}

TEST(Metrics, AResumeMakesLaterRecordsVoid) {
  const ScratchFolder folder;
  append_lines(
      folder / "metrics.jsonl",
      {record(RunRecord::START, 0), record(RunRecord::TEST, 0), record(RunRecord::TRAIN, 1),
       record(RunRecord::TRAIN, 10), record(RunRecord::SNAPSHOT, 10), record(RunRecord::TEST, 10),
       record(RunRecord::TRAIN, 11), record(RunRecord::END, 12), record(RunRecord::RESUME, 10),
       record(RunRecord::TEST, 10), record(RunRecord::TRAIN, 11)});
  std::vector<std::pair<int, int>> left;
  for (const RunRecord& one : read_run_records(folder.path().string()))
    left.emplace_back(one.kind(), one.iteration());
  using Pair = std::pair<int, int>;
  EXPECT_THAT(left, ElementsAre(Pair(RunRecord::START, 0), Pair(RunRecord::TEST, 0),
                                Pair(RunRecord::TRAIN, 1), Pair(RunRecord::TRAIN, 10),
                                Pair(RunRecord::SNAPSHOT, 10), Pair(RunRecord::RESUME, 10),
                                Pair(RunRecord::TEST, 10), Pair(RunRecord::TRAIN, 11)));
}

// A run that goes on puts another file in the place of metrics.jsonl, and another process may ask
// for the run at any moment.
TEST(AppendFile, IsLockedWhileAnotherFileTakesItsPlace) {
  const ScratchFolder folder;
  const std::string path = folder / "lines";
  AppendFile held;
  ASSERT_EQ(held.open(path, true), 0);
  ASSERT_TRUE(held.lock());
  std::atomic<bool> is_over = false;
  std::atomic<int> asked = 0, got = 0;
  std::thread other([&] {
    while (!is_over) {
      if (!is_locked(path)) ++got;
      ++asked;
    }
  });
  for (int i = 0; i < 100 || asked < 1000; ++i) held.replace(path, text("line ", i, "\n"));
  is_over = true;
  other.join();
  EXPECT_EQ(got, 0);
  ASSERT_EQ(held.append("the next\n"), 0);
  EXPECT_THAT(read_file(path), testing::EndsWith("\nthe next\n"));
}

TEST(AppendFile, ALockOfAFileThatLostItsNameIsNone) {
  const ScratchFolder folder;
  const std::string path = folder / "lines";
  AppendFile first, second;
  ASSERT_EQ(first.open(path, true), 0);
  ASSERT_EQ(second.open(path, true), 0);
  ASSERT_TRUE(first.lock());
  first.replace(path, "a line\n");  // the file that the second one has open is free now
  EXPECT_FALSE(second.lock());
}

TEST(AppendFile, AFullDiskLeavesWholeLines) {
  const ScratchFolder folder;
  const std::string path = folder / "lines";
  AppendFile full;
  ASSERT_EQ(full.open("/dev/full", true), 0);
  EXPECT_EQ(full.append("a line\n"), ENOSPC);
  EXPECT_EQ(AppendFile().append("a line\n"), EBADF);
  // A limit that a part of the line still fits in; in a process of its own.
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    AppendFile file;
    int failed = file.open(path, true);
    int last = 0;
    for (int i = 0; i < 5 && failed == 0; ++i) last = file.append(std::string(29, 'x') + "\n");
    ::_exit(failed == 0 && last == EFBIG ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(path).size(), 90U);
}

TEST(AppendFile, OneProcessHoldsTheLock) {
  const ScratchFolder folder;
  const std::string path = folder / "metrics.jsonl";
  EXPECT_FALSE(is_locked(path)) << "no such file";
  {
    AppendFile one, other;
    ASSERT_EQ(one.open(path, true), 0);
    ASSERT_EQ(other.open(path, true), 0);
    EXPECT_FALSE(is_run_alive(folder.path().string()));
    EXPECT_TRUE(one.lock());
    EXPECT_FALSE(other.lock());
    EXPECT_TRUE(is_run_alive(folder.path().string()));
  }
  EXPECT_FALSE(is_run_alive(folder.path().string()));
}

TEST(RunFolder, NamesAreSafe) {
  EXPECT_EQ(safe_run_name("LeNet"), "LeNet");
  EXPECT_EQ(safe_run_name("../up/../../etc"), "up-..-..-etc");
  EXPECT_EQ(safe_run_name("a b\tc\n"), "a-b-c");
  EXPECT_EQ(safe_run_name(".hidden"), "hidden");
  EXPECT_EQ(safe_run_name("\xE7\x8C\xAB"), "net");
  EXPECT_EQ(safe_run_name(""), "net");
  EXPECT_EQ(safe_run_name(".."), "net");
  EXPECT_EQ(safe_run_name("$(rm -r x)'\""), "rm-r-x");
  EXPECT_LE(safe_run_name(std::string(500, 'n')).size(), 60U);
}

TEST(RunFolder, TakesTheNextNumber) {
  const ScratchFolder folder;
  const std::string base = folder / "deep/runs";
  EXPECT_EQ(make_numbered_run(base, "a net"), base + "/a-net-1");
  EXPECT_EQ(make_numbered_run(base, "a net"), base + "/a-net-2");
  EXPECT_EQ(make_numbered_run(base, "a"), base + "/a-1");
  fs::create_directories(base + "/a-net-7");
  fs::create_directories(base + "/a-net-7x");
  fs::create_directories(base + "/a-net-old");
  EXPECT_EQ(make_numbered_run(base, "a net"), base + "/a-net-8");
  // The number of a run that was removed is not that of another one.
  fs::remove(base + "/a-net-2");
  EXPECT_EQ(make_numbered_run(base, "a net"), base + "/a-net-9");
  folder.write("file", "");
  EXPECT_THROW(make_numbered_run(folder / "file", "a"), Error);
}

TEST(RunFolder, ManyAtOnceGetANumberEach) {
  const ScratchFolder folder;
  constexpr int kThreads = 8, kEach = 25;
  std::vector<std::vector<std::string>> made(kThreads);
  std::vector<std::thread> threads;
  for (auto& paths : made) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) paths.push_back(make_numbered_run(folder / "runs", "net"));
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& paths : made) all.insert(paths.begin(), paths.end());
  EXPECT_THAT(all, SizeIs(kThreads * kEach));
  EXPECT_TRUE(all.count(folder / "runs/net-200") == 1) << *all.rbegin();
}

TEST(RunFolder, InfoIsReadBack) {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  EXPECT_FALSE(is_run_folder(path));
  EXPECT_THROW(read_run_info(path), Error);
  RunInfo info;
  info.set_net("net");
  info.set_seed(18446744073709551615U);
  info.add_settings()->set_name("base_lr");
  write_run_info(path, info);
  EXPECT_TRUE(is_run_folder(path));
  EXPECT_EQ(read_run_info(path).SerializeAsString(), info.SerializeAsString());
  folder.write("run.json", "{");
  EXPECT_THROW(read_run_info(path), Error);
}

TEST(Histograms, CountEveryValue) {
  Tensor values(Shape{1000});
  {
    float* const x = values.overwrite<float>();
    for (int i = 0; i < 1000; ++i) x[i] = static_cast<float>(i % 100) / 10;
    x[7] = 1000;
    x[8] = std::numeric_limits<float>::quiet_NaN();
    x[9] = std::numeric_limits<float>::infinity();
  }
  const ValueHistogram made = histogram_of(values, 0, 1000);
  EXPECT_EQ(made.not_finite(), 2);
  EXPECT_EQ(made.least(), 0);
  EXPECT_EQ(made.greatest(), 1000);
  ASSERT_EQ(made.edges_size(), made.counts_size() + 1);
  EXPECT_EQ(made.edges(0), 0);
  EXPECT_EQ(made.edges(made.edges_size() - 1), 1000);
  EXPECT_TRUE(std::is_sorted(made.edges().begin(), made.edges().end()));
  EXPECT_EQ(std::accumulate(made.counts().begin(), made.counts().end(), 0.0), 998);
  EXPECT_EQ(made.counts(made.counts_size() - 1), 1) << "the one far away is alone";
  // As computed by hand.
  double sum = 0, squares = 0;
  for (int i = 0; i < 1000; ++i) {
    if (i == 8 || i == 9) continue;
    const double value = i == 7 ? 1000 : static_cast<double>(static_cast<float>(i % 100) / 10);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(made.mean(), sum / 998, 1e-9);
  EXPECT_NEAR(made.deviation(), std::sqrt(squares / 998 - sum / 998 * sum / 998), 1e-9);
}

TEST(Histograms, IntervalsHoldWhatTheySay) {
  Tensor values(Shape{4096}, DType::f64);
  double* const x = values.overwrite<double>();
  for (int i = 0; i < 4096; ++i) x[i] = std::sin(i) * std::sin(i * 0.7) * std::sin(i * 1.3);
  x[100] = 20;
  x[200] = -30;
  const ValueHistogram made = histogram_of(values, 0, 4096);
  ASSERT_EQ(made.counts_size(), 64);
  for (int bin = 0; bin < made.counts_size(); ++bin) {
    const bool last = bin + 1 == made.counts_size();
    int inside = 0;
    for (int i = 0; i < 4096; ++i) {
      inside += x[i] >= made.edges(bin) &&
                (x[i] < made.edges(bin + 1) || (last && x[i] <= made.edges(bin + 1)));
    }
    // A value at an edge may be rounded to either side.
    EXPECT_NEAR(inside, made.counts(bin), 1) << bin;
  }
}

TEST(Histograms, TheirLinesAreThoseOfMessages) {
  Tensor values(Shape{300});
  {
    float* const x = values.overwrite<float>();
    for (int i = 0; i < 300; ++i) x[i] = std::exp(static_cast<float>(i) / 20) * (i % 2 ? 1 : -1);
  }
  for (const bool empty : {false, true}) {
    if (empty) values.fill(std::nan(""));
    ValueHistogram made = histogram_of(values, 0, 300);
    made.set_iteration(12);
    made.set_layer("a \"layer\"\n");
    made.set_parameter(1);
    made.set_gradient(empty);
    ValueHistogram read;
    ASSERT_TRUE(parse_json_line(histogram_line(made), read)) << histogram_line(made);
    EXPECT_EQ(read.SerializeAsString(), made.SerializeAsString());
  }
}

TEST(Histograms, OfOneValueAndOfNone) {
  Tensor values(Shape{3});
  values.fill(-2);
  const ValueHistogram one = histogram_of(values, 1, 2);
  EXPECT_THAT(one.edges(), ElementsAre(-2, -2));
  EXPECT_THAT(one.counts(), ElementsAre(2));
  EXPECT_EQ(one.deviation(), 0);
  values.fill(std::nan(""));
  const ValueHistogram none = histogram_of(values, 0, 3);
  EXPECT_EQ(none.not_finite(), 3);
  EXPECT_EQ(none.counts_size(), 0);
  EXPECT_EQ(histogram_of(values, 0, 0).counts_size(), 0);
}

TEST(Histograms, AreFewOfALongRun) {
  int count = 0;
  for (int iteration = 0; iteration < 1000000; iteration = next_of_histograms(iteration)) ++count;
  EXPECT_GT(count, 100);
  EXPECT_LT(count, 400);
  EXPECT_EQ(next_of_histograms(10), 11) << "each display of a short run has them";
  EXPECT_EQ(next_of_histograms(INT_MAX - 1), INT_MAX);
}

TEST(Fingerprint, ChangesWithTheData) {
  const ScratchFolder folder;
  const std::string path = folder.path().string();
  folder.write("data.mdb", std::string(100000, 'a'));
  folder.write("lock.mdb", "reader 1");
  const std::string first = data_fingerprint(path);
  EXPECT_THAT(first, testing::MatchesRegex("[0-9a-f]{16}"));
  folder.write("lock.mdb", "reader 2, and more");
  EXPECT_EQ(data_fingerprint(path), first) << "reading changes the file of locks";
  std::set<std::string> different = {first};
  std::string changed(100000, 'a');
  for (const size_t place : {size_t{0}, size_t{50000}, size_t{99999}}) {
    changed[place] = 'b';
    folder.write("data.mdb", changed);
    EXPECT_TRUE(different.insert(data_fingerprint(path)).second) << place;
  }
  folder.write("data.mdb", std::string(100001, 'a'));
  EXPECT_TRUE(different.insert(data_fingerprint(path)).second);
  folder.write("other", "");
  EXPECT_TRUE(different.insert(data_fingerprint(path)).second);
  fs::create_directories(folder / "class");
  EXPECT_TRUE(different.insert(data_fingerprint(path)).second);
  folder.write("class/image.png", "x");
  EXPECT_TRUE(different.insert(data_fingerprint(path)).second);
  EXPECT_TRUE(different.insert(data_fingerprint(folder / "data.mdb")).second) << "a file";
  EXPECT_EQ(data_fingerprint(folder / "nothing"), "");
}

TEST(Fingerprint, IsQuickHoweverLargeTheDataAre) {
  const ScratchFolder folder;
  for (const std::string name : {"many", "deep/a", "deep/b"}) fs::create_directories(folder / name);
  for (int i = 0; i < 6000; ++i) {
    folder.write(text("many/", i), "");
    folder.write(text("deep/b/", i), "");
  }
  folder.write("deep/a/1", "");
  EXPECT_EQ(data_fingerprint(folder / "many"), "");
  const std::string deep = data_fingerprint(folder / "deep");
  folder.write("deep/b/6000", "");
  EXPECT_EQ(data_fingerprint(folder / "deep"), deep) << "behind as many names as count";
  folder.write("deep/a/2", "");
  EXPECT_NE(data_fingerprint(folder / "deep"), deep);
  // A list counts as a whole, and what it names does not.
  std::string list;
  for (int i = 0; i < 100000; ++i) list += text("images/", i, ".png ", i % 10, "\n");
  folder.write("list.txt", list);
  const std::string before = data_fingerprint(folder / "list.txt");
  list[700000] = '#';
  folder.write("list.txt", list);
  EXPECT_NE(data_fingerprint(folder / "list.txt"), before);
}

TEST(GitState, ReadsTheRepository) {
  const ScratchFolder folder;
  const std::string path = folder.path().string(), commit(40, 'a'), packed(40, 'b');
  EXPECT_FALSE(git_state(path)) << "outside of a repository";
  fs::create_directories(folder / ".git/refs/heads");
  fs::create_directories(folder / "below/it");
  folder.write(".git/HEAD", "ref: refs/heads/main\n");
  EXPECT_FALSE(git_state(path)) << "before the first commit";
  folder.write(".git/packed-refs", "# pack-refs\n" + packed + " refs/heads/main\n");
  ASSERT_TRUE(git_state(folder / "below/it"));
  EXPECT_EQ(git_state(path)->commit(), packed);
  EXPECT_EQ(git_state(path)->branch(), "main");
  folder.write(".git/refs/heads/main", commit + "\n");
  EXPECT_EQ(git_state(path)->commit(), commit);
  folder.write(".git/HEAD", packed + "\n");
  EXPECT_EQ(git_state(path)->commit(), packed) << "no branch";
  EXPECT_FALSE(git_state(path)->has_branch());
}

TEST(GitState, AsksWhetherFilesDiffer) {
  const ScratchFolder folder;
  const std::string git = "git -c user.name=a -c user.email=a@b -C " + folder.path().string();
  folder.write("file", "one");
  if (std::system(
          (git + " init -q && " + git + " add file && " + git + " commit -q -m one").c_str()) != 0)
    GTEST_SKIP() << "needs the program git";
  EXPECT_FALSE(git_state(folder.path().string())->changed());
  folder.write("file", "two and more");
  EXPECT_TRUE(git_state(folder.path().string())->changed());
}

}  // namespace
}  // namespace crema
