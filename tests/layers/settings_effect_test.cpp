// No accepted setting of any layer is without effect (support/settings_sweep.hpp): each field of
// the messages that a type reads changes what a small net of the type computes, or a warning names
// it, or the page of the type says that it has no effect.
#include "settings_effect.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/dispatch.hpp"
#include "core/published_types.hpp"
#include "crema/net.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "proto/net.pb.h"
#include "support/needs.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void add_tensor(std::string& bytes, const Tensor& tensor) {
  bytes += tensor.shape().str() + ';';
  for (int64_t i = 0; i < tensor.count(); ++i) add(bytes, tensor.at(i));
}

void write(Tensor& tensor, const std::function<double(int64_t)>& value) {
  dispatch_float(tensor.dtype(), [&]<class T>(T) {
    T* const to = tensor.overwrite<T>();
    for (int64_t i = 0; i < tensor.count(); ++i) to[i] = static_cast<T>(value(i));
  });
}

void fill(Net& net, const std::vector<Input>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    Random random(1701, i);
    write(net.input(text("b", i)), [&](int64_t k) {
      if (!input.values.empty()) return input.values[static_cast<size_t>(k)];
      return input.classes > 0
                 ? static_cast<double>(random.below(static_cast<uint64_t>(input.classes)))
                 : random.uniform(input.low, input.high);
    });
  }
}

/// Two passes of a net of the layer in a phase, the first of them with backward.
void run_phase(const LayerParameter& layer, const SettingsBase& base, Phase phase, Context& context,
               std::string& values) {
  const bool trains = base.trains && phase == Phase::train;
  NetParameter param;
  for (size_t i = 0; i < base.bottoms.size(); ++i) {
    LayerParameter& input = *param.add_layer();
    input.set_name(text("b", i));
    input.set_type("Input");
    input.add_top(input.name());
    BlobShape& shape = *input.mutable_input_param()->add_shape();
    for (const int64_t dim : base.bottoms[i].shape.dims()) shape.add_dim(dim);
  }
  *param.add_layer() = layer;
  param.set_force_backward(trains);
  Net net(param, context,
          {.phase = phase,
           .backward = trains ? NetOptions::Backward::yes : NetOptions::Backward::no,
           .keep_all = true});
  Layer& op = net.layer("op");
  if (layer.type() == "MemoryData") give_memory_data(op, base.name == "MemoryData of gray images");
  for (int round = 0; round < 2; ++round) {
    fill(net, base.bottoms);
    add(values, net.forward());
    for (const std::string& top : layer.top()) add_tensor(values, net.blob(top).data);
    if (!trains || round > 0) continue;
    for (const std::string& name : layer.top()) {
      Blob& top = net.blob(name);
      if (!net.has_diff(top) || net.loss_weight(name) != 0) continue;
      write(top.diff, [](int64_t i) { return 0.1 * static_cast<double>(i % 7) - 0.25; });
    }
    net.clear_gradients();
    net.backward();
    for (size_t i = 0; i < base.bottoms.size(); ++i) {
      const Blob& bottom = net.blob(text("b", i));
      if (net.has_diff(bottom)) add_tensor(values, bottom.diff);
    }
  }
  for (const auto& parameter : op.params()) {
    add_tensor(values, parameter->data);
    if (trains && parameter->needs_gradient) add_tensor(values, parameter->gradient());
  }
}

Seen run_layer(const LayerParameter& layer, const SettingsBase& base) {
  Seen seen = see([&](Context& context, std::string& values) {
    for (const Phase phase : {Phase::train, Phase::test})
      run_phase(layer, base, phase, context, values);
  });
  add_files(seen.values, out_folder());
  return seen;
}

const SettingsBase& base_of(const std::string& name) {
  for (const SettingsBase& base : settings_bases())
    if (base.name == name) return base;
  throw Error("there is no net '", name, "' in settings_effect_bases.cpp");
}

LayerParameter layer_of(const SettingsBase& base) {
  LayerParameter layer;
  if (!google::protobuf::TextFormat::ParseFromString(with_folders(base.settings), &layer))
    throw Error("no text of a layer: ", base.settings);
  layer.set_name("op");
  layer.set_type(base.type.empty() ? base.name : base.type);
  for (size_t i = 0; i < base.bottoms.size(); ++i) layer.add_bottom(text("b", i));
  for (int i = 0; i < base.tops; ++i) layer.add_top(text("t", i));
  return layer;
}

