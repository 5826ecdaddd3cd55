// crema classify and draw, as a user runs them.
#include <unistd.h>

#include <algorithm>

#include "data/images/image_decoder.hpp"
#include "model/binary_format.hpp"
#include "proto/blob.pb.h"
#include "proto/net.pb.h"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;
using namespace crema;
using namespace crema::test;

class ClassifyCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }

  /// Its scores are the means of the channels of 2 x 2 pixels.
  std::string mean_net() const {
    return write("deploy.prototxt", R"(name: "means"
input: "data" input_dim: 1 input_dim: 3 input_dim: 2 input_dim: 2
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } })");
  }
  /// Pixels of a whole image in one colour.
  std::string image(const std::string& name, int side, char red, char green, char blue) const {
    std::string pixels;
    for (int i = 0; i < side * side; ++i) pixels += {red, green, blue};
    return write(name, ppm(side, side, pixels));
  }
};

TEST_F(ClassifyCliTest, NamesTheBestClasses) {
  const std::string classify = "classify --model " + mean_net() + " ";
  const std::string photo = image("photo.ppm", 2, 30, 20, 10);
  const std::string labels = write("labels.txt", "n01 blue\nn02 green\nn03 red\n");
  const Output plain = run(classify + photo);
  EXPECT_EQ(plain.status, 0) << plain.text;
  EXPECT_TRUE(plain.says("---------- Prediction for " + photo +
                         " ----------\n30.0000 - \"2\"\n20.0000 - \"1\"\n10.0000 - \"0\"\n"))
      << plain.text;
  const Output named = run(classify + "--top 1 --labels " + labels + " " + photo);
  EXPECT_TRUE(named.says("30.0000 - \"n03 red\"\n")) << named.text;
  EXPECT_FALSE(named.says("green")) << named.text;
  const Output json = run(classify + "--top 2 --json --labels " + labels + " " + photo);
  EXPECT_TRUE(json.says(R"("predictions": [{"class": 2, "label": "n03 red", "score": 30}, )"
                        R"({"class": 1, "label": "n02 green", "score": 20}]})"))
      << json.text;
}

TEST_F(ClassifyCliTest, SavesImagesWithTheNames) {
  fs::create_directory(path("more"));
  const std::string photo = image("photo.ppm", 8, 90, 20, 10);
  const std::string same_name = image("more/photo.ppm", 300, 90, 20, 10);
  const std::string saved = path("out/saved");
  const std::string classify = "classify --model " + mean_net() + " --top 2 ";
  const std::string images = photo + " " + same_name;
  EXPECT_EQ(run(classify + "--save_images " + saved + " " + images).status, 0);
  const auto decoded = [](const std::string& file, ImageDecoder& decoder, std::string& bytes) {
    bytes = read_file(file);
    decoder.open(bytes, ColorMode::color);
    return decoder.whole();
  };
  ImageDecoder decoder;
  std::string bytes;
  const Image small = decoded(saved + "/photo.png", decoder, bytes);
  EXPECT_EQ(small.width, 256) << "enlarged by 32";
  EXPECT_GT(small.height, 256) << "with lines of text above it";
  const int64_t last = small.count() - 3;
  EXPECT_EQ(small.bytes[last], 10);
  EXPECT_EQ(small.bytes[last + 2], 90);
  EXPECT_GT(std::count_if(small.bytes, small.bytes + 3 * 256 * (small.height - 256),
                          [](uint8_t value) { return value > 200; }),
            100)
      << "the text";
  const Image large = decoded(saved + "/photo_2.png", decoder, bytes);
  EXPECT_EQ(large.width, 300) << "as it is";
  EXPECT_EQ(std::distance(fs::directory_iterator(saved), fs::directory_iterator()), 2);

  expect_refusal(classify + "--save_images " + saved + " " + images,
                 {"photo.png' exists already", "--overwrite"});
  EXPECT_EQ(run(classify + "--overwrite --save_images " + saved + " " + images).status, 0);
  expect_refusal(classify + "--overwrite " + images, {"--save_images=FOLDER"});
  expect_refusal(classify + "--save_images " + photo + " " + images, {"cannot be made"});
  // The folder of the images themselves.
  const std::string png = path("out/saved/photo.png");
  expect_refusal(classify + "--overwrite --save_images " + saved + " " + png,
                 {"given twice", "another name"});
}

