// crema convert-annotations by its flags, and the commands that look into its databases.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/records/class_list.hpp"
#include "support/database.hpp"
#include "support/needs.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

class AnnotationsCliTest : public CliTest {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    write("a.pgm", pgm(10, 20, std::string(200, 'a')));
    write("a.txt", "1 5 2.5 10 7.5\n2 0 0 20 5 1\n");
    list_ = write("list.txt", "a.pgm a.txt\n");
    map_ = write("map.prototxt", "item { name: 'cat' label: 1 } item { name: 'dog' label: 2 }");
  }
  std::string list_, map_;
};

TEST_F(AnnotationsCliTest, PublishedNameAndFlagsWriteADatabaseThatOthersShow) {
  const std::string bin = std::filesystem::path(CREMA_TOOL).parent_path() / "convert_annoset";
  const Output made = run("--anno_type=detection --label_type=txt --label_map_file=" + map_ +
                              " --check_label=True --min_dim=0 --max_dim=0 --resize_height=0 "
                              "--resize_width=0 --backend=lmdb --shuffle=False --check_size=False "
                              "--encode_type=png --encoded=True --gray=False " +
                              path("") + " " + list_ + " " + path("db"),
                          bin);
  ASSERT_EQ(made.status, 0) << made.text;
  EXPECT_TRUE(made.says("1 records written")) << made.text;

  const Output verified = run("verify-db --label_map_file=" + map_ + " " + path("db"));
  EXPECT_EQ(verified.status, 0) << verified.text;
  for (const char* part : {"boxes: 2 (1 difficult) in 1 records, 0 of them without",
                           "boxes of label 1 (cat): 1", "bad records: 0"})
    EXPECT_TRUE(verified.says(part)) << part << " is not in " << verified.text;
  EXPECT_EQ(run("verify-db --classes=2 " + path("db")).status, 1);

  const Output listed = run("db list " + path("db"));
  EXPECT_TRUE(listed.says("00000000_a.pgm\t2 boxes\t")) << listed.text;
  const Output inspected = run("inspect " + path("db"));
  EXPECT_TRUE(inspected.says("image file bytes, 2 boxes, ")) << inspected.text;
  const Output shown = run("db show --label_map_file=" + map_ + " " + path("db"));
  for (const char* part :
       {"annotation: 2 boxes", "box: label 1 (cat), instance 0, from (5, 2.5) to (10, 7.5)\n",
        "box: label 2 (dog), instance 0, from (0, 0) to (20, 5), difficult"})
    EXPECT_TRUE(shown.says(part)) << part << " is not in " << shown.text;
  // The database has them, too; those of a map that is given go before.
  EXPECT_EQ(read_file(path("db/class_names.txt")), "background\ncat\ndog\n");
  EXPECT_TRUE(run("verify-db " + path("db")).says("boxes of label 1 (cat): 1\n"));
  EXPECT_TRUE(run("db show " + path("db")).says("box: label 2 (dog), instance 0"));
  const std::string other =
      " --label_map_file=" +
      write("other", "item { name: 'Katze' label: 1 } item { name: 'Hund' label: 2 } ");
  EXPECT_TRUE(run("verify-db" + other + " " + path("db")).says("boxes of label 1 (Katze): 1\n"));
  EXPECT_TRUE(run("db show" + other + " " + path("db")).says("box: label 2 (Hund), instance 0"));
  EXPECT_EQ(run("compute-image-mean " + path("db")).status, 0);

  ASSERT_EQ(run("db export " + path("db") + " " + path("files")).status, 0);
  EXPECT_EQ(read_file(path("files/list.txt")), "00000000_a.png 00000000_a.png.boxes.txt\n");
  EXPECT_EQ(read_file(path("files/00000000_a.png.boxes.txt")), "1 5 2.5 10 7.5\n2 0 0 20 5 1\n");
}

TEST_F(AnnotationsCliTest, FilesOfNamesAreReplacedWithOverwriteOnly) {
  const std::string convert =
      "convert-annotations --label_type=txt --name_size_file=" + path("sizes") + " " + path("") +
      " " + list_ + " ";
  EXPECT_EQ(run(convert + path("db")).status, 0);
  EXPECT_EQ(read_file(path("sizes")), "a 10 20\n");
  expect_refusal(convert + path("db2"), {"sizes' exists already", "--overwrite"});
  EXPECT_FALSE(std::filesystem::exists(path("db2")));
  write("b.pgm", pgm(5, 6, std::string(30, 'a')));
  write("list.txt", "b.pgm a.txt\n");
  write("a.txt", "1 0 0 1 1\n");
  EXPECT_EQ(run(convert + "--overwrite " + path("db")).status, 0);
  EXPECT_EQ(read_file(path("sizes")), "b 5 6\n");
}

