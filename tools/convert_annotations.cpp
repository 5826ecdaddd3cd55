// crema convert-annotations: a database of images with boxes. The published name, convert_annoset,
// and its flags work too.
#include <filesystem>

#include "tools/command.hpp"
#include "tools/image_flags.hpp"
#include "tools/output_file.hpp"

DEFINE_string(anno_type, "",
              "detection, or classification: lines 'image label'. Without it, the first line of "
              "the list says which.");
DEFINE_string(label_type, "",
              "Files of boxes: xml (PASCAL VOC; without the flag too), json (an image of MS COCO), "
              "txt (lines 'label xmin ymin xmax ymax' in pixels), yolo (lines 'class cx cy width "
              "height').");
DEFINE_string(label_map_file, "", "LabelMap in text: names of classes and their labels.");
DEFINE_bool(check_label, false,
            "As published, has no effect: a label map with a name or label twice is always an "
            "error.");
DEFINE_int32(min_dim, 0, "Enlarge images whose shorter side is less, keeping the aspect ratio.");
DEFINE_int32(max_dim, 0, "Shrink images whose longer side is more, keeping the aspect ratio.");
DEFINE_string(
    name_size_file, "",
    "Also write lines 'name height width' of the images, in the order of the records: what "
    "DetectionOutput needs for files of detections.");
DEFINE_string(
    write_label_map, "",
    "Also write a label map of the labels: of a data set of MS COCO, or of --class_names.");
DEFINE_bool(
    polygons, false,
    "Of yolo: take lines 'class x1 y1 x2 y2 x3 y3 ...' for the boxes around these polygons.");
DECLARE_string(class_names);

namespace crema::tools {
namespace {

/// LIST_FILE OUTPUT, or a folder and OUTPUT, need no ROOT_FOLDER: the paths say where files are.
std::vector<std::string> with_root(std::vector<std::string> arguments) {
  const size_t inputs = arguments.size() - (FLAGS_check || arguments.empty() ? 0 : 1);
  std::error_code ignored;
  const auto is = [&](bool (*kind)(const std::filesystem::path&, std::error_code&)) {
    return kind(arguments[0], ignored);
  };
  const bool forgets_output =
      arguments.size() == 2 && std::filesystem::is_regular_file(arguments[1], ignored);
  if (inputs == 1 && !forgets_output &&
      (is(std::filesystem::is_regular_file) || is(std::filesystem::is_directory)))
    arguments.insert(arguments.begin(), "");
  return arguments;
}

int convert_annotations(const std::vector<std::string>& arguments) {
  ConvertAnnotationsOptions options;
  options.annotation_type = FLAGS_anno_type;
  options.label_type = FLAGS_label_type;
  options.label_map_file = FLAGS_label_map_file;
  options.class_names = FLAGS_class_names;
  options.polygons = FLAGS_polygons;
  std::vector<std::string> others = arguments;
  for (const std::string& input : {FLAGS_label_map_file, FLAGS_class_names}) {
    if (!input.empty()) others.push_back(input);
  }
  for (const std::string& file : {FLAGS_name_size_file, FLAGS_write_label_map}) {
    if (file.empty() || FLAGS_check) continue;
    check_replaced(file, others);
    others.push_back(file);
  }
  options.name_size_file = FLAGS_name_size_file;
  options.labels_file = FLAGS_write_label_map;
  options.min_dim = FLAGS_min_dim;
  options.max_dim = FLAGS_max_dim;
  return convert_images("convert-annotations", with_root(arguments), options,
                        crema::convert_annotations);
}

}  // namespace

extern const Command kConvertAnnotations = {
    "convert-annotations",
    "makes a database of images with boxes, for AnnotatedData",
    "  crema convert-annotations [FLAGS] ROOT_FOLDER/ LIST_FILE OUTPUT\n"
    "  crema convert-annotations [FLAGS] ROOT_FOLDER/ instances_train2017.json OUTPUT\n"
    "  crema convert-annotations --label_type=yolo --class_names=data.yaml YOLO_FOLDER OUTPUT\n"
    "\n"
    "Each line of LIST_FILE is an image and the file of its boxes, with white space between; both\n"
    "are put after ROOT_FOLDER, which absolute paths do not need. --label_type says the form of\n"
    "boxes. With yolo a line may be an image alone: its boxes are in the text file of its name, "
    "in\n"
    "a folder labels beside images; without that file it has none. YOLO_FOLDER holds images and\n"
    "labels, or is images/train, whose boxes are in labels/train: its images need no list. A list\n"
    "that ends with .json is a whole data set of MS COCO.\n"
    "\n"
    "Labels are those of --label_map_file, by the names of classes; MS COCO's by the numbers or\n"
    "the names of categories. Without it, labels are 1, 2, ... in the order of the category ids "
    "of\n"
    "a data set, the category_id of an image's json, or 1 + the class of yolo, whose names\n"
    "--class_names lists, a line each, or as `names` of data.yaml; 0 is the background. PASCAL "
    "VOC\n"
    "needs it. The names of the classes go into class_names.txt in OUTPUT, which verify-db and db\n"
    "show read, and nets that are trained with it. --polygons takes polygons of yolo for the "
    "boxes\n"
    "around them.\n"
    "\n"
    "Boxes are clipped to their images, and those without area left out; warnings count them. A\n"
    "box with its edges in the wrong order or outside of its image is an error (--skip_bad).\n"
    "Boxes are of the upright picture, as EXIF turns it. The database appears under its name when\n"
    "it is whole.\n"
    "\n"
    "--name_size_file and --write_label_map write the files that save_output_param of\n"
    "DetectionOutput reads. Names of images are those of their files without ending; of a data\n"
    "set of MS COCO, names are the ids of images and of categories, as its evaluation reads them.",
    {"anno_type",     "label_type",  "label_map_file", "check_label",
     "class_names",   "polygons",    "name_size_file", "write_label_map",
     "min_dim",       "max_dim",     "gray",           "shuffle",
     "seed",          "backend",     "resize",         "resize_width",
     "resize_height", "check_size",  "interp",         "keep_depth",
     "encoded",       "encode_type", "check",          "skip_bad",
     "overwrite"},
    convert_annotations};

}  // namespace crema::tools
