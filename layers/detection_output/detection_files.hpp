// Detections of a test set in the files that the evaluations of VOC, COCO and ILSVRC read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "crema/tensor.hpp"
#include "data/boxes/label_map.hpp"
#include "data/boxes/original_boxes.hpp"
#include "proto/detection.pb.h"

namespace crema {

/// VOC: a file a class, PREFIX + name of the class + ".txt", of lines
/// "image score xmin ymin xmax ymax". ILSVRC: PREFIX.txt, of lines
/// "image label score xmin ymin xmax ymax". COCO: PREFIX.json, a list of
/// {"image_id", "category_id", "bbox": [xmin, ymin, width, height], "score"}. Without a prefix
/// these two are detections.txt and detections.json. Boxes are in pixels of the image.
class DetectionFiles {
 public:
  enum class Format : uint8_t { voc, coco, ilsvrc };

  /// Error for settings that cannot be meant. Files are read and made with the first image only: a
  /// net can be built where they are not. `background`: -1 for none.
  DetectionFiles(const SaveOutputParameter& settings, int64_t classes, int64_t background);

  /// Each image of the test set in turn: begin_image(), and add() for its detections. Coordinates
  /// are relative to the sample. Error, with the first image, for files that cannot be read or
  /// written.
  void begin_image();
  void add(int64_t label, double score, const Box& box);
  /// After the last image of the test set, begins anew, and writes the files. Returns true then.
  /// Error if a file cannot be written; the set has begun anew all the same.
  bool end_image();

  /// The number of the next image and the boxes of those before it, as CarriesState has them: one
  /// tensor (1 + D, 7) of f64, or none before the first image.
  std::vector<Tensor> carried() const;
  void carry(const std::vector<Tensor>& state);

  /// Images of the test set. 0 before the first.
  int64_t images() const { return images_; }
  /// Those of the present set that were added so far.
  int64_t images_so_far() const { return image_; }
  std::string folder() const { return settings_.output_directory(); }

 private:
  struct Line {
    int64_t image, label;
    double score;
    double xmin, ymin, width, height;  // to a hundredth of a pixel
  };
  void open();
  void write(const std::vector<Line>& lines) const;
  std::string path_of(const std::string& ending) const;
  std::string path_of_class(int64_t label) const;
  std::string path_of_set() const;
  std::string line(const Line& line, bool with_label) const;
  std::string json(const Line& line) const;

  SaveOutputParameter settings_;
  Format format_;
  int64_t classes_, background_;
  std::optional<LabelNames> names_;
  std::vector<NamedSize> sizes_;
  int64_t images_ = 0;
  int64_t image_ = 0;  // the number of the present one
  std::vector<Line> lines_;
};

}  // namespace crema
