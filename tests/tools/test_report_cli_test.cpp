// crema test: classes by their names, as a table, a picture and JSON, and the images that it got
// wrong.
#include <filesystem>
#include <set>

#include "data/databases/class_file.hpp"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace {

namespace fs = std::filesystem;
using namespace crema;
using namespace crema::test;

class TestReportCliTest : public CliTest {
 protected:
  /// A database whose pixels are the scores of three classes: ant, bee, wasp. Of seven records,
  /// numbers 2, 4 and 5 are taken for another.
  std::string scores(const std::vector<std::string>& names = {"ant", "bee", "wasp"},
                     const std::string& before_keys = "") const {
    const int records[7][4] = {{0, 9, 1, 1}, {0, 9, 1, 1}, {0, 1, 9, 1}, {1, 1, 9, 1},
                               {1, 1, 2, 9}, {2, 5, 4, 4}, {2, 0, 0, 1}};
    Records all;
    for (int i = 0; i < 7; ++i) {
      Datum datum = byte_datum(3, 1, 1, records[i][0]);
      std::string pixels;
      for (int c = 1; c < 4; ++c) pixels += static_cast<char>(records[i][c]);
      datum.set_data(pixels);
      all.emplace_back(before_keys + "0000000" + std::to_string(i), datum.SerializeAsString());
    }
    fs::remove_all(path("scores"));
    write_database(path("scores"), all);
    write_class_file(path("scores"), names);
    return path("scores");
  }
  std::string net(const std::string& source, int batch = 3) const {
    return write("net.prototxt",
                 text("layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { "
                      "source: '",
                      source, "' backend: LMDB batch_size: ", batch, " } }\n",
                      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' bottom: 'label' "
                      "top: 'accuracy' }\n"));
  }
};

TEST_F(TestReportCliTest, OnePassSaysWhatEachClassIsTakenFor) {
  const std::string test = "test --model " + net(scores());
  const Output output = run(test);
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part :
       {"7 records in 3 batches of 3, the last one of 1: each counts once", "accuracy = 0.571429",
        "class    support  predicted  precision     recall         F1        IoU  taken for\n",
        "ant            3          3     66.67%     66.67%     66.67%     50.00%  bee (1)\n",
        "wasp           2          2     50.00%     50.00%     50.00%     33.33%  ant (1)\n"})
    EXPECT_TRUE(output.says(part)) << part << " is not in: " << output.text;
  for (const char* part : {"Batch ", "rows: labels", "of the best"})
    EXPECT_FALSE(output.says(part)) << part << " is in: " << output.text;
  const Output verbose = run(test + " --verbose");
  EXPECT_TRUE(verbose.says("Batch 2, accuracy = 1\n")) << verbose.text;
  // The published form prints what is published, and no more.
  const Output published = run(test + " -iterations 2");
  EXPECT_TRUE(published.says("Batch 1, accuracy = 0.333333\n")) << published.text;
  EXPECT_FALSE(published.says("support")) << published.text;
  EXPECT_FALSE(published.says("Of 6 labels")) << published.text;
}

TEST_F(TestReportCliTest, NamesStandInTableAndJson) {
  const std::string test = "test --confusion --model " + net(scores());
  const Output output = run(test);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(
      output.says("rows: labels, columns: predictions\n"
                  "       ant  bee  wasp\n"
                  "ant      2    1     0\n"
                  "bee      0    1     1\n"
                  "wasp     1    0     1\n"))
      << output.text;
  const Output json = run(test + " --json 2>/dev/null");
  for (const char* part :
       {R"({"label": 2, "name": "wasp", "support": 2, "predicted": 2, "precision": 0.5, )",
        R"("confusion": [[2, 1, 0], [0, 1, 1], [1, 0, 1]]})"})
    EXPECT_TRUE(json.says(part)) << part << " is not in: " << json.text;
  // Other names go before those of the data, and have to be as many.
  const Output other = run(test + " --class_names " + write("names.txt", "Ameise\nBiene\nWespe\n"));
  EXPECT_TRUE(other.says("Wespe")) << other.text;
  expect_refusal(test + " --class_names " + write("two.txt", "a\nb\n"),
                 {"two.txt names 2 classes", "3"});
  // Names that are too wide for a screen have numbers over their columns.
  const std::string a(24, 'a'), b(30, 'b'), c(24, 'c');
  const Output wide =
      run(test + " --class_names " + write("wide.txt", a + "\n" + b + "\n" + c + "\n"));
  EXPECT_TRUE(wide.says(" 1 " + std::string(21, 'b') + "...    0    1    1\n")) << wide.text;
}

TEST_F(TestReportCliTest, ManyClassesHaveTheBestFive) {
  Records all;
  for (int i = 0; i < 4; ++i) {
    // The scores fall with the number of the class; record i is of class 2 i.
    Datum datum = byte_datum(12, 1, 1, 2 * i);
    std::string pixels;
    for (int c = 0; c < 12; ++c) pixels += static_cast<char>(20 - c);
    datum.set_data(pixels);
    all.emplace_back("0000000" + std::to_string(i), datum.SerializeAsString());
  }
  write_database(path("many"), all);
  const std::string test = "test --model " + net(path("many"));
  const Output output = run(test);
  EXPECT_TRUE(output.says("Of 4 labels: accuracy 25.00%, of the best 5 75.00%, ")) << output.text;
  EXPECT_TRUE(run(test + " --json 2>/dev/null").says("\"top5_accuracy\": 0.75")) << output.text;
}