TEST_F(ClassifyCliTest, ScoresThatAreNoNumbersAreAnError) {
  const std::string net = write("log.prototxt", R"(name: "log"
input: "data" input_dim: 1 input_dim: 3 input_dim: 2 input_dim: 2
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "log" type: "Log" bottom: "mean" top: "scores" log_param { shift: -5 } })");
  const std::string good = image("good.ppm", 2, 30, 20, 10), bad = image("bad.ppm", 2, 30, 1, 10);
  EXPECT_EQ(run("classify --model " + net + " " + good).status, 0);
  for (const char* json : {"", "--json "})
    expect_refusal(text("classify ", json, "--model ", net, " ", bad),
                   {"bad.ppm'", "'scores'", "NaN"});
}

TEST_F(ClassifyCliTest, WeightsThatLackALayerAreAnError) {
  const std::string net = write("net.prototxt", R"(name: "net"
input: "data" input_dim: 1 input_dim: 3 input_dim: 2 input_dim: 2
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 2 } }
layer { name: "scores" type: "InnerProduct" bottom: "fc" top: "scores" inner_product_param { num_output: 2 } })");
  NetParameter weights;
  for (const auto& [name, inputs] : {std::pair{"fc", 12}, std::pair{"scores_old", 2}}) {
    LayerParameter& layer = *weights.add_layer();
    layer.set_name(name);
    layer.set_type("InnerProduct");
    BlobProto& weight = *layer.add_blobs();
    for (const int dim : {2, inputs}) weight.mutable_shape()->add_dim(dim);
    for (int i = 0; i < 2 * inputs; ++i) weight.add_data(1);
    BlobProto& bias = *layer.add_blobs();
    bias.mutable_shape()->add_dim(2);
    for (int i = 0; i < 2; ++i) bias.add_data(0);
  }
  const std::string file = path("w.caffemodel");
  write_binary_proto_atomically(file, weights);
  const std::string arguments =
      text(" --model ", net, " --weights ", file, " ", image("photo.ppm", 2, 30, 20, 10));
  expect_refusal("classify" + arguments, {file, "no weights for layer scores;", "scores_old"});
  const Output allowed = run("classify --allow_missing" + arguments);
  EXPECT_EQ(allowed.status, 0) << allowed.text;
  EXPECT_TRUE(allowed.says("they keep the values of their fillers")) << allowed.text;
}

TEST_F(ClassifyCliTest, MeanScaleAndChannels) {
  const std::string classify =
      "classify --model " + mean_net() + " " + image("photo.ppm", 2, 30, 20, 10) + " ";
  EXPECT_TRUE(run(classify + "--mean 1,2,3 --scale 0.5")
                  .says("13.5000 - \"2\"\n9.0000 - \"1\"\n4.5000 - \"0\"\n"));
  EXPECT_TRUE(run(classify + "--channel_swap rgb").says("30.0000 - \"0\"\n20.0000 - \"1\"\n"));
  EXPECT_TRUE(run(classify + "--channel_swap 1,0,2").says("30.0000 - \"1\"\n20.0000 - \"0\"\n"));
  expect_refusal(classify + "--channel_swap 1,0", {"--channel_swap=1,0"});
  expect_refusal(classify + "--mean 1,2", {"2 mean_value for 3 channels"});
  expect_refusal(classify + "--crop some", {"--crop=some"});
  expect_refusal(classify + "--top 0", {"--top 0"});
}

