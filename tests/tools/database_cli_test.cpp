// The commands that make, check and read databases.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>

#include "crema/net.hpp"
#include "model/binary_format.hpp"
#include "proto/blob.pb.h"
#include "support/database.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class DatabaseCli : public CliTest {
 protected:
  DatabaseCli() { write_counting_database(path("db"), 10); }

  Output good(const std::string& arguments) const {
    const Output output = run(arguments);
    EXPECT_EQ(output.status, 0) << arguments << "\n" << output.text;
    return output;
  }
};

TEST_F(DatabaseCli, MeanOfADatabaseByThePublishedName) {
  const Output output =
      good("compute_image_mean --backend=lmdb " + path("db") + " " + path("mean.binaryproto"));
  EXPECT_TRUE(output.says("mean_value channel [0]: 7")) << output.text;
  EXPECT_TRUE(output.says("Processed 10 records.")) << output.text;
  BlobProto blob;
  read_binary_proto(path("mean.binaryproto"), blob);
  EXPECT_EQ(blob.width(), 3);
  ASSERT_EQ(blob.data_size(), 6);
  EXPECT_EQ(blob.data(0), 4.5f);
  EXPECT_TRUE(good("compute-image-mean " + path("db")).says("Number of channels: 1"));

  expect_refusal("compute_image_mean", {"INPUT_DB [OUTPUT_FILE]", "0 arguments"});
  expect_refusal("compute_image_mean " + path("nothing"), {"nothing' does not exist"});
  expect_refusal("compute_image_mean --backend=lmbd " + path("db"), {"lmbd"});
  expect_refusal("compute_image_mean " + path("db") + " " + path("no/mean"),
                 {"no folder", "make it"});
  expect_refusal("compute_image_mean " + path("db") + " " + path(""), {"is a folder"});
  expect_refusal("compute_image_mean " + path("db") + " ''", {"has no name"});
  expect_refusal("compute_image_mean " + path("db") + " /proc/mean", {"cannot write '/proc/mean'"});
}

// Whatever was at the place of the mean file was replaced without a word.
TEST_F(DatabaseCli, MeansReplaceWhatTheyAreToldToAndEarlierMeansByThePublishedName) {
  const std::string mean = path("mean.binaryproto"), text = write("list.txt", "mine");
  good("compute-image-mean " + path("db") + " " + mean);
  expect_refusal("compute-image-mean " + path("db") + " " + mean,
                 {mean, "exists already", "--overwrite"});
  EXPECT_TRUE(good("compute_image_mean " + path("db") + " " + mean)
                  .says(mean + " exists already, a mean file, and is replaced"));
  expect_refusal("compute_image_mean " + path("db") + " " + text,
                 {text, "exists already, and is no mean file", "--overwrite"});
  EXPECT_EQ(read_file(text), "mine");
  good("compute-image-mean --overwrite " + path("db") + " " + text);
  EXPECT_EQ(read_file(text), read_file(mean));
  // No flag makes it write over the database that it reads.
  expect_refusal("compute-image-mean --overwrite " + path("db") + " " + path("db/data.mdb"),
                 {"is a file of a database", "another name"});
  EXPECT_EQ(run("db list " + path("db") + " 0").status, 0);
}

