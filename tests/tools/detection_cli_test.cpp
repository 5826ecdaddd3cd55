// crema test and crema train on a detection net: mean average precision over all batches.
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include "data/images/image_decoder.hpp"
#include "model/binary_format.hpp"
#include "proto/net.pb.h"
#include "support/database.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"
#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;

using namespace crema;
using namespace crema::test;

class DetectionCliTest : public CliTest {
 protected:
  /// Each batch has two detections: a right one of two boxes of class 1, and one of class 2 that
  /// misses its box. DummyData is a constant, so Scale and Bias make the values.
  static std::string values(const std::string& name, int width,
                            const std::vector<std::vector<double>>& rows) {
    std::string prototxt, bottoms;
    for (size_t r = 0; r < rows.size(); ++r) {
      for (size_t k = 0; k < rows[r].size(); ++k) {
        const std::string value = text(name, r, "_", k);
        prototxt += text("layer { name: '", value, "' type: 'DummyData' top: '", value,
                         "' dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 } data_filler { "
                         "type: 'constant' value: ",
                         rows[r][k], " } } }\n");
        bottoms += text("bottom: '", value, "' ");
      }
    }
    return text(prototxt, "layer { name: '", name, "c' type: 'Concat' ", bottoms, "top: '", name,
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
                "snapshot_after_train: false eval_type: 'detection' snapshot_best: 'eval' "
                "snapshot_prefix: '" +
                    path("best") +
                    "' "
                    "ap_version: 'MaxIntegral' show_per_class_result: true "
                    "solver_mode: CPU"));
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"class1: 0.5\n", "class2: 0\n", "    Test net output #0: eval = 0.25\n",
                           "the snapshot of iteration 0 is the best so far: 'eval' is 0.25\n"}) {
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  }
}

/// One prior box in the middle, [0.25, 0.75] of both sides. The confidences of the classes 0, 1 and
/// 2 are the means of blue, green and red.
constexpr const char* kInput =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 2 "
    "dim: 2 } } }";
constexpr const char* kDetector = R"(
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "scores" type: "Flatten" bottom: "mean" top: "scores" }
layer { name: "six" type: "Concat" bottom: "scores" bottom: "scores" top: "six" }
layer { name: "four" type: "Slice" bottom: "six" top: "four" top: "two" slice_param { axis: 1 slice_point: 4 } }
layer { name: "rest" type: "Silence" bottom: "two" }
layer { name: "zero" type: "Power" bottom: "four" top: "zero" power_param { scale: 0 } }
layer { name: "prior" type: "PriorBox" bottom: "mean" bottom: "data" top: "prior" prior_box_param { min_size: 1 } }
layer { name: "out" type: "DetectionOutput" bottom: "zero" bottom: "scores" bottom: "prior" top: "out" detection_output_param { num_classes: 3 confidence_threshold: 0.1 SAVE } })";

class DetectCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }
  static std::string detector(const std::string& data, const std::string& save = {}) {
    std::string net = data + kDetector;
    return net.replace(net.find("SAVE"), 4, save);
  }
  /// 20 pixels wide and 40 high, in one colour.
  std::string image(const std::string& name, char red, char green) const {
    std::string pixels;
    for (int i = 0; i < 40 * 20; ++i) pixels += {red, green, 0};
    return write(name, "P6\n20 40\n255\n" + pixels);
  }
};

