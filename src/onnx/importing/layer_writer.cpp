#include "onnx/importing/layer_writer.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <tuple>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/names.hpp"

namespace crema::onnx {

namespace {

// Constants of at most so many elements are settings of a layer OnnxOperator.
constexpr int64_t kMaxWrittenConstant = 1024;

std::string importer_key(std::string_view domain, std::string_view op) {
  return domain == kLayerDomain ? std::string(domain) : text(domain, ":", op);
}

// Integers beyond 2^24 that a blob of f32 does not hold.
bool loses_digits(const Array& array) {
  if (!is_integer(array.type())) return false;
  const std::vector<double> numbers = array.doubles();
  return std::ranges::any_of(numbers, [](double number) {
    return static_cast<double>(static_cast<float>(number)) != number;
  });
}

// Numbers of a constant in fields that a person can read.
TensorProto written(const Array& array) {
  TensorProto message;
  message.set_data_type(array.type());
  for (const int64_t dim : array.shape().dims()) message.add_dims(dim);
  switch (array.type()) {
    case TensorProto::INT64:
      for (const int64_t value : array.values<int64_t>()) message.add_int64_data(value);
      return message;
    case TensorProto::FLOAT:
      for (const float value : array.values<float>()) message.add_float_data(value);
      return message;
    case TensorProto::DOUBLE:
      for (const double value : array.values<double>()) message.add_double_data(value);
      return message;
    case TensorProto::BOOL:
    case TensorProto::INT32:
    case TensorProto::INT16:
    case TensorProto::INT8:
    case TensorProto::UINT8:
    case TensorProto::UINT16:
      for (const int64_t value : array.integers())
        message.add_int32_data(static_cast<int32_t>(value));
      return message;
    default:
      message = message_of(array, "");
      message.clear_name();
      return message;
  }
}

}  // namespace

struct LayerWriter::Mark {
  int layers = 0;
  size_t blobs = 0, names = 0, notes = 0, weights = 0;
};

// A blob of a layer that has the numbers of an initialiser.
struct LayerWriter::Weights {
  LayerParameter* layer = nullptr;
  int blob = 0;
  std::string initialiser = {};
};

LayerWriter::LayerWriter(const Graph& graph) : graph_(graph) {
  for (const Value* input : graph.inputs) taken_blobs_.insert(input->name);
  for (const Value* output : graph.outputs) taken_blobs_.insert(output->name);
}

LayerWriter::Mark LayerWriter::mark() const {
  return {net_.layer_size(), blob_journal_.size(), name_journal_.size(), notes_.size(),
          weights_.size()};
}

void LayerWriter::go_back(const Mark& mark) {
  net_.mutable_layer()->DeleteSubrange(mark.layers, net_.layer_size() - mark.layers);
  while (blob_journal_.size() > mark.blobs) {
    blobs_.erase(blob_journal_.back());
    blob_journal_.pop_back();
  }
  while (name_journal_.size() > mark.names) {
    const auto& [is_blob, name] = name_journal_.back();
    (is_blob ? taken_blobs_ : taken_layers_).erase(name);
    name_journal_.pop_back();
  }
  notes_.resize(mark.notes);
  weights_.resize(mark.weights);
}

std::string LayerWriter::unused(std::string_view wanted, bool is_blob) {
  auto& taken = is_blob ? taken_blobs_ : taken_layers_;
  std::string name(wanted);
  if (taken.contains(name)) {
    int& number = numbers_[text(is_blob ? "blob " : "layer ", wanted)];
    do {
      name = text(wanted, "_", ++number);
    } while (taken.contains(name));
  }
  taken.insert(name);
  name_journal_.emplace_back(is_blob, name);
  return name;
}

// Weights that several nodes read name the first one alone: exporters join equal constants.
const std::string& LayerWriter::name_of(const Node& node) {
  std::string& name = names_[&node];
  if (!name.empty()) return name;
  name = name_of_weights(node);
  if (name.empty() || !named_.insert(name).second) name = name_of_node(node);
  return name;
}

std::string LayerWriter::layer_name(const Node& node, std::string_view step) {
  std::string name = name_of(node);
  if (!step.empty()) name += text("_", step);
  return unused(name, false);
}

std::string LayerWriter::inner_blob(const Node& node, std::string_view what) {
  return unused(text(name_of(node), "_", what), true);
}

void LayerWriter::set_blob(const Value& value, const std::string& name) {
  blobs_[&value] = name;
  blob_journal_.push_back(&value);
}

void LayerWriter::note(std::string what) { notes_.push_back(std::move(what)); }

std::string LayerWriter::blob(const Value& value) {
  if (const auto found = blobs_.find(&value); found != blobs_.end()) return found->second;
  if (!value.is_constant()) throw Error("value '", value.name, "' is read before a layer makes it");
  const std::string name = constant_name_of(value);
  LayerParameter& layer = *net_.add_layer();
  layer.set_name(unused(name, false));
  layer.set_type("Parameter");
  const bool keeps_name = value.is_output && graph_.readers(value).empty();
  const std::string top = keeps_name ? value.name : unused(layer.name(), true);
  layer.add_top(top);
  BlobShape& shape = *layer.mutable_parameter_param()->mutable_shape();
  for (const int64_t dim : value.shape().dims()) shape.add_dim(dim);
  if (value.weight.empty()) freeze(layer, 1);
  if (loses_digits(value.values()))
    note(text("constant '", value.name, "' has integers above 2^24, which nets of f32 round"));
  add_weights(layer, value.values());
  set_blob(value, top);
  return top;
}

void LayerWriter::alias(const Value& from, const Value& to) {
  const std::string name = blob(from);
  shared_.insert(name);
  set_blob(to, name);
}

bool LayerWriter::can_overwrite(const Node& node, const Value& value) const {
  const auto found = blobs_.find(&value);
  return found != blobs_.end() && !value.is_input && !value.is_constant() &&
         graph_.only_reader(value) == &node && !shared_.contains(found->second);
}

std::string LayerWriter::top_of(const LayerEnd& top, const std::string& layer, size_t index,
                                bool is_only) {
  if (!top.blob.empty()) {
    if (top.value != nullptr) set_blob(*top.value, top.blob);
    return top.blob;
  }
  const std::string wanted = is_only ? layer : text(layer, "_", index);
  if (top.value == nullptr) return unused(wanted, true);
  const Value& value = *top.value;
  const bool is_end = value.is_output && graph_.readers(value).empty();
  const std::string name = is_end ? value.name : unused(wanted, true);
  set_blob(value, name);
  return name;
}

LayerParameter& LayerWriter::add(const Node& node, std::string_view type,
                                 const std::vector<LayerEnd>& bottoms,
                                 const std::vector<LayerEnd>& tops, std::string_view step) {
  std::vector<std::string> names;
  for (const LayerEnd& bottom : bottoms) {
    if (bottom.value == nullptr && bottom.blob.empty())
      throw Error("an input that its layer ", type, " needs is not given");
    names.push_back(bottom.blob.empty() ? blob(*bottom.value) : bottom.blob);
  }
  const std::string name = layer_name(node, step);
  LayerParameter& layer = *net_.add_layer();
  layer.set_name(name);
  layer.set_type(std::string(type));
  for (std::string& bottom : names) layer.add_bottom(std::move(bottom));
  const bool may_overwrite = (type == "ReLU" || type == "Dropout") && bottoms.size() == 1 &&
                             tops.size() == 1 && bottoms[0].value != nullptr &&
                             tops[0].value != nullptr && !tops[0].value->is_output &&
                             can_overwrite(node, *bottoms[0].value);
  if (may_overwrite) {
    set_blob(*tops[0].value, layer.bottom(0));
    layer.add_top(layer.bottom(0));
    return layer;
  }
  for (size_t i = 0; i < tops.size(); ++i)
    layer.add_top(top_of(tops[i], name, i, tops.size() == 1));
  return layer;
}

void LayerWriter::add_weights(LayerParameter& layer, const Array& values, const Shape& shape) {
  if (shape.count() != values.count())
    throw Error("weights of shape ", values.shape().str(), " are no weights of ", shape.str());
  BlobProto& message = *layer.add_blobs();
  for (const int64_t dim : shape.dims()) message.mutable_shape()->add_dim(dim);
  if (shape.rank() == 0) message.mutable_shape();
  if (values.type() == TensorProto::DOUBLE) {
    const auto numbers = values.values<double>();
    message.mutable_double_data()->Add(numbers.begin(), numbers.end());
    return;
  }
  const Array floats =
      values.type() == TensorProto::FLOAT ? values : values.cast(TensorProto::FLOAT);
  const auto numbers = floats.values<float>();
  message.mutable_data()->Add(numbers.begin(), numbers.end());
}

void LayerWriter::add_weights(LayerParameter& layer, const Value& value, const Shape& shape) {
  add_weights(layer, value.values(), shape);
  if (!value.weight.empty()) weights_.push_back({&layer, layer.blobs_size() - 1, value.weight});
}

void LayerWriter::freeze(LayerParameter& layer, int parameters) {
  for (int i = 0; i < parameters; ++i) {
    ParamSpec& spec = *layer.add_param();
    spec.set_lr_mult(0);
    spec.set_decay_mult(0);
  }
}

void LayerWriter::write_inputs() {
  for (const Value* input : graph_.inputs) {
    LayerParameter& layer = *net_.add_layer();
    layer.set_name(unused(input->name, false));
    layer.set_type("Input");
    layer.add_top(input->name);
    BlobShape& shape = *layer.mutable_input_param()->add_shape();
    for (const int64_t dim : input->shape().dims()) shape.add_dim(dim);
    set_blob(*input, input->name);
  }
}

// A layer OnnxOperator. Small constants are among its settings, because shapes may depend on them.
void LayerWriter::write_operator(const Node& node) {
  std::vector<LayerEnd> bottoms, tops;
  OnnxOperatorParameter settings;
  settings.set_op_type(node.op());
  if (!node.message.domain().empty()) settings.set_domain(node.message.domain());
  settings.set_opset(node.opset);
  *settings.mutable_attribute() = node.message.attribute();
  for (AttributeProto& attribute : *settings.mutable_attribute()) attribute.clear_doc_string();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value* const input = node.inputs[i];
    if (input == nullptr) {
      settings.add_input(-1);
      continue;
    }
    if (input->is_constant() && input->values().count() <= kMaxWrittenConstant) {
      settings.add_input(-1);
      OnnxOperatorParameter::Constant& constant = *settings.add_constant();
      constant.set_input(static_cast<int32_t>(i));
      *constant.mutable_value() = written(input->values());
      continue;
    }
    settings.add_input(static_cast<int32_t>(bottoms.size()));
    settings.add_bottom_type(input->type());
    bottoms.emplace_back(input);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value* const output = node.outputs[i];
    if (output == nullptr || !graph_.is_wanted(*output)) continue;
    settings.add_output(static_cast<int32_t>(i));
    settings.add_top_type(output->type());
    tops.emplace_back(output);
  }
  *add(node, "OnnxOperator", bottoms, tops).mutable_onnx_operator_param() = std::move(settings);
}

