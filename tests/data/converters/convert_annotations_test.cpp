// Databases with boxes from every form of files of boxes.
#include "data/converters/convert_annotations.hpp"

#include <filesystem>

#include "support/image_files.hpp"

namespace crema {
namespace {

using test::ConvertAnnotations;
using testing::ElementsAre;
using testing::HasSubstr;

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

}  // namespace
}  // namespace crema
