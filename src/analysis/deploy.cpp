#include "analysis/deploy.hpp"

#include <algorithm>
#include <set>

#include "analysis/inference_layers.hpp"
#include "analysis/input_shapes.hpp"
#include "analysis/layer_graph.hpp"
#include "analysis/prediction_heads.hpp"
#include "crema/net.hpp"
#include "model/partial_copy.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

bool moves_values_alone(const std::string& type) {
  return type == "Slice" || type == "Reshape" || type == "Permute" || type == "Transpose" ||
         type == "Flatten" || type == "Split";
}

bool reads_time_first(const std::string& type) {
  return type == "LSTM" || type == "RNN" || type == "GRU";
}

/// Numbers that no data bring: they are a part of the net beside what does.
bool is_constant(const LayerParameter& layer) {
  return layer.type() == "DummyData" && std::ranges::all_of(layer.dummy_data_param().data_filler(),
                                                            [](const FillerParameter& filler) {
                                                              return filler.type() == "constant";
                                                            });
}

class Deployer {
 public:
  Deployer(const NetParameter& net, Context& context, const DeployOptions& options)
      : options_(&options),
        context_(&context),
        state_{.phase = Phase::test, .level = options.level, .stages = options.stages},
        training_(layers_of(
            net, {.phase = Phase::train, .level = options.level, .stages = options.stages})),
        layers_(layers_of_inference(net, state_, training_)),
        graph_(layers_) {
    for (const LayerParameter& layer : layers_.layer())
      taken_.insert(taken_.end(), layer.top().begin(), layer.top().end());
    // Without what a decoder is measured by.
    for (LayerNode& node : graph_.nodes) {
      if (node.param.type() != "CTCGreedyDecoder" || node.reads.size() < 3) continue;
      node.reads.resize(2);
      node.param.mutable_bottom()->DeleteSubrange(2, node.param.bottom_size() - 2);
      node.param.mutable_top()->RemoveLast();
    }
  }

  DeployedNet run() {
    if (options_->outputs.empty()) {
      find_roots();
    } else {
      take_outputs();
    }
    needed_ = graph_.needed_by(roots_);
    if (!options_->outputs.empty()) check_outputs();
    find_inputs();
    find_shapes();
    write(options_->batch);
    try {
      check();
    } catch (const Error& error) {
      if (batch_ == options_->batch) throw;
      write(batch_);
      check();
      result_.notes.push_back(
          text("the batch stays ", batch_, ": with ", options_->batch, ", ", error.message()));
    }
    report_left_out();
    return std::move(result_);
  }

 private:
  struct Input {
    int value = -1;
    Shape shape;  // with the batch of the data
    TransformationParameter transform;
  };

  static size_t at(int index) { return static_cast<size_t>(index); }

  void take_outputs() {
    for (const std::string& name : options_->outputs) {
      const int value = graph_.last_of(name);
      if (value < 0) {
        throw Error("the net has no blob '", name, "' in phase TEST",
                    did_you_mean(name, graph_.names));
      }
      roots_.push_back(value);
    }
  }

  /// Outputs of a net are what none of its layers reads.
  void check_outputs() const {
    for (const int root : roots_) {
      const std::vector<int> readers = needed_readers(root);
      if (readers.empty()) continue;
      const LayerParameter& reader = graph_.nodes[at(readers[0])].param;
      throw Error("'", graph_.name(root), "' cannot be an output beside the others: layer '",
                  reader.name(), "' (", reader.type(), ") reads it for them; name it alone");
    }
  }

  /// What losses and tests read, with the layers that make probabilities or boxes of it.
  void find_roots() {
    std::vector<std::string> dropped;
    std::vector<PredictionHead> heads = main_heads(heads_of(graph_, training_), dropped);
    if (!dropped.empty())
      result_.notes.push_back(
          text("left out with their branches, as auxiliary losses: ", joined(dropped)));
    // Losses first: they say what becomes of scores that tests read, too.
    std::ranges::stable_sort(heads, [](const PredictionHead& a, const PredictionHead& b) {
      return a.weight > b.weight;
    });
    std::set<int> values;
    for (const PredictionHead& head : heads) values.insert(head.value);
    const bool several = values.size() > 1;
    std::set<int> seen;
    for (const PredictionHead& head : heads) {
      if (!seen.insert(head.value).second) continue;
      std::vector<LayerParameter> made = output_layers(head, graph_, taken_, several);
      if (made.empty()) {
        roots_.push_back(head.value);
      } else if (const int same = made_already(head.value, made); same >= 0) {
        roots_.push_back(same);
      } else {
        // Of a loss of boxes, all that the new layers read.
        for (const LayerParameter& layer : made) {
          for (const std::string& bottom : layer.bottom()) {
            if (const int value = graph_.last_of(bottom); value >= 0) roots_.push_back(value);
          }
          added_.push_back(layer);
          if (layer.type() == "DetectionOutput") note_boxes(layer);
        }
      }
    }
    if (heads.empty() && !has_losses()) {
      take_unread();
      result_.notes.push_back(
          "the net has no loss, as a net for inference: its outputs are what no layer reads");
    }
    if (roots_.empty())
      throw Error("no loss and no test of the net reads a prediction; name the outputs, as ",
                  "--outputs=prob");
  }

