// Folders of classes: tests take the labels of the training data.
#include <algorithm>
#include <fstream>

#include "proto/blob.pb.h"
#include "proto/net.pb.h"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace {

using namespace crema;
using namespace crema::test;

/// Classes are shades of gray: a net of three fixed scores tells them.
class ClassFoldersCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  }
  /// `images` of each class, whose shade follows from its name.
  void classes(const std::string& folder, const std::vector<std::string>& names, int images = 2) {
    for (const std::string& name : names) {
      std::filesystem::create_directories(path(folder + "/" + name));
      const char shade = name == "ant" ? '\x10' : name == "bee" ? '\x60' : '\xc0';
      for (int i = 0; i < images; ++i) {
        write(folder + "/" + name + "/" + std::to_string(i) + ".ppm",
              ppm(2, 2, std::string(12, shade)));
      }
    }
  }
  std::string data(const std::string& phase, const std::string& folder, int batch,
                   const std::string& more = "", const std::string& tops = "") const {
    return text("layer { name: '", phase, "_data' type: 'Data' ",
                tops.empty() ? "top: 'data' top: 'label'" : tops, " include { phase: ", phase,
                " } transform_param { scale: 0.0039 force_gray: true } data_param { backend: "
                "FOLDER source: '",
                path(folder), "' batch_size: ", batch, " ", more, " } }\n");
  }
  std::string net(const std::string& data, const std::string& name = "net.prototxt") const {
    return write(name, data + R"(
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
        inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' include { phase: TEST } }
)");
  }
  std::string train(const std::string& net) const {
    return "train --overwrite --solver " +
           write("solver.prototxt",
                 "net: '" + net + "' base_lr: 2 momentum: 0.9 lr_policy: 'fixed' max_iter: 400 " +
                     "test_iter: 1 test_interval: 400 random_seed: 3 test_initialization: false "
                     "snapshot_prefix: '" +
                     path("s") + "'");
  }
  std::string weights() const { return " --weights " + path("s_iter_400.caffemodel"); }
  /// With the classes that they were trained on, as a training writes them.
  void name_classes(const std::vector<std::string>& names) const {
    NetParameter param;
    std::ifstream in(path("s_iter_400.caffemodel"), std::ios::binary);
    ASSERT_TRUE(param.ParseFromIstream(&in));
    param.clear_checksum();
    param.mutable_origin()->mutable_class_name()->Assign(names.begin(), names.end());
    std::ofstream out(path("s_iter_400.caffemodel"), std::ios::binary);
    ASSERT_TRUE(param.SerializeToOstream(&out));
  }
};

// The images of 'cat' were tested as 'bee': the accuracy was 0.5 without a word.
TEST_F(ClassFoldersCliTest, TestsHaveTheLabelsOfTraining) {
  classes("train", {"ant", "bee", "cat"});
  classes("test", {"ant", "cat"});
  const std::string both = net(data("TRAIN", "train", 6) + data("TEST", "test", 4));
  expect_refusal(train(both), {"TEST net #0", "layer 'TEST_data' (Data)", path("test"),
                               "lacks the class 'bee'", path("train"), "class_names"});
  // A file that lists all classes.
  const std::string listed = "class_names: '" + write("names.txt", "ant\nbee\ncat\n") + "'";
  const Output trained =
      run(train(net(data("TRAIN", "train", 6) + data("TEST", "test", 4, listed))));
  EXPECT_EQ(trained.status, 0) << trained.text;
  EXPECT_TRUE(trained.says("no image of 1 classes")) << trained.text;
  EXPECT_TRUE(trained.says("accuracy = 1\n")) << trained.text;
  // Another order of them would be another meaning.
  const std::string wrong = "class_names: '" + write("wrong.txt", "cat\nbee\nant\n") + "'";
  expect_refusal(train(net(data("TRAIN", "train", 6) + data("TEST", "test", 4, wrong))),
                 {"label 0 is class 'cat'", "wrong.txt", "'ant'", path("train")});

  // `crema test` finds the training data in the file.
  for (const char* command : {"test", "time --phase TEST --iterations 1"})
    expect_refusal(command + weights() + " --model " +
                       net(data("TRAIN", "train", 6) + data("TEST", "test", 4)),
                   {"lacks the class 'bee'", path("test"), path("train")});
  expect_refusal("extract-features " + path("s_iter_400.caffemodel") + " " + path("net.prototxt") +
                     " ip " + path("features"),
                 {"lacks the class 'bee'", path("train")});
  // An empty folder has no images, and its name counts.
  std::filesystem::create_directory(path("test/bee"));
  const Output whole = run("test" + weights() + " --model " + path("net.prototxt"));
  EXPECT_EQ(whole.status, 0) << whole.text;
  EXPECT_TRUE(whole.says("4 records in 1 batch of 4")) << whole.text;
  EXPECT_TRUE(whole.says("accuracy = 1\n")) << whole.text;
  // An unknown one does, too.
  classes("test", {"dog"}, 0);
  expect_refusal("test" + weights() + " --model " + path("net.prototxt"),
                 {"has the class 'dog'", path("test"), path("train")});
}

