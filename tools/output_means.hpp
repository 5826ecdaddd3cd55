// What the batches of a test give of the net's outputs: means, least and greatest values.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "crema/tensor.hpp"
#include "tools/record_pass.hpp"

namespace crema::tools {

/// Mean, least and greatest of many values.
struct Spread {
  double sum = 0, amount = 0;
  double least = HUGE_VAL, greatest = -HUGE_VAL;
  int64_t count = 0;

  void add(double value, const Share& share = {});
  /// 0 where nothing counts.
  double mean() const { return amount > 0 ? sum / amount : 0; }
  std::string str() const;
};

/// What all batches gave of one output.
struct OutputMeans {
  /// `rows`: their number differs from batch to batch. `logs`: each batch has its lines.
  OutputMeans(std::string output, bool rows, bool logs)
      : name(std::move(output)), logs_batches(logs), in_one_line(rows) {}

  void add(int batch, const Tensor& values, const RecordPass& pass);
  /// `batches` as large as most.
  void log(double batches, float weight) const;
  /// The means of its values, or of all together where they are many.
  std::string json() const;
  /// Its part of the loss, where it is one.
  double loss(double batches, float weight) const;

  std::string name;
  bool logs_batches;
  Shape shape;  // of the last batch
  bool in_one_line = false;
  bool of_records = false;    // the first axis is that of the records
  std::vector<Spread> means;  // of each index, over the batches that have it
  Spread spread;              // of all values
};

}  // namespace crema::tools
