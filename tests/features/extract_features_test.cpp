#include "features/extract_features.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <sstream>

#include "data/databases/class_file.hpp"
#include "model/hdf5_file.hpp"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::ScratchFolder;

/// 10 records of 1 x 2 x 3 bytes with keys 00000000 ..., label and first byte their number, in
/// batches of 4.
class ExtractFeatures : public testing::Test {
 protected:
  void SetUp() override { test::write_counting_database(folder_ / "db", 10); }

  std::string data_layer(const std::string& more = "", const std::string& name = "data",
                         const std::string& database = "db") const {
    return text("layer { name: '", name, "' type: 'Data' top: '", name, "' top: '", name,
                "_label' data_param { source: '", folder_ / database,
                "' backend: LMDB batch_size: 4 ", more, " } }\n");
  }
  ExtractReport extract(const std::string& layers) {
    const std::string path = folder_.write("net.prototxt", layers);
    NetOptions options{.phase = Phase::test, .keep = options_.blobs};
    Net net(path, context_, options);
    return extract_features(net, options_);
  }
  /// Blob "data", and "twice" it in rows of 6 values.
  std::string net(const std::string& more = "") const {
    return data_layer(more) +
           "layer { name: 'flat' type: 'Flatten' bottom: 'data' top: 'flat' }\n"
           "layer { name: 'twice' type: 'Power' bottom: 'flat' top: 'twice' "
           "power_param { scale: 2 } }\n";
  }
  void set(FeatureFormat format, std::vector<std::string> blobs, std::vector<std::string> names) {
    options_.format = format;
    options_.blobs = std::move(blobs);
    options_.outputs.clear();
    for (const auto& name : names) options_.outputs.push_back(folder_ / name);
  }
  std::vector<Datum> datums(const std::string& name) const {
    std::vector<Datum> all;
    for (const auto& [key, value] : test::read_database(folder_ / name)) {
      all.emplace_back().ParseFromString(value);
    }
    return all;
  }
  std::string content(const std::string& name) const { return test::read_file(folder_ / name); }

  ScratchFolder folder_;
  Context context_;
  ExtractOptions options_;
};

TEST_F(ExtractFeatures, OneRowARecordWithItsKeyAndLabel) {
  set(FeatureFormat::lmdb, {"twice", "data"}, {"a", "b"});
  std::vector<int64_t> told;
  options_.progress = [&](int64_t rows) { told.push_back(rows); };
  const ExtractReport report = extract(net());
  EXPECT_EQ(report.rows, 10);
  EXPECT_EQ(report.batches, 3);
  EXPECT_TRUE(report.whole_epoch);
  EXPECT_EQ(report.shapes, (std::vector<Shape>{{6}, {1, 2, 3}}));
  EXPECT_EQ(told, (std::vector<int64_t>{4, 8, 10}));
  const auto rows = test::read_database(folder_ / "a");
  ASSERT_EQ(rows.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(rows[static_cast<size_t>(i)].first, text("0000000", i));
    const Datum datum = datums("a")[static_cast<size_t>(i)];
    EXPECT_EQ(datum.label(), i);
    EXPECT_EQ(datum.channels(), 6);
    EXPECT_EQ(datum.height(), 1);
    EXPECT_EQ(datum.width(), 1);
    ASSERT_EQ(datum.float_data_size(), 6);
    for (int k = 0; k < 6; ++k) EXPECT_EQ(datum.float_data(k), static_cast<float>(2 * (i + k)));
  }
  const Datum image = datums("b").at(9);
  EXPECT_EQ(image.height(), 2);
  EXPECT_EQ(image.width(), 3);
  EXPECT_EQ(image.float_data(5), 14.0f);
}

TEST_F(ExtractFeatures, NoNumberOfBatchesTakesARecordTwice) {
  set(FeatureFormat::csv, {"twice"}, {"a"});
  options_.batches = 100;
  const ExtractReport more = extract(net());
  EXPECT_EQ(more.rows, 10);
  EXPECT_EQ(more.batches, 3);
  options_.overwrite = true;
  options_.batches = 2;
  const ExtractReport less = extract(net());
  EXPECT_EQ(less.rows, 8);
  EXPECT_FALSE(less.whole_epoch);
}

TEST_F(ExtractFeatures, ABatchLargerThanTheDataGivesEachRecordOnce) {
  set(FeatureFormat::csv, {"data"}, {"a"});
  std::string layers = data_layer();
  layers.replace(layers.find("batch_size: 4"), 13, "batch_size: 35");
  EXPECT_EQ(extract(layers).rows, 10);
}