// 4 x 4 pixels whose corners of 2 x 2 differ; the centre is 2 x 2, too.
TEST_F(ClassifyCliTest, CropsAreThoseOfThePublishedOversampling) {
  std::string pixels;
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) {
      const bool center = (x == 1 || x == 2) && (y == 1 || y == 2);
      const char corners[] = {10, 22, 30, 42};
      const char value = center ? 90 : corners[x / 2 + 2 * (y / 2)];
      pixels += {value, 0, 0};
    }
  }
  const std::string classify = "classify --top 1 --model " + mean_net() + " " +
                               write("corners.ppm", ppm(4, 4, pixels)) + " ";
  // All: the sum of 4 * 90 and 3 * (10 + 22 + 30 + 42), over 16.
  EXPECT_TRUE(run(classify).says("42.0000 - \"2\"")) << run(classify).text;
  EXPECT_TRUE(run(classify + "--crop center").says("90.0000 - \"2\""));
  EXPECT_TRUE(run(classify + "--resize 4x4").says("90.0000 - \"2\"")) << "a larger size: center";
  // The mean of the corners, (90 + 3 v) / 4 each, and of the centre; mirroring changes no mean.
  EXPECT_TRUE(run(classify + "--crop ten").says("51.6000 - \"2\"")) << run(classify).text;
  expect_refusal(classify + "--crop ten --resize 1x1", {"corners.ppm", "crop"});
  // It had no effect, and nothing said so.
  expect_refusal(classify + "--crop whole --resize 4x4",
                 {"--resize=4x4 has no effect", "--crop=whole", "input of 2x2", "--crop=center"});
  expect_refusal(classify + "--resize 1x2", {"--resize=1x2 has no effect", "not larger", "2x2"});
  EXPECT_TRUE(run(classify + "--crop whole --resize 2x2").says("42.0000 - \"2\""));
}

// Of 8 pixels, bilinear interpolation reads the two beside the centre of a new one.
TEST_F(ClassifyCliTest, ThePublishedFormResizesWithoutAveraging) {
  std::string pixels;
  for (int i = 0; i < 64; ++i) {
    const bool read = i % 8 % 4 == 1 || i % 8 % 4 == 2;
    pixels += {static_cast<char>(read ? 80 : 0), 0, 0};
  }
  const std::string photo = write("columns.ppm", ppm(8, 8, pixels));
  BlobProto mean;
  mean.set_num(1);
  mean.set_channels(3);
  mean.set_height(1);
  mean.set_width(1);
  for (int c = 0; c < 3; ++c) mean.add_data(0);
  const std::string zeros = write("mean.binaryproto", mean.SerializeAsString());
  const std::string labels = write("labels.txt", "blue\ngreen\nred\n");
  NetParameter weights;
  weights.set_name("means");
  write_binary_proto_atomically(path("w.caffemodel"), weights);
  const Output published = run("classification.bin " + mean_net() + " " + path("w.caffemodel") +
                               " " + zeros + " " + labels + " " + photo);
  EXPECT_TRUE(published.says("80.0000 - \"red\"")) << published.text;
  const Output ours = run("classify --model " + mean_net() + " " + photo);
  EXPECT_TRUE(ours.says("40.0000 - \"2\"")) << ours.text;
}

TEST_F(ClassifyCliTest, InputsThatAreNotSquare) {
  const std::string model = write("wide.prototxt", R"(name: "wide"
input: "data" input_dim: 1 input_dim: 1 input_dim: 2 input_dim: 4
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } })");
  std::string pixels;
  for (const char row : {10, 20, 40, 100}) pixels += std::string(6, row);
  const Output output =
      run("classify --crop center --model " + model + " " + write("rows.pgm", pgm(4, 6, pixels)));
  EXPECT_TRUE(output.says("30.0000 - \"0\"")) << output.text;  // rows 1 and 2
}