TEST_F(DetectCliTest, PrintsBoxesInPixelsOfEachImage) {
  const std::string both = image("both.ppm", 96, 64), none = image("none.ppm", 32, 48);
  const std::string red = image("red.ppm", 80, 40);
  const std::string detect = "detect --scale 0.0078125 --model " +
                             write("net.prototxt", detector(kInput)) + " " + both + " " + none +
                             " " + red;
  const Output plain = run(detect + " 2>/dev/null");
  EXPECT_EQ(plain.status, 0) << plain.text;
  EXPECT_EQ(plain.text, both + " 2 0.7500 5.0 10.0 15.0 30.0\n" + both +
                            " 1 0.5000 5.0 10.0 15.0 30.0\n" + red +
                            " 2 0.6250 5.0 10.0 15.0 30.0\n");
  const std::string map = write("map.prototxt",
                                "item { name: 'a' label: 1 display_name: 'A' } "
                                "item { name: 'b' label: 2 }");
  const Output named = run(detect + " --confidence_threshold 0.6 --label_map_file " + map +
                           " --batch 2 2>/dev/null");
  EXPECT_EQ(named.text,
            both + " 2 0.7500 5.0 10.0 15.0 30.0 b\n" + red + " 2 0.6250 5.0 10.0 15.0 30.0 b\n");
  const Output json = run(detect + " --json --label_map_file " + map);
  EXPECT_TRUE(
      json.says(R"({"label": 1, "name": "A", "confidence": 0.5, "box": [5, 10, 15, 30]}]})"))
      << json.text;
  EXPECT_TRUE(json.says("{\"image\": \"" + none + "\", \"detections\": []}\n")) << json.text;
}

TEST_F(DetectCliTest, RunsAModelOfOnnx) {
  const std::string both = image("both.ppm", 96, 64);
  const std::string net = write("net.prototxt", detector(kInput)), model = path("net.onnx");
  const Output made = run("export-onnx --model " + net + " -o " + model);
  ASSERT_EQ(made.status, 0) << made.text;
  const std::string detect = "detect --scale 0.0078125 " + both + " --model ";
  const Output expected = run(detect + net + " 2>/dev/null");
  EXPECT_NE(expected.text, "");
  const Output given = run(detect + model + " 2>/dev/null");
  EXPECT_EQ(given.status, 0) << given.text;
  EXPECT_EQ(given.text, expected.text);
}

TEST_F(DetectCliTest, SavesImagesWithTheBoxes) {
  const std::string photo = image("photo.ppm", 96, 64), none = image("none.ppm", 32, 48);
  const std::string detect = "detect --scale 0.0078125 --model " +
                             write("net.prototxt", detector(kInput)) + " --save-images " +
                             path("out") + " " + photo + " " + none;
  EXPECT_EQ(run(detect).status, 0);
  ImageDecoder decoder;
  const auto colors = [&](const std::string& name) {
    const std::string bytes = read_file(path("out/" + name));
    decoder.open(bytes, ColorMode::color);
    const Image picture = decoder.whole();
    EXPECT_EQ(picture.width, 7 * 20);
    EXPECT_EQ(picture.height, 7 * 40) << "no lines of text above it";
    std::set<std::array<uint8_t, 3>> found;
    for (int64_t i = 0; i < picture.count(); i += 3)
      found.insert({picture.bytes[i], picture.bytes[i + 1], picture.bytes[i + 2]});
    return found;
  };
  EXPECT_EQ(colors("none.png").size(), 1) << "the picture alone";
  const auto marked = colors("photo.png");
  EXPECT_TRUE(marked.contains({0, 64, 96})) << "the picture";
  EXPECT_TRUE(std::ranges::any_of(marked, [](const auto& color) {
    return std::ranges::min(color) > 180;
  })) << "the words, white with smooth edges";
  EXPECT_GT(marked.size(), 3);
  expect_refusal(detect, {"photo.png' exists already", "--overwrite"});
}

TEST_F(DetectCliTest, WeightsNameTheClassesAndThePreprocessing) {
  NetParameter weights;
  for (const char* name : {"background", "a"}) weights.mutable_origin()->add_class_name(name);
  weights.mutable_origin()->mutable_transform()->set_scale(0.0078125F);
  weights.add_layer()->set_name("other");
  write_binary_proto_atomically(path("w.caffemodel"), weights);
  const std::string both = image("both.ppm", 96, 64);
  const Output output =
      run("detect --weights " + path("w.caffemodel") + " --allow_missing --model " +
          write("net.prototxt", detector(kInput)) + " " + both);
  EXPECT_EQ(output.status, 0) << output.text;
  // The weights say no name of the second class.
  EXPECT_TRUE(output.says(both + " 2 0.7500 5.0 10.0 15.0 30.0 2\n" + both +
                          " 1 0.5000 5.0 10.0 15.0 30.0 a\n"))
      << output.text;
  const Output saved =
      run("detect --save_images " + path("out") + " --weights " + path("w.caffemodel") +
          " --allow_missing --model " + path("net.prototxt") + " " + both);
  EXPECT_EQ(saved.status, 0) << saved.text;
  EXPECT_TRUE(fs::exists(path("out/both.png")));
}

