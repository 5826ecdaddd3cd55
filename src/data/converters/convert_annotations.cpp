#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "crema/error.hpp"
#include "data/boxes/annotation_files.hpp"
#include "data/converters/converters.hpp"
#include "data/converters/image_records.hpp"
#include "data/converters/yolo_layout.hpp"
#include "data/databases/class_file.hpp"
#include "data/images/image_name.hpp"
#include "data/records/class_list.hpp"
#include "data/records/image_list.hpp"
#include "data/records/pair_list.hpp"
#include "model/text_format.hpp"
#include "model/whole_file.hpp"
#include "proto/datum.pb.h"
#include "proto/detection.pb.h"

namespace crema {
namespace fs = std::filesystem;
namespace {

/// An image with its boxes, with the file that has them, or with its labels.
struct Listed {
  std::string image;
  std::string name;  // in files of detections
  std::string place;
  std::string beside;     // the file
  bool may_miss = false;  // it: YOLO writes none for an image without boxes
  AnnotationFile boxes;   // of a data set in one file
  RecordLabels labels;
  mutable ImageSize size;  // of its file, once it was read
};

/// Whether the list has labels of images in place of boxes.
bool is_classification(const ConvertAnnotationsOptions& options) {
  const std::string& type = options.annotation_type;
  if (type == "classification") return true;
  if (type == "detection") return false;
  if (!type.empty())
    throw Error("anno_type '", type, "' is unknown; there are detection and classification");
  const auto pairs = read_pair_list(options.list, "lines 'image boxes'", true);
  return is_number(pairs.front().beside);
}

bool is_dataset(const std::string& list) {
  std::error_code ignored;
  return fs::path(list).extension() == ".json" && fs::is_regular_file(list, ignored);
}

/// Error for settings that contradict a data set in one file.
void check_dataset(const ConvertAnnotationsOptions& options) {
  const auto refuse = [&](const char* flag, const std::string& value, const char* advice) {
    throw Error("'", options.list, "' ends in .json, so it is a data set of MS COCO, and --", flag,
                "=", value, " is for a list; ", advice, ", or give a list another ending");
  };
  const std::string &type = options.annotation_type, &form = options.label_type;
  if (!type.empty() && type != "detection") refuse("anno_type", type, "remove it");
  if (!form.empty() && form != "json") refuse("label_type", form, "remove it");
  if (!options.class_names.empty())
    refuse("class_names", options.class_names,
           "give --label_map_file for labels of its categories");
}

constexpr const char* kBackground = "background";  // the name of label 0 for display

/// Whether nothing has this name, rather than that it cannot be seen.
bool is_absent(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::not_found;
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The folder that stands in place of a list, itself or behind the root folder; "" for none.
std::string folder_of(const ConvertAnnotationsOptions& options) {
  if (is_folder(options.list)) {
    if (options.root.empty()) return options.list;
    throw Error("'", options.list, "' is a folder, whose images need no root folder, and '",
                options.root, "' is given; leave it out");
  }
  const std::string below = image_path(options.root, options.list);
  return is_folder(below) ? below : "";
}

/// The form of the files of boxes. A folder in place of a list is one of YOLO.
std::string form_of(const ConvertAnnotationsOptions& options, const std::string& folder) {
  const std::string& form = options.label_type;
  if (folder.empty()) return form.empty() ? "xml" : form;
  if (form == "yolo" || (form.empty() && is_yolo_folder(folder))) return "yolo";
  throw Error("'", folder, "' is a folder, and only boxes of YOLO are read without a list; ",
              form.empty() ? "give --label_type=yolo, or a list"
                           : text("--label_type=", form, " needs a list"),
              " with lines 'image boxes'");
}

class Job {
 public:
  explicit Job(const ConvertAnnotationsOptions& options)
      : options_(options),
        records_({.gray = options.gray,
                  .resize_height = options.resize_height,
                  .resize_width = options.resize_width,
                  .min_dim = options.min_dim,
                  .max_dim = options.max_dim,
                  .encoded = options.encoded,
                  .encode_type = options.encode_type,
                  .keep_depth = options.keep_depth,
                  .interpolation = interpolation_named(options.interp, "--interp=")}),
        folder_(folder_of(options)),
        dataset_(folder_.empty() && is_dataset(options.list)) {
    if (!dataset_ && folder_.empty() && is_classification(options)) {
      check_files();
      list_labels();
      return;
    }
    if (dataset_) check_dataset(options);
    const std::string form = form_of(options, folder_);
    reading_.form = annotation_form(form);
    reading_.polygons = options.polygons;
    if (options.polygons && reading_.form != AnnotationForm::yolo)
      throw Error("--polygons is for --label_type=yolo, and it is ", form, "; remove it");
    if (!options.label_map_file.empty()) reading_.names = LabelNames::read(options.label_map_file);
    if (!options.class_names.empty()) {
      if (reading_.form != AnnotationForm::yolo)
        throw Error("--class_names is for --label_type=yolo, and it is ", form,
                    "; give --label_map_file");
      reading_.classes = read_class_list(options.class_names);
      for (size_t i = 0; i < reading_.classes.size(); ++i)
        label_of_class(static_cast<int64_t>(i), reading_);  // refuses what the map lacks
    }
    if (reading_.form == AnnotationForm::xml && reading_.names.empty() && !dataset_)
      throw Error(
          "PASCAL VOC has names of classes, and labels are numbers; give "
          "--label_map_file, as labelmap_voc.prototxt");
    check_files();
    if (!folder_.empty()) {
      list_folder();
    } else {
      dataset_ ? list_dataset() : list_lines();
    }
  }

  ConvertReport run() {
    if (options_.shuffle) shuffle_lines(images_, options_.seed);
    std::string unnamed;
    ConvertReport report = convert_list(
        {.list = options_.list,
         .output = options_.output,
         .backend = options_.backend,
         .overwrite = options_.overwrite,
         .class_names = names_for_class_file(class_names(), unnamed),
         .check_only = options_.check_only,
         .check_size = options_.check_size,
         .skip_bad = options_.skip_bad,
         .sizes_may_vary = true,
         .encoded = records_.encoded(),
         .progress = options_.progress,
         .count = static_cast<int64_t>(images_.size()),
         .listed =
             [&](int64_t index) {
               const Listed& listed = images_[static_cast<size_t>(index)];
               return ListedFile{listed.image, path_of(listed.image), listed.place};
             },
         .convert = [&](int64_t index, ImageDecoder& decoder,
                        ConvertedImage& converted) { convert(index, decoder, converted); },
         .accepted = [&](int64_t index) { add_size(images_[static_cast<size_t>(index)]); }});
    if (!options_.check_only) write_files();
    if (same_names_ > 0)
      report.warnings.push_back(text(same_names_, " images have the name of an earlier one in '",
                                     options_.name_size_file, "', the first: '", same_name_,
                                     "'; files of detections cannot tell them apart"));
    if (!unnamed.empty() && !options_.check_only) report.warnings.push_back(unnamed);
    const auto warnings = reading_.oddities.warnings();
    report.warnings.insert(report.warnings.end(), warnings.begin(), warnings.end());
    return report;
  }

 private:
  /// Of a file of the list: behind the root folder, or an absolute path.
  std::string path_of(const std::string& file) const {
    const std::string below = image_path(folder_.empty() ? options_.root : folder_, file);
    const bool alone = file.starts_with('/') && is_absent(below) && !is_absent(file);
    return alone ? file : below;
  }

  /// Where YOLO has the boxes of an image. The folder "images" may be one that the root is in.
  std::string labels_of(const std::string& image) const {
    const std::string own = yolo_labels(image);
    if (is_below_images(image) || !is_absent(path_of(own))) return own;
    const std::string whole = fs::absolute(path_of(image)).lexically_normal().string();
    return is_below_images(whole) ? yolo_labels(whole) : own;
  }

  void list_lines() {
    const bool finds = reading_.form == AnnotationForm::yolo;
    for (const ListedPair& pair : read_pair_list(options_.list, "lines 'image boxes'", finds))
      add(pair.image, pair.beside, text(options_.list, ":", pair.line));
    check_any_boxes();
  }

  void list_folder() {
    if (options_.annotation_type == "classification")
      throw Error("'", folder_,
                  "' is a folder, and --anno_type=classification needs a list of lines ",
                  "'image label'; the layer Data reads a folder of classes as it is");
    for (const std::string& image : yolo_images(folder_))
      add(image, "", (fs::path(folder_) / image).string());
    check_any_boxes();
  }

  /// `beside` is "" where YOLO has it.
  void add(const std::string& image, const std::string& beside, const std::string& place) {
    Listed& listed = images_.emplace_back();
    listed.image = image;
    listed.name = fs::path(image).stem().string();
    listed.may_miss = beside.empty();
    listed.beside = listed.may_miss ? labels_of(image) : beside;
    listed.place = place;
    if (!is_absent(path_of(listed.beside))) return;
    ++missing_;
    if (listed.may_miss)
      reading_.oddities.add(BoxOddities::missing, static_cast<int64_t>(images_.size()),
                            text(place, ": '", listed.beside, "'"));
  }

  /// Error if no file of boxes is there, which a wrong root folder would be. An image alone, or
  /// beside the boxes of others, may well have none.
  void check_any_boxes() const {
    if (missing_ < static_cast<int64_t>(images_.size())) return;
    const Listed& first = images_.front();
    const std::string path = path_of(first.beside);
    if (first.may_miss && (images_.size() == 1 || has_boxes_beside(first))) return;
    throw Error("none of the files of boxes that '", options_.list,
                "' names is there, the first: '", path, "'; paths are relative to the root folder");
  }

  /// Whether the folder of the image's boxes has those of another image of its folder: a text file
  /// of its name. A list or names of classes beside the images are none.
  bool has_boxes_beside(const Listed& listed) const {
    std::set<std::string> images;
    for (const fs::path& file : files_beside(path_of(listed.image)))
      if (is_image_name(file.native())) images.insert(file.stem().string());
    return std::ranges::any_of(files_beside(path_of(listed.beside)), [&](const fs::path& file) {
      return file.extension() == ".txt" && images.contains(file.stem().string()) && !is_input(file);
    });
  }

  /// What is in the folder of a file.
  static std::vector<fs::path> files_beside(const fs::path& file) {
    std::vector<fs::path> files;
    const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
    std::error_code code;
    for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code))
      files.push_back(at->path());
    return files;
  }

