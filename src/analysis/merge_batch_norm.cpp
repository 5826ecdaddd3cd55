#include "analysis/merge_batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "analysis/merge_weights.hpp"
#include "crema/random.hpp"
#include "model/blob_message.hpp"
#include "model/partial_copy.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

bool can_be_folded(const std::string& type) {
  return type == "BatchNorm" || type == "BN" || type == "Scale" || type == "Bias";
}

/// A layer of the net that is merged, with its parameters in f64.
struct WorkLayer {
  LayerParameter param;
  std::vector<Shape> bottoms;
  std::vector<int> reads, makes;  // values: a version of a blob each
  bool removed = false;
};

/// The layers, and who makes and reads each value.
class Work {
 public:
  Work(const Net& net, const NetParameter& saved) {
    const std::vector<NetValue> values = net.values();
    layers.resize(static_cast<size_t>(saved.layer_size()));
    for (size_t i = 0; i < layers.size(); ++i) layers[i].param = saved.layer(static_cast<int>(i));
    for (const NetStep& step : net.steps()) {
      if (step.layer < 0) continue;
      for (const int bottom : step.bottoms) {
        layers[static_cast<size_t>(step.layer)].bottoms.push_back(
            values[static_cast<size_t>(bottom)].shape);
      }
    }
    connect();
  }

  std::vector<WorkLayer> layers;
  std::vector<int> makers;                // of each value: a layer, or -1
  std::vector<std::vector<int>> readers;  // of each value: layers

  void connect() {
    makers.clear();
    readers.clear();
    std::map<std::string, int> current;
    for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
      WorkLayer& layer = layers[static_cast<size_t>(i)];
      layer.reads.clear();
      layer.makes.clear();
      if (layer.removed) continue;
      for (const std::string& bottom : layer.param.bottom()) {
        layer.reads.push_back(current.at(bottom));
        readers[static_cast<size_t>(layer.reads.back())].push_back(i);
      }
      for (const std::string& top : layer.param.top()) {
        current[top] = static_cast<int>(makers.size());
        layer.makes.push_back(current[top]);
        makers.push_back(i);
        readers.emplace_back();
      }
    }
  }

  WorkLayer& at(int layer) { return layers[static_cast<size_t>(layer)]; }
  /// The only layer that reads the value; -1 if there are none or several.
  int only_reader(int value) const {
    const auto& all = readers[static_cast<size_t>(value)];
    return all.size() == 1 ? all[0] : -1;
  }
  /// Whether a layer between the two, which are not included, has the blob's name as a top, or as a
  /// bottom if `reads`.
  bool uses_between(int first, int last, const std::string& blob, bool reads) const {
    for (int i = first + 1; i < last; ++i) {
      const WorkLayer& layer = layers[static_cast<size_t>(i)];
      if (layer.removed) continue;
      if (std::ranges::find(layer.param.top(), blob) != layer.param.top().end()) return true;
      if (!reads) continue;
      if (std::ranges::find(layer.param.bottom(), blob) != layer.param.bottom().end()) return true;
    }
    return false;
  }
};

/// Names of parameters that several layers share.
std::set<std::string> shared_names(const NetParameter& net) {
  std::set<std::string> seen, shared;
  for (const LayerParameter& layer : net.layer()) {
    for (const ParamSpec& spec : layer.param()) {
      if (spec.name().empty()) continue;
      if (!seen.insert(spec.name()).second) shared.insert(spec.name());
    }
  }
  return shared;
}