TEST_F(DetectCliTest, BoxesAreOfTheUprightPicture) {
  std::vector<uint16_t> samples;
  for (int i = 0; i < 40 * 20; ++i) samples.insert(samples.end(), {96, 64, 0});
  const std::string turned =
      write("turned.png", png_file(samples, 20, 40, {.exif = crema::test::exif(8)}));
  const Output output =
      run("detect --interp linear --scale 0.0078125 --model " +
          write("net.prototxt", detector(kInput)) + " " + turned + " 2>/dev/null");
  EXPECT_EQ(output.text,
            turned + " 2 0.7500 5.0 10.0 15.0 30.0\n" + turned + " 1 0.5000 5.0 10.0 15.0 30.0\n");
}

TEST_F(DetectCliTest, OneBadImageDoesNotEndAFolder) {
  fs::create_directory(path("photos"));
  image("photos/1.ppm", 96, 64);
  write("photos/2.jpg", "\xff\xd8\xff damaged");
  image("photos/3.ppm", 80, 40);
  const Output output = run("detect --scale 0.0078125 --model " +
                            write("net.prototxt", detector(kInput)) + " " + path("photos"));
  EXPECT_EQ(output.status, 1) << output.text;
  EXPECT_TRUE(output.says("photos/2.jpg': the image")) << output.text;
  EXPECT_TRUE(output.says("1 of 3 images could not be read")) << output.text;
  EXPECT_TRUE(output.says("photos/3.ppm 2 0.6250")) << output.text;
}

/// Pixels that are not what the net was trained with give no boxes.
TEST_F(DetectCliTest, WithoutBoxesItNamesTheFlagsOfThePreprocessing) {
  const std::string none = image("none.ppm", 0, 0);
  const std::string detect = "detect --model " + write("net.prototxt", detector(kInput)) + " " +
                             none + " --confidence_threshold 1 ";
  const auto hint = [&](const std::string& flags) { return run(detect + flags).text; };
  for (const char* part : {"no boxes in 1 image of confidence 1",
                           "--mean and --scale are not given", "mean_value", "--channel_swap=rgb"})
    EXPECT_NE(hint("").find(part), std::string::npos) << part << hint("");
  EXPECT_NE(hint("--mean 1,1,1 --scale 1").find("--scale is not given"), std::string::npos);
  EXPECT_NE(hint("--scale 0.01").find("--mean is not given"), std::string::npos);
  const std::string both = hint("--scale 0.01 --mean 1,1,1");
  EXPECT_EQ(both.find("not given"), std::string::npos) << both;
  for (const char* flag : {"--mean,", "--channel_mean", "--scale", "--channel_swap"})
    EXPECT_NE(both.find(flag), std::string::npos) << flag << both;
}