  /// Whether the file is one that the options name.
  bool is_input(const fs::path& file) const {
    return std::ranges::any_of(
        std::array{&options_.list, &options_.class_names, &options_.label_map_file},
        [&](const std::string* input) {
          std::error_code unknown;
          return !input->empty() && fs::equivalent(*input, file, unknown);
        });
  }

  void list_dataset() {
    CocoDataset dataset = read_coco_dataset(options_.list, reading_.names);
    labels_ = std::move(dataset.labels);
    for (CocoImage& image : dataset.images) {
      Listed& listed = images_.emplace_back();
      listed.image = std::move(image.file);
      listed.name = std::to_string(image.id);
      listed.place = text(options_.list, ": image ", image.id);
      listed.boxes = std::move(image.annotation);
    }
  }

  void list_labels() {
    has_boxes_ = false;
    for (ListedImage& image : read_image_list(options_.list)) {
      Listed& listed = images_.emplace_back();
      listed.image = std::move(image.file);
      listed.name = fs::path(listed.image).stem().string();
      listed.place = text(options_.list, ":", image.line);
      listed.labels = std::move(image);
    }
  }

  void convert(int64_t index, ImageDecoder& decoder, ConvertedImage& converted) const {
    const Listed& listed = images_[static_cast<size_t>(index)];
    std::string file;
    read_file_bytes(path_of(listed.image), file);
    AnnotatedDatum annotated;
    const auto filled = records_.fill(file, decoder, *annotated.mutable_datum());
    converted.take(filled);
    listed.size = filled.original;
    if (has_boxes_) {
      annotated.set_type(AnnotatedDatum::BBOX);
      // As published: the labels are those of the boxes.
      annotated.mutable_datum()->set_label(-1);
      set_boxes(boxes_of(listed, filled, index), annotated);
    } else {
      set_labels(listed.labels, *annotated.mutable_datum());
    }
    if (!options_.check_only && !annotated.SerializeToString(&converted.record))
      throw Error("it cannot be made a record");
  }

