// Files of boxes, in the forms of data sets: one beside each image, or one for all images.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/boxes/annotation.hpp"
#include "data/boxes/label_map.hpp"

namespace crema {

enum class AnnotationForm : uint8_t {
  xml,   // PASCAL VOC: <annotation> with <object>s
  json,  // an image's part of MS COCO: "image" and "annotation"
  text,  // lines "label xmin ymin xmax ymax", in pixels, and a 1 behind for a difficult one
  yolo,  // lines "class cx cy width height", centre and sides relative to the image; or polygons,
         // "class x1 y1 x2 y2 x3 y3 ..."
};

/// Of "xml", "json", "txt" and "yolo". Error for others.
AnnotationForm annotation_form(std::string_view name);

/// What is odd about boxes, and harmless. Safe to use from several threads.
class BoxOddities {
 public:
  enum Kind : uint8_t { clipped, empty, other_size, missing, background, kKinds };
  /// `index` of the image; of a kind, the lowest one is told of.
  void add(Kind kind, int64_t index, const std::string& where);
  /// Of images without a file beside them, say.
  int64_t count(Kind kind) const { return kinds_[kind].count; }
  /// A line each.
  std::vector<std::string> warnings() const;

 private:
  struct Seen {
    int64_t count = 0, first = 0;
    std::string where;
  };
  std::mutex mutex_;
  Seen kinds_[kKinds];
};

/// How the boxes of images are read. Safe to use from several threads.
struct AnnotationReading {
  AnnotationForm form = AnnotationForm::xml;
  LabelNames names;                  // json: of category_id; yolo: of `classes`
  std::vector<std::string> classes;  // yolo: names of the classes, from 0
  bool polygons = false;             // yolo: take polygons for the boxes around them
  mutable BoxOddities oddities;

  /// The boxes of the file at `path`, relative to the image; clipped to it, and without those that
  /// have no area. `image` is its size in pixels, which xml and json may give otherwise. Error,
  /// naming file, place and object, for a box with edges in the wrong order, beyond the image, or
  /// not finite; for a class that is unknown; for a file of another form; and, where `sideways`
  /// says that EXIF turns the image by a quarter, for one that gives the size before that.
  std::vector<LabeledBox> read(const std::string& path, ImageSize image, int64_t index,
                               bool sideways = false) const;
};

/// Error if boxes are of an image of size `said`, which is `image`, upright, before it was turned.
void refuse_boxes_of_file(ImageSize said, ImageSize image);

/// The label of a class by its name, or its name for display. Error if the map lacks it.
int32_t label_of_name(const std::string& name, const LabelNames& names);

/// The label of class `index` of YOLO: by its name in the label map, else `index` + 1, since label
/// 0 is the background.
int32_t label_of_class(int64_t index, const AnnotationReading& how);

/// A box of a file, in pixels or relative to its image, before it is looked at.
struct RawBox {
  LabeledBox labeled;
  std::string where;  // "object 2 ('dog')", for messages
};
/// Those that can be used, relative to the image of this size, which their coordinates are in.
std::vector<LabeledBox> checked_boxes(std::vector<RawBox> raw, ImageSize size, int64_t index,
                                      const std::string& path, BoxOddities& oddities);

/// Number of the line, from 1, that has byte `offset` of a text.
int line_at(std::string_view text, size_t offset);

/// Boxes of a file, and the size that it says its image has; 0 and 0 if it does not.
struct AnnotationFile {
  std::vector<RawBox> boxes;  // in pixels
  ImageSize image;
};
/// Error, with line or byte, for a text that is not of the form. In builds without
/// CREMA_ANNOTATIONS: an Error always.
AnnotationFile parse_voc_xml(const std::string& text, const LabelNames& names);
/// Adds the names of the objects' classes in a file of PASCAL VOC. Errors as above, with the path.
void add_voc_classes(const std::string& path, std::set<std::string>& names);
AnnotationFile parse_coco_image(const std::string& text, const LabelNames& names);

/// An image of a COCO data set, one file for all.
struct CocoImage {
  std::string file;
  int64_t id = 0;
  AnnotationFile annotation;
};
/// A class, with its names in a label map.
struct NamedLabel {
  int32_t label = 0;
  std::string name, display_name;
};

struct CocoDataset {
  std::vector<CocoImage> images;
  std::vector<NamedLabel> labels;  // of its categories; their names are the ids
};
/// The images of instances_*.json in their order, with their boxes. Labels are those of the
/// category's id, or of its name, in the label map; without a map 1, 2, ... in the order of the
/// ids. Error as above, and for boxes of unknown images.
CocoDataset read_coco_dataset(const std::string& path, const LabelNames& names);

}  // namespace crema