// Weights that many nodes share are written for each.
void LayerWriter::count_weights(int first_layer) {
  constexpr double kMaxWritten = 2.0 * (1 << 30), kTimesLoaded = 8;
  for (int i = first_layer; i < net_.layer_size(); ++i) {
    for (const BlobProto& blob : net_.layer(i).blobs())
      written_bytes_ += static_cast<double>(blob.data_size()) * sizeof(float) +
                        static_cast<double>(blob.double_data_size()) * sizeof(double);
  }
  if (written_bytes_ > kMaxWritten + kTimesLoaded * graph_.loaded_bytes())
    throw Error("the weights of the net take ", static_cast<int64_t>(written_bytes_) >> 20,
                " MiB, many times those of the model, because many nodes share them");
}

namespace {

/// Whether the shape of a value that the node reads or makes follows from values.
bool is_late(const Node& node) {
  const auto is_bound = [](const Value* value) {
    return value != nullptr && value->known.is_bound;
  };
  return std::ranges::any_of(node.inputs, is_bound) || std::ranges::any_of(node.outputs, is_bound);
}

/// Whether the layers of the operator take such shapes: their settings have no sizes of what they
/// read.
bool follows_shapes(const Node& node) {
  static const std::set<std::string, std::less<>> kOperators = {
      "Abs",         "Add",       "AveragePool", "BatchNormalization",
      "Clip",        "Concat",    "Conv",        "Div",
      "Elu",         "Exp",       "Gelu",        "Gemm",
      "HardSigmoid", "HardSwish", "LeakyRelu",   "Log",
      "MatMul",      "MaxPool",   "MaxRoiPool",  "Mul",
      "Relu",        "RoiAlign",  "Sigmoid",     "Softmax",
      "Softplus",    "Sub",       "Tanh"};
  return node.message.domain() == kLayerDomain || kOperators.contains(node.op());
}

}  // namespace

