// crema new: the files of a net for images of one's own, from which the next commands train it.
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "crema/random.hpp"
#include "proto/net.pb.h"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;

using namespace crema;
using namespace crema::test;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class NewCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }
  /// In the folder of the test, as a user would.
  Output in_folder(const std::string& arguments) const {
    return run(arguments, "cd '" + path("") + "' && " CREMA_TOOL);
  }
  void refuses(const std::string& arguments, std::initializer_list<std::string> parts) const {
    const Output output = in_folder(arguments);
    EXPECT_EQ(output.status, 1) << arguments << "\n" << output.text;
    for (const std::string& part : parts)
      EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
    EXPECT_FALSE(fs::exists(path("refused"))) << arguments;
  }
  /// The last line that crema new prints, with some of its words replaced.
  static std::string last_command(const Output& made, const std::string& from,
                                  const std::string& to) {
    std::string command = made.text.substr(made.text.rfind("\n  crema ") + 9);
    command.pop_back();
    return command.replace(command.find(from), from.size(), to);
  }
  /// The digits that ship, as photos/7/00000000.png and so on.
  void export_digits(int count) const {
    const fs::path mini = source_path("data/mnist/mini");
    ASSERT_EQ(in_folder("convert-mnist " + (mini / "t10k-images-idx3-ubyte.gz").string() + " " +
                        (mini / "t10k-labels-idx1-ubyte.gz").string() + " mini_lmdb")
                  .status,
              0);
    ASSERT_EQ(in_folder(text("db export mini_lmdb exported 0:", count)).status, 0);
    std::istringstream list(read(path("exported/list.txt")));
    std::string file, label;
    while (list >> file >> label) {
      fs::create_directories(path("photos/" + label));
      fs::rename(path("exported/" + file), path("photos/" + label + "/" + file));
    }
  }
  /// Shortens the training.
  void set_iterations(const std::string& net, int iterations) const {
    const std::string file = path(net + "/solver.prototxt");
    std::string solver = read(file);
    for (const char* field : {"max_iter: ", "test_interval: ", "snapshot: "}) {
      const size_t at = solver.find(std::string("\n") + field) + 1;
      solver.replace(at, solver.find('\n', at) - at, text(field, iterations));
    }
    std::ofstream(file) << solver << "random_seed: 5\n";
  }
  /// The last value of an output that the log says.
  static double last_value(const Output& output, const std::string& name) {
    const size_t at = output.text.rfind(name + " = ");
    return at == std::string::npos ? -1 : std::stod(output.text.substr(at + name.size() + 3));
  }
};

