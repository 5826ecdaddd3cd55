#include "analysis/net_drawing.hpp"

#include <algorithm>
#include <map>

#include "model/upgrade/upgrade.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// "7x7": the sizes of a kernel, for all axes or each.
template <class Settings>
std::string kernel_of(const Settings& settings, const std::vector<uint32_t>& sizes) {
  if (settings.kernel_h() != 0) return text(settings.kernel_h(), "x", settings.kernel_w());
  if (sizes.empty()) return "";
  return sizes.size() == 1 ? text(sizes[0], "x", sizes[0]) : joined(sizes, "x");
}

std::string step_of(const char* name, const std::vector<uint32_t>& values, uint32_t h, uint32_t w,
                    uint32_t usual) {
  if (h != 0 && h == usual && w == usual) return "";
  if (h != 0 || w != 0) return text(", ", name, " ", h, "x", w);
  if (values.empty() || (values.size() == 1 && values[0] == usual)) return "";
  return text(", ", name, " ", joined(values, "x"));
}

/// A setting that is given for all axes or each, or for all alone; 0: not given.
std::vector<uint32_t> listed(const google::protobuf::RepeatedField<uint32_t>& values) {
  return {values.begin(), values.end()};
}
std::vector<uint32_t> listed(uint32_t value) {
  if (value == 0) return {};
  return {value};
}

/// The settings that a reader of a drawing looks for; "" for most types.
std::string settings_of(const LayerParameter& layer) {
  if (layer.has_convolution_param()) {
    const ConvolutionParameter& c = layer.convolution_param();
    return text(kernel_of(c, listed(c.kernel_size())), ", ", c.num_output(),
                step_of("stride", listed(c.stride()), c.stride_h(), c.stride_w(), 1),
                step_of("pad", listed(c.pad()), c.pad_h(), c.pad_w(), 0),
                step_of("dilation", listed(c.dilation()), 0, 0, 1),
                c.group() > 1 ? text(", ", c.group(), " groups") : "");
  }
  if (layer.has_pooling_param()) {
    const PoolingParameter& p = layer.pooling_param();
    const std::string method = PoolingParameter::PoolMethod_Name(p.pool());
    if (p.global_pooling()) return method + " of all";
    return text(method, " ", kernel_of(p, listed(p.kernel_size())),
                step_of("stride", listed(p.stride()), p.stride_h(), p.stride_w(), 1),
                step_of("pad", listed(p.pad()), p.pad_h(), p.pad_w(), 0));
  }
  if (layer.has_inner_product_param()) return text(layer.inner_product_param().num_output());
  if (layer.has_recurrent_param()) return text(layer.recurrent_param().num_output());
  if (layer.has_embed_param()) return text(layer.embed_param().num_output());
  if (layer.type() == "Eltwise") {
    return EltwiseParameter::EltwiseOp_Name(layer.eltwise_param().operation());
  }
  return "";
}

DrawnKind kind_of(const std::string& type) {
  const auto has = [&](const char* part) { return type.find(part) != std::string::npos; };
  if (has("onvolution")) return DrawnKind::convolution;
  if (type == "InnerProduct") return DrawnKind::inner_product;
  if (has("Pool") || type == "SPP") return DrawnKind::pooling;
  if (has("Loss") || type == "Accuracy") return DrawnKind::loss;
  if (has("Data") || type == "Input") return DrawnKind::data;
  return DrawnKind::other;
}

/// " (TRAIN)" for a layer of one phase.
std::string phase_of(const LayerParameter& layer) {
  std::optional<NetPhase> phase;
  if (layer.has_phase()) phase = layer.phase();
  for (const NetStateRule& rule : layer.include()) {
    if (!rule.has_phase() || (phase && *phase != rule.phase())) return "";
    phase = rule.phase();
  }
  return phase ? " (" + NetPhase_Name(*phase) + ")" : "";
}

