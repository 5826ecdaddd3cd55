// GraphBuilder: nodes and constants of a model of ONNX, as exporters of layers add them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "onnx/operators/array.hpp"

namespace crema::onnx {

/// An attribute by its value; strings are S, vectors FLOATS or INTS, arrays TENSOR.
using AttributeValue =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, Array>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;
using Names = std::vector<std::string>;

class GraphBuilder {
 public:
  /// `opset`: 13 to 23.
  GraphBuilder(int opset, bool dynamic_batch);

  int opset() const { return opset_; }
  /// Whether axis 0 of inputs is left open. Constants that hold the batch are not allowed then.
  bool dynamic_batch() const { return dynamic_batch_; }
  /// Error with the reason if the batch is left open.
  void need_fixed_batch(std::string_view why) const;

  /// Nodes that are added from now on belong to this layer: they are called after it.
  void begin_layer(std::string_view name);

  /// A node with one output, whose name is returned: `output`, or a new one.
  std::string add(std::string_view op, Names inputs, Attributes attributes = {},
                  std::string output = {});
  /// A node with several outputs; names that are "" are new ones.
  Names add_many(std::string_view op, Names inputs, Names outputs, Attributes attributes = {});
  /// A node of the domain "crema" (exporting/README.md has the schemas).
  Names add_custom(std::string_view op, Names inputs, Names outputs, Attributes attributes = {});

  /// Constants. The same values with the same `hint` are one initialiser; `hint` becomes its name
  /// behind that of the layer: "conv1.weight".
  std::string constant(const Array& values, std::string_view hint = "constant");
  std::string floats(const Shape& shape, std::vector<float> values,
                     std::string_view hint = "constant");
  std::string number(double value);                      // a FLOAT scalar
  std::string ints(const std::vector<int64_t>& values);  // an INT64 vector
  std::string index(int64_t value);                      // an INT64 scalar

  // Operators that changed between opsets 13 and 23, or that say the same in several ways. All
  // return the name of what they give.
  /// `dims`: as ONNX's Reshape: 0 copies the size, -1 is the rest. With an open batch, axis 0 has
  /// to be 0 or -1.
  std::string reshape(const std::string& x, const std::vector<int64_t>& dims,
                      std::string output = {});
  /// To `to`, which has as many elements as `from`, the present shape of x. If the batch is left
  /// open, axis 0 of both has to be the batch.
  std::string reshape(const std::string& x, const Shape& from, const Shape& to,
                      std::string output = {});
  std::string unsqueeze(const std::string& x, const std::vector<int64_t>& axes,
                        std::string output = {});
  std::string squeeze(const std::string& x, const std::vector<int64_t>& axes,
                      std::string output = {});
  /// `op`: "ReduceSum", "ReduceMean", "ReduceMax", ...
  std::string reduce(std::string_view op, const std::string& x, const std::vector<int64_t>& axes,
                     bool keepdims, std::string output = {});
  /// Pieces of `sizes` along `axis`.
  Names split(const std::string& x, int64_t axis, const std::vector<int64_t>& sizes,
              Names outputs = {});
  /// x[begins[i]:ends[i]:steps[i]] along axes[i].
  std::string slice(const std::string& x, const std::vector<int64_t>& axes,
                    const std::vector<int64_t>& begins, const std::vector<int64_t>& ends,
                    const std::vector<int64_t>& steps = {}, std::string output = {});
  /// `pads`: begins of all axes, then ends. `mode`: "constant", "reflect", "edge".
  std::string pad(const std::string& x, const std::vector<int64_t>& pads, double value = 0,
                  std::string_view mode = "constant", std::string output = {});
  std::string transpose(const std::string& x, const std::vector<int64_t>& order,
                        std::string output = {});
  std::string concat(const Names& x, int64_t axis, std::string output = {});
  std::string cast(const std::string& x, ElementType type, std::string output = {});
  std::string clip(const std::string& x, std::optional<double> low, std::optional<double> high,
                   std::string output = {});

  /// The domain "crema" is used.
  bool has_custom() const { return has_custom_; }
  /// What was added. Ends (inputs, outputs) and metadata are the caller's.
  GraphProto& graph() { return graph_; }
  /// A name that no value has yet.
  std::string new_name(std::string_view hint);
  /// Reserves names, as those of blobs.
  void reserve(const std::string& name) { taken_.insert(name); }

 private:
  NodeProto& add_message(std::string_view op, const Names& inputs, Names& outputs,
                         const Attributes& attributes);

  int opset_;
  bool dynamic_batch_;
  bool has_custom_ = false;
  std::string layer_;
  GraphProto graph_;
  std::set<std::string, std::less<>> taken_;
  std::set<std::string, std::less<>> node_names_;
  std::map<std::string, std::vector<std::pair<Array, std::string>>, std::less<>> constants_;
};

}  // namespace crema::onnx
