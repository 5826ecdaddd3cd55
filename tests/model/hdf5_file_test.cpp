#include "model/hdf5_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "model/whole_file.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/hdf5_arrays.hpp"
#include "support/needs.hpp"
#include "support/values.hpp"

namespace crema {
namespace {

using test::add_hdf5;
using test::Hdf5Kind;
using test::values_of;
using testing::ElementsAre;

/// Makes one write fail, as a full disk does: the first one that makes a file longer than `bytes`.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    signal_ = std::signal(SIGXFSZ, [](int) { setrlimit(RLIMIT_FSIZE, &before_); });
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  static inline rlimit before_{};
  void (*signal_)(int);
};

/// A writer that is destroyed after all that the library of HDF5 made in this program.
struct LastToDie {
  std::unique_ptr<Hdf5Writer> writer;
  ~LastToDie() {
    if (writer) writer->finish();
  }
} last_to_die;

class Hdf5File : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  }
  static Tensor tensor(const Shape& shape, const std::vector<double>& values,
                       DType dtype = DType::f32) {
    Tensor made(shape, DType::f64);
    std::copy(values.begin(), values.end(), made.overwrite<double>());
    return made.to(dtype, Format::contiguous);
  }
  test::ScratchFolder folder_;
  const std::string path_ = folder_ / "a.h5";
};

TEST_F(Hdf5File, ReadsNumbersOfEveryKindInTheTypeAskedFor) {
  const std::vector<double> values = {0, 1, 2, 3, 200, 255};
  for (const auto& [name, kind] : {std::pair{"u8", Hdf5Kind::u8},
                                   {"i32", Hdf5Kind::i32},
                                   {"i64", Hdf5Kind::i64},
                                   {"u64", Hdf5Kind::u64},
                                   {"f32", Hdf5Kind::f32},
                                   {"f64", Hdf5Kind::f64}}) {
    add_hdf5(path_, name, kind, {2, 3}, values);
    const Hdf5Reader reader(path_);
    EXPECT_EQ(reader.shape(name), (Shape{2, 3}));
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor read = reader.read(name, dtype);
      EXPECT_EQ(read.dtype(), dtype);
      EXPECT_EQ(values_of(read), values) << name;
    }
  }
}

TEST_F(Hdf5File, DoublesKeepTheirBitsInF64) {
  add_hdf5(path_, "x", Hdf5Kind::f64, {1}, {0.1});
  EXPECT_EQ(Hdf5Reader(path_).read("x", DType::f64).at(0), 0.1);
  EXPECT_EQ(Hdf5Reader(path_).read("x", DType::f32).at(0), double{0.1f});
}

TEST_F(Hdf5File, IntegersThatTheTypeDoesNotHoldAreErrors) {
  constexpr uint64_t kExact = uint64_t{1} << 53;
  test::add_hdf5_integers(path_, "fits", {2}, {kExact, 0});
  test::add_hdf5_integers(path_, "odd", {2}, {0, kExact + 1});
  test::add_hdf5_integers(path_, "all", {1}, {UINT64_MAX});
  add_hdf5(path_, "negative", Hdf5Kind::i64, {2}, {-3, -16777217});
  const Hdf5Reader reader(path_);
  EXPECT_EQ(reader.read("fits", DType::f64).at(0), 0x1p53);
  EXPECT_EQ(reader.read("fits", DType::f32).at(0), 0x1p53);
  for (const DType dtype : {DType::f32, DType::f64}) {
    expect_error([&] { reader.read("odd", dtype); },
                 {"array 'odd'", "9007199254740993 at index 1", to_string(dtype)});
    expect_error([&] { reader.read("all", dtype); }, {"18446744073709551615"});
  }
  expect_error([&] { reader.read("negative", DType::f32); }, {"-16777217"});
  EXPECT_THAT(values_of(reader.read("negative", DType::f64)), ElementsAre(-3, -16777217));
}

