// The net that is exported: its layers in their order, and each version of its blobs with the name
// that it has in ONNX, where every value is written once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "onnx/operators/array.hpp"
#include "proto/net.pb.h"

namespace crema::onnx {

/// The layers of the net as a message: without weights, rules and phases, and with Input layers in
/// the present shapes.
NetParameter net_message(const Net& net);

class ExportedNet {
 public:
  struct Value {
    std::string name;
    Shape shape;
    /// Axis 0 has any size: that of the inputs' batch, or a number that follows from values.
    bool open_batch = false;
    bool batch_is_input = false;  // of open_batch
    int late_axis = -1;           // another axis whose size follows from values
    /// Its values where they are always the same.
    std::optional<Array> known;
  };
  struct Entry {
    const Layer* layer = nullptr;
    std::vector<int> bottoms, tops;  // indices into values()
    bool is_known = false;           // all tops have known values: nothing is to be computed
    bool reads_open_batch = false;
    std::string problem;  // why the layer cannot be exported in this net; ""
  };

  /// Error if the net has no inputs, and with `dynamic_batch` if it takes no other batch.
  ExportedNet(const Net& net, bool dynamic_batch);

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  /// Domains of operators that OnnxOperator layers write back, with their versions.
  const std::map<std::string, int64_t>& other_domains() const { return domains_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void connect(const Net& net);
  void name_values();
  std::vector<Shape> shapes();
  void open_batches();
  void follow_late_shapes();
  void compute_known();
  void know(Value& value, const std::pair<std::string, size_t>& version);

  std::unique_ptr<Net> plain_;  // unfused, with all blobs in memory of their own
  std::vector<Value> values_;
  std::vector<Entry> entries_;
  std::vector<size_t> layer_of_entry_;                    // index into the layers of plain_
  std::vector<std::pair<std::string, size_t>> versions_;  // of each value: blob, number of version
  std::vector<int> inputs_, outputs_;
  std::map<std::string, int64_t> domains_;
  std::vector<std::string> notes_;
};

}  // namespace crema::onnx