TEST_F(DatabaseCli, VerifyReportsAndItsStatusSaysIfAllIsWell) {
  const Output output = good("verify-db --threads 2 " + path("db"));
  for (const char* part : {"records: 10 (10 raw, 0 compressed, 0 floats)", "shape 1x2x3: 10",
                           "labels: 0 to 9, 10 different", "label 7: 1\n", "bad records: 0"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  const Output classes = run("verify-db --classes=8 " + path("db"));
  EXPECT_EQ(classes.status, 1);
  EXPECT_TRUE(classes.says("record '00000008': its label 8 is not in 0 to 7")) << classes.text;
  EXPECT_TRUE(classes.says("bad records: 2")) << classes.text;
  expect_refusal("verify-db --threads=-1 " + path("db"), {"--threads=-1"});
  expect_refusal("verify-db", {"verify-db takes DB"});
}

TEST_F(DatabaseCli, ListsAndShowsRecordsByNumberAndKey) {
  EXPECT_EQ(good("db list " + path("db")).count("\n"), 11);
  const Output part = good("db list " + path("db") + " 2:4");
  EXPECT_EQ(part.count("\n"), 3) << part.text;
  EXPECT_TRUE(part.says("2\t00000002\t2\t1x2x3\traw\n")) << part.text;
  EXPECT_TRUE(good("db list " + path("db") + " -- -1").says("9\t00000009"));
  const Output keys = good("db list --from_key=000000035 --to_key 00000005 " + path("db"));
  EXPECT_EQ(keys.count("\n"), 3) << keys.text;
  EXPECT_TRUE(keys.says("\n4\t")) << keys.text;
  EXPECT_TRUE(keys.says("\n5\t")) << keys.text;

  const Output shown = good("db show " + path("db") + " 3");
  for (const char* word : {"key: 00000003", "label: 3", "shape: 1x2x3", "kind: raw",
                           "channel 0: min 3, max 8, mean 5.5"}) {
    EXPECT_TRUE(shown.says(word)) << word << " is not in: " << shown.text;
  }
  EXPECT_TRUE(good("db show --key=00000009 " + path("db")).says("record: 9 of 10"));

  expect_refusal("db lost " + path("db"), {"did you mean 'list'?"});
  expect_refusal("db show --key=5 " + path("db"), {"no record with key '5'", "behind '00000009'"});
  expect_refusal("db show --key=00000005 " + path("db") + " 3", {"by number", "by key"});
  expect_refusal("db list " + path("db") + " 20", {"'20'", "0 to 9"});
  expect_refusal("db export " + path("db"), {"DB FOLDER [RECORDS]"});
  expect_refusal("db", {"db takes ACTION DB", "list, show, export"});
  EXPECT_EQ(good("db list " + path("db") + " -2:").count("\n"), 3) << "a number, and no flag";
}

TEST_F(DatabaseCli, KeysOfListsAreWholeAndCanBeGivenBack) {
  const std::string long_key(200, 'k');
  const std::string record = byte_datum(1, 1, 1, 0).SerializeAsString();
  write_database(path("keys"), {{"a\\x41", record}, {"caf\xE9", record}, {long_key, record}});
  const Output listed = good("db list " + path("keys"));
  EXPECT_TRUE(listed.says("0\ta\\x5cx41\t0\t")) << listed.text;
  EXPECT_TRUE(listed.says("1\tcaf\\xe9\t0\t")) << listed.text;
  EXPECT_TRUE(listed.says("2\t" + long_key + "\t0\t")) << listed.text;
  for (const std::string& key : {std::string("a\\x5cx41"), std::string("caf\\xe9"), long_key}) {
    const Output shown = good("db show --key='" + key + "' " + path("keys"));
    EXPECT_TRUE(shown.says("key: " + key + "\n")) << shown.text;
  }
}

TEST_F(DatabaseCli, ABadRecordInAListHasALineAndAStatus) {
  write_database(path("bad"), {{"a", byte_datum(1, 1, 1, 0).SerializeAsString()}, {"b", "junk"}});
  const Output output = run("db list " + path("bad"));
  EXPECT_EQ(output.status, 1);
  EXPECT_TRUE(output.says("1\tb\t\t\tbad: record 'b'")) << output.text;
}

TEST_F(DatabaseCli, ListsSizesOfUprightPicturesAndDepth) {
  const auto encoded = [](const std::string& file) {
    Datum datum;
    datum.set_encoded(true);
    datum.set_data(file);
    return datum.SerializeAsString();
  };
  const std::vector<uint16_t> samples(6, 300);
  write_database(
      path("images"),
      {{"a", encoded(png_file(samples, 2, 3, {.color = 0, .exif = crema::test::exif(6)}))},
       {"b", encoded(png_file(samples, 2, 3, {.color = 0, .depth = 16}))}});
  const Output listed = good("db list " + path("images"));
  EXPECT_TRUE(listed.says("0\ta\t\t1x3x2\tpng\n")) << listed.text;
  EXPECT_TRUE(listed.says("1\tb\t\t1x2x3\tpng, 16 bits\n")) << listed.text;
  EXPECT_TRUE(good("db show " + path("images") + " 1").says("channel 0: min 300, max 300"));
  EXPECT_TRUE(run("verify-db " + path("images")).says("more than 8 bits"));
}

TEST_F(DatabaseCli, ImagesInListsFoldersAndTarFilesAreLookedInto) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs a build with CREMA_OPENCV=ON";
  fs::create_directories(path("photos/caf\u00e9"));
  fs::create_directories(path("photos/tea"));
  write("photos/caf\u00e9/a b.pgm", pgm(1, 2, "ab"));
  write("photos/tea/c.pgm", pgm(1, 2, "cd"));
  write("list.txt", "photos/caf\u00e9/a b.pgm 3\nphotos/none.pgm 4\n");
  const Output folder = good("verify-db " + path("photos"));
  EXPECT_TRUE(folder.says("records: 2 (0 raw, 2 compressed")) << folder.text;
  EXPECT_TRUE(folder.says("label 1 (tea): 1")) << folder.text;
  write("names.txt", "tea\ncaf\u00e9\n");
  const Output named = good("db list --class_names=" + path("names.txt") + " " + path("photos"));
  EXPECT_TRUE(named.says("tea/c.pgm\t0\t1x1x2\t")) << named.text;

  const Output list = run("verify-db --root_folder=" + path("") + " " + path("list.txt"));
  EXPECT_EQ(list.status, 1);
  EXPECT_TRUE(list.says("list.txt:2")) << list.text;
  EXPECT_TRUE(list.says("bad records: 1")) << list.text;
  const Output shown =
      run("db list --backend=image_list --root_folder=" + path("") + " " + path("list.txt"));
  EXPECT_EQ(shown.status, 1);
  EXPECT_TRUE(shown.says("1\tline 2: ")) << shown.text;
  EXPECT_TRUE(shown.says("bad: ")) << shown.text;
  good("db export " + path("photos") + " " + path("out"));
  EXPECT_TRUE(fs::exists(path("out/tea_c.pnm")));
  EXPECT_TRUE(good("compute_image_mean " + path("photos")).says("mean_value channel [0]"));
  expect_refusal("db list --backend=lmbd " + path("photos"), {"'lmbd'", "did you mean 'lmdb'?"});
  if (!kBuiltWithLibarchive) return;
  expect_refusal("db list --backend=tar " + path("photos"), {"is a folder", "*.tar"});
}

// The second image is a pipe: the converter waits in it while the signal comes.
TEST_F(DatabaseCli, ASignalLeavesNothingBehind) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs a build with CREMA_OPENCV=ON";
  fs::create_directory(path("out"));
  write("a.pgm", pgm(1, 1, "a"));
  write("list.txt", "a.pgm 0\nb.pgm 1\n");
  const std::string fifo = path("b.pgm");
  for (const char* backend : {"lmdb", "leveldb"}) {
    if (backend == std::string("leveldb") && !kBuiltWithLevelDb) continue;
    const Output output = run("-c 'rm -f " + fifo + "; mkfifo " + fifo +
                                  "; " CREMA_TOOL " convert-imageset --backend=" + backend + " " +
                                  path("") + " " + path("list.txt") + " " + path("out/db") +
                                  " & exec 3> " + fifo + "; kill -TERM $!; cat " + path("a.pgm") +
                                  " >&3; exec 3>&-; wait $!; echo status $?'",
                              "sh");
    EXPECT_TRUE(output.says("stopped by signal 15")) << output.text;
    EXPECT_TRUE(output.says("status 143")) << output.text;
    EXPECT_TRUE(fs::is_empty(path("out"))) << output.text;
  }
}