  bool has_losses() const {
    return std::ranges::any_of(layers_.layer(), is_loss) ||
           std::ranges::any_of(training_.layer(), is_loss);
  }

  void note_boxes(const LayerParameter& layer) {
    const DetectionOutputParameter& how = layer.detection_output_param();
    result_.notes.push_back(text(
        "layer '", layer.name(), "' (DetectionOutput) is new: the net does not say that boxes ",
        "need a confidence of ", how.confidence_threshold(), ", that ", how.nms_param().top_k(),
        " of a class are compared, those that overlap by more than ",
        how.nms_param().nms_threshold(), " go, and ", how.keep_top_k(), " stay; check it"));
  }

  /// The value that a layer of this kind makes of the prediction in the net itself; -1 if none.
  int made_already(int value, const std::vector<LayerParameter>& made) const {
    if (made.size() != 1) return -1;
    for (const int reader : graph_.readers[at(value)]) {
      const LayerNode& node = graph_.nodes[at(reader)];
      if (node.param.type() == made[0].type() &&
          node.param.softmax_param().axis() == made[0].softmax_param().axis())
        return node.makes.at(0);
    }
    return -1;
  }

  /// Of a net without losses: what no layer reads.
  void take_unread() {
    for (size_t i = 0; i < graph_.names.size(); ++i) {
      const LayerNode& maker = graph_.nodes[at(graph_.makers[i])];
      if (graph_.readers[i].empty() && !is_source(maker.param) && !is_measure(maker.param))
        roots_.push_back(static_cast<int>(i));
    }
  }

  bool is_needed(int node) const { return needed_[at(node)]; }

  std::vector<int> needed_readers(int value) const {
    std::vector<int> readers;
    for (const int reader : graph_.readers[at(value)]) {
      if (is_needed(reader)) readers.push_back(reader);
    }
    return readers;
  }

  bool is_used(int value) const {
    return !needed_readers(value).empty() || std::ranges::count(roots_, value) > 0;
  }

  /// Where a record holds inputs and labels in one blob, the inputs are what a Slice cuts out of
  /// it. False if no Slice does, or if the value has other readers.
  bool find_cuts(int value, std::vector<int>& cuts, std::vector<int>& movers) const {
    bool found = false;
    for (const int reader : needed_readers(value)) {
      const LayerNode& node = graph_.nodes[at(reader)];
      if (!moves_values_alone(node.param.type()) || node.reads.size() != 1) return false;
      movers.push_back(reader);
      const bool cuts_labels =
          node.param.type() == "Slice" &&
          !std::ranges::all_of(node.makes, [&](int top) { return is_used(top); });
      for (const int top : node.makes) {
        if (!is_used(top)) continue;
        if (cuts_labels) {
          cuts.push_back(behind_movers(top, movers));
        } else if (!find_cuts(top, cuts, movers)) {
          return false;
        }
        found = true;
      }
    }
    return found;
  }

  /// The value behind the layers that only give the input another form.
  int behind_movers(int value, std::vector<int>& movers) const {
    while (true) {
      const std::vector<int> readers = needed_readers(value);
      if (readers.size() != 1 || std::ranges::count(roots_, value) > 0) return value;
      const LayerNode& node = graph_.nodes[at(readers[0])];
      if (!moves_values_alone(node.param.type()) || node.makes.size() != 1) return value;
      movers.push_back(readers[0]);
      value = node.makes[0];
    }
  }

