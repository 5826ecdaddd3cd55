// Databases with boxes from every form of files of boxes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "data/boxes/annotation.hpp"
#include "data/boxes/annotation_files.hpp"
#include "data/boxes/label_map.hpp"
#include "data/boxes/original_boxes.hpp"
#include "data/converters/converters.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/export_images.hpp"
#include "data/databases/verify_database.hpp"
#include "data/records/datum.hpp"
#include "data/transform/image_mean.hpp"
#include "proto/detection.pb.h"
#include "support/database.hpp"
#include "support/expect_error.hpp"
#include "support/image_files.hpp"
#include "support/needs.hpp"

namespace crema {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ConvertAnnotations : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::kBuiltWithOpenCv) GTEST_SKIP() << "needs OpenCV: configure with CREMA_OPENCV=ON";
    folder_.write("images/a.pgm", test::pgm(10, 20, std::string(200, 'a')));
    folder_.write("images/b.pgm", test::pgm(40, 20, std::string(800, 'b')));
    options_.root = folder_.path();
    options_.output = folder_ / "db";
    options_.overwrite = true;
    options_.label_map_file = folder_.write(
        "map.prototxt",
        "item { name: 'none' label: 0 display_name: 'background' } item { name: '18' label: 2 "
        "display_name: 'dog' } item { name: 'cat' label: 5 }");
  }
  /// The records of the list converted.
  std::vector<AnnotatedDatum> convert(const std::string& list) {
    options_.list = folder_.write("list.txt", list);
    return convert_list_file();
  }
  std::vector<AnnotatedDatum> convert_list_file() {
    report_ = convert_annotations(options_);
    std::vector<AnnotatedDatum> all;
    keys_.clear();
    for (const auto& [key, value] : test::read_database(options_.output)) {
      EXPECT_TRUE(is_annotated(value));
      keys_.push_back(key);
      EXPECT_TRUE(all.emplace_back().ParseFromString(value));
    }
    return all;
  }
  void fails(const std::string& list, std::initializer_list<std::string_view> words) {
    expect_error([&] { convert(list); }, words);
  }
  /// label, instance, xmin, ymin, xmax, ymax, difficult of each box.
  static std::vector<std::vector<double>> rows(const AnnotatedDatum& datum) {
    std::vector<std::vector<double>> all;
    for (const LabeledBox& b : boxes_of(datum))
      all.push_back({double(b.label), double(b.instance), b.box.left, b.box.top, b.box.right,
                     b.box.bottom, double(b.difficult)});
    return all;
  }
  std::string object(const std::string& name, const std::string& edges,
                     const std::string& more = "") {
    return text("<object><name>", name, "</name>", more, "<bndbox>", edges, "</bndbox></object>\n");
  }
  static std::string edges(double xmin, double ymin, double xmax, double ymax) {
    return text("<xmin>", xmin, "</xmin><ymin>", ymin, "</ymin><xmax>", xmax, "</xmax><ymax>", ymax,
                "</ymax>");
  }

  test::ScratchFolder folder_;
  ConvertAnnotationsOptions options_;
  ConvertReport report_;
  std::vector<std::string> keys_;
};

TEST_F(ConvertAnnotations, ReadsXml) {
  if (!test::kBuiltWithAnnotations) GTEST_SKIP() << "needs CREMA_ANNOTATIONS=ON";
  // Boxes with fractions, and a mark of difficulty behind the box: the fork drops both.
  folder_.write("a.xml", "<annotation><size><width>20</width><height>10</height></size>\n" +
                             object("cat", edges(5, 2.5, 10, 7.5)) +
                             "<object><name>dog</name><part><name>head</name></part><bndbox>" +
                             edges(0, 0, 20, 5) + "</bndbox><difficult>1</difficult></object>" +
                             object("cat", edges(10, 0, 20, 10), "<difficult>0</difficult>") +
                             "</annotation>");
  folder_.write("b.xml", "<annotation></annotation>");
  const auto records = convert("images/a.pgm a.xml\nimages/b.pgm b.xml\n");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(keys_, ElementsAre("00000000_images/a.pgm", "00000001_images/b.pgm"));
  EXPECT_THAT(rows(records[0]),
              ElementsAre(ElementsAre(5, 0, 0.25, 0.25, 0.5, 0.75, 0),
                          ElementsAre(5, 1, 0.5, 0, 1, 1, 0), ElementsAre(2, 0, 0, 0, 1, 0.5, 1)));
  EXPECT_EQ(records[0].type(), AnnotatedDatum::BBOX);
  EXPECT_EQ(records[0].datum().label(), -1);
  EXPECT_EQ(records[0].datum().height(), 10);
  EXPECT_EQ(records[1].annotation_group_size(), 0);
  EXPECT_THAT(report_.warnings, ElementsAre(HasSubstr("label 1 has no name")));

  folder_.write("a.xml", "<annotation>\n<object></annotation>");
  fails("images/a.pgm a.xml", {"list.txt:1", "images/a.pgm", "a.xml", "line 2", "no XML"});
  folder_.write("a.xml", "<annotation>\n" + object("horse", edges(0, 0, 1, 1)) + "</annotation>");
  fails("images/a.pgm a.xml", {"a.xml", "line 2", "object 1 ('horse')", "map.prototxt"});
  folder_.write("a.xml", "<annotation>" + object("cat", "<xmin>1</xmin>") + "</annotation>");
  fails("images/a.pgm a.xml", {"object 1 ('cat')", "<ymin>", "no number"});
  options_.label_map_file.clear();
  fails("images/a.pgm a.xml", {"--label_map_file"});
}

