// crema test: each record counts once, whatever the batch size.
#include <algorithm>
#include <fstream>

#include "proto/detection.pb.h"
#include "support/annotated.hpp"
#include "support/database.hpp"
#include "support/hdf5_arrays.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace {

using namespace crema;
using namespace crema::test;

class RecordPassCliTest : public CliTest {
 protected:
  /// Records whose pixels are the scores of three classes.
  struct Scored {
    int label;
    int scores[3];
  };
  std::string database(const std::string& name, const std::vector<Scored>& records) const {
    Records all;
    for (size_t i = 0; i < records.size(); ++i) {
      Datum datum = byte_datum(3, 1, 1, records[i].label);
      std::string pixels;
      for (const int score : records[i].scores) pixels += static_cast<char>(score);
      datum.set_data(pixels);
      all.emplace_back(text(i < 10 ? "0000000" : "000000", i), datum.SerializeAsString());
    }
    write_database(path(name), all);
    return path(name);
  }
  static std::string data(const std::string& source, int batch, const std::string& more = "") {
    return text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { source: '",
                source, "' backend: LMDB batch_size: ", batch, " ", more, " } }\n");
  }
  std::string model(const std::string& layers) const { return write("net.prototxt", layers); }
  /// Of the JSON object, the text behind "name": [
  static std::string value(const Output& output, const std::string& name) {
    const std::string mark = "\"" + name + "\": [";
    const size_t at = output.text.find(mark);
    if (at == std::string::npos) return "no " + mark;
    const size_t begin = at + mark.size();
    return output.text.substr(begin, output.text.find(']', begin) - begin);
  }
  static double number(const Output& output, const std::string& name) {
    return std::stod(value(output, name));
  }
};

constexpr const char* kMeasures = R"(
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' top: 'loss' LOSS }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' bottom: 'label' top: 'accuracy' top: 'of_class' ACCURACY })";

std::string measures(const std::string& loss = "", const std::string& accuracy = "") {
  std::string text = kMeasures;
  text.replace(text.find("LOSS"), 4, loss);
  return text.replace(text.find("ACCURACY"), 8, accuracy);
}

// It ran 50 batches and counted some records more often than others.
TEST_F(RecordPassCliTest, EachRecordCountsOnce) {
  // Seven records of three classes in batches of three: the last one has one record.
  const std::string source = database("db", {{0, {2, 1, 0}},
                                             {0, {1, 2, 0}},
                                             {1, {0, 2, 1}},
                                             {1, {2, 0, 1}},
                                             {2, {0, 0, 2}},
                                             {2, {0, 0, 1}},
                                             {0, {0, 0, 2}}});
  const std::string test = "test --json --model ";
  const Output one = run(test + model(data(source, 7) + measures()) + " --iterations 1");
  ASSERT_EQ(one.status, 0) << one.text;
  for (const int batch : {7, 3, 2, 1, 5, 100}) {
    const Output output = run(test + model(data(source, batch) + measures()));
    ASSERT_EQ(output.status, 0) << output.text;
    EXPECT_NEAR(number(output, "loss"), number(one, "loss"), 1e-6) << batch;
    EXPECT_EQ(value(output, "accuracy").substr(0, 8), value(one, "accuracy").substr(0, 8));
    EXPECT_EQ(value(output, "of_class").substr(0, 8), value(one, "of_class").substr(0, 8)) << batch;
    EXPECT_TRUE(output.says("\"records\": 7")) << output.text;
    EXPECT_TRUE(output.says("\"positions\": 7,")) << output.text;
  }
  const Output output = run(test + model(data(source, 3) + measures()) + " --confusion --verbose");
  EXPECT_TRUE(output.says("Running for 3 iterations.")) << output.text;
  EXPECT_TRUE(output.says("7 records in 3 batches of 3, the last one of 1")) << output.text;
  EXPECT_TRUE(output.says("\"iterations\": 3, \"records\": 7, ")) << output.text;
  EXPECT_TRUE(output.says("Batch 2, accuracy = 0\n")) << output.text;
  // The published form.
  const Output published = run(test + path("net.prototxt") + " -iterations 3");
  EXPECT_TRUE(published.says("--iterations=3 takes 9: some count more often")) << published.text;
  EXPECT_TRUE(published.says("\"positions\": 9,")) << published.text;
  EXPECT_FALSE(published.says("\"records\"")) << published.text;
  std::filesystem::create_symlink(CREMA_TOOL, path("caffe"));
  const Output caffe = run("test -model " + path("net.prototxt"), path("caffe"));
  EXPECT_TRUE(caffe.says("Running for 50 iterations.")) << caffe.text;
}