void LayerWriter::write_node(const Node& node, std::vector<std::string>& refused) {
  const std::string& domain = node.message.domain();
  const Mark before = mark();
  std::string why;
  const Operator* const entry = OperatorTable::instance().find(domain, node.op());
  const bool runs = entry != nullptr && entry->evaluate != nullptr;
  if (runs && is_late(node) && !follows_shapes(node)) return write_operator(node);
  if (const Importer importer = ImporterTable::instance().find(domain, node.op());
      importer != nullptr) {
    try {
      importer(node, *this);
      return;
    } catch (const NotAsLayers& reason) {
      why = reason.why;
    } catch (const Error& error) {
      why = said_of_operator(node.op(), error);
    }
    go_back(before);
  }
  if (!runs) {
    refused.push_back(described(node) + ": " +
                      (why.empty() ? "no layer computes this operator" : why));
    return;
  }
  write_operator(node);
}

void LayerWriter::write_outputs() {
  for (const Value* output : graph_.outputs) {
    const std::string name = blob(*output);
    const bool is_read_input = output->is_input && !graph_.readers(*output).empty();
    std::string top = output->name;
    if (name == top && is_read_input && !outputs_.contains(top)) {
      top = unused(text(name, "_output"), true);
      note(text("output '", name, "' of the model is its input: it is '", top, "' of the net"));
    }
    if (!outputs_.insert(top).second || name == top) continue;
    // Others read the value too, so that its blob would be no output of the net.
    LayerParameter& layer = *net_.add_layer();
    layer.set_name(unused(top, false));
    layer.set_type("Split");
    layer.add_bottom(name);
    layer.add_top(top);
  }
}

