// crema test: accuracy and IoU of classes, which are taken for each other, and odd outputs.
#include "support/database.hpp"
#include "tools/cli.hpp"

namespace {

using namespace crema;
using namespace crema::test;

class ConfusionCliTest : public CliTest {
 protected:
  /// A database whose pixels are the scores of three classes. Seven records: label, then scores.
  std::string scores() const {
    const int records[7][4] = {{0, 9, 1, 1}, {0, 9, 1, 1}, {0, 1, 9, 1}, {1, 1, 9, 1},
                               {1, 1, 2, 9}, {2, 5, 5, 5}, {2, 0, 0, 1}};
    Records all;
    for (int i = 0; i < 7; ++i) {
      Datum datum = byte_datum(3, 1, 1, records[i][0]);
      std::string pixels;
      for (int c = 1; c < 4; ++c) pixels += static_cast<char>(records[i][c]);
      datum.set_data(pixels);
      all.emplace_back("0000000" + std::to_string(i), datum.SerializeAsString());
    }
    write_database(path("scores"), all);
    return path("scores");
  }
  static std::string data(const std::string& name, const std::string& tops,
                          const std::string& source, int batch) {
    return "layer { name: '" + name + "' type: 'Data' " + tops + " data_param { source: '" +
           source + "' backend: LMDB batch_size: " + std::to_string(batch) + " } }\n";
  }
  std::string classifier() const {
    return write(
        "train_val.prototxt",
        data("data", "top: 'data' top: 'label'", scores(), 1) +
            "layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' bottom: 'label' top: "
            "'accuracy' }\n");
  }
};

// Labels 0 0 0 1 1 2 2, predictions 0 0 1 1 2 0 2; of equal scores the first class is taken.
TEST_F(ConfusionCliTest, CountsClassesOverAllBatches) {
  const std::string test = "test --iterations 7 --model " + classifier();
  const Output output = run(test + " --confusion");
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part :
       {// The right ones of all, and the means of 2/3, 1/2, 1/2 and of 2/4, 1/3, 1/3.
        "Of 7 labels: accuracy 57.14%, mean of the classes 55.56%, mean F1 55.56%, mean IoU "
        "38.89%\n",
        "class    support  predicted  precision     recall         F1        IoU  taken for\n",
        "0              3          3     66.67%     66.67%     66.67%     50.00%  1 (1)\n",
        "1              2          2     50.00%     50.00%     50.00%     33.33%  2 (1)\n",
        "2              2          2     50.00%     50.00%     50.00%     33.33%  0 (1)\n",
        "mean           7                55.56%     55.56%     55.56%     38.89%\n",
        "         0    1    2\n0        2    1    0\n1        0    1    1\n2        1    0    "
        "1\n"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  const Output json = run(test + " --confusion --json 2>/dev/null");
  for (
      const char* part :
      {R"({"iterations": 7, "loss": 0, "outputs": {"accuracy": [)", R"("scores": "data")",
       R"("labels": "label", "positions": 7, "ignored": 0, "undecided": 0, "accuracy": 0.57142857)",
       R"({"label": 1, "support": 2, "predicted": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5, )"
       R"("iou": 0.3333333333333333})",
       R"("mean_precision": 0.5555555555555555, "mean_accuracy": 0.5555555555555555, "mean_f1": 0.5555)",
       R"("confusion": [[2, 1, 0], [0, 1, 1], [1, 0, 1]]})"}) {
    EXPECT_TRUE(json.says(part)) << part << " is not in: " << json.text;
  }
  // The shares need no counts of all pairs.
  const Output shares = run(test + " --json 2>/dev/null");
  EXPECT_TRUE(shares.says(
      R"({"label": 1, "support": 2, "predicted": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5, )"))
      << shares.text;
  EXPECT_FALSE(shares.says("\"confusion\"")) << shares.text;
  EXPECT_FALSE(run(test).says("mean IoU")) << "nobody asked for it";
}

// Two items of 2 x 2 pixels; 255 is ignored.
TEST_F(ConfusionCliTest, CountsPixelsOfLabelMaps) {
  Records scores, labels;
  // (C, H, W): where the second channel is higher, the prediction is 1.
  const std::string of_class[2] = {std::string("\1\1\1\1\0\0\0\2", 8),
                                   std::string("\0\0\1\1\1\1\0\0", 8)};
  const std::string maps[2] = {std::string("\0\0\1\1", 4), std::string("\1\xff\0\xff", 4)};
  for (int i = 0; i < 2; ++i) {
    Datum datum = byte_datum(2, 2, 2, 0);
    datum.set_data(of_class[i]);
    scores.emplace_back(std::to_string(i), datum.SerializeAsString());
    Datum map = byte_datum(1, 2, 2, 0);
    map.set_data(maps[i]);
    labels.emplace_back(std::to_string(i), map.SerializeAsString());
  }
  write_database(path("s"), scores);
  write_database(path("l"), labels);
  const std::string sources =
      data("s", "top: 'score'", path("s"), 1) + data("l", "top: 'map'", path("l"), 1);
  const std::string loss =
      write("loss.prototxt", sources +
                                 "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'score' "
                                 "bottom: 'map' top: 'loss' loss_param { ignore_label: 255 } }");
  // Labels 0 0 1 1 and 1 . 0 . with predictions 0 0 0 1 and 1 1 0 0.
  const Output output = run("test --confusion --iterations 2 --model " + loss);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part :
       {"Of 6 labels: accuracy 83.33%, mean of the classes 83.33%, mean F1 82.86%, mean IoU "
        "70.83%; 2 ignored\n",
        "0              3          4     75.00%    100.00%     85.71%     75.00%\n",
        "1              3          2    100.00%     66.67%     80.00%     66.67%  0 (1)\n"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
  const std::string bare = write("bare.prototxt", sources);
  expect_refusal("test --confusion --model " + bare, {"--scores=BLOB --labels=BLOB"});
  expect_refusal("test --iterations 2 --scores score --labels map --model " + bare,
                 {"label 255", "[0, 2)"});
  expect_refusal("test --iterations 1 --scores map --labels score --model " + bare,
                 {"positions", "class axis"});
}

TEST_F(ConfusionCliTest, ScoresThatChangeInPlaceAreRefused) {
  const std::string model =
      write("late.prototxt", data("data", "top: 'data' top: 'label'", scores(), 1) +
                                 "layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' bottom: "
                                 "'label' top: 'accuracy' }\n"
                                 "layer { name: 'late' type: 'Power' bottom: 'data' top: 'data' "
                                 "power_param { scale: -1 } }");
  expect_refusal("test --confusion --model " + model, {"'late' changes them in place"});
  const Output json = run("test --iterations 1 --json --model " + model);
  EXPECT_EQ(json.status, 0) << json.text;
  EXPECT_TRUE(json.says("Classes are not counted: ")) << json.text;
  EXPECT_FALSE(json.says("mean_iou")) << json.text;
}

// Filter lets through what its second bottom selects: here nothing.
TEST_F(ConfusionCliTest, OutputsWithoutValuesSaySo) {
  const std::string model = write("empty.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 2 dim: 3 } } }
layer { name: "none" type: "DummyData" top: "none" dummy_data_param { shape { dim: 2 } } }
layer { name: "filter" type: "Filter" bottom: "x" bottom: "none" top: "filtered" })");
  const Output output = run("test --iterations 2 --model " + model);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("Batch 1, filtered (0x3): no values\n")) << output.text;
  EXPECT_TRUE(output.says("] filtered (0x3): no values in any batch\n")) << output.text;
}

TEST_F(ConfusionCliTest, MeansOfOutputsThatVaryAreOfTheBatchesThatHaveThem) {
  Records all;
  for (const std::string& pixels : {std::string("\x0a\x14"), std::string("\x1e\x28\x32")}) {
    Datum datum = byte_datum(1, 1, static_cast<int>(pixels.size()), 0);
    datum.set_data(pixels);
    all.emplace_back(std::to_string(all.size()), datum.SerializeAsString());
  }
  write_database(path("images"), all);
  const std::string model = write("images.prototxt", data("d", "top: 'x'", path("images"), 1));
  const Output output = run("test --iterations 2 --model " + model);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"x = 20\n", "x = 30\n", "x = 50\n"})
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  EXPECT_EQ(output.count("x = 50\n"), 2) << "of the batch, and the mean\n" << output.text;
  const Output json = run("test --iterations 2 --json --model " + model);
  EXPECT_TRUE(json.says(R"("x": [20, 30, 50])")) << json.text;
}

}  // namespace