TEST_F(NewCliTest, ClassesOfImagesTrainAtOnce) {
  export_digits(300);
  const Output made = in_folder("new my_net --images photos --seed 3");
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("10 classes (0, 1, ...)")) << made.text;
  EXPECT_TRUE(made.says("net: lenet at 28x28: the images are gray and small (28 pixels)"))
      << made.text;
  EXPECT_TRUE(made.says("  crema train --solver my_net/solver.prototxt\n")) << made.text;
  EXPECT_EQ(read(path("my_net/classes.txt")).substr(0, 4), "0\n1\n");
  const std::string net = read(path("my_net/train_val.prototxt"));
  EXPECT_NE(net.find("# Made by: crema new my_net --images photos --seed 3\nname: \"my_net\""),
            std::string::npos)
      << net;
  // The same seed, the same division; no image is on both sides.
  const std::string train = read(path("my_net/train.txt")), tests = read(path("my_net/val.txt"));
  ASSERT_EQ(in_folder("new again --images photos --seed 3").status, 0);
  EXPECT_EQ(read(path("again/train.txt")), train);
  std::istringstream lines(tests);
  int tested = 0;
  for (std::string line; std::getline(lines, line); ++tested)
    EXPECT_EQ(train.find(line + "\n"), std::string::npos) << line;
  EXPECT_GT(tested, 45);
  EXPECT_LE(tested, 60);

  set_iterations("my_net", 60);
  const Output trained = in_folder("train --solver my_net/solver.prototxt");
  ASSERT_EQ(trained.status, 0) << trained.text;
  EXPECT_GT(last_value(trained, "accuracy"), 0.5) << trained.text;
  const std::string weights = " --weights my_net/my_net_iter_60.caffemodel ";
  const Output tested_again =
      in_folder("test --model my_net/train_val.prototxt --confusion" + weights);
  EXPECT_TRUE(tested_again.says(text(tested, " labels"))) << tested_again.text;
  EXPECT_TRUE(
      made.says("crema classify --model my_net/deploy.prototxt --weights "
                "my_net/my_net_best.caffemodel photo.jpg\n"))
      << made.text;
  const Output classified = in_folder(last_command(made, "photo.jpg", "photos/1 --top 1"));
  EXPECT_EQ(classified.status, 0) << classified.text;
  EXPECT_GT(2 * classified.count("- \"1\"\n"), classified.count("- \"")) << classified.text;

  // Weights of a model are found, and the last layer is new.
  fs::copy(path("my_net/my_net_iter_60.caffemodel"), path("lenet.caffemodel"));
  const Output tuned = in_folder("new tuned --images photos --from lenet --weights auto");
  ASSERT_EQ(tuned.status, 0) << tuned.text;
  EXPECT_TRUE(tuned.says("weights: lenet.caffemodel; new: ip2_tuned")) << tuned.text;
  EXPECT_TRUE(tuned.says("3 of 4 layers begin with these weights; from random values: ip2_tuned"))
      << tuned.text;
  // Pixels are those of the training of the weights, not of the model, and not of these images.
  const size_t mean = net.find("mean_value: ");
  const std::string pixels = net.substr(mean, net.find('\n', mean) - mean);
  EXPECT_NE(pixels.find("mean_value: 3"), std::string::npos) << pixels;
  for (const char* label : {"0", "1"}) {
    fs::create_directories(path(text("bright/", label)));
    for (const char* file : {"a", "b"})
      write(text("bright/", label, "/", file, ".pgm"),
            "P5\n28 28\n255\n" + std::string(784, '\xee'));
  }
  ASSERT_EQ(
      in_folder("new bright_net --images bright --from lenet --weights lenet.caffemodel").status,
      0);
  for (const char* folder : {"tuned", "bright_net"}) {
    const std::string own = read(path(std::string(folder) + "/train_val.prototxt"));
    EXPECT_NE(own.find(pixels), std::string::npos) << pixels << " is not in: " << own;
    EXPECT_NE(own.find("as the weights say that they were trained"), std::string::npos) << own;
  }
  EXPECT_NE(read(path("tuned/solver.prototxt")).find("weights: \"lenet.caffemodel\""),
            std::string::npos);
  set_iterations("tuned", 20);
  EXPECT_EQ(in_folder("train --solver tuned/solver.prototxt").status, 0);
  // Of another size they do not fit: nothing is left behind.
  refuses("new refused --images photos --from lenet --weights auto --size 32", {"ip1"});

  refuses("new my_net --images photos", {"'my_net' exists", "--overwrite"});
  // A failure leaves what was there, and no more.
  fs::create_directories(path("empty_folder"));
  EXPECT_EQ(in_folder("new empty_folder --images photos --from resnet50 --size 16").status, 1);
  EXPECT_TRUE(fs::is_empty(path("empty_folder")));
  const auto files = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(path("my_net")))
      all[entry.path().filename().string()] = read(entry.path());
    return all;
  };
  const auto before = files();
  for (const char* wrong : {"--from lenet --weights lenet.caffemodel --size 32",
                            "--from digits_unet", "--segment photos/1", "--detect photos/1"})
    EXPECT_EQ(in_folder(text("new my_net --images photos --overwrite ", wrong)).status, 1) << wrong;
  EXPECT_EQ(files(), before);
  EXPECT_EQ(in_folder("new my_net --images photos --overwrite").status, 0);
  EXPECT_NE(files(), before);
  EXPECT_FALSE(fs::exists(path("my_net/.crema_new")));
  refuses("new refused --images photos --from lenett",
          {"no model 'lenett'", "did you mean 'lenet'"});
  refuses("new refused --images photos --from resnet18 --weights auto",
          {"no weights of 'resnet18'", "scripts/from_torchvision.py resnet18"});
  refuses("new refused --images photos --from resnet50 --size 16",
          {"'resnet50' does not take images of 16x16", "--size=224"});
  refuses("new refused --images photos --from keyword_hdf5", {"HDF5Data and no images"});
  refuses("new refused --images photos --from resnet20_finetune", {"'centred' (Power)"});
  refuses("new refused --images photos --from mobilenet_v2 --weights auto",
          {"no weights of 'mobilenet_v2'", "those of alexnet"});
  refuses("new refused --images photos --weights auto", {"resnet50, resnet18", "working folder"});
  write("we\"ird.caffemodel", "");
  refuses("new refused --images photos --weights 'we\"ird.caffemodel'", {"without quotes"});
  refuses("new refused --images photos --from digits_unet", {"no classifier"});
  refuses("new refused --images photos --from ssd_shapes", {"reads AnnotatedData"});
  refuses("new refused --images photos/1", {"no folder of images", "a folder of its own"});
}