/// Two boxes an image whose corners and scores are constants; the second is the better one.
std::string raw_detector(const std::string& boxes, const std::string& scores,
                         const std::string& more = {}) {
  const auto constants = [](const std::string& top, const std::string& shape,
                            const std::string& list) {
    std::string prototxt, bottoms;
    int count = 0;
    std::istringstream values(list);
    for (double value = 0; values >> value; ++count) {
      const std::string one = text(top, count);
      prototxt += text("layer { name: '", one, "' type: 'Power' bottom: 'zero' top: '", one,
                       "' power_param { shift: ", value, " } }\n");
      bottoms += text("bottom: '", one, "' ");
    }
    return text(prototxt, "layer { name: '", top, "c' type: 'Concat' ", bottoms, " top: '", top,
                "c' }\nlayer { name: '", top, "' type: 'Reshape' bottom: '", top, "c' top: '", top,
                "' reshape_param { shape { dim: 0 ", shape, " } } }\n");
  };
  return text(kInput, R"(
layer { name: 'mean' type: 'Pooling' bottom: 'data' top: 'mean' pooling_param { pool: AVE global_pooling: true } }
layer { name: 'first' type: 'Slice' bottom: 'mean' top: 'first' top: 'others' slice_param { slice_point: 1 } }
layer { name: 'rest' type: 'Silence' bottom: 'others' }
layer { name: 'zero' type: 'Power' bottom: 'first' top: 'zero' power_param { scale: 0 } }
)",
              constants("loc", "dim: -1 dim: 4", boxes),
              constants("prob", "dim: 2 dim: -1", scores), more);
}

TEST_F(DetectCliTest, NetsThatEndWithBoxesAndScores) {
  const std::string first = image("first.ppm", 1, 2), second = image("second.ppm", 3, 4);
  const auto detect = [&](const std::string& net, const std::string& flags) {
    return run("detect --model " + write("net.prototxt", net) + " --boxes loc --scores prob " +
               flags + " " + first + " " + second + " 2>&1");
  };
  // Images are 20 wide and 40 high. Scores: background, 1, 2.
  const std::string corners = "0.25 0.25 0.75 0.5  0.25 0.25 0.75 0.75";
  const std::string scores = "0.1 0.6 0.3  0.1 0.8 0.1";
  Output output = detect(raw_detector(corners, scores), "");
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(output.text,
            first + " 1 0.8000 5.0 10.0 15.0 30.0\n" + second + " 1 0.8000 5.0 10.0 15.0 30.0\n")
      << "the other one overlaps it by half";
  output = detect(raw_detector(corners, scores), "--nms_threshold 0.6 --batch 1");
  EXPECT_TRUE(output.text.starts_with(first + " 1 0.8000 5.0 10.0 15.0 30.0\n" + first +
                                      " 1 0.6000 5.0 10.0 15.0 20.0\n"))
      << output.text;
  output = detect(raw_detector(corners, scores), "--nms_threshold 0.6 --confidence_threshold 0.3");
  EXPECT_EQ(output.count(" 2 0.3000 5.0 10.0 15.0 20.0\n"), 2) << output.text;
  output =
      detect(raw_detector(corners, scores), "--background_label_id -1 --confidence_threshold 0.05");
  EXPECT_EQ(output.count(" 0 0.1000 "), 2) << output.text;
  // The input has 2 x 2 pixels.
  const std::string pixels = "0.5 0.5 1.5 1  0.5 0.5 1.5 1.5";
  output = detect(raw_detector(pixels, scores), "--box_units pixels");
  EXPECT_TRUE(output.text.starts_with(first + " 1 0.8000 5.0 10.0 15.0 30.0\n")) << output.text;
  // A single class is label 1.
  output = detect(raw_detector(corners, "0.6 0.8"), "--json");
  EXPECT_EQ(output.count("[{\"label\": 1, \"confidence\": 0.8, \"box\": [5, 10, 15, 30]}]"), 2)
      << output.text;
}