/// Runs the layer alone on channels of 0, 1 and -1 to find its scale and shift. Error if it is no
/// such layer.
ChannelAffine affine_of(const WorkLayer& layer, Context& context) {
  Shape shape = layer.bottoms.at(0);
  if (shape.rank() < 2) throw Error("its bottom has no channels");
  shape.set(0, 3);
  NetParameter probe;
  LayerParameter* input = probe.add_layer();
  input->set_name("probe");
  input->set_type("Input");
  input->add_top("probe_in");
  BlobShape* dims = input->mutable_input_param()->add_shape();
  for (const int64_t dim : shape.dims()) dims->add_dim(dim);
  LayerParameter* copy = probe.add_layer();
  *copy = layer.param;
  for (auto* rules : {copy->mutable_include(), copy->mutable_exclude()}) rules->Clear();
  copy->clear_param();
  if (copy->has_batch_norm_param()) copy->mutable_batch_norm_param()->clear_relu();
  copy->set_bottom(0, "probe_in");
  copy->set_top(0, "probe_out");
  Net net(probe, context, {.phase = Phase::test, .dtype = DType::f64, .fuse = false});
  const int64_t item = shape.count(1), inner = shape.count(2);
  const auto run = [&](double factor) {
    double* in = net.input("probe_in").overwrite<double>();
    for (int i = 0; i < 3; ++i) std::fill_n(in + i * item, item, factor * (i == 2 ? -1 : i));
    net.forward();
    const Tensor out = net.output("probe_out");
    const std::span<const double> values = out.values<double>();
    return std::vector<double>(values.begin(), values.end());
  };
  // One that normalizes by the statistics of its batch gives the same for both.
  const std::vector<double> values = run(1), of_twice = run(2);
  ChannelAffine affine;
  for (int64_t c = 0; c < shape[1]; ++c) {
    const auto first = static_cast<size_t>(c * inner);
    const auto one = first + static_cast<size_t>(item), back = one + static_cast<size_t>(item);
    const double shift = values[first], scale = values[one] - shift;
    const double rounding = 1e-9 * (std::abs(shift) + std::abs(scale));
    for (size_t i = 0; i < static_cast<size_t>(inner); ++i) {
      if (values[first + i] != shift || values[one + i] != values[one] ||
          std::abs(values[back + i] - (shift - scale)) > rounding ||
          std::abs(of_twice[one + i] - (shift + 2 * scale)) > 2 * rounding) {
        throw Error(
            "it does not scale and shift each channel by one number, the same in all batches");
      }
    }
    affine.scale.push_back(scale);
    affine.shift.push_back(shift);
  }
  return affine;
}

class Merger {
 public:
  Merger(Work& work, const NetParameter& net, Context& context)
      : work_(&work), shared_(shared_names(net)), context_(&context) {}

  /// Folds layers until none can be folded.
  void run(std::vector<MergedNet::Entry>& entries) {
    std::map<int, MergedNet::Entry> found;
    bool again = true;
    while (again) {
      again = false;
      for (int i = 0; i < static_cast<int>(work_->layers.size()); ++i) {
        const LayerParameter& param = work_->at(i).param;
        if (work_->at(i).removed || !can_be_folded(param.type())) continue;
        MergedNet::Entry& entry = found[i];
        entry = {param.name(), param.type(), "", ""};
        try {
          entry.into = fold(i, entry.why);
          work_->connect();
          again = true;
        } catch (const Error& error) {
          entry.why = error.message();
        }
      }
    }
    for (auto& [layer, entry] : found) entries.push_back(std::move(entry));
  }

 private:
  /// Returns the layer that computes layer `i` now. `left` says what of it is still there. Error
  /// that says why it cannot be folded.
  std::string fold(int i, std::string& left) {
    WorkLayer& layer = work_->at(i);
    if (layer.param.bottom_size() != 1)
      throw Error("its ", layer.param.type() == "Bias" ? "bias" : "scale", " is a second bottom");
    if (std::ranges::any_of(layer.param.param(), &ParamSpec::has_noise))
      throw Error("its parameters have noise, which the weights of another layer would not have");
    const BatchNormParameter& norm = layer.param.batch_norm_param();
    if (norm.has_use_global_stats() && !norm.use_global_stats())
      throw Error("it normalizes by the statistics of each batch (use_global_stats: false)");
    if (!affines_.count(i)) affines_[i] = affine_of(layer, *context_);
    const ChannelAffine& affine = affines_[i];
    std::string why_not_back;
    const int maker = work_->makers[static_cast<size_t>(layer.reads[0])];
    try {
      fold_back(i, maker, affine, left);
      return work_->at(maker).param.name();
    } catch (const Error& error) {
      why_not_back = error.message();
    }
    try {
      return fold_forward(i, affine);
    } catch (const Error& error) {
      throw Error(why_not_back, "; ", error.message());
    }
  }