TEST_F(TestReportCliTest, ThePictureIsWholeSvg) {
  const std::string svg = path("confusion.svg");
  const Output output =
      run("test --model " + net(scores({"a<b", "bee", "wasp"})) + " --confusion-svg " + svg);
  EXPECT_EQ(output.status, 0) << output.text;
  const std::string drawn = read_file(svg);
  for (const char* part : {"<svg xmlns=", "prefers-color-scheme: dark", ">a&lt;b</text>",
                           "<title>wasp taken for a&lt;b: 1 of 2, 50.0%</title>",
                           "Accuracy 57.1% of 7 labels", "</svg>\n"})
    EXPECT_NE(drawn.find(part), std::string::npos) << part << " is not in: " << drawn;
  // Labels of columns are turned where they are wider than these.
  EXPECT_EQ(drawn.find("rotate"), std::string::npos) << drawn;
  const Output turned = run("test --model " + net(scores({"a", "bee", "a wasp of the woods"})) +
                            " --confusion-svg " + svg);
  EXPECT_EQ(turned.status, 0) << turned.text;
  const std::string long_names = read_file(svg);
  const size_t rotated = long_names.find("rotate(-90");
  ASSERT_NE(rotated, std::string::npos) << long_names;
  EXPECT_EQ(long_names.substr(long_names.find('>', rotated), 21), ">a wasp of the woods<");
  EXPECT_EQ(long_names.find("rotate", rotated + 1), std::string::npos) << long_names;
  expect_refusal("test --model " + net(scores()) + " --confusion_svg " + path("no/a.svg"),
                 {"there is no folder"});
}

TEST_F(TestReportCliTest, MistakesAreSavedByTheirClasses) {
  if (!kBuiltWithOpenCv) {
    expect_refusal("test --model " + net(scores()) + " --save_mistakes " + path("wrong"),
                   {"--save_mistakes", "OpenCV"});
    EXPECT_FALSE(fs::exists(path("wrong")));
    return;
  }
  const Output output = run("test --model " + net(scores()) + " --save-mistakes " + path("wrong"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("3 images of another class than the net says")) << output.text;
  for (const char* file :
       {"ant/as_bee_00000002.png", "bee/as_wasp_00000004.png", "wasp/as_ant_00000005.png"})
    EXPECT_TRUE(fs::exists(path("wrong/") + file)) << file;
  const std::string list = read_file(path("wrong/mistakes.tsv"));
  EXPECT_NE(list.find("bee/as_wasp_00000004.png\tbee\twasp\t9\t4\t00000004\n"), std::string::npos)
      << list;
  expect_refusal("test --model " + net(scores()) + " --save_mistakes " + path("wrong"),
                 {"exists already"});
}

// Names and keys may have more letters than the name of a file.
TEST_F(TestReportCliTest, MistakesOfLongNamesAreSaved) {
  if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
  const auto name = [](const char* end) {
    std::string all;
    for (int i = 0; i < 110; ++i) all += "\xC3\xA4";  // ä
    return all + end;
  };
  const std::string database =
      scores({name("1"), name("2"), name("3")}, "00_" + std::string(300, 'k'));
  const Output output = run("test --model " + net(database) + " --save_mistakes " + path("wrong"));
  EXPECT_EQ(output.status, 0) << output.text;
  int images = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path("wrong"))) {
    const std::string file = entry.path().filename().string();
    if (entry.path().extension() != ".png") continue;
    ++images;
    EXPECT_LE(file.size(), 255U);
    EXPECT_TRUE(file.ends_with("_2.png") || file.ends_with("_4.png") || file.ends_with("_5.png"))
        << file;
  }
  EXPECT_EQ(images, 3);
}

// Files of a folder are copied as they are, which needs no OpenCV.
TEST_F(TestReportCliTest, MistakesOfFoldersAreTheirFiles) {
  if (!kBuiltWithOpenCv)
    GTEST_SKIP() << "needs OpenCV, to read PPM: configure with CREMA_OPENCV=ON";
  const std::string image = ppm(1, 1, std::string("\x01\x02\x03"));
  for (const char* name : {"photos/ant/1.ppm", "photos/bee/1.ppm", "photos/wasp/1.ppm"}) {
    fs::create_directories(fs::path(path(name)).parent_path());
    write(name, image);
  }
  // The scores are the channels, blue first: all are taken for ant.
  const std::string model = write("folder.prototxt", R"(
layer { name: 'data' type: 'Data' top: 'data' top: 'label' data_param { backend: FOLDER batch_size: 2 source: ')" +
                                                         path("photos") + R"(' } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'data' bottom: 'label' top: 'accuracy' })");
  const Output output = run("test --model " + model + " --save_mistakes " + path("wrong"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(read_file(path("wrong/bee/as_ant_1.pnm")), image);
  EXPECT_EQ(read_file(path("wrong/wasp/as_ant_1.pnm")), image);
  EXPECT_FALSE(fs::exists(path("wrong/ant")));
}

TEST_F(TestReportCliTest, MistakesNeedImages) {
  const std::string model = write("dummy.prototxt", R"(
layer { name: 'x' type: 'DummyData' top: 'x' top: 'label' dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 } } }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'x' bottom: 'label' top: 'accuracy' })");
  expect_refusal("test --model " + model + " --save_mistakes " + path("wrong"),
                 {"no data layer that reads"});
  EXPECT_FALSE(fs::exists(path("wrong")));
}

}  // namespace