TEST_F(ClassFoldersCliTest, WeightsTellTheClasses) {
  classes("train", {"ant", "bee", "cat"});
  classes("test", {"ant", "cat"});
  const Output trained =
      run(train(net(data("TRAIN", "train", 6) + data("TEST", "train", 6, "", ""))));
  ASSERT_EQ(trained.status, 0) << trained.text;
  name_classes({});
  const std::string lone = net(data("TEST", "test", 4), "lone.prototxt");
  const Output own = run("test" + weights() + " --model " + lone);
  EXPECT_EQ(own.status, 0) << own.text;
  EXPECT_TRUE(own.says("own 2 class names")) << own.text;
  EXPECT_TRUE(own.says("accuracy = 0.5\n")) << own.text;

  name_classes({"ant", "bee", "cat"});
  expect_refusal("test" + weights() + " --model " + lone,
                 {"lacks the class 'bee'", "the weights", path("test")});
  std::filesystem::create_directory(path("test/bee"));
  const Output told = run("test" + weights() + " --model " + lone);
  EXPECT_TRUE(told.says("accuracy = 1\n")) << told.text;
  EXPECT_FALSE(told.says("own 2 class names")) << told.text;
  // Features of other images with these weights have no such labels.
  classes("others", {"x", "y"});
  const Output features =
      run("extract-features " + path("s_iter_400.caffemodel") + " " +
          net(data("TEST", "others", 4), "others.prototxt") + " ip " + path("features"));
  EXPECT_EQ(features.status, 0) << features.text;
  // The training folder got a class since.
  classes("train", {"awl"});
  expect_refusal(
      "test" + weights() + " --model " + net(data("TRAIN", "train", 6) + data("TEST", "train", 6)),
      {"label 1 is 'awl'", path("train"), "'bee' in the weights"});
}

// A folder that comes between gives the labels behind it another meaning.
TEST_F(ClassFoldersCliTest, RunsContinueWithTheirClasses) {
  classes("train", {"ant", "bee", "cat"});
  const std::string command = train(net(data("TRAIN", "train", 6) + data("TEST", "train", 6)));
  ASSERT_EQ(run(command).status, 0);
  const std::string resume = " --snapshot " + path("s_iter_400.solverstate");
  const Output same = run(command + resume);
  EXPECT_EQ(same.status, 0) << same.text;
  std::filesystem::remove_all(path("train/bee"));
  classes("train", {"awl"});
  expect_refusal(command + resume, {"s_iter_400.solverstate", "label 1 was 'bee'", "is 'awl'",
                                    "TRAIN_data", "--weights"});
  classes("train", {"bee"});
  std::filesystem::remove_all(path("train/awl"));
  classes("train", {"dog"});
  expect_refusal(command + resume, {"label 3 was no class", "of 3 classes", "is 'dog'"});
  for (const char* name : {"dog", "bee"}) std::filesystem::remove_all(path(text("train/", name)));
  classes("train", {"awl"});
  // From the weights alone a run may begin, with a word.
  const Output begun = run(command + weights());
  EXPECT_EQ(begun.status, 0) << begun.text;
  EXPECT_TRUE(
      begun.says("label 1 is 'bee' in the weights, of 3 classes, and 'awl' in the training"))
      << begun.text;
}