  /// Into the layer that makes the bottom.
  void fold_back(int i, int maker, const ChannelAffine& affine, std::string& left) {
    WorkLayer& layer = work_->at(i);
    const std::string bottom = layer.param.bottom(0), top = layer.param.top(0);
    WorkLayer& target = work_->at(maker);
    check(target);
    if (work_->only_reader(layer.reads[0]) != i)
      throw Error("other layers read '", bottom, "', too");
    const bool keeps_relu = layer.param.batch_norm_param().relu();
    if (!keeps_relu && top != bottom && work_->uses_between(maker, i, top, true))
      throw Error("layers before it use a blob '", top, "', too");
    MergeableWeights(target.param, target.bottoms.at(0)).scale_outputs(affine);
    if (keeps_relu) {
      LayerParameter relu;
      relu.set_name(layer.param.name());
      relu.set_type("ReLU");
      relu.add_bottom(bottom);
      relu.add_top(top);
      layer.param = relu;
      left = "its ReLU is a layer of its name";
      return;
    }
    target.param.set_top(0, top);
    layer.removed = true;
  }

  /// Into the only layer that reads the top, whose name is returned.
  std::string fold_forward(int i, const ChannelAffine& affine) {
    WorkLayer& layer = work_->at(i);
    const std::string bottom = layer.param.bottom(0), top = layer.param.top(0);
    const int reader = work_->only_reader(layer.makes[0]);
    if (reader < 0) throw Error("its top is not read by one layer alone");
    if (layer.param.batch_norm_param().relu()) throw Error("it has a ReLU");
    WorkLayer& target = work_->at(reader);
    check(target);
    if (work_->uses_between(i, reader, bottom, false))
      throw Error("a layer behind it changes '", bottom, "'");
    MergeableWeights(target.param, target.bottoms.at(0)).scale_inputs(affine);
    for (std::string& name : *target.param.mutable_bottom()) {
      if (name == top) name = bottom;
    }
    layer.removed = true;
    return target.param.name();
  }

  /// Error unless the layer has weights that can be changed.
  void check(const WorkLayer& target) const {
    const LayerParameter& param = target.param;
    const std::string who = text("layer '", param.name(), "' (", param.type(), ") ");
    if (!MergeableWeights::are_in(param))
      throw Error(who, "beside it has no weights to fold it into");
    if (param.bottom_size() != 1 || param.top_size() != 1)
      throw Error(who, "has several bottoms or tops");
    for (const ParamSpec& spec : param.param()) {
      if (shared_.count(spec.name()))
        throw Error(who, "shares its parameter '", spec.name(), "' with other layers");
    }
  }

  Work* work_;
  std::set<std::string> shared_;
  Context* context_;
  std::map<int, ChannelAffine> affines_;
};

/// The layers that are left, without weights and with weights of f32.
void write_result(const Work& work, const NetParameter& net, MergedNet& merged) {
  copy_without(net,
               {NetParameter::kLayerFieldNumber, NetParameter::kInputFieldNumber,
                NetParameter::kInputShapeFieldNumber, NetParameter::kInputDimFieldNumber},
               merged.net);
  merged.weights.set_name(net.name());
  for (size_t i = 0; i < work.layers.size(); ++i) {
    const WorkLayer& layer = work.layers[i];
    if (layer.removed) continue;
    copy_without(layer.param,
                 {LayerParameter::kBlobsFieldNumber, LayerParameter::kPhaseFieldNumber},
                 *merged.net.add_layer());
    LayerParameter* with_weights = merged.weights.add_layer();
    *with_weights = layer.param;
    for (BlobProto& blob : *with_weights->mutable_blobs()) {
      blob.mutable_data()->Assign(blob.double_data().begin(), blob.double_data().end());
      blob.clear_double_data();
    }
  }
}

/// Noise would hide what merging changes.
NetParameter without_noise(NetParameter net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    for (ParamSpec& spec : *layer.mutable_param()) spec.clear_noise();
  }
  return net;
}

/// Layers whose results one bit of a score can change: their scores are compared instead.
bool counts_hits(const std::string& type) { return type == "Accuracy" || type == "ArgMax"; }

/// The scores that such layers of a net read, by the layer's name.
std::map<std::string, std::string> scores_of_hits(const NetParameter& net) {
  std::map<std::string, std::string> scores;
  for (const LayerParameter& layer : net.layer()) {
    if (counts_hits(layer.type()) && layer.bottom_size() > 0)
      scores[layer.name()] = layer.bottom(0);
  }
  return scores;
}

bool is_compared(Net& net, const std::string& output) {
  return std::ranges::none_of(net.layers(), [&](const Layer* layer) {
    const auto& tops = layer->param().top();
    return counts_hits(layer->type()) && std::ranges::find(tops, output) != tops.end();
  });
}

