// Copies parameters from and to the published NetParameter.
#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "core/data_source.hpp"
#include "core/dispatch.hpp"
#include "model/blob_message.hpp"
#include "model/origin.hpp"
#include "model/snapshot_file.hpp"
#include "model/state_rules.hpp"
#include "model/stored_weights.hpp"
#include "model/upgrade/upgrade.hpp"
#include "net/plan.hpp"
#include "onnx/importing/net_file.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

/// In old files every blob has four dimensions, with leading ones: (1, 1, O, K) means (O, K).
bool fits(const BlobProto& blob, const Shape& shape) {
  const Shape file = blob_shape(blob);
  if (file == shape) return true;
  if (blob.has_shape() || shape.rank() > 4) return false;
  std::vector<int64_t> padded(static_cast<size_t>(4 - shape.rank()), 1);
  padded.insert(padded.end(), shape.dims().begin(), shape.dims().end());
  return file.dims() == padded;
}

/// Error unless the shape of the values, and their number, fit the parameter.
void check_blob(const BlobProto& blob, int64_t given, const Parameter& parameter, int index) {
  const Shape& shape = parameter.shape();
  if (!fits(blob, shape))
    throw Error("cannot load parameter ", index, ": the file has shape ", blob_shape(blob).str(),
                ", the net ", shape.str(),
                "; rename the layer to train it anew, or give it the file's shape");
  if (given != shape.count())
    throw Error("cannot load parameter ", index, ": the file holds ", given, " values for shape ",
                shape.str(), "; the file is damaged");
}

/// A way out where the file has one parameter for a layer and the net two, or the other way round.
std::string advice_on_bias(const Layer& layer, size_t given) {
  const size_t wanted = layer.params().size();
  const std::string settings = settings_with_bias_term(layer.type());
  if (settings.empty() || given + wanted != 3 || given == 0 || wanted == 0) return {};
  const bool has_bias = given == 2;
  return text("; set ", settings, " { bias_term: ", has_bias ? "true" : "false", " }, as the ",
              has_bias ? "file has a bias" : "file has no bias");
}

const Shape& shape_of(const std::unique_ptr<Parameter>& parameter) { return parameter->shape(); }

/// The parameters of a file for one layer, ready to be copied.
class Loading {
 public:
  /// Throws unless the layer can take them. `stored`: has the values that the messages lack, or
  /// null.
  Loading(const LayerParameter& from, Layer& layer, const StoredWeights* stored = nullptr)
      : from_(&from), layer_(&layer), stored_(stored) {
    const bool fit = std::ranges::equal(from.blobs(), layer.params(), fits, {}, shape_of);
    if (!fit && convert_weights()) return;
    const auto& params = layer.params();
    if (static_cast<size_t>(from.blobs_size()) != params.size())
      throw Error("the file has ",
                  from.blobs_size() == 1 ? "1 parameter" : text(from.blobs_size(), " parameters"),
                  " for it, the net has ", params.size(),
                  advice_on_bias(layer, static_cast<size_t>(from.blobs_size())));
    for (size_t i = 0; i < params.size(); ++i) {
      const BlobProto& blob = from.blobs(static_cast<int>(i));
      check_blob(blob, count(blob), *params[i], static_cast<int>(i));
    }
  }

  const LayerParameter* from() const { return from_; }
  const Layer* layer() const { return layer_; }

  void copy() const {
    const auto& params = layer_->params();
    for (size_t i = 0; i < params.size(); ++i) {
      Tensor& data = params[i]->data;
      if (converted_.empty()) {
        load(from_->blobs(static_cast<int>(i)), data);
      } else {
        dispatch_float(data.dtype(), [&](auto zero) {
          using T = decltype(zero);
          std::copy_n(converted_[i].read<T>(), data.count(), data.changing<T>().data());
        });
      }
    }
  }

 private:
  int64_t count(const BlobProto& blob) const {
    return stored_ != nullptr ? stored_->count(blob) : blob_count(blob);
  }
  void load(const BlobProto& blob, Tensor& to) const {
    return stored_ != nullptr ? stored_->load(blob, to) : load_values(blob, to);
  }