std::string letters(const std::string& name) {
  std::string text;
  for (const char c : name)
    if (c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// The fields of LayerParameter with the settings that a type reads.
std::vector<const FieldDescriptor*> settings_of(const std::string& type) {
  const std::string* others = published_type(type);
  std::istringstream words(others ? *others : "");
  std::set<std::string> named{std::istream_iterator<std::string>(words), {}};
  if (type == "ConvolutionDepthwise" || type == "DepthwiseConvolution")
    named.insert("convolution_param");
  if (type == "CRFDecoder") named.insert("crf_loss_param");
  if (type.ends_with("Data") && type != "DummyData" && type != "HDF5Data")
    named.insert("transform_param");
  std::vector<const FieldDescriptor*> found;
  const Descriptor* layer = LayerParameter::descriptor();
  for (int i = 0; i < layer->field_count(); ++i) {
    const FieldDescriptor* field = layer->field(i);
    const std::string name(field->name());
    if (field->message_type() != nullptr &&
        (letters(name) == letters(type) + "param" || named.count(name) > 0))
      found.push_back(field);
  }
  return found;
}

/// Texts of the pages by the letters of their titles and of their folders.
const std::map<std::string, std::string>& pages() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> found;
    for (const auto& room : fs::directory_iterator(source_path("layers"))) {
      std::ifstream in(room.path() / "README.md");
      std::string mark, title;
      if (!(in >> mark >> title)) continue;
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      found[letters(title)] = found[letters(room.path().filename().string())] = text;
    }
    return found;
  }();
  return all;
}

/// Whether a line of the page of a type, or of a page that it links to, names the field and says
/// that it has no effect.
bool says_without_effect(const std::string& type, const FieldDescriptor& field,
                         bool with_links = true) {
  const auto page = pages().find(letters(type));
  if (page == pages().end()) return false;
  std::istringstream lines(page->second);
  const std::string word = text(field.name(), "`");
  for (std::string line; std::getline(lines, line);) {
    const bool says = std::ranges::any_of(
        std::array{"no effect", "without effect", "changes no result"},
        [&](const char* words) { return line.find(words) != std::string::npos; });
    if (says && line.find(word) != std::string::npos) return true;
    for (size_t at = 0; with_links && (at = line.find("](../", at)) != std::string::npos;) {
      at += 5;
      if (says_without_effect(line.substr(at, line.find('/', at) - at), field, false)) return true;
    }
  }
  return false;
}

class SettingsEffect : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!kBuiltWithOpenCv || !kBuiltWithHdf5)
      GTEST_SKIP() << "needs OpenCV and HDF5: configure with CREMA_OPENCV=ON and CREMA_HDF5=ON";
  }
};

TEST_P(SettingsEffect, NoSettingIsWithoutEffect) {
  const std::string type = GetParam();
  const auto named = [&](const std::string& base) { return base.empty() ? type : base; };
  SettingsSweep sweep(
      {.name = type,
       .trials = settings_trials(),
       .make = [&](const std::string& base) -> std::unique_ptr<Message> {
         return std::make_unique<LayerParameter>(layer_of(base_of(named(base))));
       },
       .run =
           [&](const Message& layer, const std::string& base) {
             return run_layer(dynamic_cast<const LayerParameter&>(layer), base_of(named(base)));
           },
       .is_documented =
           [&](const FieldDescriptor& field) { return says_without_effect(type, field); },
       .expand = with_folders});
  for (const SettingsBase& other : settings_bases()) {
    if (other.type != type) continue;
    EXPECT_EQ(run_layer(layer_of(other), other).error, "") << other.name;
  }
  for (const FieldDescriptor* settings : settings_of(type)) sweep.run({settings});
}

INSTANTIATE_TEST_SUITE_P(Layers, SettingsEffect, ::testing::ValuesIn(Registry::instance().types()),
                         [](const auto& type) { return type.param; });

TEST(SettingsTable, NamesFieldsAndNetsThatAre) {
  check_trials(settings_trials(), *LayerParameter::descriptor(),
               [](const std::string& type) { return Registry::instance().has(type); });
  for (const SettingsTrial& trial : settings_trials()) {
    if (trial.base.empty()) continue;
    EXPECT_NO_THROW(base_of(trial.base)) << trial.field;
  }
}

}  // namespace
}  // namespace crema::test
