// Labels of databases with boxes: their names, and what reads the records later.
#include "data/boxes/label_map.hpp"
#include "data/boxes/original_boxes.hpp"
#include "data/converters/convert_annotations.hpp"
#include "data/databases/class_file.hpp"
#include "data/databases/export_images.hpp"
#include "data/databases/verify_database.hpp"
#include "data/transform/image_mean.hpp"

namespace crema {
namespace {

using test::ConvertAnnotations;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

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

TEST_F(ConvertAnnotations, ClassificationKeepsLabels) {
  const auto records = convert("images/a.pgm 3\nimages/b.pgm 9\n");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_FALSE(records[1].has_type());
  EXPECT_EQ(records[1].datum().label(), 9);
  options_.annotation_type = "boxes";
  fails("images/a.pgm 3", {"'boxes'", "detection"});
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