/// Whether a loss or an Accuracy reads the blob as labels.
bool are_labels(Net& net, const std::string& name) {
  return std::ranges::any_of(net.layers(), [&](const Layer* layer) {
    const auto& bottoms = layer->param().bottom();
    return (layer->type() == "Accuracy" || layer->type().ends_with("Loss")) &&
           std::find(bottoms.begin() + std::min(1, bottoms.size()), bottoms.end(), name) !=
               bottoms.end();
  });
}

/// Random numbers; zeros, a class of each net, for labels.
void fill_inputs(Net& net) {
  for (const std::string& name : net.inputs()) {
    Tensor& input = net.input(name);
    const bool labels = are_labels(net, name);
    Random random(1701, stream_id(name));
    float* values = input.overwrite<float>();
    for (int64_t i = 0; i < input.count(); ++i) {
      values[i] = labels ? 0.0F : static_cast<float>(random.uniform(-1, 1));
    }
  }
}

/// The greatest difference, relative to the greatest value. Infinite where a value is not finite.
double difference_of(const std::string& name, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape())
    throw Error("'", name, "' is of ", a.shape().str(), " before and ", b.shape().str(), " after");
  double greatest = 0, distance = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    const double x = a.at(i), y = b.at(i);
    if (!std::isfinite(x) || !std::isfinite(y)) return HUGE_VAL;
    greatest = std::max(greatest, std::abs(x));
    distance = std::max(distance, std::abs(x - y));
  }
  return distance == 0 ? 0 : distance / std::max(greatest, 1e-30);
}

/// `weights`: a message, or the path of a file; `which` begins a message that it lacks some.
template <class Weights>
MergedNet merge_with(const NetParameter& net, const SourceMap& source, const Weights& weights,
                     const std::string& which, Context& context, NetOptions options,
                     double tolerance) {
  options.phase = Phase::test;
  NetOptions exact = options;
  exact.dtype = DType::f64;
  exact.activations = DType::f64;
  exact.fuse = false;
  MergedNet merged;
  {
    Net whole(net, source, context, exact);
    const LoadReport report = whole.load_weights(weights);
    if (!report.missing.empty())
      throw Error(which, " no weights for ", joined(report.missing),
                  "; give the weights of this net");
    NetParameter saved;
    whole.save(saved);
    const NetParameter layers = layers_of(net, options);
    Work work(whole, saved);
    Merger(work, layers, context).run(merged.entries);
    write_result(work, layers, merged);
  }
  const auto scores = scores_of_hits(layers_of(net, options));
  const auto merged_scores = scores_of_hits(merged.net);
  // Nets that do not train fold the layers too: `before` must not.
  options.fuse = false;
  NetOptions merged_options = options;
  for (const auto& [layer, blob] : scores) options.keep.push_back(blob);
  for (const auto& [layer, blob] : merged_scores) merged_options.keep.push_back(blob);
  Net before(without_noise(net), source, context, options);
  Net after(without_noise(merged.net), context, merged_options);
  before.load_weights(weights);
  after.load_weights(merged.weights);
  fill_inputs(before);
  fill_inputs(after);
  before.forward();
  after.forward();
  const auto compare = [&](const std::string& a, const std::string& b) {
    merged.difference =
        std::max(merged.difference, difference_of(a, before.output(a), after.output(b)));
  };
  for (const std::string& name : before.outputs()) {
    if (is_compared(before, name)) compare(name, name);
  }
  for (const auto& [layer, blob] : scores) compare(blob, merged_scores.at(layer));
  if (!(merged.difference <= tolerance))
    throw Error("the outputs of the merged net differ by ", merged.difference,
                " of their greatest value, more than ", tolerance,
                "; a channel of the statistics may have a variance near 0, or a value be NaN or "
                "infinite");
  return merged;
}

}  // namespace

int MergedNet::merged() const {
  return static_cast<int>(
      std::ranges::count_if(entries, [](const Entry& entry) { return !entry.into.empty(); }));
}

MergedNet merge_batch_norm(const NetParameter& net, const SourceMap& source,
                           const std::string& weights, Context& context, NetOptions options,
                           double tolerance) {
  return merge_with(net, source, weights, text("'", weights, "' has"), context, options, tolerance);
}

MergedNet merge_batch_norm(const NetParameter& net, const SourceMap& source,
                           const NetParameter& weights, Context& context, NetOptions options,
                           double tolerance) {
  return merge_with(net, source, weights, "there are", context, options, tolerance);
}

}  // namespace crema