TEST_F(ClassFoldersCliTest, ClassifyNamesTheClassesOfTheWeights) {
  classes("train", {"ant", "bee", "cat"});
  ASSERT_EQ(run(train(net(data("TRAIN", "train", 6) + data("TEST", "train", 6)))).status, 0);
  name_classes({"ant", "bee", "cat"});
  const std::string classify = "classify --top 1 --scale 0.0039" + weights() + " --model " +
                               write("deploy.prototxt", R"(
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 3 } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' })") +
                               " " + path("train/cat/0.ppm");
  const Output own = run(classify);
  EXPECT_EQ(own.status, 0) << own.text;
  EXPECT_TRUE(own.says("- \"cat\"\n")) << own.text;
  const Output other = run(classify + " --labels " + write("other.txt", "Ameise\nBiene\nKatze\n"));
  EXPECT_TRUE(other.says("- \"Katze\"\n")) << other.text;
  expect_refusal(classify + " --labels " + write("order.txt", "ant\ncat\nbee\n"),
                 {"order.txt: class 1 is 'cat', and 'bee' in the weights"});
  name_classes({"ant", "bee"});
  const Output fewer = run(classify);
  EXPECT_TRUE(fewer.says("the weights name 2 classes, and 'prob' has 3")) << fewer.text;
  EXPECT_TRUE(fewer.says("- \"2\"\n")) << fewer.text;
}

TEST_F(ClassFoldersCliTest, LayersForTrainingHaveTheSameClasses) {
  classes("one", {"ant", "bee", "cat"});
  classes("two", {"ant", "cat"});
  const std::string second = data("TRAIN", "two", 4, "", "top: 'more' top: 'label2'");
  const std::string both = data("TRAIN", "one", 6, "", "top: 'some' top: 'label1'") + second + R"(
layer { name: 'data' type: 'Concat' bottom: 'some' bottom: 'more' top: 'data' concat_param { axis: 0 } }
layer { name: 'label' type: 'Concat' bottom: 'label1' bottom: 'label2' top: 'label' concat_param { axis: 0 } }
)";
  expect_refusal(train(net(both)), {"layer 'label' (Concat)", "label 1 is 'bee'", path("one"),
                                    "'cat'", path("two"), "class_names", "list its own"});
  // Data of another task, with a loss of its own.
  const Output tasks =
      run("time --phase TRAIN --iterations 1 --model " + net(data("TRAIN", "one", 6) + second + R"(
layer { name: 'ip2' type: 'InnerProduct' bottom: 'more' top: 'ip2'
        inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss2' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label2' top: 'loss2' }
layer { name: 'sum' type: 'Eltwise' bottom: 'loss2' bottom: 'loss2' top: 'sum' }
)"));
  EXPECT_EQ(tasks.status, 0) << tasks.text;
}

TEST_F(ClassFoldersCliTest, TarFilesHaveThemToo) {
  if (!kBuiltWithLibarchive) GTEST_SKIP() << "needs libarchive";
  const auto members = [&](const std::vector<std::string>& names) {
    Records all;
    for (const std::string& name : names)
      all.emplace_back(name + "/0.ppm", ppm(2, 2, std::string(12, '\x10')));
    return tar(all);
  };
  write("train.tar", members({"ant", "bee", "cat"}));
  write("test.tar", members({"ant", "cat"}));
  std::string layers = data("TRAIN", "train.tar", 3) + data("TEST", "test.tar", 2);
  for (size_t at = 0; (at = layers.find("FOLDER", at)) != std::string::npos;)
    layers.replace(at, 6, "TAR");
  expect_refusal(train(net(layers)),
                 {"lacks the class 'bee'", path("test.tar"), path("train.tar")});
  // Weights that name the classes spare a look at the whole file of the training data.
  classes("train", {"ant", "bee", "cat"});
  ASSERT_EQ(run(train(net(data("TRAIN", "train", 6) + data("TEST", "train", 6)))).status, 0);
  name_classes({"ant", "bee", "cat"});
  write("train.tar", members({"awl"}));
  write("test.tar", members({"ant", "bee", "cat"}));
  const Output told = run("test" + weights() + " --model " + net(layers));
  EXPECT_EQ(told.status, 0) << told.text;
}