TEST_F(DatabaseCli, ExportsWhatConvertImagesetReads) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  good("db export " + path("db") + " " + path("images") + " 2:5");
  good("convert_imageset --gray " + path("images/") + " " + path("images/list.txt") + " " +
       path("again"));
  const Records before = read_database(path("db")), after = read_database(path("again"));
  ASSERT_EQ(after.size(), 3U);
  for (size_t i = 0; i < after.size(); ++i) {
    Datum a, b;
    ASSERT_TRUE(a.ParseFromString(before[i + 2].second) && b.ParseFromString(after[i].second));
    EXPECT_EQ(a.data(), b.data());
    EXPECT_EQ(a.label(), b.label());
  }
  expect_refusal("db export " + path("db") + " " + path("images"), {"exists already"});
}

// Of so many threads the commands that read a database died of a segmentation fault.
TEST_F(DatabaseCli, NumbersOfThreadsHaveALimit) {
  const std::string db = path("db"), out = path("out");
  for (const std::string& command : {"verify-db " + db, "compute-image-mean " + db, "db list " + db,
                                     "db export " + db + " " + out, "summary --model=" + net()}) {
    for (const char* threads : {"--threads=99999", "--threads=4097", "--threads=-1"})
      expect_refusal(command + " " + threads, {threads, "use 1 to 4096", "0 for all cores"});
  }
}