TEST_F(NewCliTest, FoldersForTestsAreTaken) {
  for (const char* file : {"train/ant/a", "train/bee/b", "train/bee/c", "val/ant/d", "val/bee/e"}) {
    fs::create_directories(fs::path(path(text("photos/", file))).parent_path());
    write(text("photos/", file, ".ppm"), ppm(60, 50, std::string(9000, '\x30')));
  }
  const Output made = in_folder("new my_net --images photos/");
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("2 classes (ant, bee), 3 images for training and 2 for tests"))
      << made.text;
  const std::string net = read(path("my_net/train_val.prototxt"));
  EXPECT_NE(net.find("source: \"photos/train\"  backend: FOLDER"), std::string::npos) << net;
  EXPECT_FALSE(fs::exists(path("my_net/train.txt")));
  EXPECT_FALSE(made.says("note:")) << made.text;
  // What is not used is told of, and names with blanks have quotes.
  write("photos/train/f.ppm", ppm(8, 8, std::string(192, '\x30')));
  const Output again = in_folder("new 'my net' --images photos/ --from lenet");
  EXPECT_TRUE(again.says("note: 1 image in 'photos/' left out, such as 'train/f.ppm'"))
      << again.text;
  EXPECT_TRUE(again.says("crema train --solver \"my net/solver.prototxt\"")) << again.text;
  EXPECT_TRUE(again.says("--weights \"my net/my net_best.caffemodel\"")) << again.text;
  EXPECT_NE(read(path("my net/solver.prototxt")).find("Made by: crema new \"my net\" --images"),
            std::string::npos);
  fs::remove(path("photos/train/f.ppm"));
  fs::create_directories(path("here"));
  EXPECT_EQ(run("new . --images ../photos", "cd '" + path("here") + "' && " CREMA_TOOL).status, 0);
  EXPECT_NE(read(path("here/solver.prototxt")).find("snapshot_prefix: \"./here\""),
            std::string::npos);
  // The size of the model, where its net takes no smaller one.
  const Output larger = in_folder("new inception --images photos --from inception_v3");
  EXPECT_TRUE(larger.says("net: inception_v3 at 299x299")) << larger.text;
  // A bad image among the tests.
  write("photos/val/ant/g.png", "no image");
  refuses("new refused --images photos", {"1 of 6 images", "photos/val/ant/g.png"});
  fs::remove(path("photos/val/ant/g.png"));
  fs::remove_all(path("photos/val/bee"));
  refuses("new refused --images photos", {"need the same folders", "'bee'"});
  fs::remove_all(path("photos/val"));
  refuses("new refused --images photos/train/ant", {"no folder of images"});
  refuses("new refused --images photos", {"no val/ beside it", "--images=photos/train"});
  refuses("new refused --images nothing", {"--images=nothing is not there"});
  fs::create_directories(path("photos/empty"));
  refuses("new refused --images photos", {"'empty' has no image"});
  for (const char* name : {"x", "y"}) {
    fs::create_directories(path(text("tiny/", name)));
    for (const char* file : {"/1.ppm", "/2.ppm"})
      write(text("tiny/", name, file), ppm(4, 4, std::string(48, '\x30')));
  }
  refuses("new refused --images tiny", {"too small", "4 pixels"});
  refuses("new refused --images tiny --detect a --segment b", {"--detect", "--segment"});
  fs::rename(path("tiny/x"), path("tiny/ x"));
  refuses("new refused --images tiny", {"tiny/ x'", "blank"});
}