// Names go from folders into a database, from there into weights, and into all that shows labels.
TEST_F(ClassFoldersCliTest, DatabasesKeepTheNames) {
  classes("train", {"ant", "bee", "cat"});
  const Output made = run("convert-imageset --gray " + path("train") + " " + path("db"));
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("has 3 classes, label 0 to 2")) << made.text;
  EXPECT_EQ(read_file(path("db/class_names.txt")), "ant\nbee\ncat\n");
  // Shuffled, each with the label of its folder.
  std::vector<std::string> keys;
  for (const auto& [key, value] : read_database(path("db"))) {
    Datum datum;
    ASSERT_TRUE(datum.ParseFromString(value));
    keys.push_back(key.substr(9));
    EXPECT_EQ(datum.label(), keys.back()[0] - 'a') << key;
  }
  EXPECT_EQ(keys.size(), 6U);
  EXPECT_FALSE(std::ranges::is_sorted(keys)) << "class by class";
  ASSERT_EQ(run("convert-imageset --noshuffle " + path("train") + " " + path("sorted")).status, 0);
  keys.clear();
  for (const auto& [key, value] : read_database(path("sorted"))) keys.push_back(key.substr(9));
  EXPECT_TRUE(std::ranges::is_sorted(keys));
  EXPECT_TRUE(run("verify-db " + path("db")).says("label 1 (bee): 2\n"));
  EXPECT_TRUE(run("verify-db " + path("train")).says("label 2 (cat): 2\n"));
  EXPECT_TRUE(run("db show " + path("sorted") + " 5").says("label: 2 (cat)\n"));

  const auto lmdb = [&](std::string layers) {
    for (size_t at = 0; (at = layers.find("FOLDER", at)) != std::string::npos;)
      layers.replace(at, 6, "LMDB");
    return layers;
  };
  const std::string both = net(lmdb(data("TRAIN", "db", 6)) + lmdb(data("TEST", "db", 4)));
  const Output trained = run(train(both));
  ASSERT_EQ(trained.status, 0) << trained.text;
  EXPECT_TRUE(run("inspect" + weights().substr(10)).says("class names: 3: ant, bee, cat\n"));
  const Output tested = run("test --confusion" + weights() + " --model " + both);
  EXPECT_TRUE(tested.says("ant      2    0    0\n")) << tested.text;
  // A folder of test images takes its labels from the database.
  classes("test", {"ant", "cat"});
  expect_refusal("test" + weights() + " --model " +
                     net(lmdb(data("TRAIN", "db", 6)) + data("TEST", "test", 4)),
                 {"lacks the class 'bee'", path("test"), path("db")});
  // A database of another folder has labels of its own.
  ASSERT_EQ(run("convert-imageset --gray " + path("test") + " " + path("test_db")).status, 0);
  expect_refusal(train(net(lmdb(data("TRAIN", "db", 6)) + lmdb(data("TEST", "test_db", 4)))),
                 {"label 1 is 'cat'", path("test_db"), "'bee'", path("db"), "--class_names"});
  const Output listed =
      run("convert-imageset --gray --overwrite --class_names=" + path("db/class_names.txt") + " " +
          path("test") + " " + path("test_db"));
  ASSERT_EQ(listed.status, 0) << listed.text;
  EXPECT_TRUE(listed.says("no image of 1 classes")) << listed.text;
  const Output same =
      run(train(net(lmdb(data("TRAIN", "db", 6)) + lmdb(data("TEST", "test_db", 4)))));
  EXPECT_EQ(same.status, 0) << same.text;
  EXPECT_TRUE(same.says("accuracy = 1\n")) << same.text;
  // Features of the records have their names, too.
  const Output features =
      run("extract-features" + weights().substr(10) + " " + both + " ip " + path("features"));
  EXPECT_EQ(features.status, 0) << features.text;
  EXPECT_EQ(read_file(path("features/class_names.txt")), "ant\nbee\ncat\n");
  const std::string extract = "extract-features" + weights().substr(10) + " " + both + " ip ";
  ASSERT_EQ(run(extract + path("ip.csv") + " 0 csv").status, 0);
  const std::string csv = read_file(path("ip.csv"));
  EXPECT_TRUE(csv.starts_with("key,ip_0,ip_1,ip_2,class\n")) << csv;
  // Two images of either class; label 2 is a cat, as in the training data.
  EXPECT_EQ(csv.find(",bee\n"), std::string::npos) << csv;
  for (const char* name : {",ant\n", ",cat\n"})
    EXPECT_NE(csv.find(name), std::string::npos) << name << " is not in: " << csv;
  ASSERT_EQ(run(extract + path("ip.npy") + " 0 npy").status, 0);
  EXPECT_EQ(read_file(path("ip.npy.classes.txt")), "ant\nbee\ncat\n");
}