// A camera that was held upright: EXIF turns 20 wide, 10 high to 10 wide, 20 high.
TEST_F(ConvertAnnotations, SizesAreThoseOfTheUprightPicture) {
  if (!test::kBuiltWithAnnotations) GTEST_SKIP() << "needs CREMA_ANNOTATIONS=ON";
  folder_.write("images/turned.png", test::png_file(std::vector<uint16_t>(200, 7), 10, 20,
                                                    {.color = 0, .exif = test::exif(6)}));
  const auto xml = [&](int width, int height) {
    folder_.write("a.xml",
                  text("<annotation><size><width>", width, "</width><height>", height,
                       "</height></size>", object("cat", edges(5, 5, 10, 10)), "</annotation>"));
  };
  options_.gray = true;
  options_.name_size_file = folder_ / "sizes.txt";
  for (const bool encoded : {false, true}) {
    options_.encoded = encoded;
    xml(10, 20);
    const auto records = convert("images/turned.png a.xml\n");
    EXPECT_EQ(records[0].datum().height(), 20);
    EXPECT_EQ(records[0].datum().width(), 10);
    EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(5, 0, 0.5, 0.25, 1, 0.5, 0)));
    EXPECT_THAT(report_.warnings, ElementsAre(HasSubstr("label 1 has no name")));
    EXPECT_EQ(test::read_file(options_.name_size_file), "turned 20 10\n");
    xml(20, 10);
    fails("images/turned.png a.xml\n",
          {"list.txt:1", "a.xml", "says 20 wide and 10 high", "EXIF", "10 wide and 20 high"});
  }
  options_.label_type = "yolo";
  options_.label_map_file.clear();
  folder_.write("a.txt", "0 0.75 0.375 0.5 0.25\n");
  EXPECT_THAT(rows(convert("images/turned.png a.txt\n")[0]),
              ElementsAre(ElementsAre(1, 0, 0.5, 0.25, 1, 0.5, 0)));
  options_.label_type.clear();
  const auto coco = [&](int width, int height) {
    options_.list = folder_.write(
        "set.json", text(R"({"images": [{"id": 3, "file_name": "images/turned.png", "width": )",
                         width, R"(, "height": )", height,
                         R"(}], "categories": [{"id": 1, "name": "cat"}], "annotations": [)",
                         R"({"image_id": 3, "category_id": 1, "bbox": [5, 5, 5, 5]}]})"));
  };
  coco(10, 20);
  EXPECT_THAT(rows(convert_list_file()[0]), ElementsAre(ElementsAre(1, 0, 0.5, 0.25, 1, 0.5, 0)));
  coco(20, 10);
  expect_error([&] { convert_list_file(); }, {"image 3", "says 20 wide", "EXIF"});
}

TEST_F(ConvertAnnotations, ReadsJsonOfAnImage) {
  if (!test::kBuiltWithAnnotations) GTEST_SKIP() << "needs CREMA_ANNOTATIONS=ON";
  options_.label_type = "json";
  folder_.write("a.json",
                R"({"image": {"width": 20, "height": 10}, "annotation": [
    {"category_id": 18, "bbox": [5, 2.5, 10, 5], "iscrowd": 1, "segmentation": [[1, 2]]},
    {"category_id": "cat", "bbox": [0, 0, 20, 10]}]})");
  const auto records = convert("images/a.pgm a.json");
  EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(2, 0, 0.25, 0.25, 0.75, 0.75, 1),
                                            ElementsAre(5, 0, 0, 0, 1, 1, 0)));
  folder_.write("a.json", "{\"annotation\":\n [,]}");
  fails("images/a.pgm a.json", {"a.json", "line 2", "byte", "no JSON"});
  folder_.write("a.json", R"({"annotation": [{"category_id": 18, "bbox": [1, 2]}]})");
  fails("images/a.pgm a.json",
        {"annotation 0 (category 18)", "2 numbers", "[x, y, width, height]"});
  folder_.write("a.json", R"({"annotation": [{"category_id": 19, "bbox": [1, 2, 1, 1]}]})");
  fails("images/a.pgm a.json", {"annotation 0", "'19'", "label map"});
  folder_.write("a.json", "[]");
  fails("images/a.pgm a.json", {"\"annotation\""});
}