class ExtractCli : public DatabaseCli {
 protected:
  ExtractCli() {
    net_ =
        write("features.prototxt",
              "layer { name: 'data' type: 'Data' top: 'data' top: 'label' "
              "data_param { source: '" +
                  path("db") +
                  "' backend: LMDB batch_size: 4 } }\n"
                  "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                  "inner_product_param { num_output: 2 weight_filler { type: 'constant' value: 1 } "
                  "} }\n");
    Context context;
    Net(net_, context).save_weights(path("w.caffemodel"));
  }
  std::string extract(const std::string& rest) const {
    return path("w.caffemodel") + " " + net_ + " " + rest;
  }
  std::string net_;
};

TEST_F(ExtractCli, ThePublishedArgumentsWork) {
  const Output output = good("extract_features " +
                             extract("ip,label " + path("a") + "," + path("b") + " 3 lmdb CPU 0"));
  EXPECT_TRUE(output.says("features of 10 records for blob ip, 2 each")) << output.text;
  const Records rows = read_database(path("a"));
  ASSERT_EQ(rows.size(), 10U);
  Datum datum;
  ASSERT_TRUE(datum.ParseFromString(rows[4].second));
  EXPECT_EQ(rows[4].first, "00000004");
  EXPECT_EQ(datum.channels(), 2);
  EXPECT_EQ(datum.float_data(1), 4 + 5 + 6 + 7 + 8 + 9);
  EXPECT_EQ(datum.label(), 4);
  EXPECT_EQ(read_database(path("b")).size(), 10U);
}

TEST_F(ExtractCli, TakesAllRecordsByDefault) {
  good("extract-features --format=csv " + extract("ip " + path("a.csv")));
  EXPECT_EQ(read_file(path("a.csv")).substr(0, 33), "key,ip_0,ip_1\n00000000,15,15\n0000");
  const Output more =
      good("extract_features --overwrite " + extract("ip " + path("a.csv") + " 9 csv"));
  EXPECT_TRUE(more.says("all records are in the first 3 batches")) << more.text;
  const Output less = good("extract_features " + extract("ip " + path("b.csv") + " 1 csv"));
  EXPECT_TRUE(less.says("records of 1 batches")) << less.text;
}

TEST_F(ExtractCli, LevelDbIsWrittenAndRead) {
  if (!kBuiltWithLevelDb) GTEST_SKIP() << "needs LevelDB: configure with CREMA_LEVELDB=ON";
  good("extract_features " + extract("ip " + path("level") + " 0 leveldb"));
  const Output output = good("verify-db --backend=leveldb " + path("level"));
  EXPECT_TRUE(output.says("records: 10 (0 raw, 0 compressed, 10 floats)")) << output.text;
  EXPECT_TRUE(output.says("shape 2x1x1: 10")) << output.text;
  EXPECT_TRUE(
      good("db list --backend=leveldb --key=00000007 " + path("level")).says("7\t00000007"));
  good("compute_image_mean --backend=leveldb " + path("level") + " " + path("mean"));
}

TEST_F(ExtractCli, WrongArgumentsSayWhatIsRight) {
  // The rows were those of zeros.
  const std::string deploy = write("deploy.prototxt", R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "prob" type: "Softmax" bottom: "x" top: "prob" })");
  expect_refusal("extract_features '' " + deploy + " prob " + path("zeros.csv") + " 1 csv",
                 {"input 'x'", "no values", "zeros", "data layer", "crema classify"});
  EXPECT_FALSE(fs::exists(path("zeros.csv")));
  expect_refusal("extract_features a b c", {"WEIGHTS NET BLOB", "3 arguments"});
  expect_refusal("extract_features " + extract("pi " + path("a")), {"'pi'", "did you mean 'ip'?"});
  expect_refusal("extract_features " + extract("ip " + path("a") + " ten"), {"NUM_BATCHES 'ten'"});
  expect_refusal("extract_features " + extract("ip " + path("a") + " 1 lmbd"),
                 {"did you mean 'lmdb'?"});
  expect_refusal("extract_features " + extract("ip " + path("a") + " 1 csv TPU"), {"CPU or GPU"});
  expect_refusal("extract_features --keys=name " + extract("ip " + path("a")),
                 {"record nor index"});
  expect_refusal("extract_features --format=npy " + extract("ip " + path("a") + " 1 csv"),
                 {"contradict"});
}