TEST_F(DetectCliTest, OffsetsFromPriorBoxes) {
  const std::string photo = image("photo.ppm", 1, 2);
  // Priors of the middle half: CENTER_SIZE moves the centre by offset * 0.1 * 0.5, and keeps sides.
  const std::string two = R"(
layer { name: 'one' type: 'PriorBox' bottom: 'mean' bottom: 'data' top: 'one' prior_box_param { min_size: 1
        variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
layer { name: 'prior' type: 'Concat' bottom: 'one' bottom: 'one' top: 'prior' concat_param { axis: 2 } })";
  const std::string offsets = "0 0 0 0  2 -2 0 0";
  const std::string model = write("net.prototxt", raw_detector(offsets, "0.1 0.9  0.2 0.8", two));
  const std::string detect = "detect --model " + model + " --boxes loc --scores prob ";
  const Output output = run(detect + "--priors prior --nms_threshold 0.9 " + photo);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says(" 1 0.9000 5.0 10.0 15.0 30.0\n")) << output.text;
  EXPECT_TRUE(output.says(" 1 0.8000 7.0 6.0 17.0 26.0\n")) << output.text;
  expect_refusal(detect + photo, {"of 2 boxes of 'loc', 1 have their right edge", "--priors"});
  const std::string three = two + R"(
layer { name: 'three' type: 'Concat' bottom: 'one' bottom: 'prior' top: 'three' concat_param { axis: 2 } })";
  expect_refusal("detect --boxes loc --scores prob --priors three --model " +
                     write("three.prototxt", raw_detector(offsets, "0.1 0.9  0.2 0.8", three)) +
                     " " + photo,
                 {"--priors=three", "3 prior boxes", "2 boxes"});
  expect_refusal(detect + "--priors prior --box_units pixels " + photo,
                 {"--box_units", "--priors"});
}

TEST_F(DetectCliTest, RefusesBoxesAndScoresThatDoNotFit) {
  const std::string photo = image("photo.ppm", 1, 2), other = image("other.ppm", 3, 4);
  const std::string corners = "0.25 0.25 0.75 0.5  0.25 0.25 0.75 0.75";
  const std::string net = write("net.prototxt", raw_detector(corners, "0.1 0.9  0.2 0.8"));
  const auto refuses = [&](const std::string& flags, std::initializer_list<std::string> parts) {
    expect_refusal("detect --model " + net + " " + flags + " " + photo, parts);
  };
  refuses("", {"0 are detections", "--boxes and --scores"});
  refuses("--boxes loc", {"--scores=BLOB"});
  refuses("--scores prob", {"--scores", "--boxes"});
  refuses("--nms_threshold 0.3", {"--nms_threshold", "--boxes"});
  refuses("--boxes lox --scores prob", {"lox"});
  refuses("--boxes prob --scores loc", {"--boxes=prob", "N x P x 4"});
  refuses("--boxes data --scores prob", {"--boxes=data", "Permute"});
  refuses("--boxes loc --scores prob --nms_threshold 2", {"--nms_threshold 2"});
  refuses("--boxes loc --scores prob --box_units metres", {"metres", "pixels"});
  refuses("--boxes loc --scores prob --background_label_id 2",
          {"--background_label_id 2", "2 classes"});
  const std::string logits = write("logits.prototxt", raw_detector(corners, "-1 3  0.2 0.8"));
  expect_refusal("detect --model " + logits + " --boxes loc --scores prob " + photo,
                 {"'prob' has -1", "Softmax"});
  std::string fixed = raw_detector(corners, "0.1 0.9  0.2 0.8");
  for (size_t at = 0; (at = fixed.find("dim: 0 dim: -1 dim: 4", at)) != std::string::npos; ++at)
    fixed.replace(at, 21, "dim: 1 dim: -1 dim: 4");
  expect_refusal("detect --boxes loc --scores prob --model " + write("fixed.prototxt", fixed) +
                     " " + photo + " " + other,
                 {"'loc' (1x4x4)", "2 images", "--batch=1"});
}