/// All settings but those of names, learning and files of weights.
LayerParameter bare(const LayerParameter& layer) {
  LayerParameter rest = layer;
  rest.clear_name();
  rest.clear_bottom();
  rest.clear_top();
  rest.clear_param();
  rest.clear_blobs();
  return rest;
}

/// A line for those who point at a node.
std::string all_about(const LayerParameter& layer) {
  constexpr size_t kMost = 300;
  LayerParameter rest = bare(layer);
  rest.clear_type();
  std::string settings = rest.ShortDebugString();
  if (settings.size() > kMost) settings = settings.substr(0, kMost) + "...";
  return text(layer.name(), ": ", layer.type(), settings.empty() ? "" : " ", settings);
}

class Builder {
 public:
  Builder(const NetParameter& layers, const DrawOptions& options) : options_(&options) {
    drawing_.name = layers.name();
    if (options.net != nullptr) {
      for (const NetValue& value : options.net->values()) {
        shapes_[{value.name, value.version}] = value.shape;
        last_shapes_[value.name] = value.shape;
      }
      for (const LayerSummary& row : options.net->summary()) fused_[row.name] = row.fused_into;
    }
    for (const LayerParameter& layer : layers.layer()) add(layer);
    label_values();
  }

  NetDrawing take() { return std::move(drawing_); }

 private:
  static bool is_in_place(const LayerParameter& layer) {
    return layer.bottom_size() == 1 && layer.top_size() == 1 && layer.bottom(0) == layer.top(0);
  }

  void add(const LayerParameter& layer) {
    if (is_in_place(layer) && add_in_place(layer)) return;
    std::vector<int> bottoms;
    for (const std::string& bottom : layer.bottom()) bottoms.push_back(value_named(bottom));
    if (add_of_phase(layer, bottoms)) return;
    const int index = static_cast<int>(drawing_.nodes.size());
    DrawnNode node{.name = layer.name(), .kind = kind_of(layer.type()), .bottoms = bottoms};
    describe(node, layer);
    node.signature = bare(layer).SerializeAsString();
    const auto fused = fused_.find(layer.name());
    if (fused != fused_.end() && !fused->second.empty()) {
      node.is_fused = true;
      node.layers.push_back("computed by '" + fused->second + "'");
    }
    for (const int bottom : bottoms) {
      std::vector<int>& readers = drawing_.values[static_cast<size_t>(bottom)].readers;
      if (readers.empty() || readers.back() != index) readers.push_back(index);
    }
    for (const std::string& top : layer.top()) {
      const auto found = current_.find(top);
      const bool changes = std::ranges::find(layer.bottom(), top) != layer.bottom().end();
      if (found != current_.end() && !changes &&
          !is_read_too_early(found->second)) {  // layers of several phases make one blob
        node.tops.push_back(found->second);
        drawing_.values[static_cast<size_t>(found->second)].makers.push_back(index);
        continue;
      }
      const int version = found == current_.end() ? 0 : versions_[top] + 1;
      node.tops.push_back(new_value(top, version));
      drawing_.values.back().makers.push_back(index);
    }
    drawing_.nodes.push_back(std::move(node));
  }

  /// Whether a layer reads the value that none made before it, which its node then says: a mistake
  /// in the order of layers, or a circle.
  bool is_read_too_early(int value) {
    const DrawnValue& read = drawing_.values[static_cast<size_t>(value)];
    DrawnNode& node = drawing_.nodes[static_cast<size_t>(read.makers[0])];
    if (!node.layers.empty()) return false;
    node.what = "made later";
    return true;
  }

  void describe(DrawnNode& node, const LayerParameter& layer, bool says_phase = true) const {
    const std::string settings = settings_of(layer);
    if (!node.what.empty()) node.what += " + ";
    node.what += text(layer.type(), settings.empty() ? "" : " ", settings,
                      options_->state || !says_phase ? "" : phase_of(layer));
    node.layers.push_back(all_about(layer));
  }