TEST_F(ConvertAnnotations, ReadsACocoDataSet) {
  if (!test::kBuiltWithAnnotations) GTEST_SKIP() << "needs CREMA_ANNOTATIONS=ON";
  options_.root = folder_ / "images";
  options_.list = folder_.write("instances.json", R"({"info": {},
    "images": [{"id": 7, "file_name": "b.pgm", "width": 20, "height": 40},
               {"id": 3, "file_name": "a.pgm", "width": 20, "height": 10}],
    "annotations": [{"image_id": 3, "category_id": 44, "bbox": [0, 0, 10, 5], "iscrowd": 0},
                    {"image_id": 7, "category_id": 18, "bbox": [0, 0, 20, 10]},
                    {"image_id": 3, "category_id": 18, "bbox": [10, 5, 10, 5], "iscrowd": 1}],
    "categories": [{"id": 44, "name": "cat"}, {"id": 18, "name": "dog"}]})");
  auto records = convert_list_file();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(keys_, ElementsAre("00000000_b.pgm", "00000001_a.pgm"));
  EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(2, 0, 0, 0, 1, 0.25, 0)));
  EXPECT_THAT(rows(records[1]), ElementsAre(ElementsAre(5, 0, 0, 0, 0.5, 0.5, 0),
                                            ElementsAre(2, 0, 0.5, 0.5, 1, 1, 1)));
  options_.label_map_file.clear();  // 18 is 1, and 44 is 2
  records = convert_list_file();
  EXPECT_EQ(rows(records[0])[0][0], 1);
  EXPECT_EQ(rows(records[1])[0][0], 2);

  const auto refuses = [&](const std::string& annotations,
                           std::initializer_list<std::string_view> words) {
    folder_.write("instances.json",
                  text("{\"images\": [{\"id\": 1, \"file_name\": \"a.pgm\"}], \"categories\": "
                       "[{\"id\": 1, \"name\": \"cat\"}], \"annotations\": [",
                       annotations, "]}"));
    expect_error([&] { convert_list_file(); }, words);
  };
  refuses(R"({"image_id": 2, "category_id": 1, "bbox": [0, 0, 1, 1]})",
          {"instances.json", "annotation 0", "image_id 2"});
  refuses(R"({"image_id": 1, "category_id": 4, "bbox": [0, 0, 1, 1]})", {"category_id 4"});
  refuses(R"({"image_id": 1, "category_id": 1, "bbox": [50, 0, 9, 9]})",
          {"instances.json: image 1", "annotation 0", "outside", "20 wide and 10 high"});
}

TEST_F(ConvertAnnotations, ReadsText) {
  options_.label_type = "txt";
  folder_.write("a.txt", "5 5 2.5 10 7.5\n\n2 0 0 20 5 1\n");
  folder_.write("b.txt", "");
  const auto records = convert("images/a.pgm a.txt\nimages/b.pgm b.txt");
  EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(5, 0, 0.25, 0.25, 0.5, 0.75, 0),
                                            ElementsAre(2, 0, 0, 0, 1, 0.5, 1)));
  folder_.write("a.txt", "5 1 1 2 2\n5 1 1 2\n");
  fails("images/a.pgm a.txt", {"a.txt", "line 2", "4 words", "label xmin"});
  folder_.write("a.txt", "5 1 nan 2 2\n");
  fails("images/a.pgm a.txt", {"line 1", "'nan'", "no number"});
  folder_.write("a.txt", "6 1 1 2 2\n");
  fails("images/a.pgm a.txt", {"label 6", "map.prototxt"});
  folder_.write("a.txt", "5 3 1 2 2\n");
  fails("images/a.pgm a.txt", {"line 1", "(3, 1) to (2, 2)", "--skip_bad"});
}