TEST_F(ExtractFeatures, BatchesThatEndWithTheRecordsAreWhole) {
  test::write_counting_database(folder_ / "eight", 8);
  set(FeatureFormat::csv, {"data"}, {"a"});
  const ExtractReport report = extract(data_layer("", "data", "eight"));
  EXPECT_EQ(report.rows, 8);
  EXPECT_EQ(report.batches, 2);
  EXPECT_TRUE(report.whole_epoch);
}

TEST_F(ExtractFeatures, ShuffledRecordsAndRandSkipKeepTheirKeys) {
  for (const char* order : {"shuffle: true", "rand_skip: 7"}) {
    set(FeatureFormat::csv, {"twice"}, {"a"});
    options_.overwrite = true;
    EXPECT_EQ(extract(net(order)).rows, 10) << order;
    std::istringstream lines(content("a"));
    std::string line;
    std::getline(lines, line);
    std::vector<int> seen(10);
    while (std::getline(lines, line)) {
      const int key = std::stoi(line.substr(0, 8));
      ++seen.at(static_cast<size_t>(key));
      EXPECT_TRUE(line.substr(8).starts_with(text(",", 2 * key, ","))) << line;
    }
    EXPECT_EQ(seen, std::vector<int>(10, 1)) << order;
  }
}

TEST_F(ExtractFeatures, RecordsThatAreSkippedHaveNoRows) {
  test::Records records = test::counting_records(10);
  for (const size_t bad : {size_t{1}, size_t{2}, size_t{9}}) records[bad].second = "junk";
  test::write_database(folder_ / "some", records);
  const auto keys = [&] {
    std::vector<std::string> all;
    for (const auto& [key, value] : test::read_database(folder_ / "a")) {
      Datum datum;
      datum.ParseFromString(value);
      const int number = std::stoi(key);
      EXPECT_EQ(datum.label(), number);
      EXPECT_EQ(datum.float_data(5), static_cast<float>(number + 5));
      all.push_back(key);
    }
    return all;
  };
  set(FeatureFormat::lmdb, {"data"}, {"a"});
  const std::string layer = data_layer("on_bad_record: SKIP", "data", "some");
  const ExtractReport report = extract(layer);
  EXPECT_EQ(report.rows, 7);
  EXPECT_EQ(report.left_out, 3);
  EXPECT_TRUE(report.whole_epoch);
  EXPECT_EQ(keys(), (std::vector<std::string>{"00000000", "00000003", "00000004", "00000005",
                                              "00000006", "00000007", "00000008"}));
  options_.number_keys = options_.overwrite = true;
  extract(layer);
  EXPECT_EQ(keys().at(1), "0000000003");
  set(FeatureFormat::csv, {"data"}, {"a.csv"});
  options_.number_keys = false;
  extract(layer);
  EXPECT_NE(content("a.csv").find("\n00000003,3,4,5,6,7,8\n"), std::string::npos)
      << content("a.csv");
}

TEST_F(ExtractFeatures, KeysMayBeNumbersAsPublished) {
  set(FeatureFormat::lmdb, {"twice"}, {"a"});
  options_.number_keys = true;
  extract(net());
  EXPECT_EQ(test::read_database(folder_ / "a").at(9).first, "0000000009");
}

TEST_F(ExtractFeatures, LongAndBinaryKeysStayWhole) {
  const std::string key = "\x01" + std::string(300, 'k') + "\n,\"x";
  test::write_database(folder_ / "long", {{key, test::byte_datum(1, 1, 1, 0).SerializeAsString()}});
  set(FeatureFormat::lmdb, {"data"}, {"a"});
  extract(data_layer("", "data", "long"));
  EXPECT_EQ(test::read_database(folder_ / "a").at(0).first, key);
  set(FeatureFormat::csv, {"data"}, {"a.csv"});
  extract(data_layer("", "data", "long"));
  EXPECT_EQ(content("a.csv"), "key,data_0\n\"\x01" + std::string(300, 'k') + "\n,\"\"x\",0\n");
  set(FeatureFormat::npy, {"data"}, {"a.npy"});
  extract(data_layer("", "data", "long"));
  EXPECT_EQ(content("a.npy.keys.txt"), "\x01" + std::string(300, 'k') + "\\n,\"x\n");
}

TEST_F(ExtractFeatures, Csv) {
  set(FeatureFormat::csv, {"twice"}, {"a.csv"});
  extract(net());
  const std::string csv = content("a.csv");
  EXPECT_TRUE(
      csv.starts_with("key,twice_0,twice_1,twice_2,twice_3,twice_4,twice_5\n"
                      "00000000,0,2,4,6,8,10\n00000001,2,4,6,8,10,12\n"))
      << csv;
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 11);
}