TEST_F(ClassFoldersCliTest, ConvertersTellWhatAFolderLacks) {
  classes("train", {"ant", "bee"});
  expect_refusal("convert-imageset " + path("train"), {"FOLDER OUTPUT", "got 1"});
  expect_refusal("convert-imageset " + path("train") + " " + write("list.txt", "ant/0.ppm 0\n"),
                 {"ROOT_FOLDER LIST_FILE OUTPUT", "got 2"});
  expect_refusal("convert-imageset " + path("train/ant") + " " + path("db"),
                 {"folder of images for each class"});
  const Output checked = run("convert-imageset --check " + path("train"));
  EXPECT_EQ(checked.status, 0) << checked.text;
  EXPECT_TRUE(checked.says("0 bad images")) << checked.text;
  write("train/bee/9.jpg", "no image");
  expect_refusal("convert-imageset " + path("train") + " " + path("db"),
                 {"bee/9.jpg", "--skip_bad"});
  // Names of the labels of a list.
  const std::string list = "convert-imageset --class_names=" + write("names.txt", "ant\nbee\n") +
                           " " + path("train") + "/ ";
  EXPECT_EQ(run(list + path("list.txt") + " " + path("named")).status, 0);
  EXPECT_EQ(read_file(path("named/class_names.txt")), "ant\nbee\n");
  expect_refusal(list + write("more.txt", "ant/0.ppm 0\nbee/0.ppm 2\n") + " " + path("more"),
                 {"more.txt:2", "label 2", "names.txt", "2 classes"});
  // Numbers that are no places in the list have no names there.
  expect_refusal(list + write("floats.txt", "ant/0.ppm 0.5\n") + " " + path("more"),
                 {"floats.txt:1", "label 0.5", "names.txt"});
}

// A list and a database of test data have labels of their own, which training may not have.
TEST_F(ClassFoldersCliTest, LabelsOfListsAreComparedToo) {
  classes("train", {"ant", "bee", "cat"});
  write("list", path("train/ant/0.ppm") + " 0\n" + path("train/bee/0.ppm") + " 1\n" +
                    path("train/cat/0.ppm") + " 2\n");
  const auto list = [&](const std::string& phase, const std::string& names) {
    std::string layer =
        data(phase, "list", 3, names.empty() ? "" : "class_names: '" + path(names) + "'");
    return layer.replace(layer.find("FOLDER"), 6, "IMAGE_LIST");
  };
  const auto lmdb = [&](const std::string& phase, const std::string& source) {
    std::string layer = data(phase, source, 3);
    return layer.replace(layer.find("FOLDER"), 6, "LMDB");
  };
  write("names.txt", "ant\nbee\ncat\n");
  write("other.txt", "cat\nbee\nant\n");
  const std::string folder = data("TRAIN", "train", 6);
  expect_refusal(train(net(list("TRAIN", "names.txt") + list("TEST", "other.txt"))),
                 {"layer 'TEST_data'", "label 0 is 'cat'", path("other.txt"), "'ant'",
                  path("names.txt"), "class_names of both layers"});
  expect_refusal(train(net(folder + list("TEST", "other.txt"))),
                 {"label 0 is 'cat'", path("other.txt"), "'ant'", path("train")});
  const Output trained = run(train(net(folder + list("TEST", "names.txt"))));
  ASSERT_EQ(trained.status, 0) << trained.text;
  EXPECT_FALSE(trained.says("have no names")) << trained.text;
  // What the weights name.
  const auto test = [&](const std::string& layers) {
    return "test" + weights() + " --model " + net(layers, "test.prototxt");
  };
  expect_refusal(test(list("TEST", "other.txt")), {"label 0 is 'cat'", "the weights"});

  // Nothing names the labels of the test data.
  ASSERT_EQ(run("convert-imageset --gray / " + path("list") + " " + path("unnamed")).status, 0);
  for (const std::string& layers : {lmdb("TEST", "unnamed"), list("TEST", "")}) {
    const Output unnamed = run(test(layers));
    EXPECT_EQ(unnamed.status, 0) << unnamed.text;
    EXPECT_TRUE(
        unnamed.says("layer 'TEST_data': its labels have no names, and those of the "
                     "training data (the weights) have"))
        << unnamed.text;
  }
  const std::string images =
      "layer { name: 'images' type: 'ImageData' top: 'data' top: 'label' "
      "image_data_param { is_color: false batch_size: 3 source: '" +
      path("list") + "' } }\n";
  EXPECT_TRUE(run(test(images)).says("layer 'images': its labels have no names"));
  // A file that is damaged tells no names.
  name_classes({});
  ASSERT_EQ(run("convert-imageset --gray " + path("train") + " " + path("db")).status, 0);
  write("unnamed/class_names.txt", "ant\nant\n");
  const Output damaged = run(test(lmdb("TRAIN", "unnamed") + lmdb("TEST", "db")));
  EXPECT_EQ(damaged.status, 0) << damaged.text;
  for (const char* part : {"layer 'TEST_data': its classes are not compared", "class_names.txt:2"})
    EXPECT_TRUE(damaged.says(part)) << part << " is not in: " << damaged.text;
}

