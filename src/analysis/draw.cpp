#include "analysis/draw.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "model/upgrade/upgrade.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// Lines in quotes. \N, \G and the like of Graphviz lose their meaning, and so does &amp; and the
/// like of HTML.
std::string dot_string(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) {
    if (!all.empty()) all += "\\n";
    for (const char c : drawable(line)) {
      if (c == '&') {
        all += "&amp;";
      } else if (c == '"' || c == '\\') {
        all += {'\\', c};
      } else {
        all += c;
      }
    }
  }
  return "\"" + all + "\"";
}
std::string dot_string(const std::string& line) { return dot_string(std::vector{line}); }

/// "7x7": the sizes of a kernel, for all axes or each.
template <class Settings>
std::string kernel_of(const Settings& settings, const std::vector<uint32_t>& sizes) {
  if (settings.kernel_h() != 0) return text(settings.kernel_h(), "x", settings.kernel_w());
  if (sizes.empty()) return "";
  return sizes.size() == 1 ? text(sizes[0], "x", sizes[0]) : joined(sizes, "x");
}

std::string step_of(const char* name, const std::vector<uint32_t>& values, uint32_t h, uint32_t w,
                    uint32_t usual) {
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
    return text(kernel_of(c, listed(c.kernel_size())), ", ", c.num_output(), " channels",
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
  if (layer.has_inner_product_param()) {
    return text(layer.inner_product_param().num_output(), " outputs");
  }
  if (layer.type() == "Eltwise") {
    return EltwiseParameter::EltwiseOp_Name(layer.eltwise_param().operation());
  }
  return "";
}

const char* color_of(const LayerParameter& layer) {
  const std::string& type = layer.type();
  const auto has = [&](const char* part) { return type.find(part) != std::string::npos; };
  if (has("onvolution")) return "#8fb4f0";
  if (type == "InnerProduct") return "#dd9cf0";
  if (has("Pool") || type == "SPP") return "#ffc266";
  if (has("Loss") || type == "Accuracy") return "#f4a6a6";
  if (has("Data") || type == "Input") return "#b8d8a8";
  return "#d8e4f4";
}

/// A state of a blob: as a layer makes it.
struct Version {
  std::string blob;
  int number = 0;
  bool last = true;  // no layer changes it in place
  std::vector<int> makers;
};

class Drawing {
 public:
  Drawing(const NetParameter& layers, const DrawOptions& options)
      : layers_(&layers), options_(&options) {
    if (options.net != nullptr) {
      for (const NetValue& value : options.net->values()) {
        shapes_[{value.name, value.version}] = value.shape.str();
      }
      for (const LayerSummary& row : options.net->summary()) fused_[row.name] = row.fused_into;
    }
    connect();
  }

  std::string str() const {
    std::string content =
        text("digraph ", dot_string(layers_->name()), " {\n", "  rankdir=", options_->rankdir,
             ";\n  label=", dot_string(layers_->name()), ";\n",
             "  node [fontname=\"Helvetica\" fontsize=11];\n",
             "  edge [fontname=\"Helvetica\" fontsize=9];\n");
    for (int i = 0; i < layers_->layer_size(); ++i) content += node_of(i);
    for (size_t v = 0; v < versions_.size(); ++v) {
      const Version& version = versions_[v];
      if (!version.last) continue;
      const auto shape = shapes_.find({version.blob, version.number});
      std::vector<std::string> label = {version.blob};
      if (shape != shapes_.end()) label.push_back(shape->second);
      content += text("  blob", v, " [shape=octagon style=filled fillcolor=\"#eeeeee\" label=",
                      dot_string(label), "];\n");
      for (const int maker : version.makers)
        content += text("  layer", maker, " -> blob", v, ";\n");
    }
    return content + edges_ + "}\n";
  }

 private:
  /// Finds the versions, and writes the edges to the layers that read them.
  void connect() {
    std::map<std::string, size_t> current;
    std::vector<std::pair<size_t, int>> uses;
    for (int i = 0; i < layers_->layer_size(); ++i) {
      const LayerParameter& layer = layers_->layer(i);
      for (const std::string& bottom : layer.bottom()) {
        if (current.count(bottom) == 0) {  // of no layer that is drawn
          current[bottom] = versions_.size();
          versions_.push_back({.blob = bottom});
        }
        uses.emplace_back(current[bottom], i);
      }
      for (const std::string& top : layer.top()) {
        const bool in_place = std::ranges::find(layer.bottom(), top) != layer.bottom().end();
        const auto found = current.find(top);
        // Layers of several phases make one blob.
        if (found != current.end() && !in_place) {
          versions_[found->second].makers.push_back(i);
          continue;
        }
        const int number = found == current.end() ? 0 : versions_[found->second].number + 1;
        if (found != current.end()) versions_[found->second].last = false;
        current[top] = versions_.size();
        versions_.push_back({top, number, true, {i}});
      }
    }
    for (const auto& [v, reader] : uses) {
      const Version& version = versions_[v];
      if (version.last) {
        edges_ += text("  blob", v, " -> layer", reader, ";\n");
        continue;
      }
      for (const int maker : version.makers) {
        edges_ += text("  layer", maker, " -> layer", reader,
                       " [style=dashed label=", dot_string(version.blob), "];\n");
      }
    }
  }

  std::string node_of(int i) const {
    const LayerParameter& layer = layers_->layer(i);
    std::vector<std::string> label = {layer.name(), layer.type()};
    if (const std::string settings = settings_of(layer); !settings.empty()) {
      label.push_back(settings);
    }
    const auto fused = fused_.find(layer.name());
    const bool is_fused = fused != fused_.end() && !fused->second.empty();
    if (is_fused) label.push_back("in '" + fused->second + "'");
    return text("  layer", i, " [shape=box style=\"filled,rounded", is_fused ? ",dashed" : "",
                "\" fillcolor=\"", color_of(layer), "\" label=", dot_string(label), "];\n");
  }

  const NetParameter* layers_;
  const DrawOptions* options_;
  std::map<std::pair<std::string, int>, std::string> shapes_;
  std::map<std::string, std::string> fused_;
  std::vector<Version> versions_;
  std::string edges_;
};

}  // namespace

std::string draw_net(const NetParameter& net, const DrawOptions& options) {
  const std::vector<std::string> known = {"LR", "TB", "BT", "RL"};
  if (std::ranges::find(known, options.rankdir) == known.end())
    throw Error("rankdir '", options.rankdir, "' is not LR, TB, BT or RL");
  if (options.state) return Drawing(layers_of(net, *options.state), options).str();
  NetParameter layers = net;
  upgrade_net(layers);
  return Drawing(layers, options).str();
}

}  // namespace crema