TEST_F(ConvertAnnotations, ReadsYolo) {
  options_.label_type = "yolo";
  options_.label_map_file.clear();
  folder_.write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n3 0.25 0.75 0.5 0.5\n");
  auto records = convert("images/a.pgm\nimages/b.pgm\n");
  EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(1, 0, 0.25, 0.25, 0.75, 0.75, 0),
                                            ElementsAre(4, 0, 0, 0.5, 0.5, 1, 0)));
  EXPECT_EQ(records[1].annotation_group_size(), 0);
  ASSERT_EQ(report_.warnings.size(), 1U);
  EXPECT_THAT(report_.warnings[0], HasSubstr("1 images have no file of boxes"));
  EXPECT_THAT(report_.warnings[0], HasSubstr("labels/b.txt"));

  // By their names in the label map.
  options_.label_map_file = folder_ / "map.prototxt";
  options_.class_names = folder_.write("names", "cat\nbackground\nnone\ndog\n");
  records = convert("images/a.pgm labels/a.txt");
  EXPECT_EQ(rows(records[0])[0][0], 5);
  EXPECT_EQ(rows(records[0])[1][0], 2);
  folder_.write("names", "cat\ndog\n");
  fails("images/a.pgm", {"labels/a.txt", "line 2", "class 3", "2 classes"});
  folder_.write("names", "cat\nhorse\n");
  fails("images/a.pgm", {"'horse'", "map.prototxt"});
  options_.class_names.clear();
  options_.label_map_file.clear();
  folder_.write("labels/a.txt", "0 5 5 10 10\n");
  fails("images/a.pgm", {"line 1", "'5'", "--label_type=txt"});
  // Beside the boxes of others, or alone, an image has none; a wrong place is an error.
  EXPECT_EQ(convert("images/b.pgm").at(0).annotation_group_size(), 0);
  EXPECT_THAT(report_.warnings, ElementsAre(HasSubstr("1 images have no file of boxes")));
  std::filesystem::remove_all(folder_ / "labels");
  EXPECT_EQ(convert("images/b.pgm").at(0).annotation_group_size(), 0);
  fails("images/a.pgm\nimages/b.pgm", {"none of the files of boxes", "labels/a.txt"});
  fails("images/b.pgm labels/b.txt", {"none of the files of boxes", "labels/b.txt"});
}

/// Any text file beside the images was taken for the boxes of an image that is not in the list.
TEST_F(ConvertAnnotations, AListBesideTheImagesIsNoFileOfBoxes) {
  options_.label_type = "yolo";
  options_.label_map_file.clear();
  options_.class_names = folder_.write("classes.txt", "cat\n");
  for (const char* name : {"a.pgm", "b.pgm", "list.pgm", "other.pgm"})
    folder_.write(name, test::pgm(10, 20, std::string(200, 'a')));
  fails("a.pgm\nb.pgm", {"none of the files of boxes", "a.txt"});
  folder_.write("other.txt", "0 0.5 0.5 0.5 0.5\n");
  EXPECT_EQ(convert("a.pgm\nb.pgm").size(), 2U);
}

TEST_F(ConvertAnnotations, PolygonsOfYoloBecomeTheBoxesAroundThem) {
  options_.label_type = "yolo";
  options_.label_map_file.clear();
  folder_.write("labels/a.txt", "0 0.5 0.25 0.75 0.5 0.25 1\n1 0.5 0.5 0.5 0.5\n");
  fails("images/a.pgm", {"labels/a.txt", "line 1", "7 words", "polygon", "--polygons"});
  options_.polygons = true;
  EXPECT_THAT(rows(convert("images/a.pgm")[0]),
              ElementsAre(ElementsAre(1, 0, 0.25, 0.25, 0.75, 1, 0),
                          ElementsAre(2, 0, 0.25, 0.25, 0.75, 0.75, 0)));
  folder_.write("labels/a.txt", "0 0.5 0.25 0.75 0.5 0.25\n");
  fails("images/a.pgm", {"line 1", "6 words"});
  folder_.write("labels/a.txt", "0 5 25 75 50 25 100\n");
  fails("images/a.pgm", {"line 1", "'5'", "--label_type=txt"});
  options_.label_type = "txt";
  fails("images/a.pgm labels/a.txt", {"--polygons", "--label_type=yolo", "txt"});
}