// The mean of a batch is over the labels that count in it.
TEST_F(RecordPassCliTest, MeansAreOverLabels) {
  const std::string source = database("db", {{0, {2, 1, 0}},
                                             {0, {1, 2, 0}},
                                             {2, {0, 2, 1}},
                                             {2, {2, 0, 1}},
                                             {2, {0, 0, 2}},
                                             {1, {0, 0, 1}},
                                             {1, {0, 7, 2}}});
  const std::string ignore = "loss_param { ignore_label: 2 NORM }";
  for (const char* norm : {"", "normalization: FULL", "normalization: BATCH_SIZE"}) {
    std::string loss = ignore;
    loss.replace(loss.find("NORM"), 4, norm);
    const std::string layers = measures(loss, "accuracy_param { ignore_label: 2 }");
    const Output one = run("test --json --model " + model(data(source, 7) + layers));
    const Output two = run("test --json --model " + model(data(source, 2) + layers));
    ASSERT_EQ(two.status, 0) << two.text;
    EXPECT_NEAR(number(two, "loss"), number(one, "loss"), 1e-6) << norm;
    EXPECT_NEAR(number(two, "accuracy"), 0.5, 1e-6) << two.text;
    EXPECT_NEAR(number(one, "accuracy"), 0.5, 1e-6);
  }
  // A sum is that of a whole batch.
  const std::string sum = measures("loss_param { normalization: NONE }");
  const Output one = run("test --json --model " + model(data(source, 7) + sum));
  const Output two = run("test --json --model " + model(data(source, 2) + sum));
  EXPECT_NEAR(number(two, "loss"), number(one, "loss") * 2 / 7, 1e-5);
}

// Targets for each score are no labels that are counted.
TEST_F(RecordPassCliTest, FocalLossOfTargetsIsTheMeanOfAllRecords) {
  const std::string scores = database(
      "db", {{0, {2, 1, 0}}, {0, {1, 2, 0}}, {0, {0, 2, 1}}, {0, {2, 0, 1}}, {0, {0, 0, 2}}});
  const std::string targets = database(
      "targets", {{0, {1, 0, 0}}, {0, {1, 0, 0}}, {0, {0, 0, 1}}, {0, {0, 1, 0}}, {0, {0, 0, 1}}});
  for (const char* settings : {"", "focal_loss_param { activation: SIGMOID }",
                               "loss_param { normalization: BATCH_SIZE }"}) {
    const auto loss = [&](int batch) {
      const Output output = run(
          "test --json --model " +
          model(data(scores, batch) + text("layer { name: 'targets' type: 'Data' top: 'target' "
                                           "data_param { backend: LMDB source: '",
                                           targets, "' batch_size: ", batch,
                                           " } }\nlayer { name: 'loss' type: 'FocalLoss' bottom: "
                                           "'data' bottom: 'target' top: 'loss' ",
                                           settings, " }\n")));
      EXPECT_EQ(output.status, 0) << output.text;
      return number(output, "loss");
    };
    const double all = loss(5);
    EXPECT_GT(all, 0.01) << settings;
    for (const int batch : {3, 2}) EXPECT_NEAR(loss(batch), all, 1e-6) << settings << batch;
  }
}