  /// Into the node that made the blob, unless another layer reads the blob as it was.
  bool add_in_place(const LayerParameter& layer) {
    const auto found = current_.find(layer.top(0));
    if (found == current_.end()) return false;
    DrawnValue& value = drawing_.values[static_cast<size_t>(found->second)];
    if (!value.readers.empty() || value.makers.size() != 1) return false;
    DrawnNode& node = drawing_.nodes[static_cast<size_t>(value.makers[0])];
    if (node.what.empty()) return false;  // of no layer
    describe(node, layer);
    node.signature += '\n' + bare(layer).SerializeAsString();
    shape_value(value, layer.top(0), ++versions_[layer.top(0)]);
    return true;
  }

  /// Into the node of another phase that has the same bottoms and tops.
  bool add_of_phase(const LayerParameter& layer, const std::vector<int>& bottoms) {
    std::vector<int> tops;
    for (const std::string& top : layer.top()) {
      const auto found = current_.find(top);
      if (found == current_.end()) return false;
      tops.push_back(found->second);
    }
    if (tops.empty()) return false;
    const std::vector<int>& makers = drawing_.values[static_cast<size_t>(tops[0])].makers;
    if (makers.empty()) return false;
    DrawnNode& node = drawing_.nodes[static_cast<size_t>(makers[0])];
    if (node.tops != tops || node.bottoms != bottoms) return false;
    if (node.name != layer.name()) node.name += " / " + layer.name();
    DrawnNode other;
    describe(other, layer);
    DrawnNode of_all;
    describe(of_all, layer, false);
    if (node.what == of_all.what + " (TRAIN)" || node.what == of_all.what + " (TEST)") {
      node.what = of_all.what;  // of both phases
    } else if (node.what != other.what) {
      node.what += " / " + other.what;
    }
    node.layers.push_back(other.layers[0]);
    return true;
  }

  /// The blob in its present state; where no layer made it, a node for it.
  int value_named(const std::string& blob) {
    const auto found = current_.find(blob);
    if (found != current_.end()) return found->second;
    const int value = new_value(blob, 0), index = static_cast<int>(drawing_.nodes.size());
    drawing_.nodes.push_back({.name = blob, .kind = DrawnKind::data, .tops = {value}});
    drawing_.values.back().makers.push_back(index);
    return value;
  }

  int new_value(const std::string& blob, int version) {
    const int value = static_cast<int>(drawing_.values.size());
    drawing_.values.emplace_back();
    drawing_.values.back().name = blob;
    shape_value(drawing_.values.back(), blob, version);
    current_[blob] = value;
    versions_[blob] = version;
    return value;
  }

  void shape_value(DrawnValue& value, const std::string& blob, int version) const {
    // Layers of other phases count as versions here, and not in the net.
    if (const auto found = shapes_.find({blob, version}); found != shapes_.end()) {
      value.shape = found->second;
    } else if (const auto last = last_shapes_.find(blob); last != last_shapes_.end()) {
      value.shape = last->second;
    }
  }

  void label_values() {
    for (DrawnValue& value : drawing_.values) {
      const DrawnNode& maker = drawing_.nodes[static_cast<size_t>(value.makers[0])];
      if (maker.tops.size() == 1 && maker.name == value.name) value.name.clear();
      value.label = value.name;
      if (value.shape)
        value.label = text(value.name, value.name.empty() ? "" : " ", value.shape->str());
    }
  }

  const DrawOptions* options_;
  NetDrawing drawing_;
  std::map<std::string, int> current_;   // the value of each blob
  std::map<std::string, int> versions_;  // how often it was changed in place
  std::map<std::pair<std::string, int>, Shape> shapes_;
  std::map<std::string, Shape> last_shapes_;
  std::map<std::string, std::string> fused_;
};

}  // namespace

NetDrawing drawing_of(const NetParameter& net, const DrawOptions& options) {
  NetParameter layers = options.state ? layers_of(net, *options.state) : net;
  if (!options.state) upgrade_net(layers);
  NetDrawing drawing = Builder(layers, options).take();
  if (!options.expand) fold_repeated_blocks(drawing);
  return drawing;
}

}  // namespace crema
