// GraphBuilder: nodes and constants of a model of ONNX, as exporters of layers add them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "onnx/operators/array.hpp"

namespace crema::onnx {

/// An attribute by its value; vectors are lists, arrays TENSOR.
using AttributeValue = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                    std::vector<double>, std::vector<std::string>, Array>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;
using Names = std::vector<std::string>;

class GraphBuilder {
 public:
  /// Error unless `opset` is from 13 to 23.
  explicit GraphBuilder(int opset);

  int opset() const { return opset_; }
  /// Nodes that are added from now on belong to this layer: they are called after it. `open_batch`:
  /// axis 0 of what it reads can have any size, so its present size may not be in constants.
  void begin_layer(std::string_view name, bool open_batch = false);
  /// The last node of the layer gets its name, others are "layer/Operator": it gives the top.
  void finish_layer();
  bool open_batch() const { return open_batch_; }
  /// Error with the reason if axis 0 is open.
  void need_fixed_batch(std::string_view why) const;

  /// A node with one output, whose name is returned: `output`, or a new one.
  std::string add(std::string_view op, Names inputs, Attributes attributes = {},
                  std::string output = {});
  /// A node with several outputs; names that are "" are new ones.
  Names add_many(std::string_view op, Names inputs, Names outputs, Attributes attributes = {});
  /// A node of the domain "crema" (exporting/README.md has the schemas).
  Names add_custom(std::string_view op, Names inputs, Names outputs, Attributes attributes = {});
  /// A node of any domain, with attributes as they are.
  void add_foreign(std::string_view op, const std::string& domain, const Names& inputs,
                   Names outputs,
                   const google::protobuf::RepeatedPtrField<AttributeProto>& attributes);

  /// Gives `x` the name `output`: in its node, if the present layer has added that without a name,
  /// else as an alias.
  void finish(const std::string& x, const std::string& output);
  /// Makes `output` another name of `input`, without a node.
  void alias(const std::string& output, const std::string& input) { aliases_[output] = input; }
  /// The value that the name stands for.
  const std::string& resolved(const std::string& name) const;

  /// An initialiser of this very name, which nothing else has.
  void initializer(const std::string& name, const Array& values);
  /// Constants. With a `hint` it is the layer's own and called "layer.hint"; without one, the same
  /// values are one initialiser for all layers.
  std::string constant(const Array& values, std::string_view hint = {});
  std::string floats(const Shape& shape, std::span<const double> values,
                     std::string_view hint = {});
  std::string number(double value);                      // a FLOAT scalar
  std::string ints(const std::vector<int64_t>& values);  // an INT64 vector
  std::string index(int64_t value);                      // an INT64 scalar

  // Operators that changed between opsets 13 and 23, or that say the same in several ways. All
  // return the name of what they give.
  /// `dims`: as ONNX's Reshape: 0 copies the size, -1 is the rest. With an open batch, the caller
  /// lets 0 or -1 stand for axis 0.
  std::string reshape(const std::string& x, const std::vector<int64_t>& dims,
                      std::string output = {});
  /// To this shape, of which axis 0 is what is left if the batch is open.
  std::string reshape(const std::string& x, const Shape& to, std::string output = {});
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
  /// Removes nodes and constants that none of the `outputs` needs.
  void remove_unused(const Names& outputs);

 private:
  std::string new_node_name(std::string_view op);
  NodeProto& add_message(std::string_view op, const Names& inputs, Names& outputs,
                         const Attributes& attributes);

  int opset_;
  bool open_batch_ = false;
  bool has_custom_ = false;
  std::string layer_;
  GraphProto graph_;
  std::set<std::string, std::less<>> taken_;
  std::set<std::string, std::less<>> node_names_;
  std::map<std::string, int, std::less<>> numbers_, node_numbers_;  // the last one that a name got
  std::vector<std::pair<Array, std::string>> constants_;            // those that layers share
  std::map<std::string, std::string, std::less<>> aliases_;
  std::set<std::string, std::less<>> unnamed_;  // outputs of the present layer with new names
  int first_node_ = 0;                          // of the present layer
};

/// Adds an attribute of that name.
void set_attribute(NodeProto& node, const std::string& name, const AttributeValue& value);

}  // namespace crema::onnx
