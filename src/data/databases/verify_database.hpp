// Checks the records of a database before a training run meets them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/boxes/label_map.hpp"
#include "data/images/image.hpp"
#include "data/records/convert_report.hpp"
#include "data/records/record_source.hpp"

namespace crema {

struct VerifyOptions {
  /// The label of a record has to be a whole number below this, and not negative. Several labels of
  /// a record are not checked. 0: any label.
  int64_t classes = 0;
  /// Images of another size than the first good one are bad.
  bool one_size = false;
  /// Labels of boxes have to be in it; none: any label.
  LabelNames names;
  ColorMode color = ColorMode::as_stored;
  ConvertProgress progress;
};

struct VerifyReport {
  int64_t records = 0;  // of the source
  int64_t bad = 0;      // undecodable, damaged, with a wrong label or size, or not reached
  /// One message a bad record, each with its key; the first ConvertReport::kMostProblems of them.
  std::vector<std::string> problems;
  /// What is no error here but may be one in training, a line each.
  std::vector<std::string> warnings;
  // Of the records that can be decoded:
  int64_t raw = 0, encoded = 0, floats = 0;
  int64_t deep = 0;      // compressed, of more than 8 bits a channel
  int64_t palettes = 0;  // compressed, whose palette's colours become gray
  struct Shapes {
    int64_t count = 0;
    std::string first_key;
  };
  std::map<std::vector<int64_t>, Shapes> shapes;  // (C, H, W)
  /// By the number of labels of a record; more than one entry is an error in training.
  std::map<int64_t, Shapes> label_numbers;
  /// Records with each label; those without a label count as 0, as data layers take them.
  std::map<int64_t, int64_t> labels;
  int64_t without_label = 0;
  // Of records with boxes, which have no labels:
  int64_t with_boxes = 0;     // records
  int64_t without_boxes = 0;  // those of them that have none
  int64_t boxes = 0, difficult = 0;
  std::map<int64_t, int64_t> box_labels;  // boxes of each label
  int64_t float_labels = 0;               // records with labels in float_label

  bool ok() const { return bad == 0; }
};

/// Reads and decodes every record on all OpenMP threads. A damaged database ends the pass: the
/// records that cannot be reached are bad. Files that cannot be read are bad each. Error for
/// options that contradict each other.
VerifyReport verify_database(RecordSource& source, const VerifyOptions& options = {});

}  // namespace crema