  std::vector<LabeledBox> boxes_of(const Listed& listed, const ImageRecords::Filled& filled,
                                   int64_t index) const {
    const ImageSize image = filled.original;
    if (dataset_) {
      const ImageSize said = listed.boxes.image;
      if (filled.sideways) refuse_boxes_of_file(said, image);
      const bool says_size = said.height > 0 && said.width > 0;
      if (says_size && (said.height != image.height || said.width != image.width))
        reading_.oddities.add(BoxOddities::other_size, index, listed.place);
      return checked_boxes(listed.boxes.boxes, says_size ? said : image, index, options_.list,
                           reading_.oddities);
    }
    const std::string path = path_of(listed.beside);
    if (listed.may_miss && is_absent(path)) return {};
    return reading_.read(path, image, index, filled.sideways);
  }

  /// Error for files that cannot be written, or that nothing could be written to.
  void check_files() const {
    if (!options_.name_size_file.empty())
      check_output_file(options_.name_size_file, "the file of names and sizes");
    if (options_.labels_file.empty()) return;
    if (!reading_.names.empty())
      throw Error("a label map is there already, '", reading_.names.source(),
                  "'; leave out --write_label_map");
    if (!has_names())
      throw Error(
          "--write_label_map is for a data set of MS COCO, and for --label_type=yolo with "
          "--class_names; other labels have no names");
    check_output_file(options_.labels_file, "the label map");
    LabelNames(label_map(), options_.labels_file);  // refuses a class with the background's name
  }

