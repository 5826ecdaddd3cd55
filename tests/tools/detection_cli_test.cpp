// crema test and crema train on a detection net: mean average precision over all batches.
#include "tools/cli.hpp"

namespace {

using namespace crema;
using namespace crema::test;

class DetectionCliTest : public CliTest {
 protected:
  /// Each batch has two detections: a right one of two boxes of class 1, and one of class 2 that
  /// misses its box. DummyData is a constant, so Scale and Bias make the values.
  static std::string values(const std::string& name, int width,
                            const std::vector<std::vector<double>>& rows) {
    std::string text, bottoms;
    for (size_t r = 0; r < rows.size(); ++r) {
      for (size_t k = 0; k < rows[r].size(); ++k) {
        const std::string value = concat(name, r, "_", k);
        text += concat("layer { name: '", value, "' type: 'DummyData' top: '", value,
                       "' dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 } data_filler { "
                       "type: 'constant' value: ",
                       rows[r][k], " } } }\n");
        bottoms += concat("bottom: '", value, "' ");
      }
    }
    return concat(text, "layer { name: '", name, "c' type: 'Concat' ", bottoms, "top: '", name,
                  "c' concat_param { axis: 3 } }\nlayer { name: '", name,
                  "' type: 'Reshape' bottom: '", name, "c' top: '", name,
                  "' reshape_param { shape { dim: 1 dim: 1 dim: ", rows.size(), " dim: ", width,
                  " } } }\n");
  }
  static std::string test_net() {
    return values("det", 7, {{0, 1, 0.5, 0, 0, 1, 0.5}, {0, 2, 0.5, 0, 0, 1, 0.25}}) +
           values(
               "truth", 8,
               {{0, 1, 0, 0, 0, 1, 0.5, 0}, {0, 1, 1, 0, 0.5, 1, 1, 0}, {0, 2, 0, 0, 0, 1, 1, 0}}) +
           "layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'det' bottom: 'truth' "
           "top: 'eval' detection_evaluate_param { num_classes: 3 } }\n";
  }
};

TEST_F(DetectionCliTest, TestPrintsTheMean) {
  const std::string test = "test --iterations 3 --model " + write("net.prototxt", test_net());
  const Output plain = run(test);
  EXPECT_EQ(plain.status, 0) << plain.text;
  EXPECT_TRUE(plain.says("eval = 0.25\n")) << plain.text;
  EXPECT_FALSE(plain.says("Batch 0, eval")) << plain.text;
  EXPECT_FALSE(plain.says("class1")) << plain.text;
  const Output classes = run(test + " --per_class --ap_version 11point");
  EXPECT_TRUE(classes.says("class1: 0.545455\n")) << classes.text;
  EXPECT_TRUE(classes.says("class2: 0\n")) << classes.text;
  EXPECT_TRUE(classes.says("eval = 0.272727\n")) << classes.text;
  const Output json = run(test + " --json 2>/dev/null");
  EXPECT_TRUE(json.says(
      R"("outputs": {}, "detections": {"eval": {"mean_average_precision": 0.25, "classes": [)"
      R"({"label": 1, "boxes": 6, "detections": 3, "average_precision": 0.5}, )"
      R"({"label": 2, "boxes": 3, "detections": 3, "average_precision": 0}]}}})"))
      << json.text;
  const Output wrong = run(test + " --ap_version 12point");
  EXPECT_NE(wrong.status, 0);
  EXPECT_TRUE(wrong.says("--ap_version '12point'")) << wrong.text;
}

TEST_F(DetectionCliTest, TrainPrintsItAsAnOutput) {
  write("test.prototxt", test_net());
  write("train.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 1 dim: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "x" top: "loss" })");
  const Output output =
      run("train --solver " +
          write("solver.prototxt",
                "train_net: 'train.prototxt' test_net: 'test.prototxt' test_iter: 2 "
                "test_interval: 1 max_iter: 1 base_lr: 0.1 lr_policy: 'fixed' "
                "snapshot_after_train: false eval_type: 'detection' "
                "ap_version: 'MaxIntegral' show_per_class_result: true "
                "solver_mode: CPU"));
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part :
       {"class1: 0.5\n", "class2: 0\n", "    Test net output #0: eval = 0.25\n"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
}

}  // namespace