TEST_F(ClassifyCliTest, MeanImagesOfAnySize) {
  BlobProto mean;
  mean.set_num(1);
  mean.set_channels(3);
  mean.set_height(4);
  mean.set_width(4);
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 16; ++i) {
      const bool center = i == 5 || i == 6 || i == 9 || i == 10;
      mean.add_data(center ? 1.0F : 5.0F);
    }
  }
  write_binary_proto_atomically(path("mean.binaryproto"), mean);
  const std::string photo = image("photo.ppm", 8, 30, 20, 10);
  const std::string classify = "classify --top 1 --model " + mean_net() + " --mean " +
                               path("mean.binaryproto") + " " + photo + " ";
  // The image becomes as large as the mean, and its centre loses the mean's centre.
  EXPECT_TRUE(run(classify).says("29.0000 - \"2\"")) << run(classify).text;
  EXPECT_TRUE(run(classify + "--channel_mean").says("26.0000 - \"2\""));
  expect_refusal(classify + "--crop whole", {"mean_file", "3x4x4", "3x2x2"});
  // The published form takes the means of the channels.
  const fs::path link = fs::path(CREMA_TOOL).parent_path() / "classification.bin";
  const std::string labels = write("labels.txt", "b\ng\nr\n");
  write("none.caffemodel", "");
  const std::string model = write("weighed.prototxt", R"(name: "means"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }
layer { name: "mean" type: "Pooling" bottom: "data" top: "mean" pooling_param { pool: AVE global_pooling: true } }
layer { name: "scale" type: "Scale" bottom: "mean" top: "scale" })");
  NetParameter weights;
  LayerParameter* layer = weights.add_layer();
  layer->set_name("scale");
  BlobProto* blob = layer->add_blobs();
  blob->mutable_shape()->add_dim(3);
  for (int c = 0; c < 3; ++c) blob->add_data(2);
  write_binary_proto_atomically(path("w.caffemodel"), weights);
  const Output published = run(model + " " + path("w.caffemodel") + " " + path("mean.binaryproto") +
                                   " " + labels + " " + photo,
                               link.string());
  EXPECT_EQ(published.status, 0) << published.text;
  EXPECT_TRUE(published.says("---------- Prediction for " + photo +
                             " ----------\n52.0000 - \"r\"\n"
                             "32.0000 - \"g\"\n12.0000 - \"b\"\n"))
      << published.text;
  expect_refusal("classify --model " + model + " " + photo, {"--weights is missing"});
}

TEST_F(ClassifyCliTest, FoldersListsAndBatches) {
  fs::create_directory(path("photos"));
  for (int i = 0; i < 5; ++i) {
    const std::string name = "photos/" + std::to_string(i) + ".ppm";
    image(name, 3, static_cast<char>(10 * i + 10), 0, 0);
  }
  write("photos/notes.txt", "no image");
  const std::string classify = "classify --top 1 --batch 2 --model " + mean_net() + " ";
  const Output folder = run(classify + path("photos"));
  EXPECT_EQ(folder.status, 0) << folder.text;
  EXPECT_EQ(folder.count("Prediction for"), 5) << folder.text;
  size_t last = 0;
  for (const char* score : {"10.0000", "20.0000", "30.0000", "40.0000", "50.0000"}) {
    const size_t at = folder.text.find(score, last);
    ASSERT_NE(at, std::string::npos) << score << " is missing or out of order in " << folder.text;
    last = at;
  }
  const std::string list =
      write("list.txt", path("photos/1.ppm") + "\n\n" + path("photos/3.ppm") + "\n");
  EXPECT_EQ(run(classify + "--list " + list).count("Prediction for"), 2);
  write("photos/2.ppm", "P6 damaged");
  // One bad image ends neither a folder nor a list nor several files.
  const std::string all =
      write("all.txt", path("photos/1.ppm") + "\n" + path("photos/2.ppm") + "\n");
  for (const auto& [images, good] : std::vector<std::pair<std::string, int>>{
           {path("photos"), 4}, {"--list " + all, 1}, {"--skip_bad " + path("photos"), 4}}) {
    const Output skipped = run(classify + images);
    EXPECT_EQ(skipped.status, 1) << "not all images were read";
    EXPECT_EQ(skipped.count("Prediction for"), good) << skipped.text;
    EXPECT_TRUE(skipped.says("photos/2.ppm': the image cannot be decoded")) << skipped.text;
    EXPECT_TRUE(skipped.says(text("1 of ", good + 1, " images could not be read"))) << skipped.text;
  }
  expect_refusal(classify + path("photos/2.ppm"), {"photos/2.ppm", "cannot be decoded"});
  expect_refusal(classify + "--noskip_bad " + path("photos"),
                 {"photos/2.ppm", "cannot be decoded"});
  for (const char* command : {"help classify", "help detect"}) {
    const Output help = run(command);
    EXPECT_TRUE(help.says("--noskip_bad stops there")) << help.text;
    EXPECT_TRUE(help.says("cannot be read. Default: if there")) << help.text;
  }
}