/// A data set of YOLO says by its folders what belongs together.
TEST_F(ConvertAnnotations, FoldersOfYoloNeedNoList) {
  options_.label_map_file.clear();
  options_.root.clear();
  const auto image = [&](const std::string& name) {
    folder_.write(name, test::pgm(10, 20, std::string(200, 'a')));
  };
  const auto reads = [&](const std::string& folder) {
    options_.list = folder_ / folder;
    return convert_list_file();
  };
  image("yolo/images/train/b.pgm");
  image("yolo/images/train/deep/a.pgm");
  image("yolo/images/train/.hidden.pgm");
  folder_.write("yolo/images/train/notes.txt", "no image");
  folder_.write("yolo/labels/train/b.txt", "1 0.5 0.5 0.5 0.5\n");
  folder_.write("yolo/labels/train/deep/a.txt", "0 0.5 0.5 1 1\n");
  auto records = reads("yolo");  // its folders say that it is one
  EXPECT_THAT(keys_,
              ElementsAre("00000000_images/train/b.pgm", "00000001_images/train/deep/a.pgm"));
  EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(2, 0, 0.25, 0.25, 0.75, 0.75, 0)));
  EXPECT_THAT(rows(records[1]), ElementsAre(ElementsAre(1, 0, 0, 0, 1, 1, 0)));
  options_.label_type = "yolo";
  for (const char* folder : {"yolo/images/train", "yolo/images/train/", "yolo/images"}) {
    SCOPED_TRACE(folder);
    records = reads(folder);
    ASSERT_EQ(records.size(), 2U);
    EXPECT_EQ(rows(records[0])[0][0], 2);
  }
  EXPECT_THAT(keys_, ElementsAre("00000000_train/b.pgm", "00000001_train/deep/a.pgm"));
  // Behind a root folder, and beside each other the other way round.
  options_.root = folder_ / "yolo";
  options_.list = "images/train";
  EXPECT_EQ(rows(convert_list_file()[1])[0][0], 1);
  options_.root.clear();
  image("other/train/images/c.pgm");
  folder_.write("other/train/labels/c.txt", "4 0.5 0.5 1 1\n");
  EXPECT_EQ(rows(reads("other")[0])[0][0], 5);
  EXPECT_EQ(rows(reads("other/train")[0])[0][0], 5);

  const auto refuses = [&](const std::string& folder,
                           std::initializer_list<std::string_view> words) {
    expect_error([&] { reads(folder); }, words);
  };
  image("yolo/images/val/d.pgm");
  refuses("yolo", {"yolo/images'", "'train', 'val'", "yolo/images/train'"});
  image("other/valid/images/d.pgm");
  refuses("other", {"'train', 'valid'"});
  folder_.write("none/images/x.txt", "");
  refuses("none", {"no image files"});
  options_.root = folder_.path();
  refuses("yolo/images/train", {"root folder", "leave it out"});
  options_.root.clear();
  options_.label_type.clear();
  refuses("images", {"is a folder", "--label_type=yolo"});
  options_.label_type = "txt";
  refuses("images", {"is a folder", "--label_type=txt needs a list"});
}

TEST_F(ConvertAnnotations, AbsolutePathsNeedNoRoot) {
  options_.label_type = "yolo";
  options_.label_map_file.clear();
  folder_.write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n");
  const std::string image = folder_ / "images/a.pgm", labels = folder_ / "labels/a.txt";
  const std::vector<std::string> roots = {"", "/", folder_.path(), folder_ / "images"};
  for (const std::string& root : roots) {
    SCOPED_TRACE(root);
    options_.root = root;
    EXPECT_EQ(rows(convert(image + "\n")[0]).size(), 1U);
    EXPECT_EQ(rows(convert(image + " " + labels + "\n")[0]).size(), 1U);
  }
  // As published, the root is put before a name with a slash.
  options_.root = folder_.path();
  EXPECT_EQ(rows(convert("/images/a.pgm\n")[0]).size(), 1U);
  // The folder "images" may be part of the root.
  options_.root = folder_ / "images";
  EXPECT_EQ(rows(convert("a.pgm\n")[0]).size(), 1U);
  options_.root = "/";
  folder_.write("instances.json", text("{\"images\": [{\"id\": 1, \"file_name\": \"", image,
                                       "\"}], \"categories\": [{\"id\": 1, \"name\": \"cat\"}], "
                                       "\"annotations\": [{\"image_id\": 1, \"category_id\": 1, "
                                       "\"bbox\": [0, 0, 1, 1]}]}"));
  if (!test::kBuiltWithAnnotations) return;
  options_.label_type.clear();
  options_.root.clear();
  options_.list = folder_ / "instances.json";
  EXPECT_EQ(rows(convert_list_file()[0]).size(), 1U);
}