  /// Asks the layer whether it knows parameters of this count and these shapes.
  bool convert_weights() {
    std::vector<Tensor> published;
    for (const BlobProto& blob : from_->blobs()) {
      const Shape shape = blob_shape(blob);
      if (count(blob) != shape.count()) return false;  // check_blob() says it
      load(blob, published.emplace_back(shape, layer_->dtype()));
    }
    if (!layer_->convert_weights(published)) return false;
    if (!std::ranges::equal(published, layer_->params(), {}, &Tensor::shape, shape_of))
      throw Error("adopted published parameters in shapes other than its own");
    converted_ = std::move(published);
    return true;
  }

  const LayerParameter* from_;
  Layer* layer_;
  const StoredWeights* stored_;
  std::vector<Tensor> converted_;  // where the file's are not the layer's own
};

/// Copies the parameters of a file for several layers, one after the other, and finds parameters
/// that layers share and for which the file has other values in each.
class Copying {
 public:
  explicit Copying(Plan& plan) : plan_(plan) {}

  void copy(const Loading& loading) {
    const Layer& layer = *loading.layer();
    std::map<size_t, std::vector<double>> earlier;  // values of layers before, by index
    for (size_t i = 0; i < layer.params().size(); ++i) {
      if (last_.count(layer.params()[i]->storage().get()) != 0) earlier[i] = values(layer, i);
    }
    loading.copy();
    for (size_t i = 0; i < layer.params().size(); ++i) {
      const Layer*& last = last_[layer.params()[i]->storage().get()];
      if (earlier.count(i) != 0 && earlier[i] != values(layer, i))
        differing_.insert({last->name(), layer.name()});
      last = &layer;
    }
  }

  /// Warns of what was found. `source` names the weights.
  void log_differing(const std::string& source) const {
    for (const auto& [first, second] : differing_) {
      plan_.context->log(Severity::warning,
                         text(source, ": layers '", first, "' and '", second,
                              "' share a parameter, but have other values for it; those of '",
                              second, "' hold, the later in the file"));
    }
  }

 private:
  static std::vector<double> values(const Layer& layer, size_t index) {
    const Tensor plain = layer.params()[index]->data.to(DType::f64, Format::contiguous);
    const std::span<const double> all = plain.values<double>();
    return {all.begin(), all.end()};
  }

  Plan& plan_;
  std::map<const ParameterStorage*, const Layer*> last_;  // the last layer that gave values
  std::set<std::pair<std::string, std::string>> differing_;
};

/// The layers of a file that hold parameters, by name.
std::map<std::string, std::vector<const LayerParameter*>> layers_with_blobs(
    const NetParameter& weights) {
  std::map<std::string, std::vector<const LayerParameter*>> found;
  for (const auto& layer : weights.layer()) {
    if (layer.blobs_size() != 0) found[layer.name()].push_back(&layer);
  }
  return found;
}

/// Copies the weights in the layers of the net's own message. Returns the names of the layers that
/// have some. Parameters of the net that this one shares keep their values.
std::set<std::string> load_own_blobs(Plan& plan, const NetParameter& given) {
  std::set<const ParameterStorage*> own;
  for (const auto& segment : plan.arena.segments()) own.insert(segment.parameter->storage().get());
  std::vector<const LayerParameter*> layers;
  for (const LayerParameter& layer : given.layer()) {
    if (in_state(layer, plan.options)) layers.push_back(&layer);
  }
  std::set<std::string> loaded;
  Copying copying(plan);
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerParameter& from = *layers[i];
    // Upgrading adds layers at the front only, so the nodes match the message from the end.
    const Node& node = plan.node(NodeId(plan.layers.size() - layers.size() + i));
    const bool mine = std::ranges::all_of(node.layer->params(), [&](const auto& parameter) {
      return own.count(parameter->storage().get()) != 0;
    });
    if (from.blobs_size() == 0 || !mine) continue;
    in_node(node, [&] { copying.copy(Loading(from, *node.layer)); });
    loaded.insert(node.layer->name());
  }
  copying.log_differing("the weights in the net");
  return loaded;
}

std::string counts(const LoadReport& report) {
  const auto list = [](const std::vector<std::string>& names) {
    return names.empty() ? "" : text(" (", joined(names), ")");
  };
  return text(report.loaded.size(), report.loaded.size() == 1 ? " layer" : " layers", " loaded, ",
              report.missing.size(), " missing", list(report.missing), ", ", report.unused.size(),
              " unused", list(report.unused));
}