TEST_F(ExtractFeatures, Npy) {
  set(FeatureFormat::npy, {"data"}, {"a.npy"});
  extract(net());
  const std::string npy = content("a.npy");
  ASSERT_EQ(npy.size(), 256u + 10 * 6 * sizeof(float));
  EXPECT_EQ(npy.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(npy[8], '\xf6');  // 246 bytes follow
  EXPECT_EQ(npy[9], '\0');
  EXPECT_TRUE(npy.substr(10).starts_with(
      "{'descr': '<f4', 'fortran_order': False, 'shape': (10, 1, 2, 3), }  "))
      << npy.substr(10, 100);
  EXPECT_EQ(npy[255], '\n');
  std::vector<float> values(60);
  std::memcpy(values.data(), npy.data() + 256, 240);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i / 6 + i % 6);
  EXPECT_TRUE(content("a.npy.keys.txt").starts_with("00000000\n00000001\n"));
}

// A column behind the values in CSV, and a file beside an array.
TEST_F(ExtractFeatures, NamesOfClassesGoAlong) {
  test::write_counting_database(folder_ / "named", 3);
  write_class_file(folder_ / "named", {"ant", "bee, wild"});
  const std::string named = data_layer("", "data", "named");
  set(FeatureFormat::csv, {"data"}, {"a.csv"});
  extract(named);
  EXPECT_EQ(content("a.csv"),
            "key,data_0,data_1,data_2,data_3,data_4,data_5,class\n"
            "00000000,0,1,2,3,4,5,ant\n"
            "00000001,1,2,3,4,5,6,\"bee, wild\"\n"
            "00000002,2,3,4,5,6,7,\n")
      << "label 2 has no name";
  set(FeatureFormat::npy, {"data"}, {"a.npy"});
  extract(named);
  EXPECT_EQ(content("a.npy.classes.txt"), "ant\nbee, wild\n");
  fs::remove(folder_ / "a.npy");
  fs::remove(folder_ / "a.npy.keys.txt");
  expect_error([&] { extract(named); }, {"a.npy.classes.txt' exists already"});
  // An array without classes has no file of them, whatever it replaces.
  options_.overwrite = true;
  extract(net());
  EXPECT_EQ(content("a.npy.keys.txt").size(), 90U);
  EXPECT_FALSE(fs::exists(folder_ / "a.npy.classes.txt"));
}

TEST_F(ExtractFeatures, Hdf5HasAllBlobsInOneFile) {
  if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  set(FeatureFormat::hdf5, {"twice", "data_label"}, {"a.h5"});
  extract(net());
  const Hdf5Reader file(folder_ / "a.h5");
  EXPECT_EQ(file.shape("twice"), (Shape{10, 6}));
  EXPECT_EQ(file.read("twice", DType::f32).at(59), 2.0 * (9 + 5));
  EXPECT_EQ(file.shape("data_label"), Shape{10});
  EXPECT_EQ(file.read("data_label", DType::f32).at(9), 9.0);
  EXPECT_NE(content("a.h5").find("00000009"), std::string::npos);
}

TEST_F(ExtractFeatures, SeveralLabelsOfARecordAreKept) {
  test::Records records;
  for (int i = 0; i < 6; ++i) {
    Datum datum = test::byte_datum(1, 2, 3, 0, i);
    datum.clear_label();
    for (const float label : {static_cast<float>(i), -0.5f * static_cast<float>(i)}) {
      datum.add_float_label(label);
    }
    records.emplace_back(text("k", i), datum.SerializeAsString());
  }
  test::write_database(folder_ / "several", records);
  const std::string layers = data_layer("", "data", "several");
  set(FeatureFormat::lmdb, {"data"}, {"a"});
  extract(layers);
  const auto rows = datums("a");
  ASSERT_EQ(rows.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    const Datum& row = rows[static_cast<size_t>(i)];
    EXPECT_FALSE(row.has_label());
    ASSERT_EQ(row.float_label_size(), 2);
    EXPECT_EQ(row.float_label(0), static_cast<float>(i));
    EXPECT_EQ(row.float_label(1), -0.5f * static_cast<float>(i));
  }
  // Elsewhere they are a blob.
  set(FeatureFormat::csv, {"data_label"}, {"a.csv"});
  extract(layers);
  EXPECT_TRUE(content("a.csv").ends_with("k4,4,-2\nk5,5,-2.5\n")) << content("a.csv");
  if (!test::kBuiltWithHdf5) return;
  set(FeatureFormat::hdf5, {"data", "data_label"}, {"a.h5"});
  extract(layers);
  EXPECT_EQ(Hdf5Reader(folder_ / "a.h5").shape("data_label"), (Shape{6, 2}));
}