  void add_size(const Listed& listed) {
    if (options_.name_size_file.empty()) return;
    sizes_ += text(listed.name, " ", listed.size.height, " ", listed.size.width, "\n");
    if (!names_.insert(listed.name).second && same_names_++ == 0) same_name_ = listed.name;
  }

  void write_files() const {
    if (!options_.name_size_file.empty()) {
      WholeFile file(options_.name_size_file);
      file.append(sizes_);
      file.finish();
    }
    if (!options_.labels_file.empty())
      write_text_proto_atomically(options_.labels_file, label_map());
  }

  /// Of the labels of boxes, by label, for display; none where labels are numbers alone.
  std::vector<std::string> class_names() const {
    std::vector<std::string> names = reading_.names.names_by_label();
    if (!reading_.names.empty()) {
      // Most label maps have no item for it.
      if (!names.empty() && names[0].empty()) names[0] = kBackground;
      return names;
    }
    if (has_names()) names.emplace_back(kBackground);
    for (const NamedLabel& label : labels_) names.push_back(label.display_name);
    names.insert(names.end(), reading_.classes.begin(), reading_.classes.end());
    return names;
  }

  /// Without a label map: those of a data set, or of a file with the names.
  bool has_names() const { return dataset_ || !reading_.classes.empty(); }

  LabelMap label_map() const {
    std::vector<NamedLabel> labels = labels_;
    for (const std::string& name : reading_.classes)
      labels.push_back({static_cast<int32_t>(labels.size()) + 1, name, name});
    LabelMap map;
    labels.insert(labels.begin(), {0, "none_of_the_above", kBackground});
    for (const NamedLabel& label : labels) {
      LabelMapItem& item = *map.add_item();
      item.set_name(label.name);
      item.set_label(label.label);
      item.set_display_name(label.display_name);
    }
    return map;
  }

  const ConvertAnnotationsOptions& options_;
  ImageRecords records_;
  std::string folder_;  // of YOLO, in place of a list; "" for none
  bool dataset_;
  bool has_boxes_ = true;
  AnnotationReading reading_;
  std::vector<Listed> images_;
  int64_t missing_ = 0;             // files of boxes
  std::vector<NamedLabel> labels_;  // of a data set
  std::string sizes_;
  std::set<std::string> names_;  // in sizes_
  int64_t same_names_ = 0;       // images with the name of an earlier one
  std::string same_name_;        // the first of these names
};

}  // namespace

ConvertReport convert_annotations(const ConvertAnnotationsOptions& options) {
  return Job(options).run();
}

}  // namespace crema