// With --overwrite the features took the place of what they were computed from.
TEST_F(ExtractCli, InputsAreNotWrittenOver) {
  for (const std::string& output :
       {path("w.caffemodel"), net_, path("db"), path(".") + "/db/", path("db/data.mdb")}) {
    const char* format = output.find("db") == std::string::npos ? "csv" : "lmdb";
    const char* why = output.ends_with("mdb") ? "is a file of a database"
                      : output == path("w.caffemodel") || output == net_
                          ? "is given twice"
                          : "is read by layer 'data' of the net";
    expect_refusal("extract_features --overwrite " + extract("ip " + output + " 0 " + format),
                   {text("'", output, "' ", why), "; give another"});
  }
  write("data.prototxt", read_file(net_).replace(read_file(net_).find(path("db")),
                                                 path("db").size(), path("db/data.mdb")));
  expect_refusal("extract_features --overwrite " + path("w.caffemodel") + " " +
                     path("data.prototxt") + " ip " + path("db"),
                 {"'" + path("db") + "' is read by layer 'data' of the net; give another output"});
  expect_refusal(
      "extract_features " + extract("ip,label " + path("a.csv") + "," + path("a.csv") + " 0 csv"),
      {path("a.csv"), "is given twice"});
  EXPECT_EQ(read_database(path("db")).size(), 10U);
  good("extract_features " + extract("ip " + path("a.csv") + " 0 csv"));
  expect_refusal("extract_features " + extract("ip " + path("a.csv") + " 0 csv"),
                 {path("a.csv"), "exists already", "--overwrite"});
}

// The names in a list were not compared.
TEST_F(ExtractCli, FilesOfListsAreNotWrittenOver) {
  const auto expect_kept = [&](const std::string& layer, const std::string& input) {
    const std::string net = write("listed.prototxt", "layer { name: 'rows' " + layer + " }");
    const std::string before = read_file(input);
    // The keys of an array lie in a file beside it.
    const std::string output = input.substr(0, input.rfind(".keys.txt"));
    expect_refusal("extract-features --overwrite '' " + net + " data '" + output + "' 0 npy",
                   {"'" + input + "' is read by layer 'rows' of the net; give another output"});
    EXPECT_EQ(read_file(input), before) << input;
  };
  const std::string pixels = "P6 2 2 255\nabcdefghijkl";
  fs::create_directories(path("root/cat"));
  const std::string image = write("root/cat/a b.ppm", pixels);
  const std::string map = write("root/cat/map.pgm", "P5 2 2 255\nabcd");
  const std::string root = "root_folder: '" + path("root") + "/' batch_size: 1 }";
  const std::string list = write("list.txt", "cat/a b.ppm 0\n");
  const std::string keys = write("x.keys.txt", "cat/a b.ppm 0\n");
  const std::string pairs = write("pairs.txt", "cat/a b.ppm cat/map.pgm\n");
  const std::string windows =
      write("windows.txt", "# 0\ncat/a b.ppm\n3\n2\n2\n2\n1 1 0 0 1 1\n0 0 0 0 1 1\n");
  if (kBuiltWithHdf5) {
    good("extract_features " + extract("data " + path("train.h5") + " 0 hdf5"));
    const std::string files = write("files.txt", "\n" + path("train.h5") + "\n");
    for (const std::string& input : {path("train.h5"), files}) {
      expect_kept(
          "type: 'HDF5Data' top: 'data' hdf5_data_param { source: '" + files + "' batch_size: 5 }",
          input);
    }
  }
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const std::string labelled = " top: 'data' top: 'label' ";
  for (const std::string& input : {image, list}) {
    expect_kept(
        "type: 'ImageData'" + labelled + "image_data_param { source: '" + list + "' " + root,
        input);
  }
  for (const std::string& input : {image, keys}) {
    expect_kept("type: 'Data'" + labelled + "data_param { backend: IMAGE_LIST source: '" + keys +
                    "' " + root,
                input);
  }
  expect_kept("type: 'Data'" + labelled + "data_param { backend: FOLDER batch_size: 1 source: '" +
                  path("root") + "' }",
              image);
  for (const std::string& input : {image, map}) {
    expect_kept("type: 'DenseImageData'" + labelled + "dense_image_data_param { source: '" + pairs +
                    "' " + root,
                input);
  }
  expect_kept("type: 'WindowData'" + labelled +
                  "transform_param { crop_size: 2 } window_data_param { fg_fraction: 1 source: '" +
                  windows + "' " + root,
              image);
  if (!kBuiltWithLibarchive) return;
  const std::string tar = path("cats.tar");
  ASSERT_EQ(std::system(("tar -cf " + tar + " -C " + path("root") + " 'cat/a b.ppm'").c_str()), 0);
  for (const std::string& source : {path("cat*.tar"), write("tars.txt", tar + "\n")}) {
    expect_kept("type: 'Data'" + labelled + "data_param { backend: TAR batch_size: 1 source: '" +
                    source + "' }",
                tar);
  }
}