TEST_F(ConvertAnnotations, ClipsAndCountsWhatIsHarmless) {
  options_.label_type = "txt";
  options_.label_map_file.clear();
  folder_.write("a.txt", "1 -5 0 10 5\n1 3 3 3 9\n1 10 5 21 10\n");
  const auto records = convert("images/a.pgm a.txt");
  EXPECT_THAT(rows(records[0]), ElementsAre(ElementsAre(1, 0, 0, 0, 0.5, 0.5, 0),
                                            ElementsAre(1, 1, 0.5, 0.5, 1, 1, 0)));
  ASSERT_EQ(report_.warnings.size(), 2U);
  EXPECT_THAT(report_.warnings[0], HasSubstr("2 boxes reach out"));
  EXPECT_THAT(report_.warnings[0], HasSubstr("a.txt', line 1"));
  EXPECT_THAT(report_.warnings[1], HasSubstr("1 boxes have no area"));
  folder_.write("a.txt", "0 0 0 9 9\n1 0 0 9 9\n");
  EXPECT_EQ(rows(convert("images/a.pgm a.txt")[0]).size(), 2U);
  ASSERT_EQ(report_.warnings.size(), 1U);
  EXPECT_THAT(report_.warnings[0], HasSubstr("1 boxes have the label 0"));
  EXPECT_THAT(report_.warnings[0], HasSubstr("a.txt', line 1"));
  folder_.write("a.txt", "1 30 0 40 5\n");
  options_.skip_bad = true;
  folder_.write("b.txt", "1 0 0 1 1");
  EXPECT_EQ(convert("images/a.pgm a.txt\nimages/b.pgm b.txt").size(), 1U);
  ASSERT_EQ(report_.problems.size(), 1U);
  EXPECT_THAT(report_.problems[0], HasSubstr("outside of its image, which is 20 wide and 10 high"));
}

/// Sizes are those of the files, in the order of the records, without what is left out.
TEST_F(ConvertAnnotations, WritesNamesSizesAndLabelsForFilesOfDetections) {
  options_.label_map_file.clear();
  options_.name_size_file = folder_ / "sizes.txt";
  options_.labels_file = folder_ / "labels.prototxt";
  options_.label_type = "txt";
  fails("images/a.pgm a.txt", {"--write_label_map is for"});
  options_.label_type = "yolo";
  options_.class_names = folder_.write("names.txt", "person\ntraffic light\n");
  options_.skip_bad = true;
  options_.resize_height = options_.resize_width = 8;
  folder_.write("labels/a.txt", "");
  convert("images/b.pgm\nimages/no.pgm\nimages/a.pgm");
  EXPECT_EQ(test::read_file(options_.name_size_file), "b 40 20\na 10 20\n");
  const LabelNames names = LabelNames::read(options_.labels_file);
  EXPECT_THAT(names.labels(), ElementsAre(0, 1, 2));
  EXPECT_EQ(names.name(2), "traffic light");
  EXPECT_EQ(read_named_sizes(options_.name_size_file).size(), 2U);
  const auto of_names = Contains(HasSubstr("1 images have the name of an earlier one"));
  EXPECT_THAT(report_.warnings, Not(of_names));
  convert("images/b.pgm\nimages/a.pgm\nimages/../images/a.pgm");
  EXPECT_THAT(report_.warnings, of_names);
  EXPECT_THAT(report_.warnings, Contains(HasSubstr("the first: 'a'")));

  options_.class_names = folder_.write("names.txt", "person\nnone_of_the_above\n");
  fails("images/b.pgm", {"labels.prototxt", "'none_of_the_above' has the label 2"});

  if (!test::kBuiltWithAnnotations) return;
  options_.label_type.clear();
  options_.class_names.clear();
  options_.root = folder_ / "images/";
  options_.list = folder_.write("set.json", R"({"images": [
      {"id": 139, "file_name": "a.pgm"}, {"id": 7, "file_name": "b.pgm"}],
      "categories": [{"id": 44, "name": "cat"}, {"id": 18, "name": "dog"}], "annotations": []})");
  convert_list_file();
  EXPECT_EQ(test::read_file(options_.name_size_file), "139 10 20\n7 40 20\n");
  const LabelNames coco = LabelNames::read(options_.labels_file);
  EXPECT_EQ(coco.name(1), "18");
  EXPECT_EQ(coco.display_name(1), "dog");
  EXPECT_EQ(coco.name(2), "44");
  options_.label_map_file =
      folder_.write("own.prototxt", "item { name: 'cat' label: 1 } item { name: 'dog' label: 2 }");
  expect_error([&] { convert_list_file(); }, {"own.prototxt", "--write_label_map"});
}