// What nobody reads would be an output of the net.
void LayerWriter::silence() {
  std::set<std::string, std::less<>> wanted = outputs_;
  for (const LayerParameter& layer : net_.layer())
    wanted.insert(layer.bottom().begin(), layer.bottom().end());
  std::vector<std::string> unread;
  for (const LayerParameter& layer : net_.layer()) {
    for (const std::string& top : layer.top()) {
      if (wanted.insert(top).second) unread.push_back(top);
    }
  }
  if (unread.empty()) return;
  LayerParameter& layer = *net_.add_layer();
  layer.set_name(unused("unused", false));
  layer.set_type("Silence");
  for (const std::string& name : unread) layer.add_bottom(name);
}

namespace {

std::string_view bytes_of(const BlobProto& blob) {
  return blob.double_data_size() > 0
             ? std::string_view(reinterpret_cast<const char*>(blob.double_data().data()),
                                static_cast<size_t>(blob.double_data_size()) * sizeof(double))
             : std::string_view(reinterpret_cast<const char*>(blob.data().data()),
                                static_cast<size_t>(blob.data_size()) * sizeof(float));
}

bool is_uniform(const BlobProto& blob) {
  const auto is_one_number = [](const auto& numbers) {
    return std::ranges::adjacent_find(numbers, std::not_equal_to<>()) == numbers.end();
  };
  return is_one_number(blob.data()) && is_one_number(blob.double_data());
}

}  // namespace