TEST_F(ClassFoldersCliTest, FeaturesOfOddNamesAreKept) {
  classes("train", {"ant", "cat "});
  NetParameter weights;
  weights.add_layer()->set_name("other");
  std::ofstream(path("w.caffemodel"), std::ios::binary) << weights.SerializeAsString();
  const std::string model = write("features.prototxt", data("TEST", "train", 4));
  const Output output =
      run("extract-features " + path("w.caffemodel") + " " + model + " data " + path("features"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("does not keep the names of the classes: the class 'cat '"))
      << output.text;
  EXPECT_EQ(read_database(path("features")).size(), 4U);
  EXPECT_FALSE(std::filesystem::exists(path("features/class_names.txt")));
}

// The weights know what became of images in training.
TEST_F(ClassFoldersCliTest, ClassifyDescendsAndCountsWhatIsRight) {
  classes("train", {"ant", "bee", "cat"});
  ASSERT_EQ(run(train(net(data("TRAIN", "train", 6) + data("TEST", "train", 6)))).status, 0);
  const std::string classify = "classify --top 1" + weights() + " --model " +
                               write("deploy.prototxt", R"(
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param { num_output: 3 } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' })") +
                               " ";
  const Output output = run(classify + path("train"));
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"images become what the weights were trained on: --scale=0.0039\n",
                           "bee: 2 of 2 (100.00%) right\n",
                           "6 of 6 (100.00%) images whose class is known are right\n"})
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  // A folder with an image of another class, one that is no class, and one in a folder of it.
  write("train/ant/9.ppm", ppm(2, 2, std::string(12, '\xc0')));
  classes("train/other/deep", {"more"});
  const Output mixed = run(classify + path("train"));
  for (const char* part : {"9.ppm is 'ant', taken for 'cat'\n", "6 of 7 (85.71%) images",
                           "folder 'more' is no class of the net", "other/deep/more/0.ppm"})
    EXPECT_TRUE(mixed.says(part)) << part << " is not in: " << mixed.text;
  const Output json = run(classify + "--json " + path("train/ant") + " 2>/dev/null");
  EXPECT_TRUE(json.says(R"(9.ppm", "class": 0, "label": "ant", "right": false, "predictions": [)"))
      << json.text;
  // Folders of other names say nothing of classes.
  const Output unknown = run(classify + path("train/other"));
  EXPECT_EQ(unknown.status, 0) << unknown.text;
  EXPECT_FALSE(unknown.says("is known")) << unknown.text;
  EXPECT_FALSE(unknown.says("no class of the net")) << unknown.text;

  // A list for data layers has labels.
  const std::string list =
      write("list.txt", path("train/ant/0.ppm") + " 0\n" + path("train/bee/0.ppm") + " 2\n");
  const Output listed = run(classify + "--list " + list);
  EXPECT_EQ(listed.status, 0) << listed.text;
  EXPECT_TRUE(listed.says("1 of 2 (50.00%) images whose class is known are right\n"))
      << listed.text;
  EXPECT_TRUE(listed.says("bee/0.ppm is 'cat', taken for 'bee'\n")) << listed.text;
  expect_refusal(classify + "--list " + write("bad.txt", path("train/ant/0.ppm") + " 3\n"),
                 {"bad.txt", "label 3", "3 classes"});

  // Flags that contradict the training are told.
  const Output same = run(classify + "--scale 0.0039 " + path("train/bee"));
  EXPECT_FALSE(same.says("were trained with")) << same.text;
  const Output other = run(classify + "--scale 1 --mean 100 " + path("train/bee"));
  EXPECT_TRUE(other.says("--scale=1: the weights were trained with 0.0039;")) << other.text;
  EXPECT_TRUE(other.says("--mean=100: the weights were trained with none;")) << other.text;
  EXPECT_TRUE(run("inspect" + weights().substr(10)).says("images: pixel * 0.0039\n"));
}

// As the test data are: covered by 4 x 4, and of that the middle.
TEST_F(ClassFoldersCliTest, ClassifyResizesAsInTraining) {
  NetParameter weights;
  weights.add_layer()->set_name("other");
  ResizeParameter& resize = *weights.mutable_origin()->mutable_transform()->add_resize_param();
  resize.set_resize_mode(ResizeParameter::FIT_SMALL_SIZE);
  resize.set_height(4);
  resize.set_width(4);
  std::ofstream(path("w.caffemodel"), std::ios::binary) << weights.SerializeAsString();
  // 4 rows of 8 pixels, bright in the two columns and rows of the middle.
  std::string pixels(3 * 32, '\0');
  for (const int row : {1, 2}) {
    for (const int column : {3, 4}) {
      for (int c = 0; c < 3; ++c) pixels[static_cast<size_t>(3 * (8 * row + column) + c)] = '\x50';
    }
  }
  const std::string classify = "classify --allow_missing --weights " + path("w.caffemodel") +
                               " --model " + write("mean.prototxt", R"(
layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 1 dim: 2 dim: 2 } } }
layer { name: 'mean' type: 'Pooling' bottom: 'data' top: 'mean' pooling_param { pool: AVE global_pooling: true } })") +
                               " " + write("middle.ppm", ppm(4, 8, pixels)) + " ";
  const Output output = run(classify);
  EXPECT_TRUE(output.says("80.0000 - \"0\"")) << output.text;
  const std::string trained = "resize_param { resize_mode: FIT_SMALL_SIZE height: 4 width: 4 }";
  EXPECT_TRUE(output.says("the weights were trained on: " + trained)) << output.text;
  EXPECT_FALSE(output.says("leave the flag out")) << output.text;
  // Flags that contradict it.
  const Output whole = run(classify + "--crop whole");
  EXPECT_TRUE(whole.says("10.0000 - \"0\"")) << whole.text;
  EXPECT_TRUE(whole.says("--crop=whole: the weights were trained with " + trained)) << whole.text;
  for (const char* flag : {"--resize=6x6", "--interp=linear"}) {
    const Output other = run(classify + flag);
    EXPECT_TRUE(other.says(flag + (": the weights were trained with " + trained))) << other.text;
  }
  // The same as in training.
  resize.set_resize_mode(ResizeParameter::WARP);
  std::ofstream(path("w.caffemodel"), std::ios::binary) << weights.SerializeAsString();
  EXPECT_FALSE(run(classify + "--resize 4x4").says("leave the flag out"));
}

