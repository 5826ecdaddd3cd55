// The images of a test whose class is not the one that the net names.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analysis/confusion.hpp"
#include "crema/net.hpp"
#include "data/databases/image_writer.hpp"
#include "data/records/datum.hpp"
#include "data/records/record_source.hpp"

namespace crema {
class DatumLayer;
}

namespace crema::tools {

/// Writes FOLDER/TRUE/as_PREDICTED_KEY.jpg for each, as the data have the image: a compressed one
/// stays as it is, a raw one becomes PNG, which needs OpenCV. Where such a name is too long, or
/// taken, the number of the record ends it. FOLDER/mistakes.tsv lists them with
/// names, scores and keys. The folder appears under its name when it is whole.
class Mistakes {
 public:
  /// `names` of the classes, or none: their numbers. `rgb`: raw records have red first. Error
  /// unless the folder is new or empty, and for a net whose data layers read no images.
  Mistakes(const Net& net, const std::string& folder, std::vector<std::string> names, bool rgb);
  /// Those of the last batch, without the samples for which `left_out`, empty or one a sample, is
  /// true; each record once. Error for scores that are not one set a record.
  void add(Net& net, const ScoredLabels& of, const std::vector<bool>& left_out);
  void finish();
  int64_t count() const { return count_; }

 private:
  void write(int64_t record, int64_t label, const Prediction& prediction);

  ImageWriter folder_;
  std::vector<std::string> names_;
  bool rgb_;
  const DatumLayer* data_ = nullptr;
  std::shared_ptr<RecordSource> images_;
  std::unique_ptr<RecordReader> reader_;
  DatumDecoder decoder_;
  std::set<int64_t> records_;      // that were written
  std::set<std::string> written_;  // names of files
  std::string list_;
  int64_t count_ = 0;
};

}  // namespace crema::tools
