#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "data/converters/converters.hpp"
#include "data/transform/image_mean.hpp"
#include "model/binary_format.hpp"
#include "proto/blob.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/paths.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

constexpr size_t kPixels = 3072;

/// `count` records: the labels that `label` gives of the record's number, then 1024 bytes of the
/// number modulo 100, of 100 and of 200, as red, green and blue.
template <class Label>
std::string records(int count, const Label& label) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += label(i);
    bytes.append(1024, static_cast<char>(i % 100));
    bytes.append(1024, static_cast<char>(100));
    bytes.append(1024, static_cast<char>(200));
  }
  return bytes;
}

std::string cifar10_records(int count = 10000) {
  return records(count, [](int i) { return std::string(1, static_cast<char>(i % 10)); });
}

void write_gzip(const std::string& path, const std::string& content) {
  const gzFile file = gzopen(path.c_str(), "wb1");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
}

Datum parsed(const std::string& bytes) {
  Datum datum;
  EXPECT_TRUE(datum.ParseFromString(bytes));
  return datum;
}

/// The files of CIFAR-10 with made-up images, all compressed.
class ConvertCifar : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    good_ = new ScratchFolder;
    const std::string batch = cifar10_records();
    write_gzip(*good_ / "data_batch_1.bin.gz", batch);
    for (int i = 2; i <= 5; ++i) {
      fs::copy(*good_ / "data_batch_1.bin.gz", *good_ / text("data_batch_", i, ".bin.gz"));
    }
    fs::copy(*good_ / "data_batch_1.bin.gz", *good_ / "test_batch.bin.gz");
  }
  static void TearDownTestSuite() { delete good_; }

  ConvertCifar() {
    options_.input = folder_ / "in";
    options_.output = folder_ / "out";
    fs::create_directory(options_.output);
    fs::copy(good_->path(), options_.input);
  }
  void expect_failure(std::initializer_list<std::string_view> words) {
    expect_error([&] { convert_cifar(options_); }, words);
    EXPECT_TRUE(fs::is_empty(options_.output));
  }
  /// Puts a plain file in the place of the first one.
  void set_first(const std::string& content) {
    fs::remove(folder_ / "in/data_batch_1.bin.gz");
    folder_.write("in/data_batch_1.bin", content);
  }

  static ScratchFolder* good_;
  ScratchFolder folder_;
  ConvertCifarOptions options_;
};

ScratchFolder* ConvertCifar::good_ = nullptr;

TEST_F(ConvertCifar, WritesBothPartsPlainOrZipped) {
  set_first(cifar10_records());
  const std::string names =
      "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
  folder_.write("in/batches.meta.txt", names + "\n");
  int64_t told = 0;
  options_.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++told);
    EXPECT_EQ(total, 60000);
  };
  const ConvertCifarReport report = convert_cifar(options_);
  EXPECT_EQ(told, 60000);
  EXPECT_EQ(report.train.written, 50000);
  EXPECT_EQ(report.test.written, 10000);
  EXPECT_EQ(report.train_path, folder_ / "out/cifar10_train_lmdb");
  EXPECT_EQ(report.test_path, folder_ / "out/cifar10_test_lmdb");

  for (const std::string& path : {report.train_path, report.test_path})
    EXPECT_EQ(test::read_file(path + "/class_names.txt"), names);
  const auto train = test::read_database(report.train_path);
  ASSERT_EQ(train.size(), 50000u);
  for (const size_t i : {size_t{0}, size_t{12345}, size_t{49999}}) {
    EXPECT_EQ(train[i].first, text(i < 10 ? "0000" : "", i));
    const Datum datum = parsed(train[i].second);
    EXPECT_EQ(datum.channels(), 3);
    EXPECT_EQ(datum.height(), 32);
    EXPECT_EQ(datum.width(), 32);
    EXPECT_EQ(datum.label(), static_cast<int>(i % 10));
    ASSERT_EQ(datum.data().size(), kPixels);
    EXPECT_EQ(datum.data()[0], static_cast<char>(i % 100));
    EXPECT_EQ(datum.data()[1024], static_cast<char>(100));
    EXPECT_EQ(datum.data()[3071], static_cast<char>(200));
    EXPECT_FALSE(datum.encoded());
  }
  EXPECT_EQ(test::read_database(report.test_path).size(), 10000u);
}