TEST_F(Hdf5File, LargeArraysOfIntegersAreReadInBlocks) {
  const int64_t rows = 70001, row = 3;
  std::vector<uint64_t> values(static_cast<size_t>(rows * row));
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 1000003;
  test::add_hdf5_integers(path_, "x", {rows, row}, values);
  const Tensor read = Hdf5Reader(path_).read("x", DType::f32);
  EXPECT_TRUE(std::ranges::equal(read.values<float>(), values));
  values[150000] = (uint64_t{1} << 24) + 1;
  test::add_hdf5_integers(path_, "odd", {rows, row}, values);
  expect_error([&] { Hdf5Reader(path_).read("odd", DType::f32); }, {"16777217 at index 150000"});
  test::add_hdf5_integers(path_, "wide", {1, rows * row}, values);
  EXPECT_EQ(Hdf5Reader(path_).read("wide", DType::f64).at(150000), 16777217);
  test::add_hdf5_integers(path_, "one", {}, {7});
  EXPECT_EQ(Hdf5Reader(path_).read("one", DType::f32).at(0), 7);
}

TEST_F(Hdf5File, SaysWhatIsWrong) {
  add_hdf5(path_, "data", Hdf5Kind::f32, {1}, {1});
  add_hdf5(path_, "words", Hdf5Kind::text, {1}, {});
  const Hdf5Reader reader(path_);
  expect_error([&] { reader.shape("dat"); },
               {"has no array 'dat'", "did you mean 'data'", "words"});
  expect_error([&] { reader.shape("words"); }, {"'words'", "no numbers"});
  expect_error([&] { Hdf5Reader(folder_ / "none.h5"); }, {"none.h5"});
  const std::string text = folder_.write("text.h5", "some words\n");
  expect_error([&] { Hdf5Reader{text}; }, {"text.h5", "not an HDF5 file", "text"});
  const std::string cut = folder_.write("cut.h5", test::read_file(path_).substr(0, 100));
  expect_error([&] { Hdf5Reader{cut}; }, {"cannot open HDF5 file", "cut.h5", "truncated"});
}

TEST_F(Hdf5File, AppendsRowsAndAppearsAtTheEnd) {
  {
    Hdf5Writer writer(path_);
    writer.append("data", tensor({2, 3}, {1, 2, 3, 4, 5, 6}));
    writer.append("label", tensor({2}, {7, 8}, DType::f64));
    writer.append("data", tensor({0, 3}, {}));
    writer.append("data", tensor({1, 3}, {9, 10, 11}));
    EXPECT_FALSE(std::filesystem::exists(path_));
    writer.finish();
  }
  const Hdf5Reader reader(path_);
  EXPECT_EQ(reader.shape("data"), (Shape{3, 3}));
  EXPECT_THAT(values_of(reader.read("data", DType::f32)), ElementsAre(1, 2, 3, 4, 5, 6, 9, 10, 11));
  EXPECT_THAT(values_of(reader.read("label", DType::f64)), ElementsAre(7, 8));
  // Nothing else is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(Hdf5File, LargeRowsAndManyRows) {
  const int64_t wide = 300000;
  std::vector<double> row(wide);
  for (int64_t i = 0; i < wide; ++i) row[static_cast<size_t>(i)] = static_cast<double>(i % 1000);
  {
    Hdf5Writer writer(path_);
    for (int i = 0; i < 3; ++i) writer.append("wide", tensor({1, wide}, row));
    for (int i = 0; i < 500; ++i)
      writer.append("narrow", tensor({1000}, {row.begin(), row.begin() + 1000}));
    writer.append("none", tensor({4, 0}, {}));
    writer.finish();
  }
  const Hdf5Reader reader(path_);
  const std::vector<double> read = values_of(reader.read("wide", DType::f32));
  EXPECT_TRUE(std::equal(row.begin(), row.end(), read.begin() + 2 * wide));
  EXPECT_EQ(reader.shape("narrow"), (Shape{500000}));
  EXPECT_EQ(reader.read("narrow", DType::f32).at(499999), 999);
  EXPECT_EQ(reader.shape("none"), (Shape{4, 0}));
  EXPECT_EQ(reader.read("none", DType::f32).count(), 0);
}