/// They are those of a test set.
TEST_F(DetectCliTest, ItWritesNoFilesOfDetections) {
  const std::string photo = image("photo.ppm", 96, 64);
  const std::string map =
      write("map.prototxt", "item { name: 'a' label: 1 } item { name: 'b' label: 2 }");
  const std::string net =
      detector(kInput, "save_output_param { output_directory: '" + path("out") +
                           "' output_format: 'VOC' label_map_file: '" + map +
                           "' name_size_file: '" + write("sizes.txt", "other 40 20\n") + "' }");
  const Output output =
      run("detect --scale 0.0078125 --model " + write("net.prototxt", net) + " " + photo);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says(photo + " 2 0.7500 5.0 10.0 15.0 30.0\n")) << output.text;
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(DetectCliTest, RefusesNetsWithoutDetections) {
  const std::string photo = image("photo.ppm", 1, 2);
  const std::string classes = write("classes.prototxt", R"(
input: "data" input_dim: 1 input_dim: 3 input_dim: 2 input_dim: 2
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } })");
  expect_refusal("detect --model " + classes + " " + photo,
                 {"outputs mean", "0 are detections", "`crema classify`"});
  const std::string net = write("net.prototxt", detector(kInput));
  expect_refusal("classify --model " + net + " " + photo, {"scores 'out'", "`crema detect`"});
  expect_refusal("detect --model " + net, {"detect needs images"});
  for (const char* mean : {"", "--mean 1,2,3 "}) {
    expect_refusal(text("detect --model ", net, " --channel_mean ", mean, photo),
                   {"--channel_mean has no effect without a mean image", "--mean=FILE"});
  }
  for (const char* percent : {"50", "nan"})
    expect_refusal(text("detect --confidence_threshold ", percent, " --model ", net, " ", photo),
                   {"--confidence_threshold", percent, "[0, 1]"});
}

TEST_F(DetectCliTest, TestSaysWhichImagesCountTwiceAndWhichAreNotWritten) {
  std::string list, sizes;
  for (int i = 0; i < 3; ++i) {
    image(text(i, ".ppm"), 96, 64);
    write(text(i, ".txt"), "1 5 10 15 30\n");
    list += text(i, ".ppm ", i, ".txt\n");
    sizes += text(i, " 40 20\n");
  }
  const std::string map = write("map.prototxt",
                                "item { name: 'bg' label: 0 } item { name: 'a' label: 1 } "
                                "item { name: 'b' label: 2 }");
  ASSERT_EQ(run("convert-annotations --label_type=txt --label_map_file=" + map + " " + path("") +
                " " + write("list.txt", list) + " " + path("db"))
                .status,
            0);
  const std::string net = detector(
      "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" +
          path("db") +
          "' batch_size: 1 backend: LMDB } transform_param { scale: 0.0078125 resize_param { "
          "height: 2 width: 2 } } annotated_data_param { label_map_file: '" +
          map + "' } }",
      "save_output_param { output_directory: '" + path("out") +
          "' output_format: 'ILSVRC' output_name_prefix: 'all' label_map_file: '" + map +
          "' name_size_file: '" + write("sizes.txt", sizes) + "' }");
  const std::string test =
      "test --per_class --model " +
      write("test.prototxt",
            net +
                "layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'out' bottom: 'label' "
                "top: 'eval' detection_evaluate_param { num_classes: 3 } }") +
      " --iterations ";
  const Output part = run(test + "2");
  EXPECT_TRUE(part.says("layer 'out': the detections of 2 images are not written to")) << part.text;
  EXPECT_FALSE(std::filesystem::exists(path("out/all.txt")) &&
               std::filesystem::file_size(path("out/all.txt")) > 0);
  const Output whole = run(test + "6");
  EXPECT_FALSE(whole.says("not written") || whole.says("more often")) << whole.text;
  EXPECT_TRUE(whole.says("class1: 1 (a)\n")) << whole.text;
  EXPECT_GT(std::filesystem::file_size(path("out/all.txt")), 0U);
  const Output more = run(test + "4");
  EXPECT_TRUE(
      more.says("layer 'data' has 3 records, and --iterations=4 takes 4: some count more "
                "often than others; --iterations=3 takes each once"))
      << more.text;
}