TEST_F(RecordPassCliTest, RecordsThatCannotBeUsedAreLeftOut) {
  Records records = counting_records(7, 1, 1, 3);
  records[0].second = records[3].second = records[6].second = "no Datum";
  write_database(path("db"), records);
  const std::string layers =
      "layer { name: 'mean' type: 'Reduction' bottom: 'label' top: 'mean' reduction_param { "
      "operation: MEAN } }"
      "layer { name: 'd' type: 'Silence' bottom: 'data' }";
  for (const int batch : {7, 2, 1}) {
    const Output output = run("test --json --model " +
                              model(data(path("db"), batch, "on_bad_record: SKIP") + layers));
    ASSERT_EQ(output.status, 0) << output.text;
    EXPECT_NEAR(number(output, "mean"), 3, 1e-6) << batch << output.text;  // of 1, 2, 4 and 5
    EXPECT_TRUE(output.says("\"records\": 4")) << output.text;
  }
}

// The batch with the bad record was smaller, which the net cannot run on.
TEST_F(RecordPassCliTest, RecordsThatCannotBeUsedAreReplacedInNetsForWholeBatches) {
  Records records = counting_records(6, 1, 1, 3);
  records[2].second = "no Datum";
  write_database(path("db"), records);
  const Output output =
      run("test --json --model " + model(data(path("db"), 2, "on_bad_record: SKIP") + R"(
layer { name: 'rows' type: 'Reshape' bottom: 'label' top: 'rows' reshape_param { shape { dim: 2 dim: 1 } } }
layer { name: 'd' type: 'Silence' bottom: 'data' })"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("\"records\": 5")) << output.text;
}

// The error of a record is none of the net.
TEST_F(RecordPassCliTest, ABadRecordInTheLastBatchIsTold) {
  Records records = counting_records(7, 1, 1, 3);
  records[6].second = "no Datum";
  write_database(path("db"), records);
  const Output output = run("test --model " + model(data(path("db"), 3)));
  EXPECT_NE(output.status, 0);
  EXPECT_TRUE(output.says(records[6].first)) << output.text;
  EXPECT_FALSE(output.says("which the net cannot run on")) << output.text;
}

// It was taken for a rounding error of the outputs.
TEST_F(RecordPassCliTest, ALossThatIsNotFiniteIsTold) {
  const std::string source = database("db", {{0, {2, 1, 0}}, {0, {1, 2, 1}}, {1, {1, 2, 1}}});
  const Output output = run("test --model " + model(data(source, 2) + R"(
layer { name: 'log' type: 'Log' bottom: 'data' top: 'log' }
layer { name: 'sum' type: 'Reduction' bottom: 'log' top: 'sum' loss_weight: 1 }
layer { name: 'silence' type: 'Silence' bottom: 'sum' })"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("Loss: -inf")) << output.text;
}

// The rest of the records is no multiple of the rows.
TEST_F(RecordPassCliTest, NetsForWholeBatchesFillTheLastOne) {
  const std::string source = database("db", {{0, {2, 1, 0}},
                                             {0, {1, 2, 0}},
                                             {1, {0, 2, 1}},
                                             {1, {2, 0, 1}},
                                             {2, {0, 0, 2}},
                                             {2, {0, 0, 1}},
                                             {0, {0, 0, 2}}});
  const std::string fixed = R"(
layer { name: 'rows' type: 'Reshape' bottom: 'data' top: 'rows' reshape_param { shape { dim: 4 dim: 3 } } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'rows' bottom: 'label' top: 'accuracy' })";
  const Output output = run("test --json --model " + model(data(source, 4) + fixed));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("the last batch would have 3 of 4 records, which the net cannot run on"))
      << output.text;
  EXPECT_TRUE(output.says("divides 7, such as 1")) << output.text;
  // Classes are those of the seven: 4 are right.
  EXPECT_TRUE(
      output.says("\"positions\": 7, \"ignored\": 0, \"undecided\": 0, \"accuracy\": 0.5714"))
      << output.text;
  // Each record twice: rows of all records, or steps whose records are the second axis.
  const std::string steps = R"(