/// Says by which program, from which net and for which classes the weights are, and what becomes of
/// images.
void save_origin(const Plan& plan, Origin& origin) {
  origin.set_program(program_version());
  if (!plan.file.empty()) origin.set_net(plan.file);
  for (const Layer* layer : plan.layers) {
    const DataSource* source = layer->data_source();
    if (source == nullptr) continue;
    if (!origin.has_transform()) source->tell_transform(origin);
    if (origin.class_name_size() > 0) continue;
    const std::vector<std::string> names = source->class_names();
    origin.mutable_class_name()->Assign(names.begin(), names.end());
  }
}

/// Warns where all layers take over weights whose labels mean other classes than those of the
/// training data here.
void note_other_classes(Plan& plan, const NetParameter& weights, const LoadReport& report) {
  const auto& were = weights.origin().class_name();
  Origin own;
  save_origin(plan, own);
  const auto& are = own.class_name();
  if (plan.options.phase != Phase::train || !report.missing.empty() || were.empty() || are.empty())
    return;
  for (int label = 0; label < std::max(were.size(), are.size()); ++label) {
    const auto name = [&](const auto& names) {
      return label < names.size() ? text("'", names[label], "'") : std::string("no class");
    };
    if (name(were) == name(are)) continue;
    plan.note(text("label ", label, " is ", name(were), " in the weights, of ", were.size(),
                   " classes, and ", name(are), " in the training data, of ", are.size(),
                   ": the scores of the weights are those of other classes; give the layer of the "
                   "scores another name to train it anew, or give that run's classes"),
              Severity::warning);
    return;
  }
}

/// As Net::load_weights(). `source` names the weights in a warning; `stored` has the values that
/// the message lacks, or is null.
LoadReport load_weights(Plan& plan, const NetParameter& weights, bool strict,
                        const std::string& source, const StoredWeights* stored = nullptr) {
  const auto targets = plan.nodes_with_params();
  const auto sources = layers_with_blobs(weights);
  LoadReport report;
  std::vector<Loading> loadings;
  for (const auto& [name, nodes] : targets) {
    const auto found = sources.find(name);
    const size_t given = found == sources.end() ? 0 : found->second.size();
    // Layers of one name are matched in their order.
    if (given != 0 && given != nodes.size()) {
      throw Error("the weights file has parameters for ", given, " layers named '", name,
                  "', the net for ", nodes.size(), "; give the layers of the net different names");
    }
    for (size_t i = 0; i < given; ++i) {
      Layer& layer = *nodes[i]->layer;
      try {
        loadings.emplace_back(*found->second[i], layer, stored);
      } catch (Error& error) {
        error.in_layer(layer.name(), layer.type());
        throw;
      }
    }
  }
  for (const Layer* layer : plan.layers) {
    if (layer->params().empty()) continue;
    const bool missing = std::ranges::find(loadings, layer, &Loading::layer) == loadings.end();
    (missing ? report.missing : report.loaded).push_back(layer->name());
  }
  for (const auto& layer : weights.layer()) {
    if (layer.blobs_size() != 0 && targets.count(layer.name()) == 0) {
      report.unused.push_back(layer.name());
    }
  }
  if (strict && !(report.missing.empty() && report.unused.empty())) {
    throw Error("the weights do not fit the net exactly (strict): ", report.str());
  }
  // In the order of the file, as published: the last of several layers that share a parameter wins.
  std::map<const LayerParameter*, int> place;
  for (const auto& layer : weights.layer()) place.emplace(&layer, static_cast<int>(place.size()));
  std::ranges::sort(loadings, {}, [&](const Loading& one) { return place.at(one.from()); });
  Copying copying(plan);
  for (const Loading& loading : loadings) copying.copy(loading);
  copying.log_differing(source);
  note_other_classes(plan, weights, report);
  // Fine-tuning may miss layers. Missing all of them is a wrong file or a wrong net.
  if (report.loaded.empty() && !report.missing.empty()) {
    plan.context->log(
        Severity::warning,
        text(source, ": no weights were loaded; the net has layer '", report.missing[0], "', ",
             report.unused.empty() ? "the file has no layer with weights"
                                   : text("the file has layer '", report.unused[0], "'"),
             "; give the layers of the net the names of the file, or take another file (--strict ",
             "or NetOptions::strict makes this an error)"));
  }
  return report;
}