  void find_inputs() {
    std::vector<int> sources;
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      if (is_needed(i) && is_source(graph_.nodes[at(i)].param)) sources.push_back(i);
    }
    // Constants are inputs where there is nothing else.
    const bool has_data = std::ranges::any_of(
        sources, [&](int i) { return !is_constant(graph_.nodes[at(i)].param); });
    for (const int i : sources) {
      const LayerNode& node = graph_.nodes[at(i)];
      if (has_data && is_constant(node.param)) continue;
      replaced_.insert(i);
      for (const int top : node.makes) {
        if (!is_used(top)) continue;
        if (top != node.makes[0] && !node.param.type().ends_with("Input"))
          note_label(node.param, top);
        std::vector<int> cuts, movers;
        if (find_cuts(top, cuts, movers)) {
          replaced_.insert(movers.begin(), movers.end());
          for (const int cut : cuts) inputs_.push_back({cut, {}, {}});
        } else {
          inputs_.push_back({top, {}, node.param.transform_param()});
        }
      }
    }
    if (inputs_.empty()) throw Error("no data layer feeds the outputs of the net");
  }

  void note_label(const LayerParameter& source, int top) {
    const int reader = needed_readers(top).empty() ? -1 : needed_readers(top)[0];
    if (reader < 0) return;
    const LayerParameter& layer = graph_.nodes[at(reader)].param;
    result_.notes.push_back(text("'", graph_.name(top), "' of layer '", source.name(),
                                 "' stays an input: layer '", layer.name(), "' (", layer.type(),
                                 ") reads it"));
  }

  /// The value of a data layer that the input is, or is cut out of.
  int source_of(int value) const {
    while (!is_source(graph_.maker(value).param)) value = graph_.maker(value).reads.at(0);
    return value;
  }

  /// The shape of a record that the options give, with a batch. Rank 0: none.
  Shape given_shape(int value, int axis, int64_t batch) const {
    auto found = options_->shapes.find(graph_.name(value));
    if (found == options_->shapes.end() && value == source_of(inputs_[0].value))
      found = options_->shapes.find("");
    if (found == options_->shapes.end()) return {};
    std::vector<int64_t> dims(found->second.dims().begin(), found->second.dims().end());
    dims.insert(dims.begin() + std::min<std::ptrdiff_t>(axis, std::ssize(dims)), batch);
    return Shape(dims);
  }

  void find_shapes() {
    std::vector<std::string> names;
    for (const Input& input : inputs_) {
      for (const int value : {input.value, source_of(input.value)}) {
        const std::string& name = graph_.name(value);
        if (std::ranges::count(names, name) == 0) names.push_back(name);
      }
    }
    for (const auto& [name, shape] : options_->shapes) {
      if (!name.empty() && std::ranges::count(names, name) == 0)
        throw Error("the net has no input '", name, "' to give a shape to; it has ", joined(names));
    }
    // What a data layer gives follows with its layer.
    for (Input& input : inputs_) {
      if (source_of(input.value) == input.value) continue;
      const int axis = axis_of_batch(input.value);
      input.shape = given_shape(input.value, axis, options_->batch);
    }
    NetParameter prefix;  // what lies before inputs that were cut out
    std::set<std::string> made;
    for (const int index : replaced_) {
      const LayerNode& node = graph_.nodes[at(index)];
      if (node.reads.empty()) {
        find_shapes_of(node, prefix);
      } else if (std::ranges::all_of(node.param.bottom(), [&](const std::string& bottom) {
                   return made.count(bottom) > 0;
                 })) {
        *prefix.add_layer() = node.param;
      }
      for (const LayerParameter& layer : prefix.layer())
        made.insert(layer.top().begin(), layer.top().end());
    }
    find_cut_shapes(prefix);
    const Input& first = inputs_[0];
    const int axis = axis_of_batch(first.value);
    if (axis < first.shape.rank()) batch_ = first.shape[axis];
  }

  /// Of the inputs that a data layer gives itself; where some are cut out of what it gives, that
  /// becomes a part of the prefix.
  void find_shapes_of(const LayerNode& source, NetParameter& prefix) {
    const auto needs = [&](int value) {
      return std::ranges::any_of(inputs_, [&](const Input& input) {
        return input.shape.rank() == 0 && source_of(input.value) == value;
      });
    };
    if (std::ranges::none_of(source.makes, needs)) return;
    const LayerParameter& layer = source.param;
    const SourceShapes found = shapes_of(layer);
    std::vector<std::string> unknown;
    bool is_guess = false;
    for (size_t top = 0; top < source.makes.size(); ++top) {
      const int value = source.makes[top];
      if (!needs(value)) continue;
      const auto input = std::ranges::find(inputs_, value, &Input::value);
      const int axis = input == inputs_.end() ? 0 : axis_of_batch(value);
      Shape shape = found.tops[top];
      const int rank = shape.rank() > 0 ? shape.rank() : top == 0 && gives_images(layer) ? 4 : 0;
      const Shape given = given_shape(
          value, axis,
          axis < shape.rank() ? shape[axis] : std::max<int64_t>(batch_of_settings(layer), 1));
      if (given.rank() > 0 && rank > 0 && given.rank() != rank)
        throw Error("layer '", layer.name(), "' (", layer.type(), ") gives '", graph_.name(value),
                    "' records of ", rank - 1, " sizes",
                    rank == 4 ? ", channels, height and width" : "", "; the shape has ",
                    given.rank() - 1);
      is_guess = is_guess || (top == 0 && given.rank() == 0);
      if (given.rank() > 0) shape = given;
      if (shape.rank() == 0) {
        unknown.push_back(graph_.name(value));
      } else if (input != inputs_.end()) {
        input->shape = shape;
      } else {
        add_input(graph_.name(value), shape, prefix);
      }
    }
    if (!unknown.empty())
      throw Error("layer '", layer.name(), "' (", layer.type(), "): the shape of '",
                  joined(unknown, "', '"), "' cannot be told: ", found.why,
                  "; give that of a record, as --shape=", joined(unknown, "=3x224x224,"),
                  "=3x224x224");
    if (is_guess && !found.assumed.empty()) result_.notes.push_back(found.assumed);
  }

  /// Where the layer for tests says no size, that for training may have a crop.
  SourceShapes shapes_of(const LayerParameter& source) {
    const SourceShapes own = shapes_of_source(source, *context_);
    if (own.tops[0].rank() > 0) return own;
    for (const LayerParameter& layer : training_.layer()) {
      if (!is_source(layer) || layer.top(0) != source.top(0)) continue;
      SourceShapes shapes = shapes_of_source(layer, *context_);
      if (shapes.tops[0].rank() == 0) continue;
      shapes.tops.resize(own.tops.size());
      return shapes;
    }
    return own;
  }

  static void add_input(const std::string& name, const Shape& shape, NetParameter& net) {
    LayerParameter& layer = *net.add_layer();
    layer.set_name(name);
    layer.set_type("Input");
    layer.add_top(name);
    BlobShape& dims = *layer.mutable_input_param()->add_shape();
    for (const int64_t dim : shape.dims()) dims.add_dim(dim);
  }

  /// Runs nothing: a net knows its shapes.
  void find_cut_shapes(const NetParameter& prefix) {
    const bool has_cuts =
        std::ranges::any_of(inputs_, [](const Input& input) { return input.shape.rank() == 0; });
    if (!has_cuts) return;
    const Net net(prefix, *context_, {.phase = Phase::test, .fuse = false, .keep_all = true});
    const std::vector<NetValue> values = net.values();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Input& input = inputs_[i];
      for (const NetValue& value : values) {
        if (input.shape.rank() == 0 && value.name == graph_.name(input.value))
          input.shape = value.shape;
      }
    }
  }

  /// 1 for what recurrent layers read: time comes first.
  int axis_of_batch(int value) const {
    std::vector<int> next = {value};
    for (size_t done = 0; done < next.size(); ++done) {
      for (const int reader : needed_readers(next[done])) {
        const LayerNode& node = graph_.nodes[at(reader)];
        const std::string& type = node.param.type();
        const auto bottom = std::ranges::find(node.reads, next[done]) - node.reads.begin();
        if (reads_time_first(type) && bottom < 2) return 1;
        // Behind these, the axes may be others.
        if (moves_values_alone(type) || type == "Convolution" || reads_time_first(type) ||
            (type == "InnerProduct" && node.param.inner_product_param().axis() < 2))
          continue;
        next.insert(next.end(), node.makes.begin(), node.makes.end());
      }
    }
    return 0;
  }

  /// The shape with another batch, where the shape has the batch at all.
  Shape with_batch(const Input& input, int64_t batch) const {
    std::vector<int64_t> dims(input.shape.dims().begin(), input.shape.dims().end());
    const auto axis = static_cast<size_t>(axis_of_batch(input.value));
    if (axis < dims.size() && dims[axis] == batch_) dims[axis] = batch;
    return Shape(dims);
  }

  void write(int64_t batch) {
    result_.net.Clear();
    result_.inputs.clear();
    copy_without(layers_,
                 {NetParameter::kLayerFieldNumber, NetParameter::kInputFieldNumber,
                  NetParameter::kInputShapeFieldNumber, NetParameter::kInputDimFieldNumber,
                  NetParameter::kForceBackwardFieldNumber, NetParameter::kStateFieldNumber,
                  NetParameter::kDebugInfoFieldNumber},
                 result_.net);
    for (const Input& input : inputs_) {
      const Shape shape = with_batch(input, batch);
      add_input(graph_.name(input.value), shape, result_.net);
      result_.inputs.push_back({graph_.name(input.value), shape, input.transform});
    }
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      if (is_needed(i) && replaced_.count(i) == 0) write_layer(graph_.nodes[at(i)]);
    }
    for (const LayerParameter& layer : added_) *result_.net.add_layer() = layer;
    silence_unread();
  }

  void write_layer(const LayerNode& node) {
    LayerParameter& layer = *result_.net.add_layer();
    copy_without(node.param,
                 {LayerParameter::kBlobsFieldNumber, LayerParameter::kPhaseFieldNumber,
                  LayerParameter::kIncludeFieldNumber, LayerParameter::kExcludeFieldNumber,
                  LayerParameter::kLossWeightFieldNumber, LayerParameter::kPropagateDownFieldNumber,
                  LayerParameter::kParamFieldNumber, LayerParameter::kRecomputeFieldNumber},
                 layer);
    if (layer.type() != "DummyData") clear_fillers(layer);
    if (layer.has_detection_output_param()) {
      layer.mutable_detection_output_param()->clear_save_output_param();
      layer.mutable_detection_output_param()->clear_visualize();
      layer.mutable_detection_output_param()->clear_visualize_threshold();
    }
    // Of parameters, the names that other layers of the result have, too.
    int last = 0;
    for (int i = 0; i < node.param.param_size(); ++i) {
      if (is_shared(node.param.param(i).name())) last = i + 1;
    }
    for (int i = 0; i < last; ++i) {
      ParamSpec& spec = *layer.add_param();
      const ParamSpec& own = node.param.param(i);
      if (!is_shared(own.name())) continue;
      spec.set_name(own.name());
      if (own.has_share_mode()) spec.set_share_mode(own.share_mode());
    }
  }

  bool is_shared(const std::string& parameter) const {
    if (parameter.empty()) return false;
    int layers = 0;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!needed_[i]) continue;
      for (const ParamSpec& spec : graph_.nodes[i].param.param()) {
        layers += spec.name() == parameter ? 1 : 0;
      }
    }
    return layers > 1;
  }

  /// Tops beside those that the outputs need, such as parts of a Slice.
  void silence_unread() {
    LayerParameter silence;
    silence.set_name("silence");
    silence.set_type("Silence");
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const LayerNode& node = graph_.nodes[i];
      if (!needed_[i] || replaced_.count(static_cast<int>(i)) > 0) continue;
      for (size_t top = 0; top < static_cast<size_t>(node.param.top_size()); ++top) {
        const bool is_added = std::ranges::any_of(added_, [&](const LayerParameter& layer) {
          return std::ranges::count(layer.bottom(), graph_.name(node.makes[top])) > 0;
        });
        if (!is_used(node.makes[top]) && !is_added)
          silence.add_bottom(graph_.name(node.makes[top]));
      }
    }
    if (silence.bottom_size() > 0) *result_.net.add_layer() = silence;
  }

  /// Builds the result.
  void check() {
    Net net(result_.net, *context_, {.phase = Phase::test, .fuse = false});
    result_.outputs.clear();
    for (const std::string& name : net.outputs())
      result_.outputs.push_back({name, net.blob(name).shape()});
  }

  void report_left_out() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const LayerParameter& layer = graph_.nodes[i].param;
      if (!needed_[i] && !is_source(layer))
        result_.left_out.push_back(text(layer.name(), " (", layer.type(), ")"));
    }
  }

  const DeployOptions* options_;
  Context* context_;
  NetOptions state_;
  NetParameter training_, layers_;
  LayerGraph graph_;
  std::vector<std::string> taken_;     // names of blobs
  std::vector<int> roots_;             // values that the result is for
  std::vector<LayerParameter> added_;  // behind the layers of the net
  std::vector<bool> needed_;           // of each node
  std::set<int> replaced_;             // nodes: data layers, and what cuts inputs out of them
  std::vector<Input> inputs_;
  int64_t batch_ = 1;  // of the data
  DeployedNet result_;
};

}  // namespace

DeployedNet deploy_net(const NetParameter& net, Context& context, const DeployOptions& options) {
  if (options.batch < 1) throw Error("a batch of ", options.batch, " is none; give 1 or more");
  return Deployer(net, context, options).run();
}

}  // namespace crema