TEST_F(ConvertAnnotations, TheDatabaseKeepsTheNamesOfTheClasses) {
  const auto names = [&] { return read_class_file(options_.output); };
  options_.label_type = "txt";
  folder_.write("a.txt", "2 5 2.5 10 7.5\n");
  // A list of names has one for each label.
  convert("images/a.pgm a.txt");
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_THAT(report_.warnings, ElementsAre(AllOf(HasSubstr("does not keep the names"),
                                                  HasSubstr("label 1 has no name"))));
  options_.label_map_file = folder_.write(
      "whole.prototxt",
      "item { name: '18' label: 2 display_name: 'dog' } item { name: 'cat' label: 1 }");
  convert("images/a.pgm a.txt");
  EXPECT_THAT(names(), ElementsAre("background", "cat", "dog"));
  EXPECT_THAT(report_.warnings, IsEmpty());
  options_.label_map_file.clear();
  convert("images/a.pgm a.txt");
  EXPECT_THAT(names(), IsEmpty()) << "numbers alone";
  EXPECT_THAT(report_.warnings, IsEmpty());

  options_.label_type = "yolo";
  options_.class_names = folder_.write("names.txt", "person\ntraffic light\n");
  folder_.write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n");
  convert("images/a.pgm");
  EXPECT_THAT(names(), ElementsAre("background", "person", "traffic light"));

  if (!test::kBuiltWithAnnotations) return;
  options_.label_type.clear();
  options_.class_names.clear();
  options_.root = folder_ / "images/";
  options_.list = folder_.write("set.json", R"({"images": [{"id": 139, "file_name": "a.pgm"}],
      "categories": [{"id": 44, "name": "cat"}, {"id": 18, "name": "dog"}], "annotations": []})");
  convert_list_file();
  EXPECT_THAT(names(), ElementsAre("background", "dog", "cat"));
}

/// 10 x 20 up to a shorter side of 20, and 40 x 20 down to a longer side of 30.
TEST_F(ConvertAnnotations, KeepsTheAspectRatioAndTheBoxes) {
  options_.label_type = "txt";
  options_.label_map_file.clear();
  options_.min_dim = 15;
  options_.max_dim = 30;
  folder_.write("a.txt", "1 5 2.5 10 7.5\n");
  auto records = convert("images/a.pgm a.txt\nimages/b.pgm a.txt");
  EXPECT_EQ(records[0].datum().height(), 15);
  EXPECT_EQ(records[0].datum().width(), 30);
  EXPECT_EQ(records[1].datum().height(), 30);
  EXPECT_EQ(records[1].datum().width(), 15);
  EXPECT_THAT(rows(records[0])[0], ElementsAre(1, 0, 0.25, 0.25, 0.5, 0.75, 0));
  options_.resize_height = options_.resize_width = 8;
  fails("images/a.pgm a.txt", {"--min_dim", "--resize_height"});
}

TEST_F(ConvertAnnotations, ClassificationKeepsLabels) {
  const auto records = convert("images/a.pgm 3\nimages/b.pgm 9\n");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_FALSE(records[1].has_type());
  EXPECT_EQ(records[1].datum().label(), 9);
  options_.annotation_type = "boxes";
  fails("images/a.pgm 3", {"'boxes'", "detection"});
}

/// A wrong path would make images without boxes of all of them.
TEST_F(ConvertAnnotations, AFileOfBoxesThatTheListNamesMustBeThere) {
  options_.label_map_file.clear();
  folder_.write("labels/a.txt", "0 0.5 0.5 0.5 0.5\n");
  for (const char* form : {"txt", "yolo"}) {
    options_.label_type = form;
    options_.skip_bad = false;
    folder_.write("labels/a.txt", std::string(form) == "txt" ? "1 0 0 5 5\n" : "0 0.5 0.5 1 1\n");
    const std::string list = "images/a.pgm labels/a.txt\nimages/b.pgm labels/b.txt\n";
    fails(list, {"list.txt:2", "images/b.pgm", "labels/b.txt", "cannot open"});
    options_.skip_bad = true;
    EXPECT_EQ(convert(list).size(), 1U);
    EXPECT_EQ(report_.bad, 1);
    EXPECT_THAT(report_.warnings, ElementsAre());
  }
  // One that is there, and cannot be read, is not taken for none.
  options_.skip_bad = false;
  std::filesystem::create_directory(folder_ / "labels/b.txt");
  fails("images/a.pgm\nimages/b.pgm\n", {"list.txt:2", "labels/b.txt"});
}