bool is_there(const BlobProto& blob) { return blob_count(blob) != 0 || blob.has_shape(); }

/// Whether layers share a parameter.
bool has_shared(Plan& plan) {
  std::set<const ParameterStorage*> seen;
  for (const auto& [name, nodes] : plan.nodes_with_params()) {
    for (const Node* node : nodes) {
      for (const auto& parameter : node->layer->params()) {
        if (!seen.insert(parameter->storage().get()).second) return true;
      }
    }
  }
  return false;
}

/// An HDF5 file has a parameter that layers share only once, with the layer that owns it. Gives it
/// to the others.
void give_shared(Plan& plan, NetParameter& weights) {
  std::map<std::string, LayerParameter*> layers;
  for (LayerParameter& layer : *weights.mutable_layer()) layers[layer.name()] = &layer;
  const auto find = [&](const std::string& layer, int index) -> const BlobProto* {
    const auto found = layers.find(layer);
    const bool is_given = found != layers.end() && index < found->second->blobs_size() &&
                          is_there(found->second->blobs(index));
    return is_given ? &found->second->blobs(index) : nullptr;
  };
  std::map<const ParameterStorage*, const BlobProto*> owned;
  for (const auto& segment : plan.arena.segments()) {
    owned[segment.parameter->storage().get()] = find(segment.layer, segment.index);
  }
  for (const auto& [name, nodes] : plan.nodes_with_params()) {
    if (nodes.size() != 1) continue;
    const auto& params = nodes[0]->layer->params();
    std::map<int, const BlobProto*> missing;
    for (int i = 0; i < static_cast<int>(params.size()); ++i) {
      if (!find(name, i)) missing[i] = owned[params[static_cast<size_t>(i)]->storage().get()];
    }
    const bool all_found = std::ranges::all_of(missing, [](const auto& of) { return of.second; });
    if (missing.empty() || !all_found) continue;
    LayerParameter*& layer = layers[name];
    if (layer == nullptr) (layer = weights.add_layer())->set_name(name);
    while (layer->blobs_size() < static_cast<int>(params.size())) layer->add_blobs();
    for (const auto& [index, blob] : missing) *layer->mutable_blobs(index) = *blob;
  }
}

/// Whether the message was read from HDF5, going by what it has of its layers: names and blobs.
bool is_from_hdf5(const NetParameter& weights) {
  return std::ranges::none_of(weights.layer(), &LayerParameter::has_type);
}

/// `is_new`: the net is being built, and is lost with an Error; checksums are compared at the end.
/// Otherwise it keeps its parameters where the file is damaged.
LoadReport load_weights(Plan& plan, const std::string& path, bool strict, bool is_new) {
  if (auto stored = StoredWeights::open(path)) {
    if (!is_new) stored->check();
    upgrade_weights(stored->message());
    try {
      const LoadReport report = load_weights(plan, stored->message(), strict, path, stored.get());
      if (is_new) plan.unchecked.push_back(std::move(stored));
      return report;
    } catch (Error& error) {
      stored->check();  // a file that changed says wrong things
      error.at({path, 0, 0});
      throw;
    }
  }
  NetParameter weights;
  read_net_weights(path, weights);
  if (is_hdf5_file(path)) give_shared(plan, weights);
  upgrade_weights(weights);
  try {
    return load_weights(plan, weights, strict, path);
  } catch (Error& error) {
    error.at({path, 0, 0});
    throw;
  }
}

/// Warns of layers whose weights an earlier file had given. `file_of` follows.
void log_loaded_twice(const Plan& plan, const LoadReport& report, const std::string& file,
                      std::map<std::string, std::string>& file_of) {
  std::map<std::string, std::vector<std::string>> twice;  // by the earlier file
  for (const std::string& layer : report.loaded) {
    const auto [entry, first] = file_of.try_emplace(layer, file);
    if (!first) twice[std::exchange(entry->second, file)].push_back(layer);
  }
  for (const auto& [earlier, layers] : twice) {
    plan.context->log(Severity::warning,
                      text(earlier, " and ", file, " both have weights for ",
                           layers.size() == 1 ? "layer " : "layers ", joined(layers), "; those of ",
                           file, " hold, the later one"));
  }
}

}  // namespace

