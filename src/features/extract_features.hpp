// Features: the values of blobs for all records of a net's data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "features/feature_writer.hpp"

namespace crema {

struct ExtractOptions {
  std::vector<std::string> blobs;
  /// A path for each blob; for HDF5, one path for all does, too.
  std::vector<std::string> outputs;
  FeatureFormat format = FeatureFormat::lmdb;
  /// The most batches to run. 0: all records once. More than these are never written.
  int64_t batches = 0;
  /// Rows have the number of their record in 10 digits as key, in place of its own key.
  bool number_keys = false;
  bool overwrite = false;
  /// Told after every batch how many rows are done.
  std::function<void(int64_t rows)> progress;
};

struct ExtractReport {
  int64_t rows = 0;
  int64_t left_out = 0;  // records that could not be used (on_bad_record: SKIP); they have none
  std::vector<Shape> shapes;  // of a row of each blob
  /// Whether all records were read once. False: `batches` ended before, or the net has no records.
  bool whole_epoch = false;
  int64_t batches = 0;  // that were run
};

/// Runs the net, built with NetOptions::keep of these blobs, on the records of its data layers,
/// from the first one on, each once: the last batch is cut where the records end. Rows are in the
/// order of the data layer. A record that could not be used (on_bad_record: SKIP) has no row, and
/// the one that took its place in the batch only its own. Records without a key, as those of an
/// Input layer, get numbers. The outputs appear when all are whole. Error, before the first pass,
/// for a blob that does not exist; for a blob without a row for each record of a batch; for data
/// layers that differ in records or batch size; and, without `batches`, for a net without data
/// layers.
ExtractReport extract_features(Net& net, const ExtractOptions& options);

}  // namespace crema