/// What the tests below have in common: the scores are the means of blue, green and red.
class MeanColorCliTest : public ClassFoldersCliTest {
 protected:
  std::string classify(const NetParameter& weights, int channels = 3) const {
    std::ofstream(path("w.caffemodel"), std::ios::binary) << weights.SerializeAsString();
    return "classify --allow_missing --weights " + path("w.caffemodel") + " --model " +
           write("mean.prototxt",
                 text("layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 "
                      "dim: ",
                      channels, R"( dim: 2 dim: 2 } } }
layer { name: 'mean' type: 'Pooling' bottom: 'data' top: 'mean' pooling_param { pool: AVE global_pooling: true } })")) +
           " ";
  }
  static NetParameter trained() {
    NetParameter weights;
    weights.add_layer()->set_name("other");
    return weights;
  }
  /// Red is 80.
  std::string red(const std::string& name) const {
    std::string pixels;
    for (int i = 0; i < 4; ++i) pixels += std::string("\x50\0\0", 3);
    return write(name, ppm(2, 2, pixels));
  }
};

TEST_F(MeanColorCliTest, TheMeanImageIsThatOfTheTraining) {
  BlobProto image;
  image.set_num(1);
  image.set_channels(3);
  image.set_height(2);
  image.set_width(2);
  for (int i = 0; i < 12; ++i) image.add_data(10);
  const auto write_mean = [&] { return write("mean.binaryproto", image.SerializeAsString()); };
  NetParameter weights = trained();
  Origin& origin = *weights.mutable_origin();
  origin.mutable_transform()->set_mean_file(write_mean());
  for (int c = 0; c < 3; ++c) origin.add_channel_mean(10);
  const std::string one = red("red.ppm");
  const Output same = run(classify(weights) + one);
  EXPECT_TRUE(same.says("70.0000 - \"2\"")) << same.text;
  EXPECT_FALSE(same.says("is not the mean image")) << same.text;
  // Another data set has one of the same name.
  for (float& value : *image.mutable_data()) value = 50;
  write_mean();
  const Output other = run(classify(weights) + one);
  EXPECT_TRUE(other.says("70.0000 - \"2\"")) << other.text;
  EXPECT_TRUE(
      other.says("mean.binaryproto is not the mean image of the training: its channels "
                 "have the means 50,50,50, and had 10,10,10"))
      << other.text;
  // Weights that do not say the means have the file alone.
  NetParameter silent = weights;
  silent.mutable_origin()->clear_channel_mean();
  const Output trusted = run(classify(silent) + one);
  EXPECT_TRUE(trusted.says("30.0000 - \"2\"")) << trusted.text;
  EXPECT_FALSE(trusted.says("is not the mean image")) << trusted.text;
  // Without the file, each channel has its mean.
  std::filesystem::remove(path("mean.binaryproto"));
  const Output gone = run(classify(weights) + one);
  EXPECT_TRUE(gone.says("70.0000 - \"2\"")) << gone.text;
  EXPECT_TRUE(gone.says("mean.binaryproto, is not here: the mean of each channel stands for it"))
      << gone.text;
  // Blue, green and red have no place in one channel.
  expect_refusal(classify(weights, 1) + one,
                 {"the mean 10,10,10 of 3 channels", "input has 1", "--mean"});
  EXPECT_EQ(run(classify(weights, 1) + "--mean 0 " + one).status, 0);
}

TEST_F(MeanColorCliTest, TheOrderOfChannelsIsThatOfTheTraining) {
  NetParameter weights = trained();
  TransformationParameter& transform = *weights.mutable_origin()->mutable_transform();
  transform.set_scale(1);
  const std::string one = red("red.ppm");
  const Output swapped = run(classify(weights) + "--channel_swap rgb " + one);
  EXPECT_TRUE(swapped.says("--channel_swap=rgb: the weights were trained with bgr"))
      << swapped.text;
  EXPECT_FALSE(run(classify(weights) + "--channel_swap 2,1,0 " + one).says("leave the flag out"));
  transform.set_bgr2rgb(true);
  const Output taken = run(classify(weights) + one);
  EXPECT_TRUE(taken.says("--channel_swap=rgb\n")) << taken.text;
  EXPECT_TRUE(taken.says("80.0000 - \"0\"")) << taken.text;
}

TEST_F(MeanColorCliTest, AWordOfSeveralClassesIsNone) {
  for (const char* folder : {"photos/golden", "photos/tabby"})
    std::filesystem::create_directories(path(folder));
  red("photos/golden/1.ppm");
  const std::string tabby = red("photos/tabby/1.ppm");
  const std::string command = classify(trained()) + "--labels " +
                              write("labels.txt", "golden retriever\ngolden eagle\ntabby cat\n") +
                              " ";
  const Output output = run(command + path("photos"));
  EXPECT_TRUE(output.says("1 of 1 (100.00%) images whose class is known")) << output.text;
  EXPECT_TRUE(output.says("folder 'golden' is no class of the net")) << output.text;
  // Each line of a list counts with its own label.
  const Output twice =
      run(command + "--list " + write("list.txt", tabby + " 0\n" + tabby + " 2\n"));
  EXPECT_TRUE(twice.says("1 of 2 (50.00%) images whose class is known")) << twice.text;
}

}  // namespace