std::string LoadReport::str() const { return "weights: " + counts(*this); }

LoadReport Net::load_weights(const NetParameter& weights, bool strict) {
  if (weights.layers_size() > 0) {
    NetParameter upgraded = weights;
    upgrade_weights(upgraded);
    return crema::load_weights(*plan_, upgraded, strict, "weights");
  }
  if (is_from_hdf5(weights) && has_shared(*plan_)) {
    NetParameter whole = weights;
    give_shared(*plan_, whole);
    return crema::load_weights(*plan_, whole, strict, "weights");
  }
  return crema::load_weights(*plan_, weights, strict, "weights");
}

LoadReport Net::load_weights(const std::string& path, bool strict) {
  return crema::load_weights(*plan_, path, strict, false);
}

std::set<std::string> load_first_weights(Plan& plan, const NetParameter& given) {
  std::set<std::string> carried = load_own_blobs(plan, given), loaded, missing, unused;
  std::map<std::string, std::string> file_of;  // of the layer's weights
  for (const std::string& file : plan.options.weights) {
    const LoadReport report = load_weights(plan, file, false, true);
    plan.context->log(Severity::info, text(file, ": ", report.str()));
    log_loaded_twice(plan, report, file, file_of);
    loaded.insert(report.loaded.begin(), report.loaded.end());
    missing.insert(report.missing.begin(), report.missing.end());
    unused.insert(report.unused.begin(), report.unused.end());
  }
  std::erase_if(missing, [&](const std::string& layer) { return loaded.count(layer) != 0; });
  const LoadReport all{{loaded.begin(), loaded.end()},
                       {missing.begin(), missing.end()},
                       {unused.begin(), unused.end()}};
  const std::string files = joined(plan.options.weights);
  if (plan.options.weights.size() > 1) {
    plan.context->log(Severity::info, text("together: ", counts(all)));
  }
  if (plan.options.strict && !(missing.empty() && unused.empty())) {
    throw Error("the weights of ", files, " do not fit the net exactly (strict): ", counts(all));
  }
  if (!files.empty() && !missing.empty()) {
    const std::string lack =
        text("no weights for ", missing.size() == 1 ? "layer " : "layers ", joined(missing));
    if (plan.options.need_all_weights)
      throw Error(
          files, ": ", lack,
          unused.empty() ? "" : "; the net does not have " + joined(unused) + " of the file",
          "; are these the weights of this net?");
    // A net in phase TEST is not going to learn what is missing.
    if (plan.options.phase == Phase::test && !loaded.empty())
      plan.context->log(Severity::warning,
                        text(files, ": ", lack, "; they keep the values of their fillers"));
  }
  carried.merge(loaded);
  return carried;
}

void Net::save(NetParameter& out, bool with_diffs) const {
  out.Clear();
  out.set_name(plan_->graph->name);
  save_origin(*plan_, *out.mutable_origin());
  for (const Node& node : plan_->graph->nodes) {
    LayerParameter* saved = out.add_layer();
    *saved = node.layer->param();
    if (saved->has_name()) saved->set_name(node.name);
    if (!node.own_phase) saved->clear_phase();
    for (const auto& parameter : node.layer->params()) {
      BlobProto* blob = saved->add_blobs();
      save_values(parameter->data, *blob);
      if (with_diffs && plan_->trains && parameter->learnable) {
        const Tensor zero(parameter->shape(), parameter->diff.dtype());
        save_diff(parameter->is_cleared() ? zero : parameter->diff, *blob);
      }
    }
  }
}

std::vector<Net::SavedLayer> Net::saved_layers() const {
  std::vector<SavedLayer> layers;
  for (const Node& node : plan_->graph->nodes) {
    layers.push_back({node.name, node.layer->params().size()});
  }
  return layers;
}

void Net::save_weights(const std::string& path) const {
  NetParameter weights;
  save(weights);
  write_weights(path, weights);
}

}  // namespace crema
