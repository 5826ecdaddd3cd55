// A golden case on disk: a prototxt with directives in its comments, and the values that the
// published implementation computed for it, kept in a binary NetParameter of pseudo-layers.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "crema/tensor.hpp"
#include "proto/net.pb.h"

namespace crema::golden {

struct Case {
  std::filesystem::path prototxt;
  std::string name;
  std::string text;
  bool test_phase = false;
  bool no_backward = false;
  bool no_force = false;
  NetParameter values;

  /// The pseudo-layers of a type, by layer name, in file order.
  std::vector<const LayerParameter*> entries(const std::string& type) const;
};

/// Every NAME.prototxt of the folder that has a NAME.golden, by name.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& folder);

Case read_case(const std::filesystem::path& prototxt);

/// A .solverstate of the published implementation, taken on the way of a solver case.
struct Snapshot {
  std::filesystem::path state;
  int iteration;
};

/// NAME_iter_N.solverstate beside the case, of the least N; nothing where there is none.
std::optional<Snapshot> find_snapshot(const Case& golden);

/// Copies a blob's data into a contiguous tensor of the same count.
void assign(const BlobProto& from, Tensor& to);

/// The largest relative error met, and where it broke the tolerance.
class Comparison {
 public:
  /// |actual - expected| <= 1e-5 + relative * |expected| for every element.
  void compare(const std::string& what, const Tensor& actual,
               const google::protobuf::RepeatedField<float>& expected, double relative);
  void compare(const std::string& what, double actual, double expected, double relative);

  bool passed() const { return failure_.empty(); }
  double worst() const { return worst_; }
  const std::string& failure() const { return failure_; }
  int64_t compared() const { return compared_; }

 private:
  double worst_ = 0;
  int64_t compared_ = 0;
  std::string failure_;
};

}  // namespace crema::golden