/// A scene of 96x96: gray noise, and a bright square at (x, y).
struct Scene {
  std::string pixels, mask;
  int x = 0, y = 0, side = 0, label = 0;
};
Scene draw(Random& random) {
  Scene scene;
  constexpr int kSize = 96;
  scene.side = 24 + static_cast<int>(random.below(24));
  scene.x = static_cast<int>(random.below(static_cast<uint64_t>(kSize - scene.side)));
  scene.y = static_cast<int>(random.below(static_cast<uint64_t>(kSize - scene.side)));
  scene.label = static_cast<int>(random.below(2));
  for (int i = 0; i < kSize * kSize; ++i) {
    const int x = i % kSize - scene.x, y = i / kSize - scene.y;
    const bool inside = x >= 0 && y >= 0 && x < scene.side && y < scene.side;
    scene.mask += static_cast<char>(inside ? scene.label + 1 : 0);
    for (int c = 0; c < 3; ++c) {
      // Blue and red squares.
      const bool bright = inside && c == (scene.label == 0 ? 2 : 0);
      scene.pixels += static_cast<char>((bright ? 200 : 60) + static_cast<int>(random.below(40)));
    }
  }
  return scene;
}

std::string voc(const Scene& scene) {
  return text(
      "<annotation><size><width>96</width><height>96</height><depth>3</depth></size>\n"
      "<object><name>",
      scene.label == 0 ? "blue" : "red", "</name><difficult>0</difficult><bndbox><xmin>",
      scene.x + 1, "</xmin><ymin>", scene.y + 1, "</ymin><xmax>", scene.x + scene.side,
      "</xmax><ymax>", scene.y + scene.side, "</ymax></bndbox></object></annotation>\n");
}

TEST_F(NewCliTest, BoxesMakeADetector) {
  if (!kBuiltWithAnnotations) GTEST_SKIP() << "needs CREMA_ANNOTATIONS";
  Random random(7, 1);
  for (const char* folder : {"photos", "boxes"}) fs::create_directories(path(folder));
  for (int i = 0; i < 60; ++i) {
    const Scene scene = draw(random);
    write(text("photos/", i, ".ppm"), ppm(96, 96, scene.pixels));
    write(text("boxes/", i, ".xml"), voc(scene));
  }
  const Output made = in_folder("new my_net --images photos --detect boxes");
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("2 classes (blue, red), 48 images for training and 12 for tests"))
      << made.text;
  EXPECT_TRUE(made.says("crema detect --model my_net/deploy.prototxt")) << made.text;
  set_iterations("my_net", 120);
  const Output trained = in_folder("train --solver my_net/solver.prototxt");
  ASSERT_EQ(trained.status, 0) << trained.text;
  // Chance finds next to nothing.
  EXPECT_GT(last_value(trained, "mAP"), 0.4) << trained.text;
  const std::string weights = " --weights my_net/my_net_best.caffemodel ";
  EXPECT_EQ(in_folder("test --model my_net/train_val.prototxt --per_class" + weights).status, 0);
  const Output detected = in_folder(last_command(made, "photo.jpg", "photos/1.ppm"));
  EXPECT_EQ(detected.status, 0) << detected.text;
  EXPECT_TRUE(detected.says("blue") || detected.says("red")) << detected.text;

  // Weights of other classes: the layers of scores are new.
  for (int i = 0; i < 60; i += 2)
    std::ofstream(path(text("boxes/", i, ".xml")))
        << std::regex_replace(voc(draw(random)), std::regex("blue|red"), "green");
  const Output tuned =
      in_folder("new tuned --images photos --detect boxes --weights my_net/my_net_best.caffemodel");
  ASSERT_EQ(tuned.status, 0) << tuned.text;
  EXPECT_TRUE(tuned.says("3 classes (blue, green, red)")) << tuned.text;
  EXPECT_TRUE(tuned.says("conf_tuned")) << tuned.text;

  // YOLO's form, and folders that say which images are for tests.
  for (const char* folder : {"divided/train", "divided/val", "divided/rest", "lines"})
    fs::create_directories(path(folder));
  for (int i = 0; i < 12; ++i) {
    const Scene scene = draw(random);
    const char* const part = i < 7 ? "train/" : i < 11 ? "val/" : "rest/";
    write(text("divided/", part, i, ".ppm"), ppm(96, 96, scene.pixels));
    write(text("lines/", i, ".txt"),
          text(scene.label, " ", (scene.x + scene.side / 2.0) / 96, " ",
               (scene.y + scene.side / 2.0) / 96, " ", scene.side / 96.0, " ", scene.side / 96.0));
  }
  write("lines/classes.txt", "blue\nred\n");
  const Output yolo = in_folder("new yolo --images divided --detect lines");
  ASSERT_EQ(yolo.status, 0) << yolo.text;
  EXPECT_TRUE(yolo.says("2 classes (blue, red), 7 images for training and 4 for tests\n"))
      << yolo.text;
  EXPECT_TRUE(yolo.says("note: 1 image left out, such as 'rest/11.ppm'")) << yolo.text;

  fs::create_directories(path("none"));
  refuses("new refused --images photos --detect none", {"no image", ".xml", ".txt"});
  refuses("new refused --images photos --detect boxes --from resnet18", {"no SSD"});
}