TEST_F(ExtractFeatures, NamesWithSlashesAreGroupsOfHdf5) {
  if (!test::kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  set(FeatureFormat::hdf5, {"inception/out"}, {"a.h5"});
  extract(net() + "layer { name: 'o' type: 'Power' bottom: 'flat' top: 'inception/out' }\n");
  EXPECT_EQ(Hdf5Reader(folder_ / "a.h5").shape("inception/out"), (Shape{10, 6}));
}

TEST_F(ExtractFeatures, NetsWithoutRecordsTakeBatches) {
  const std::string input =
      "layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 3 dim: 2 } "
      "data_filler { type: 'constant' value: 5 } } }\n";
  set(FeatureFormat::csv, {"x"}, {"a.csv"});
  expect_error([&] { extract(input); }, {"no data layer", "how many batches"});
  options_.batches = 2;
  EXPECT_EQ(extract(input).rows, 6);
  EXPECT_TRUE(content("a.csv").ends_with("0000000005,5,5\n")) << content("a.csv");
}

TEST_F(ExtractFeatures, MistakesAreFoundAndNothingIsLeft) {
  const auto fails = [&](std::initializer_list<std::string_view> words, const std::string& layers) {
    expect_error([&] { extract(layers); }, words);
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "db" || name == "net.prototxt" || name == "seven") << name;
    }
  };
  set(FeatureFormat::lmdb, {"twice", "data"}, {"a"});
  fails({"2 blobs and 1 outputs", "HDF5"}, net());
  set(FeatureFormat::lmdb, {"twice", "data"}, {"a", "a"});
  fails({"a' is named twice"}, net());
  set(FeatureFormat::csv, {"twice"}, {"no/such/a.csv"});
  fails({"no folder", "make it first"}, net());
  set(FeatureFormat::csv, {"twice"}, {"db"});
  fails({"db': it is a folder"}, net());
  set(FeatureFormat::csv, {"twice"}, {"net.prototxt"});
  fails({"net.prototxt' exists already", "--overwrite"}, net());
  folder_.write("a.keys.txt", "");
  set(FeatureFormat::npy, {"twice"}, {"a"});
  expect_error([&] { extract(net()); }, {"a.keys.txt' exists already"});
  fs::remove(folder_ / "a.keys.txt");
  set(FeatureFormat::npy, {"mean"}, {"a"});
  fails({"blob 'mean' of", "row for each of the 4 records"},
        net() + "layer { name: 'mean' type: 'Reduction' bottom: 'twice' top: 'mean' }\n");
  test::write_counting_database(folder_ / "seven", 7);
  set(FeatureFormat::npy, {"twice"}, {"a"});
  fails({"'data' and 'other'", "different numbers of records"},
        net() + data_layer("", "other", "seven"));
}

/// While it lives, no file of this process grows beyond `bytes`.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

// "a" is written whole, "b" is not.
TEST_F(ExtractFeatures, NoOutputAppearsBeforeAllAreOnTheDisk) {
  test::write_counting_database(folder_ / "large", 8, 1, 100, 100);
  for (const FeatureFormat format : {FeatureFormat::csv, FeatureFormat::npy}) {
    set(format, {"data_label", "data"}, {"a", "b"});
    const std::string path = folder_.write("net.prototxt", data_layer("", "data", "large"));
    Net net(path, context_, {.phase = Phase::test, .keep = options_.blobs});
    std::string problem;
    {
      const SmallFiles limit(100'000);
      try {
        extract_features(net, options_);
      } catch (const Error& error) {
        problem = error.message();
      }
    }
    EXPECT_NE(problem.find("/b'"), std::string::npos) << problem;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == "db" || name == "large" || name == "net.prototxt") << name;
    }
  }
}

TEST(FeatureFormats, HaveNames) {
  EXPECT_EQ(feature_format("npy"), FeatureFormat::npy);
  EXPECT_EQ(feature_format("LMDB"), FeatureFormat::lmdb);
  EXPECT_EQ(feature_format("LevelDB"), FeatureFormat::leveldb);
  expect_error([] { feature_format("lmbd"); }, {"'lmbd'", "did you mean 'lmdb'?", "hdf5"});
}

}  // namespace
}  // namespace crema