// The published preprocessing of detectors and classifiers; averages are the default.
TEST_F(ClassifyCliTest, InterpNamesHowImagesAreResized) {
  // Of columns of 10 and 250, bilinear takes those nearest to the centres of the new pixels.
  std::string pixels;
  for (int i = 0; i < 8 * 8; ++i) pixels += std::string(3, i % 8 % 4 == 1 ? '\xfa' : '\x0a');
  const std::string photo = write("columns.ppm", ppm(8, 8, pixels));
  const std::string classify = "classify --top 1 --model " + mean_net() + " " + photo;
  EXPECT_TRUE(run(classify).says("70.0000")) << run(classify).text;
  for (const auto& [mode, score] : std::vector<std::pair<std::string, std::string>>{
           {"linear", "130.0000"}, {"area", "70.0000"}, {"NEAREST", "10.0000"}}) {
    const Output output = run(classify + " --interp " + mode);
    EXPECT_TRUE(output.says(score)) << mode << ": " << output.text;
  }
  expect_refusal(classify + " --interp sharp", {"--interp=sharp", "linear, area, nearest"});
}

TEST_F(ClassifyCliTest, MistakesAreExplained) {
  const std::string photo = image("photo.ppm", 2, 30, 20, 10);
  const std::string classify = "classify --model " + mean_net() + " ";
  expect_refusal("classify " + photo, {"--model is missing", "DEPLOY WEIGHTS MEAN LABELS IMAGE"});
  expect_refusal(classify, {"needs images"});
  for (const char* command : {"classify", "detect"}) {
    expect_refusal(text(command, " --strict --allow_missing --model ", mean_net(), " ", photo),
                   {"--strict and --allow_missing exclude each other"});
  }
  for (const char* mean : {"", "--mean 1,2,3 "}) {
    expect_refusal(text(classify, "--channel_mean ", mean, photo),
                   {"--channel_mean has no effect without a mean image", "--mean=FILE"});
  }
  expect_refusal(classify + path("none.jpg"), {"none.jpg"});
  expect_refusal(classify + "--labels " + write("two.txt", "a\nb\n") + " " + photo,
                 {"2 lines", "3 classes"});
  expect_refusal(classify + "--labels " + path("") + " " + photo,
                 {"cannot read the list '" + path("") + "'", "the names of classes, one a line"});
  const std::string wide(
      "\xFF\xFE"
      "a\0\n\0b\0\n\0c\0\n\0",
      14);
  expect_refusal(classify + "--labels " + write("wide.txt", wide) + " " + photo,
                 {"wide.txt' is ", "save it as UTF-8"});
  const Output marked = run(classify + "--labels " +
                            write("marked.txt",
                                  "\xEF\xBB\xBF"
                                  "b\r\n\r\nr\r\n") +
                            " " + photo);
  EXPECT_EQ(marked.status, 0) << marked.text;
  for (const char* name : {"- \"b\"\n", "- \"\"\n", "- \"r\"\n"})
    EXPECT_TRUE(marked.says(name)) << marked.text;
  fs::create_directory(path("empty"));
  expect_refusal(classify + path("empty"), {"has no image files"});
  const std::string two = write("two.prototxt", R"(
layer { name: "x" type: "Input" top: "x" top: "y" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "sum" type: "Eltwise" bottom: "x" bottom: "y" top: "sum" })");
  expect_refusal("classify --model " + two + " " + photo, {"2 inputs"});
  const std::string map = write("map.prototxt", R"(
input: "data" input_dim: 1 input_dim: 3 input_dim: 2 input_dim: 2
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" })");
  expect_refusal("classify --model " + map + " " + photo, {"'relu' are of 1x3x2x2"});
}

}  // namespace