// Exporters often keep equal arrays as one, such as zeros for the biases of a new net. Arrays of
// one number are therefore shared only by layers that share the array in front of it.
void LayerWriter::share_weights() {
  using Key = std::tuple<std::string, std::string, size_t>;  // initialiser, shape, hash
  std::map<Key, std::vector<const Weights*>> users;
  const Weights* before = nullptr;
  std::string owner;  // the initialiser in front of an array of one number
  for (const Weights& weights : weights_) {
    const BlobProto& blob = weights.layer->blobs(weights.blob);
    if (before != nullptr && before->layer != weights.layer) owner.clear();
    before = &weights;
    std::string initialiser = weights.initialiser;
    if (!is_uniform(blob)) {
      owner = initialiser;
    } else if (owner.empty()) {
      continue;
    } else {
      initialiser += text(" of ", owner);
    }
    const std::string_view bytes = bytes_of(blob);
    std::vector<const Weights*>& group =
        users[{initialiser, joined(blob.shape().dim(), "x"), std::hash<std::string_view>()(bytes)}];
    if (group.empty() || bytes_of(group[0]->layer->blobs(group[0]->blob)) == bytes)
      group.push_back(&weights);
  }
  std::set<std::string> names;
  for (const auto& [key, group] : users) {
    if (group.size() < 2) continue;
    const std::string& wanted = group[0]->initialiser;
    std::string name = wanted;
    for (int number = 1; !names.insert(name).second; ++number) name = text(wanted, "_", number);
    for (const Weights* weights : group) {
      while (weights->layer->param_size() <= weights->blob) weights->layer->add_param();
      weights->layer->mutable_param(weights->blob)->set_name(name);
    }
  }
}

NetParameter LayerWriter::write(const Graph& graph, std::vector<std::string>& notes) {
  LayerWriter writer(graph);
  writer.net_.set_name(graph.name);
  writer.write_inputs();
  std::vector<std::string> refused;
  for (const Node* node : graph.nodes) {
    const int first = writer.net_.layer_size();
    writer.write_node(*node, refused);
    writer.count_weights(first);
    if (refused.empty()) continue;
    // What reads the values of a node without layers is looked at all the same.
    for (const Value* output : node->outputs) {
      if (output != nullptr && !writer.blobs_.contains(output))
        writer.set_blob(*output, output->name);
    }
  }
  if (!refused.empty())
    throw Error(refused.size() == 1
                    ? "the model has a node that no layer computes: "
                    : text("the model has ", refused.size(), " nodes that no layers compute: "),
                joined(refused, "; "));
  writer.write_outputs();
  writer.silence();
  writer.share_weights();
  notes.insert(notes.end(), writer.notes_.begin(), writer.notes_.end());
  return std::move(writer.net_);
}

const ImporterTable& ImporterTable::instance() {
  static const ImporterTable table;
  return table;
}

ImporterTable::ImporterTable() {
  add_layer_importers(*this);
  add_activation_importers(*this);
  add_arithmetic_importers(*this);
  add_convolution_importers(*this);
  add_pooling_importers(*this);
  add_product_importers(*this);
  add_norm_importers(*this);
  add_shape_importers(*this);
  add_slicing_importers(*this);
  add_reduction_importers(*this);
  add_resize_importers(*this);
  add_region_importers(*this);
}

void ImporterTable::add(std::string_view domain, std::string_view op, Importer importer) {
  if (!importers_.try_emplace(importer_key(domain, op), importer).second)
    throw Error("operator ", op, " has two importers");
}

Importer ImporterTable::find(std::string_view domain, std::string_view op) const {
  const auto found = importers_.find(importer_key(domain, op));
  return found == importers_.end() ? nullptr : found->second;
}

}  // namespace crema::onnx