TEST_F(AnnotationsCliTest, FilesOfNamesAreWrittenOverNoOther) {
  const std::string names = write("names.txt", "cat\ndog\n");
  const auto refuses = [&](const std::string& sizes, const std::string& map) {
    expect_refusal("convert-annotations --overwrite --label_type=yolo --class_names=" + names +
                       " --name_size_file=" + sizes + " --write_label_map=" + map + " " + path("") +
                       " " + list_ + " " + path("db"),
                   {"is given twice", "another name"});
    EXPECT_FALSE(std::filesystem::exists(path("db")));
  };
  refuses(path("one"), path("one"));
  refuses(path("sizes"), names);
  refuses(list_, path("map"));
  EXPECT_EQ(read_file(names), "cat\ndog\n");
}

/// As its tools write it: images/, labels/ and data.yaml.
TEST_F(AnnotationsCliTest, ADataSetOfYoloNeedsNoListAndNoRoot) {
  for (const char* folder : {"yolo/images/train", "yolo/labels/train"})
    std::filesystem::create_directories(path(folder));
  write("yolo/images/train/a.pgm", pgm(10, 20, std::string(200, 'a')));
  write("yolo/images/train/b.pgm", pgm(10, 20, std::string(200, 'b')));
  write("yolo/labels/train/a.txt", "1 0.5 0.5 0.5 0.5\n0 0.5 0.25 0.75 0.5 0.25 1\n");
  const std::string yaml =
      write("yolo/data.yaml", "train: images/train\nnc: 2\nnames:\n  0: cat\n  1: dog\n");
  const std::string names = reads_yaml() ? yaml : write("names.txt", "cat\ndog\n");
  const std::string convert =
      "convert-annotations --overwrite --label_type=yolo --class_names=" + names + " ";
  expect_refusal(convert + path("yolo") + " " + path("db"),
                 {"labels/train/a.txt", "line 2", "--polygons"});
  const Output done = run(convert + "--polygons --write_label_map=" + path("map") + " " +
                          path("yolo") + " " + path("db"));
  EXPECT_EQ(done.status, 0) << done.text;
  EXPECT_TRUE(done.says("2 records written") && done.says("1 images have no file of boxes"))
      << done.text;
  const Output shown = run("db show " + path("db"));
  EXPECT_TRUE(shown.says("label 2 (dog), instance 0, from (5, 2.5) to (15, 7.5)")) << shown.text;
  EXPECT_TRUE(shown.says("label 1 (cat), instance 0, from (5, 2.5) to (15, 10)")) << shown.text;
  EXPECT_EQ(run(convert + "--polygons --check " + path("yolo/images/train")).status, 0);
  // A list of absolute paths, without ROOT_FOLDER.
  const std::string list = write("all.txt", path("yolo/images/train/b.pgm") + "\n");
  EXPECT_TRUE(run(convert + list + " " + path("db")).says("1 records written"));
  EXPECT_EQ(run(convert + "--check " + list).status, 0);
  // Without a folder or a list there is no telling what is missing.
  expect_refusal(convert + path("") + " " + list, {"ROOT_FOLDER LIST_FILE OUTPUT", "2 arguments"});
  expect_refusal(convert + path("nothing") + " " + path("db"), {"ROOT_FOLDER LIST_FILE OUTPUT"});
  if (reads_yaml()) return;
  expect_refusal("convert-annotations --label_type=yolo --class_names=" + yaml + " " +
                     path("yolo") + " " + path("db2"),
                 {"data.yaml", "libyaml-cpp-dev"});
}

TEST_F(AnnotationsCliTest, RefusesWhatItCannotRead) {
  const std::string arguments = path("") + " " + list_ + " " + path("db");
  expect_refusal("convert-annotations --label_type=voc " + arguments, {"'voc'", "xml", "yolo"});
  expect_refusal("convert-annotations --anno_type=boxes " + arguments, {"'boxes'", "detection"});
  expect_refusal("convert-annotations " + arguments, {"--label_map_file"});
  expect_refusal("convert-annotations", {"ROOT_FOLDER LIST_FILE OUTPUT"});
  write("a.txt", "7 0 0 1 1\n");
  expect_refusal("convert-annotations --label_type=txt --label_map_file=" + map_ + " " + arguments,
                 {"list.txt:1", "a.txt", "line 1", "label 7"});
  EXPECT_FALSE(std::filesystem::exists(path("db")));
}

}  // namespace
}  // namespace crema::test