TEST_F(ConvertAnnotations, ADataSetInOneFileIsNotReadAsAList) {
  options_.list = folder_.write("list.json", "images/a.pgm 3\n");
  const auto refuses = [&](const ConvertAnnotationsOptions& options,
                           std::initializer_list<std::string_view> words) {
    expect_error([&] { convert_annotations(options); }, words);
  };
  ConvertAnnotationsOptions wrong = options_;
  wrong.annotation_type = "classification";
  refuses(wrong, {"list.json", "MS COCO", "--anno_type=classification"});
  wrong = options_;
  wrong.label_type = "yolo";
  refuses(wrong, {"list.json", "MS COCO", "--label_type=yolo"});
  wrong = options_;
  wrong.class_names = "names";
  refuses(wrong, {"list.json", "MS COCO", "--class_names=names", "--label_map_file"});
  if (!test::kBuiltWithAnnotations) return;
  wrong = options_;
  wrong.annotation_type = "detection";
  wrong.label_type = "json";
  refuses(wrong, {"list.json", "no JSON"});
}

/// Its label would be a number below 0.
TEST_F(ConvertAnnotations, TheLargestClassHasNoLabel) {
  options_.label_type = "yolo";
  options_.label_map_file.clear();
  folder_.write("labels/a.txt", "2147483646 0.5 0.5 0.5 0.5\n");
  EXPECT_EQ(rows(convert("images/a.pgm")[0])[0][0], 2147483647);
  folder_.write("labels/a.txt", "2147483647 0.5 0.5 0.5 0.5\n");
  fails("images/a.pgm", {"labels/a.txt", "line 1", "class 2147483647"});
}

/// A line of the exported list is split at its blank.
TEST_F(ConvertAnnotations, ExportedNamesOfImagesWithBoxesHaveNoBlanks) {
  options_.label_type = "txt";
  options_.label_map_file.clear();
  folder_.write("images/my own\tb.pgm", test::pgm(40, 20, std::string(800, 'b')));
  folder_.write("b.txt", "1 5 10 10 20\n");
  const auto records = convert("images/my own\tb.pgm b.txt\n");
  const std::string files = folder_ / "files";
  export_images(*open_database({.path = options_.output}), {.range = {0, 1}, .folder = files});
  EXPECT_EQ(test::read_file(files + "/list.txt"),
            "00000000_images_my_own_b.png 00000000_images_my_own_b.png.boxes.txt\n");
  options_.list = files + "/list.txt";
  options_.root = files;
  const auto again = convert_list_file();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].SerializeAsString(), records[0].SerializeAsString());
}

/// verify, export and the mean image look into AnnotatedDatum records.
TEST_F(ConvertAnnotations, OtherCommandsReadItsDatabases) {
  options_.label_type = "txt";
  options_.label_map_file.clear();
  options_.encode_type = "png";
  folder_.write("a.txt", "1 5 2.5 10 7.5\n4 0 0 20 5 1\n");
  folder_.write("b.txt", "");
  const auto records = convert("images/a.pgm a.txt\nimages/b.pgm b.txt");
  const auto source = open_database({.path = options_.output});
  VerifyReport report = verify_database(*source);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.with_boxes, 2);
  EXPECT_EQ(report.without_boxes, 1);
  EXPECT_EQ(report.boxes, 2);
  EXPECT_EQ(report.difficult, 1);
  EXPECT_THAT(report.box_labels, ElementsAre(testing::Pair(1, 1), testing::Pair(4, 1)));
  EXPECT_TRUE(report.labels.empty());
  EXPECT_EQ(verify_database(*source, {.classes = 4}).bad, 1);
  const LabelNames names = LabelNames::read(folder_ / "map.prototxt");
  report = verify_database(*source, {.names = names});
  ASSERT_EQ(report.bad, 1);
  EXPECT_THAT(report.problems[0], HasSubstr("label 1 is not in the label map"));

  const std::string files = folder_ / "files";
  export_images(*source, {.range = {0, 2}, .folder = files});
  options_.list = files + "/list.txt";
  options_.root = files;
  options_.encode_type.clear();
  options_.encoded = true;
  const auto again = convert_list_file();
  ASSERT_EQ(again.size(), 2U);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(again[i].SerializeAsString(), records[i].SerializeAsString());

  options_.encoded = false;
  options_.gray = true;
  options_.skip_bad = true;
  options_.resize_height = options_.resize_width = 4;
  convert_list_file();
  EXPECT_EQ(image_mean(*open_database({.path = options_.output}), ColorMode::as_stored, {}).shape,
            (Shape{1, 4, 4}));
}

}  // namespace
}  // namespace crema