/// In training as in tests: sizes and names would be those of other images.
TEST_F(DetectCliTest, NameSizeFilesOfAnotherSetAreErrors) {
  std::string list;
  for (const char* name : {"x", "y", "z"}) {
    image(text(name, ".ppm"), 96, 64);
    write(text(name, ".txt"), "1 5 10 15 30\n");
    list += text(name, ".ppm ", name, ".txt\n");
  }
  const std::string map =
      write("map.prototxt", "item { name: 'a' label: 1 } item { name: 'b' label: 2 }");
  ASSERT_EQ(run("convert-annotations --label_type=txt --name_size_file=" + path("own.txt") + " " +
                path("") + " " + write("list.txt", list) + " " + path("db"))
                .status,
            0);
  const auto test_net = [&](const std::string& sizes, const std::string& more,
                            const std::string& data) {
    return detector(
               "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param { "
               "source: '" +
                   path("db") + "' batch_size: 1 backend: LMDB " + data +
                   " } transform_param { scale: 0.0078125 resize_param { height: 2 width: 2 } } }",
               "save_output_param { output_directory: '" + path("out") +
                   "' output_format: 'COCO' label_map_file: '" + map + "' name_size_file: '" +
                   sizes + "' " + more + " }") +
           "layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'out' bottom: 'label' top: "
           "'eval' "
           "detection_evaluate_param { num_classes: 3 name_size_file: '" +
           path("own.txt") + "' } }";
  };
  const std::string train = write("train.prototxt", R"(
layer { name: "x" type: "DummyData" top: "x" dummy_data_param { shape { dim: 1 dim: 1 } data_filler { type: "constant" value: 1 } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 1 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "x" top: "loss" })");
  const auto both = [&](const std::string& net, const auto& check) {
    const std::string test = write("test.prototxt", net);
    check(run("test --iterations 3 --model " + test));
    check(
        run("train --solver " +
            write("solver.prototxt", "train_net: '" + train + "' test_net: '" + test +
                                         "' test_iter: 3 test_interval: 1 max_iter: 1 base_lr: 0.1 "
                                         "lr_policy: 'fixed' snapshot_after_train: false "
                                         "eval_type: 'detection' solver_mode: CPU")));
  };
  const auto refuses = [&](const std::string& sizes, std::initializer_list<std::string> parts,
                           const std::string& more = "", const std::string& data = "") {
    SCOPED_TRACE(sizes + more + data);
    both(test_net(write("sizes.txt", sizes), more, data), [&](const Output& output) {
      EXPECT_EQ(output.status, 1) << output.text;
      for (const std::string& part : parts) EXPECT_TRUE(output.says(part)) << part << output.text;
    });
  };
  both(test_net(path("own.txt"), "", ""),
       [](const Output& output) { EXPECT_EQ(output.status, 0) << output.text; });
  EXPECT_TRUE(std::filesystem::exists(path("out/detections.json")));
  // The names may be ids of a COCO data set (tests/solver/named_sizes_test.cpp).
  both(test_net(write("ids.txt", "7 40 20\n9 40 20\n12 40 20\n"), "", ""),
       [](const Output& output) { EXPECT_EQ(output.status, 0) << output.text; });
  refuses("x 40 20\ny 40 20\n",
          {"sizes.txt' is of another set", "lists 2", "'data' reads 3", "layer 'out'"});
  refuses("x 40 20\ny 40 20\nz 40 20\nw 40 20\n", {"lists 4", "'data' reads 3"});
  refuses("x 40 20\nz 40 20\ny 40 20\n", {"image 2 is 'z' there", "'y'", "00000001_y.ppm"});
  refuses("q 40 20\nr 40 20\ns 40 20\n", {"image 1 is 'q' there", "'x'"});
  refuses("x 40 20\ny 40 20\nz 40 20\nw 40 20\n", {"has 4 (num_test_image)", "reads 3"},
          "num_test_image: 4");
  both(test_net(write("more.txt", "x 40 20\ny 40 20\nz 40 20\nw 40 20\n"), "num_test_image: 3", ""),
       [](const Output& output) { EXPECT_EQ(output.status, 0) << output.text; });
  refuses("x 40 20\ny 40 20\nz 40 20\n", {"in another one", "remove shuffle"}, "", "shuffle: true");
}

/// Each batch has as many of foreground and background as it asks for.
TEST_F(DetectCliTest, WindowsThatAreDrawnAreNoRepeats) {
  const std::string windows =
      "# 0\n" + image("photo.ppm", 9, 9) + "\n3 40 20\n2\n1 0.9 2 2 10 10\n0 0.1 0 0 12 12\n";
  const Output output = run("test --iterations 1 --model " +
                            write("net.prototxt",
                                  "layer { name: 'w' type: 'WindowData' top: 'x' top: 'label' "
                                  "transform_param { crop_size: 4 } window_data_param { source: '" +
                                      write("windows.txt", windows) + "' batch_size: 3 } }"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_FALSE(output.says("more often")) << output.text;
}

TEST_F(DetectCliTest, FilesWithoutAFolderAreAWarning) {
  const Output output =
      run("test --model " +
          write("net.prototxt", detector(kInput, "save_output_param { output_format: 'VOC' }")));
  EXPECT_TRUE(output.says("no output_directory")) << output.text;
}

/// The mean of a place in them would say nothing.
TEST_F(DetectCliTest, TestShowsRowsThatDifferInNumberTogether) {
  const std::string net = detector(
      "layer { name: 'data' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: 1 dim: 3 "
      "dim: 2 dim: 2 } data_filler { type: 'constant' value: 0.75 } } }");
  const Output output = run("test --iterations 2 --model " + write("net.prototxt", net));
  EXPECT_TRUE(output.says("Batch 1, out (1x1x2x7): ")) << output.text;
  EXPECT_FALSE(output.says("out = ")) << output.text;
}

/// The commands of models/ssd_shapes/README.md, in another folder and with a short training.
TEST_F(DetectCliTest, TheSmallDetectorRunsFromItsImagesToItsDetections) {
  const auto source = [](const std::string& name) { return source_path(name).string(); };
  if (run("-c 'import random; random.randbytes'", "python3").status != 0)
    GTEST_SKIP() << "needs Python 3.9";
  const std::string full = path("full") + "/";
  const auto moved = [&](const std::string& name) {
    std::string text = read_file(source("models/ssd_shapes/" + name));
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"data/shapes/full/", full},
                                   {"data/shapes/full", path("full")},
                                   {"models/ssd_shapes/", path("")},
                                   {"max_iter: 3000", "max_iter: 2"}}) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    }
    return write(name, text);
  };
  const std::string convert =
      "convert-annotations --label_type=yolo --class_names=" + full + "names.txt ";
  Output output = run(source("data/shapes/make.py") + " " + path("full"), "python3");
  ASSERT_EQ(output.status, 0) << output.text;
  output = run(convert + full + " " + full + "train.txt " + full + "train_lmdb");
  EXPECT_TRUE(output.says("1000 records written")) << output.text;
  output =
      run(convert + "--name_size_file=" + full + "test_name_size.txt --write_label_map=" + full +
          "labelmap.prototxt " + full + " " + full + "test.txt " + full + "test_lmdb");
  EXPECT_EQ(output.status, 0) << output.text;
  output = run("verify-db --label_map_file=" + full + "labelmap.prototxt " + full + "train_lmdb");
  EXPECT_TRUE(output.says("(triangle)") && output.status == 0) << output.text;
  moved("train_val.prototxt");
  output = run("train --solver " + moved("solver.prototxt"));
  EXPECT_TRUE(output.says("Test net output #0: mAP = ") && output.status == 0) << output.text;
  EXPECT_TRUE(std::filesystem::exists(full + "detections/disc.txt"));
  output = run("detect --confidence_threshold 0 --weights " + path("ssd_shapes_iter_2.caffemodel") +
               " --mean 128,128,128 --scale 0.0078125 --label_map_file " + full +
               "labelmap.prototxt --model " + moved("deploy.prototxt") + " " + full +
               "images/test0000.ppm");
  EXPECT_TRUE(output.says("test0000.ppm 1 ") && output.says(" rectangle\n")) << output.text;
}

}  // namespace