TEST_F(ConvertCifar, DamagedFilesAreErrorsAndLeaveNothing) {
  set_first(cifar10_records(3).substr(0, 2 * 3073 + 100));
  expect_failure({"data_batch_1.bin' ends in record 2 of 10000", "binary version"});
  set_first(cifar10_records() + "x");
  expect_failure({"data_batch_1.bin' holds more than 10000 records"});
  std::string wrong = cifar10_records(10000);
  wrong[7 * 3073] = 10;
  set_first(wrong);
  expect_failure({"data_batch_1.bin': record 7 has label 10", "0 to 9"});
  fs::remove(folder_ / "in/data_batch_1.bin");
  expect_failure({"neither", "data_batch_1.bin' nor 'data_batch_1.bin.gz'", "binary version"});
  folder_.write("in/data_batch_1", "a pickle");
  expect_failure({"data_batch_1' is of the Python version"});
}

TEST_F(ConvertCifar, ACutOrFlippedGzipFileIsAnError) {
  const std::string path = folder_ / "in/data_batch_1.bin.gz";
  const std::string zip = test::read_file(path);
  folder_.write("in/data_batch_1.bin.gz", zip.substr(0, zip.size() / 2));
  expect_failure({"data_batch_1.bin.gz' is damaged", "get the file again"});
  std::string flipped = zip;
  flipped[zip.size() - 6] ^= 1;  // in the checksum
  folder_.write("in/data_batch_1.bin.gz", flipped);
  expect_failure({"data_batch_1.bin.gz' is damaged (incorrect data check)"});
}

TEST_F(ConvertCifar, RefusesWrongOptions) {
  options_.coarse = true;
  expect_failure({"CIFAR-10 has no coarse labels"});
  options_.coarse = false;
  options_.backend = "hdf5";
  expect_failure({"hdf5"});
  options_.backend = "lmdb";
  options_.input = folder_ / "nowhere";
  expect_failure({"there is no folder", "nowhere"});
  options_.input = folder_ / "in";
  options_.output = folder_ / "no/such";
  expect_error([&] { convert_cifar(options_); },
               {"there is no folder", "no/such'", "make it first"});
}

TEST(ConvertCifar100, TakesFineOrCoarseLabels) {
  const ScratchFolder folder;
  const auto labels = [](int i) {
    return std::string{static_cast<char>(i % 20), static_cast<char>(i % 100)};
  };
  write_gzip(folder / "train.bin.gz", records(50000, labels));
  write_gzip(folder / "test.bin.gz", records(10000, labels));
  ConvertCifarOptions options{.kind = CifarKind::cifar100,
                              .input = folder.path().string(),
                              .output = folder.path().string()};
  const ConvertCifarReport fine = convert_cifar(options);
  EXPECT_EQ(fine.train_path, folder / "cifar100_train_lmdb");
  EXPECT_EQ(parsed(test::read_database(fine.test_path)[99].second).label(), 99);
  expect_error([&] { convert_cifar(options); }, {"exists already", "--overwrite"});
  options.coarse = options.overwrite = true;
  const auto records = test::read_database(convert_cifar(options).test_path);
  EXPECT_EQ(parsed(records[99].second).label(), 19);
  EXPECT_EQ(parsed(records[99].second).data().size(), kPixels);
}

/// The real images: as many of each class as published, and the published mean.
TEST(ConvertCifarImages, AreTheOnesOfThePublishedMean) {
  const fs::path data = test::shared_path("data/cifar10");
  if (!fs::exists(data / "data_batch_1.bin.gz"))
    GTEST_SKIP() << "needs " << data << ": set CREMA_SHARED_DIR";
  const ScratchFolder folder;
  const ConvertCifarReport report =
      convert_cifar({.input = data.string(), .output = folder.path().string()});
  std::vector<int> seen(10);
  for (const auto& [key, value] : test::read_database(report.test_path)) {
    ++seen.at(static_cast<size_t>(parsed(value).label()));
  }
  EXPECT_EQ(seen, std::vector<int>(10, 1000));

  const ImageMean mean = image_mean(*open_database({.path = report.train_path, .logger = {}}));
  BlobProto ours;
  mean.save(ours);
  write_binary_proto_atomically(folder / "mean.binaryproto", ours);
  EXPECT_EQ(test::read_file(folder / "mean.binaryproto"),
            test::read_file((data / "mean.binaryproto").string()));
}

TEST_F(ConvertCifar, NamesOfAnotherSetAreAnError) {
  folder_.write("in/batches.meta.txt", "cat\ndog\n");
  expect_failure({"batches.meta.txt' names 2 classes", "cifar10 has 10"});
}

}  // namespace
}  // namespace crema