TEST_F(Hdf5File, AnUnfinishedFileIsRemovedAndAnOldOneStays) {
  folder_.write("a.h5", "the old one");
  {
    Hdf5Writer writer(path_);
    writer.append("data", tensor({1}, {1}));
  }
  EXPECT_EQ(test::read_file(path_), "the old one");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

// The library writes the last rows of an array when the array is closed.
TEST_F(Hdf5File, RowsThatTheDiskCannotTakeAtTheEndAreAnError) {
  folder_.write("a.h5", "the old one");
  {
    Hdf5Writer writer(path_);
    writer.append("data", tensor({1000}, std::vector<double>(1000, 1)));
    const FullDisk full(1 << 16);  // less than the rows and their chunk take
    expect_error([&] { writer.finish(); }, {"cannot write", "a.h5"});
  }
  EXPECT_TRUE(test::read_file(path_) == "the old one");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(Hdf5File, AStaticWriterFinishesItsFileAsTheProgramEnds) {
  const auto program = [&] {
    last_to_die.writer = std::make_unique<Hdf5Writer>(path_);
    last_to_die.writer->append("data", tensor({2}, {3, 4}));
    std::exit(0);
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(0), "^$");
  EXPECT_THAT(values_of(Hdf5Reader(path_).read("data", DType::f32)), ElementsAre(3, 4));
}

TEST_F(Hdf5File, AProgramOnAFullDiskEndsQuietly) {
  const auto program = [&] {
    Hdf5Writer writer(path_);
    writer.append("data", tensor({1000}, std::vector<double>(1000, 1)));
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      writer.finish();
    } catch (const Error&) {
      std::exit(3);
    }
  };
  EXPECT_EXIT(program(), testing::ExitedWithCode(3), "^$");
}

TEST_F(Hdf5File, TwoWritersOfOneFileAreAnError) {
  Hdf5Writer writer(path_);
  expect_error([&] { Hdf5Writer{path_}; },
               {"cannot write", "a.h5", "file_name of its own", "include { phase }"});
  writer.append("data", tensor({1}, {3}));
  writer.finish();
  EXPECT_EQ(Hdf5Reader(path_).read("data", DType::f32).at(0), 3);
}

// A run that starts with the same prefix removes what killed processes left.
TEST_F(Hdf5File, AFileThatIsBeingWrittenIsNotRemoved) {
  Hdf5Writer writer(path_, true);
  writer.append("data", tensor({1}, {3}));
  EXPECT_FALSE(remove_abandoned(unfinished_path(path_)));
  writer.sync();
  EXPECT_FALSE(remove_abandoned(unfinished_path(path_)));
  writer.finish();
  EXPECT_EQ(Hdf5Reader(path_).read("data", DType::f32).at(0), 3);
}

TEST_F(Hdf5File, WritersRefuseOtherRows) {
  Hdf5Writer writer(path_);
  writer.append("data", tensor({1, 3}, {1, 2, 3}));
  expect_error(
      [&] {
        writer.append("data", tensor({1, 4}, {1, 2, 3, 4}));
      },
      {"f32 rows of 1x4", "array 'data'", "1x3"});
  expect_error(
      [&] {
        writer.append("data", tensor({1, 3}, {1, 2, 3}, DType::f64));
      },
      {"f64 rows of 1x3", "f32 rows"});
  expect_error([&] { Hdf5Writer(folder_ / "no_folder/a.h5"); },
               {"cannot write", "no_folder/a.h5", "No such file"});
}

TEST_F(Hdf5File, SeveralThreadsMayReadAtOnce) {
  add_hdf5(path_, "data", Hdf5Kind::i64, {100}, std::vector<double>(100, 3));
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        if (Hdf5Reader(path_).read("data", DType::f32).at(99) == 3) ++good;
        try {
          Hdf5Reader(path_).shape("nothing");
        } catch (const Error&) {
          ++good;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

// What an Error leaves open is closed under the lock too.
TEST_F(Hdf5File, SeveralThreadsMayFailAtOnce) {
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Hdf5Writer writer(folder_ / text("f", t, ".h5"));
      writer.make_group("group");
      writer.put_texts("group/texts", {"a", "b"});
      writer.put_text("group/name", "taken");
      for (int i = 0; i < 100; ++i) {
        try {
          writer.put_text("group/name", "again");
        } catch (const Error&) {
          ++refused;
        }
      }
      writer.finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 400);
  EXPECT_EQ(Hdf5Reader(folder_ / "f3.h5").text("group/name"), "taken");
}

TEST_F(Hdf5File, PrintsNothing) {
  testing::internal::CaptureStderr();
  EXPECT_THROW(Hdf5Writer(folder_ / "no_folder/a.h5"), Error);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace crema