TEST_F(NewCliTest, MasksMakeASegmentation) {
  Random random(7, 2);
  for (const char* folder : {"photos", "masks"}) fs::create_directories(path(folder));
  for (int i = 0; i < 40; ++i) {
    const Scene scene = draw(random);
    write(text("photos/", i, ".ppm"), ppm(96, 96, scene.pixels));
    write(text("masks/", i, ".pgm"), "P5\n96 96\n255\n" + scene.mask);
  }
  const Output made = in_folder("new my_net --images photos --segment masks --size 48");
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("3 classes of pixels, 32 images for training and 8 for tests"))
      << made.text;
  EXPECT_NE(read(path("my_net/train_val.prototxt")).find("batch_size: 16 "), std::string::npos);
  EXPECT_NE(read(path("my_net/solver.prototxt")).find("base_lr: 0.003\n"), std::string::npos);
  set_iterations("my_net", 40);
  const Output trained = in_folder("train --solver my_net/solver.prototxt");
  ASSERT_EQ(trained.status, 0) << trained.text;
  // Some 85% of the pixels are the ground.
  const Output tested = in_folder(
      "test --model my_net/train_val.prototxt --confusion --weights "
      "my_net/my_net_best.caffemodel");
  EXPECT_EQ(tested.status, 0) << tested.text;
  EXPECT_GT(last_value(trained, "accuracy"), 0.93) << trained.text;
  EXPECT_NE(read(path("my_net/deploy.prototxt")).find("type: \"Softmax\""), std::string::npos);

  refuses("new refused --images photos --segment masks --size 50", {"50x50", "--size=48"});
  refuses("new refused --images photos --segment masks --from lenet",
          {"'lenet' is no net for segmentation"});
  // Weights of other classes, and a class that few pixels have.
  write("masks/7.pgm", "P5\n96 96\n255\n" + std::string(96 * 96, '\x04'));
  const Output tuned = in_folder(
      "new tuned --images photos --segment masks --size 48 --weights "
      "my_net/my_net_best.caffemodel");
  ASSERT_EQ(tuned.status, 0) << tuned.text;
  EXPECT_TRUE(tuned.says("5 classes of pixels")) << tuned.text;
  EXPECT_TRUE(tuned.says("no pixel of a mask has class 3")) << tuned.text;
  EXPECT_TRUE(tuned.says("_tuned; pixels: ")) << tuned.text;
  // Gray levels are no classes, even if one mask alone has them.
  write("masks/7.pgm", "P5\n96 96\n255\n" + std::string(96 * 96, '\x80'));
  refuses("new refused --images photos --segment masks", {"values up to 128", "but not 3"});
  fs::create_directories(path("divided/train"));
  fs::create_directories(path("divided/test"));
  for (int i = 0; i < 12; ++i) {
    fs::copy(path(text("photos/", i, ".ppm")), path(text(i < 6    ? "divided/train/"
                                                         : i < 10 ? "divided/test/"
                                                                  : "divided/",
                                                         i, ".ppm")));
    write(text("masks/", i, ".pgm"),
          "P5\n96 96\n255\n" + std::string(48 * 96, '\0') + std::string(48 * 96, '\xff'));
  }
  const Output divided = in_folder("new divided_net --images divided --segment masks");
  ASSERT_EQ(divided.status, 0) << divided.text;
  EXPECT_TRUE(divided.says("2 classes of pixels, 6 images for training and 4 for tests\n"))
      << divided.text;
  EXPECT_TRUE(divided.says("note: 2 images left out")) << divided.text;
  EXPECT_NE(read(path("divided_net/train_val.prototxt")).find("label_divide_factor: 255"),
            std::string::npos);
  refuses("new refused --images photos --segment photos", {"name one folder"});
  refuses("new refused --images photos --segment masks --weights auto",
          {"no weights of 'digits_unet'", "--weights=FILE"});
}