// save_file ends as the names of inputs do.
TEST_F(ExtractCli, OutputsOfTheNetMayBeReplaced) {
  const std::string net = write("detection.prototxt", read_file(net_) + R"(
layer { name: 'in' type: 'DummyData' top: 'loc' top: 'conf' top: 'prior'
  dummy_data_param { shape { dim: 4 dim: 4 } shape { dim: 4 dim: 2 } shape { dim: 1 dim: 2 dim: 4 } } }
layer { name: 'out' type: 'DetectionOutput' bottom: 'loc' bottom: 'conf' bottom: 'prior' top: 'out'
  detection_output_param { num_classes: 2 save_file: ')" + write("boxes.csv", "old") +
                                                          "' } }");
  good("extract-features --overwrite " + path("w.caffemodel") + " " + net + " ip " +
       path("boxes.csv") + " 0 csv");
  EXPECT_TRUE(read_file(path("boxes.csv")).starts_with("key,ip_0"));
}

/// A disk of its own, of few kilobytes; its root is "" where the user may not mount any.
class SmallDisk {
 public:
  SmallDisk(const std::string& folder, const std::string& size) {
    fs::create_directory(folder);
    if (::mount("none", folder.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) root_ = folder;
  }
  ~SmallDisk() {
    if (!root_.empty()) ::umount2(root_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

TEST_F(ExtractCli, AFullDiskIsAnErrorAndLeavesNothing) {
  const SmallDisk disk(path("disk"), "64k");
  if (disk.root().empty())
    GTEST_SKIP() << "needs a tmpfs: run as a user who may mount one (unshare -rm)";
  write_counting_database(path("large"), 400, 1, 32, 32);
  const std::string net = write(
      "large.prototxt", "layer { name: 'data' type: 'Data' top: 'data' data_param { source: '" +
                            path("large") + "' backend: LMDB batch_size: 20 } }\n");
  const auto is_empty = [&] { return fs::is_empty(disk.root()); };
  for (const char* format : {"lmdb", "npy", "csv", "hdf5"}) {
    if (std::string(format) == "hdf5" && !kBuiltWithHdf5) continue;
    expect_refusal("extract_features " + path("w.caffemodel") + " " + net + " data " + disk.root() +
                       "/out 0 " + format,
                   {disk.root() + "/out"});
    EXPECT_TRUE(is_empty()) << format;
  }
  expect_refusal("extract_features " + path("w.caffemodel") + " " + net + " data " + disk.root() +
                     "/out 0 npy",
                 {"No space left on device", "free space on the disk"});
  if (!kBuiltWithOpenCv) return;
  expect_refusal("db export " + path("large") + " " + disk.root() + "/out",
                 {"No space left on device", "make room"});
  EXPECT_TRUE(is_empty());
}

}  // namespace
}  // namespace crema::test