layer { name: 'maps' type: 'Tile' bottom: 'data' top: 'maps' tile_param { axis: 2 tiles: 2 } }
layer { name: 'perm' type: 'Permute' bottom: 'maps' top: 'perm' permute_param { order: 0 order: 2 order: 1 order: 3 } }
layer { name: 'column' type: 'Reshape' bottom: 'label' top: 'column' reshape_param { shape { dim: 0 dim: 1 } } }
layer { name: 'labels' type: 'Tile' bottom: 'column' top: 'labels' tile_param { axis: 1 tiles: 2 } }
)";
  const Output rows = run("test --json --model " + model(data(source, 4) + steps + R"(
layer { name: 'rows' type: 'Reshape' bottom: 'perm' top: 'rows' reshape_param { shape { dim: 8 dim: 3 } } }
layer { name: 'flat' type: 'Reshape' bottom: 'labels' top: 'flat' reshape_param { shape { dim: 8 } } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'rows' bottom: 'flat' top: 'accuracy' })"));
  EXPECT_TRUE(
      rows.says("\"positions\": 14, \"ignored\": 0, \"undecided\": 0, \"accuracy\": 0.5714"))
      << rows.text;
  EXPECT_FALSE(rows.says("Samples that count here")) << rows.text;
  const Output later = run("test --json --model " + model(data(source, 4) + steps + R"(
layer { name: 'rows' type: 'Reshape' bottom: 'perm' top: 'rows' reshape_param { shape { dim: 4 dim: 2 dim: 3 } } }
layer { name: 'swap' type: 'Permute' bottom: 'rows' top: 'swap' permute_param { order: 1 order: 0 order: 2 } }
layer { name: 'flat' type: 'Permute' bottom: 'labels' top: 'flat' permute_param { order: 1 order: 0 } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'swap' bottom: 'flat' top: 'accuracy' accuracy_param { axis: 2 } })"));
  EXPECT_TRUE(later.says("\"positions\": 16,")) << later.text;
  EXPECT_TRUE(later.says("such as those that fill the last batch: 1; the scores")) << later.text;
}

TEST_F(RecordPassCliTest, DataWithoutACountHaveThePublishedNumberOfBatches) {
  const Output output = run("test --model " + model(R"(
layer { name: 'x' type: 'DummyData' top: 'x' dummy_data_param { shape { dim: 1 } } }
layer { name: 'y' type: 'ReLU' bottom: 'x' top: 'y' })"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("Running for 50 iterations.")) << output.text;
  EXPECT_TRUE(output.says("could be counted")) << output.text;
}

TEST_F(RecordPassCliTest, RowsOfHdf5FilesAreCounted) {
  if (!kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  std::vector<double> values;
  for (int i = 0; i < 10; ++i) values.push_back(i);
  add_hdf5(path("rows.h5"), "x", Hdf5Kind::f32, {10, 1}, values);
  const Output output =
      run("test --json --model " +
          model("layer { name: 'data' type: 'HDF5Data' top: 'x' hdf5_data_param { source: '" +
                write("list.txt", path("rows.h5") + "\n") +
                "' batch_size: 4 shuffle: true } }"
                "layer { name: 'sum' type: 'Reduction' bottom: 'x' top: 'sum' }"
                "layer { name: 'mean' type: 'Reduction' bottom: 'x' top: 'mean' reduction_param { "
                "operation: MEAN } }"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NEAR(number(output, "mean"), 4.5, 1e-6) << output.text;
  EXPECT_NEAR(number(output, "sum"), 4 * 4.5, 1e-5) << output.text;
}

// A recurrent layer begins with zeros where the batch has another size. That changes nothing for
// records that are whole sequences.
TEST_F(RecordPassCliTest, SequencesMayEndInAShortBatch) {
  if (!kBuiltWithHdf5) GTEST_SKIP() << "needs HDF5: configure with CREMA_HDF5=ON";
  std::vector<double> x, whole, going_on;
  for (int n = 0; n < 5; ++n) {
    for (int t = 0; t < 3; ++t) {
      x.insert(x.end(), {0.1 * n * t, 1 - 0.2 * n});
      whole.push_back(t == 0 ? 0 : 1);
      going_on.push_back(1);
    }
  }
  const std::string file = path("rows.h5");
  add_hdf5(file, "x", Hdf5Kind::f32, {5, 3, 2}, x);
  add_hdf5(file, "whole", Hdf5Kind::f32, {5, 3}, whole);
  add_hdf5(file, "going_on", Hdf5Kind::f32, {5, 3}, going_on);
  const std::string list = write("list.txt", file + "\n");
  const auto net = [&](const std::string& indicators, int batch) {
    return model(text("layer { name: 'd' type: 'HDF5Data' top: 'x' top: '", indicators,
                      "' hdf5_data_param { source: '", list, "' batch_size: ", batch, " } }",
                      R"(
layer { name: 'xt' type: 'Permute' bottom: 'x' top: 'xt' permute_param { order: 1 order: 0 order: 2 } }
layer { name: 'ct' type: 'Permute' bottom: ')",
                      indicators, R"(' top: 'ct' permute_param { order: 1 order: 0 } }
layer { name: 'lstm' type: 'LSTM' bottom: 'xt' bottom: 'ct' top: 'h'
        recurrent_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'last' type: 'Slice' bottom: 'h' top: 'first' top: 'rest' slice_param { axis: 0 slice_point: 1 } }
layer { name: 'silence' type: 'Silence' bottom: 'first' }
layer { name: 'loss' type: 'Reduction' bottom: 'rest' top: 'loss' loss_weight: 1 reduction_param { operation: MEAN } })"));
  };
  const std::string solver =
      write("solver.prototxt", "net: '" + net("whole", 5) +
                                   "' base_lr: 0.1 lr_policy: 'fixed' max_iter: 1 random_seed: 1 "
                                   "snapshot_prefix: '" +
                                   path("w") + "'");
  ASSERT_EQ(run("train --solver " + solver).status, 0);
  const std::string test = "test --json --weights " + path("w_iter_1.caffemodel") + " --model ";
  const Output one = run(test + net("whole", 5)), two = run(test + net("whole", 2));
  EXPECT_NEAR(number(two, "loss"), number(one, "loss"), 1e-6) << two.text;
  EXPECT_FALSE(two.says("it is filled")) << two.text;
  const Output streams = run(test + net("going_on", 2));
  EXPECT_TRUE(streams.says("layer 'lstm' carries the state of a whole batch")) << streams.text;
}

TEST_F(RecordPassCliTest, ImagesOfListsAreCounted) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  std::string images, maps;
  for (int i = 0; i < 5; ++i) {
    const std::string image =
        write(text(i, ".ppm"), ppm(2, 2, std::string(12, static_cast<char>(10 * i))));
    const std::string map = write(text(i, ".pgm"), pgm(2, 2, std::string(4, static_cast<char>(i))));
    images += text(image, " ", i, "\n");
    maps += text(image, " ", map, "\n");
  }
  for (const std::string& layer :
       {"type: 'ImageData' image_data_param { source: '" + write("images.txt", images) + "'",
        "type: 'DenseImageData' dense_image_data_param { source: '" + write("maps.txt", maps) +
            "'"}) {
    const Output output =
        run("test --json --model " +
            model("layer { name: 'data' top: 'data' top: 'label' " + layer + " batch_size: 2 } }" +
                  "layer { name: 'label' type: 'Reduction' bottom: 'label' top: 'of_label' "
                  "reduction_param { operation: MEAN } }"
                  "layer { name: 'pixel' type: 'Reduction' bottom: 'data' top: 'of_data' "
                  "reduction_param { operation: MEAN } }"));
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_NEAR(number(output, "of_label"), 2, 1e-6) << output.text;
    EXPECT_NEAR(number(output, "of_data"), 20, 1e-5) << output.text;
  }
}

// Labels of images and pixels beside them: 10 and 7 records, and keys of another order.
TEST_F(RecordPassCliTest, RecordsThatDoNotBelongTogetherAreTold) {
  const auto keys = [&](const std::string& name, const std::string& format, int first, int count) {
    Records all;
    for (int i = 0; i < count; ++i) {
      char key[64];
      std::snprintf(key, sizeof key, format.c_str(), first + i);
      all.emplace_back(key, byte_datum(1, 1, 1, i, i).SerializeAsString());
    }
    std::ranges::sort(all);
    write_database(path(name), all);
  };
  keys("images", "%08d", 0, 10);
  keys("same", "%08d_labels/a.png", 0, 10);
  keys("unpadded", "%d", 0, 10);
  keys("short", "%08d", 0, 7);
  keys("moved", "%d", 5, 10);
  keys("others", "x%08d", 0, 10);
  const auto layer = [&](const std::string& name, const std::string& more = "") {
    return "layer { name: '" + name + "' type: 'Data' top: '" + name + "' data_param { source: '" +
           path(name) + "' backend: LMDB batch_size: 5 " + more + " } }\n";
  };
  const auto both = [&](const std::string& name, const std::string& more = "") {
    write("net.prototxt", layer("images") + layer(name, more) +
                              "layer { name: 'ip' type: 'InnerProduct' bottom: 'images' top: 'ip' "
                              "inner_product_param { num_output: 1 } }"
                              "layer { name: 'flat' type: 'Flatten' bottom: '" +
                              name + "' top: 'flat' }" +
                              "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: "
                              "'flat' top: 'l' }");
    const Output trained =
        run("train --overwrite --solver " +
            write("solver.prototxt", "net: '" + path("net.prototxt") +
                                         "' base_lr: 0 lr_policy: 'fixed' max_iter: 5 "
                                         "snapshot_prefix: '" +
                                         path("s") + "'"));
    EXPECT_EQ(trained.status, 0) << trained.text;
    const Output tested =
        run("test --model " + path("net.prototxt") + " --weights " + path("s_iter_5.caffemodel"));
    EXPECT_EQ(tested.status, 0) << tested.text;
    EXPECT_EQ(trained.count("read in step"), tested.count("read in step")) << tested.text;
    return trained;
  };
  for (const char* name : {"same", "unpadded"})
    EXPECT_FALSE(both(name).says("read in step")) << name;
  const Output counts = both("short");
  EXPECT_EQ(counts.count("read in step"), 1) << counts.text;
  EXPECT_TRUE(counts.says("'images' and 'short'") && counts.says("have 10 and 7 records"))
      << counts.text;
  const Output moved = both("moved");
  EXPECT_EQ(moved.count("read in step"), 1) << moved.text;
  EXPECT_TRUE(moved.says("have the keys '00000000' and '10' at record 0")) << moved.text;
  EXPECT_TRUE(both("others").says("'00000000' and 'x00000000'"));
  const Output shuffled = both("same", "shuffle: true");
  EXPECT_EQ(shuffled.count("read in step"), 1) << shuffled.text;
  EXPECT_TRUE(shuffled.says("set shuffle and rand_skip of both alike")) << shuffled.text;
  const Output shorter =
      run("test --json --model " + write("short.prototxt", layer("images") + layer("short")));
  EXPECT_TRUE(shorter.says("\"records\": 7")) << shorter.text;
  EXPECT_TRUE(shorter.says("layer 'images' has 10 records, of which 7 are tested")) << shorter.text;
}

TEST_F(RecordPassCliTest, ADatabaseWithoutLabelsIsTold) {
  const auto write_records = [&](int labelled) {
    Records all;
    for (int i = 0; i < 9; ++i) {
      Datum datum = byte_datum(1, 1, 1, 0, i);
      if (i != labelled) datum.clear_label();
      all.emplace_back(text("0000000", i), datum.SerializeAsString());
    }
    std::filesystem::remove_all(path("db"));
    write_database(path("db"), all);
  };
  write_records(-1);
  const Output none = run("test --model " + model(data(path("db"), 3)));
  EXPECT_TRUE(none.says("layer 'data': none of the 9 records") && none.says("has a label"))
      << none.text;
  const Output images =
      run("test --model " + model("layer { name: 'data' type: 'Data' top: 'data' data_param { "
                                  "source: '" +
                                  path("db") + "' backend: LMDB batch_size: 3 } }"));
  EXPECT_FALSE(images.says("has a label")) << images.text;
  // Writers may leave out the label 0.
  write_records(8);
  EXPECT_FALSE(run("test --model " + path("net.prototxt")).says("has a label"));
}

/// Of equal scores none is the best: the label counts only if all of them are among the top_k.
TEST_F(RecordPassCliTest, TiesCountTheSameInAccuracyAndConfusion) {
  const std::string source = database("db", {{0, {5, 5, 5}},
                                             {1, {5, 5, 1}},
                                             {2, {1, 2, 2}},
                                             {0, {1, 5, 5}},
                                             {1, {1, 5, 1}},
                                             {2, {5, 5, 5}},
                                             {0, {5, 1, 5}},
                                             {1, {0, 0, 0}}});
  const Output output =
      run("test --json --confusion --model " +
          model(data(source, 3) +
                "layer { name: 'two' type: 'Accuracy' bottom: 'data' bottom: 'label' top: 'two' "
                "accuracy_param { top_k: 2 } }"
                "layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' bottom: 'label' top: "
                "'accuracy' "
                "top: 'of_class' }"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NEAR(number(output, "accuracy"), 1.0 / 8, 1e-6) << output.text;
  EXPECT_NEAR(number(output, "two"), 4.0 / 8, 1e-6) << output.text;
  EXPECT_TRUE(output.says("\"accuracy\": 0.125,")) << output.text;
  EXPECT_TRUE(output.says("\"confusion\": [[0, 2, 1], [2, 1, 0], [1, 1, 0]]")) << output.text;
}

/// Boxes of two images, each found with another confidence, and one that is missed.
class RepeatedImagesCliTest : public CliTest {
 protected:
  std::string net(int batch, int images = 5, int bad = -1) const {
    std::vector<AnnotatedDatum> all;
    for (int i = 0; i < images; ++i) {
      // Right where the number is even; the pixels are the confidence.
      const Box box = i % 2 == 0 ? Box{0, 0, 1, 1} : Box{0, 0, 0.1, 0.1};
      all.push_back(rectangle(1, 2, {}, {{.label = 1, .box = box}}, 1));
      all.back().mutable_datum()->set_data(std::string(2, static_cast<char>(100 - 10 * (i % 5))));
    }
    Records records = annotated_records(all);
    if (bad >= 0) records[static_cast<size_t>(bad)].second = "no AnnotatedDatum";
    std::filesystem::remove_all(path("db"));
    write_database(path("db"), records);
    return text(
        "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' "
        "transform_param { scale: 0.0078125 } data_param { source: '",
        path("db"), "' backend: LMDB batch_size: ", batch, " } }\n", R"(
layer { name: 'conf' type: 'Flatten' bottom: 'data' top: 'conf' }
layer { name: 'nothing' type: 'Power' bottom: 'conf' top: 'nothing' power_param { scale: 0 } }
layer { name: 'loc' type: 'Concat' bottom: 'nothing' bottom: 'nothing' top: 'loc' }
layer { name: 'numbers' type: 'DummyData' top: 'zero' top: 'one' top: 'variances' dummy_data_param {
        shape { dim: 1 dim: 1 dim: 2 } shape { dim: 1 dim: 1 dim: 2 } shape { dim: 1 dim: 1 dim: 4 }
        data_filler { value: 0 } data_filler { value: 1 } data_filler { value: 0.1 } } }
layer { name: 'box' type: 'Concat' bottom: 'zero' bottom: 'one' top: 'box' concat_param { axis: 2 } }
layer { name: 'prior' type: 'Concat' bottom: 'box' bottom: 'variances' top: 'prior' }
layer { name: 'out' type: 'DetectionOutput' bottom: 'loc' bottom: 'conf' bottom: 'prior' top: 'out'
        detection_output_param { num_classes: 2 confidence_threshold: 0.1 } }
layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'out' bottom: 'label' top: 'eval'
        detection_evaluate_param { num_classes: 2 overlap_threshold: 0.3 } }
)");
  }
  /// It writes the boxes of the images img0, img1 ... to out/detections.txt.
  std::string saving_net(int batch, int images, int bad = -1) const {
    std::string names, layers = net(batch, images, bad);
    for (int i = 0; i < images; ++i) names += text("img", i, " 10 20\n");
    const std::string sizes = text("name_size_file: '", write("sizes.txt", names), "' ");
    const std::string map =
        write("map.prototxt", "item { name: 'none' label: 0 } item { name: 'a' label: 1 }");
    const auto add = [&](const std::string& behind, const std::string& more) {
      layers.insert(layers.find(behind) + behind.size(), more);
    };
    add("confidence_threshold: 0.1 ",
        text("save_output_param { output_format: 'ILSVRC' output_directory: '", path("out"),
             "' label_map_file: '", map, "' ", sizes, "} "));
    add("overlap_threshold: 0.3 ", sizes);
    if (bad >= 0) add("backend: LMDB ", "on_bad_record: SKIP ");
    return write("net.prototxt", layers);
  }
  /// The image of each line of that file.
  std::string saved_images() const {
    std::ifstream in(path("out/detections.txt"));
    std::string images, line;
    while (std::getline(in, line)) images += line.substr(0, line.find(' ')) + " ";
    return images;
  }
};

// What the layers count was taken for a state of the batch, which it then lost.
TEST_F(RepeatedImagesCliTest, ShortBatchesKeepThePlacesOfImages) {
  const Output output = run("test --json --model " + saving_net(7, 30));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_FALSE(output.says("carries the state")) << output.text;
  EXPECT_FALSE(output.says("it is filled")) << output.text;
  EXPECT_TRUE(output.says("\"boxes\": 30, \"detections\": 30")) << output.text;
  std::string expected;
  for (int i = 0; i < 30; ++i) expected += text("img", i, " ");
  EXPECT_EQ(saved_images(), expected);
}

// The images behind a record that was left out had the names of those before them, and the set was
// never whole.
TEST_F(RepeatedImagesCliTest, BadRecordsKeepThePlacesOfImages) {
  for (const int batch : {1, 2, 3, 5}) {
    std::filesystem::remove_all(path("out"));
    const Output output = run("test --json --model " + saving_net(batch, 5, 2));
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_FALSE(output.says("are not written")) << output.text;
    EXPECT_EQ(saved_images(), "img0 img1 img2 img3 img4 ") << batch;
    EXPECT_TRUE(output.says("\"records\": 4")) << output.text;
    EXPECT_TRUE(output.says("\"boxes\": 4, \"detections\": 4")) << output.text;
  }
}

// Of images that came twice, both detections counted, and the second one of a box was wrong or
// changed the order of equal confidences.
TEST_F(RepeatedImagesCliTest, AnImageCountsOnce) {
  const auto tested = [&](int batch, const std::string& more) {
    return run("test --json --model " + write("net.prototxt", net(batch)) + more);
  };
  const Output once = tested(1, " --iterations 5");
  ASSERT_EQ(once.status, 0) << once.text;
  const size_t at = once.text.find("\"detections\": {");
  const std::string expected = once.text.substr(at, once.text.find('\n', at) - at);
  EXPECT_NE(expected.find("\"boxes\": 5, \"detections\": 5"), std::string::npos) << expected;
  for (const auto& [batch, iterations] :
       std::vector<std::pair<int, std::string>>{{1, ""},
                                                {2, ""},
                                                {5, ""},
                                                {3, ""},
                                                {8, ""},
                                                {1, " --iterations 10"},
                                                {5, " --iterations 2"},
                                                {3, " --iterations 2"},
                                                {2, " --iterations 7"}}) {
    const Output output = tested(batch, iterations);
    EXPECT_TRUE(output.says(expected)) << batch << iterations << output.text;
  }
  // So in the tests of a training, where each goes on behind the last one.
  const std::string solver =
      write("solver.prototxt",
            "train_net: '" + write("train.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 1 dim: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "x" top: "loss" })") +
                "' test_net: '" + write("net.prototxt", net(3)) +
                "' test_iter: 4 test_interval: 1 max_iter: 3 base_lr: 0.1 lr_policy: 'fixed' "
                "snapshot_after_train: false eval_type: 'detection'");
  const Output trained = run("train --solver " + solver);
  EXPECT_EQ(trained.status, 0) << trained.text;
  EXPECT_EQ(trained.count("eval = 0.453333\n"), 4) << trained.text;
}

}  // namespace