// Its scores are a sum of those of three layers, and layers with a group for each class enlarge
// them.
TEST_F(NewCliTest, FcnMakesASegmentation) {
  Random random(7, 3);
  for (const char* folder : {"photos/train", "photos/val", "masks"})
    fs::create_directories(path(folder));
  for (int i = 0; i < 22; ++i) {
    Scene scene = draw(random);
    scene.mask[0] = '\xff';
    scene.mask[1] = '\x02';
    write(text(i < 6 ? "photos/train/" : "photos/val/", i, ".ppm"), ppm(96, 96, scene.pixels));
    write(text("masks/", i, ".pgm"), "P5\n96 96\n255\n" + scene.mask);
  }
  const std::string from = " --images photos --segment masks --from fcn8s --size 32";
  refuses("new refused" + from + " --weights auto",
          {"no weights of 'fcn8s'", "nor are those of 'vgg16'",
           "scripts/from_torchvision.py vgg16 vgg16.caffemodel"});
  const Output made = in_folder("new my_net" + from);
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("net: fcn8s at 32x32, of 134,")) << made.text;
  EXPECT_TRUE(made.says("note: 'fcn8s' starts from random weights")) << made.text;
  const std::string net = read(path("my_net/train_val.prototxt"));
  // A large net gets few images at once, in tests too.
  for (const char* part :
       {"num_output: 3  group: 3  kernel_size: 16", "normalization: VALID",
        "bottom: \"score\"  bottom: \"label\"  top: \"accuracy\"",
        "my_net/train.txt\"  batch_size: 4 ", "my_net/val.txt\"  batch_size: 8\n"})
    EXPECT_NE(net.find(part), std::string::npos) << part << " is not in: " << net;
  for (const char* part : {"num_output: 21", "group: 21"})
    EXPECT_EQ(net.find(part), std::string::npos) << part << " is in: " << net;
  const std::string solver = read(path("my_net/solver.prototxt"));
  for (const char* part :
       {"# Small, as the net has no BatchNorm.\n", "type: \"AdamW\"", "base_lr: 0.0001\n",
        "# 200 passes over 6 images in batches of 4.", "max_iter: 300\n", "test_iter: 2\n"})
    EXPECT_NE(solver.find(part), std::string::npos) << part << " is not in: " << solver;

  NetParameter weights;
  LayerParameter& first = *weights.add_layer();
  first.set_name("conv1_1");
  for (const std::vector<int>& shape : {std::vector{64, 3, 3, 3}, std::vector{64}}) {
    BlobProto& blob = *first.add_blobs();
    int count = 1;
    for (const int dim : shape) {
      blob.mutable_shape()->add_dim(dim);
      count *= dim;
    }
    for (int i = 0; i < count; ++i) blob.add_data(0.5F);
  }
  std::ofstream(path("vgg16.caffemodel"), std::ios::binary) << weights.SerializeAsString();
  const Output tuned = in_folder("new tuned" + from + " --weights auto");
  ASSERT_EQ(tuned.status, 0) << tuned.text;
  for (const char* part :
       {"weights: vgg16.caffemodel; new: score_fr_tuned, score_pool4_tuned, score_pool3_tuned;",
        "mean_value: 103.53", "1 of ", "conv1_2"})
    EXPECT_TRUE(tuned.says(part)) << part << " is not in: " << tuned.text;
  EXPECT_FALSE(tuned.says("note: 'fcn8s'")) << tuned.text;
  const std::string tuned_net = read(path("tuned/train_val.prototxt"));
  EXPECT_NE(tuned_net.find("\"upscore8_bilinear_tuned\""), std::string::npos)
      << "those of weights have kernels for other classes";
  // New layers learn faster than those with weights.
  size_t new_rates = 0;
  for (size_t at = 0;
       (at = tuned_net.find("param { lr_mult: 10 decay_mult: 1 }", at)) != std::string::npos; ++at)
    ++new_rates;
  EXPECT_EQ(new_rates, 3U) << tuned_net;
  const std::string tuned_solver = read(path("tuned/solver.prototxt"));
  for (const char* part : {"that of new layers is ten times this", "base_lr: 0.0001\n"})
    EXPECT_NE(tuned_solver.find(part), std::string::npos) << part << " is not in: " << tuned_solver;
}

}  // namespace
