// V0: a layer has all its settings in one message, and padding is a layer of its own.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "model/set_field.hpp"
#include "model/upgrade/old_layers.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr std::string_view kPadding = "padding";

/// The types whose names in V1 are other words. The others have the same name in capitals.
const std::map<std::string, std::string>& renamed_types() {
  static const std::map<std::string, std::string> kTypes = {{"conv", "CONVOLUTION"},
                                                            {"images", "IMAGE_DATA"},
                                                            {"innerproduct", "INNER_PRODUCT"},
                                                            {"pool", "POOLING"}};
  return kTypes;
}

/// Where a setting of V0 goes in V1, for a type of layer. "" for any type.
struct Move {
  std::string_view field, type, to;
};

constexpr Move kMoves[] = {
    {"name", "", "name"},
    {"blobs_lr", "", "blobs_lr"},
    {"weight_decay", "", "weight_decay"},
    {"num_output", "conv", "convolution_param.num_output"},
    {"num_output", "innerproduct", "inner_product_param.num_output"},
    {"biasterm", "conv", "convolution_param.bias_term"},
    {"biasterm", "innerproduct", "inner_product_param.bias_term"},
    {"weight_filler", "conv", "convolution_param.weight_filler"},
    {"weight_filler", "innerproduct", "inner_product_param.weight_filler"},
    {"bias_filler", "conv", "convolution_param.bias_filler"},
    {"bias_filler", "innerproduct", "inner_product_param.bias_filler"},
    {"pad", "conv", "convolution_param.pad"},
    {"pad", "pool", "pooling_param.pad"},
    {"kernelsize", "conv", "convolution_param.kernel_size"},
    {"kernelsize", "pool", "pooling_param.kernel_size"},
    {"group", "conv", "convolution_param.group"},
    {"stride", "conv", "convolution_param.stride"},
    {"stride", "pool", "pooling_param.stride"},
    {"pool", "pool", "pooling_param.pool"},
    {"dropout_ratio", "dropout", "dropout_param.dropout_ratio"},
    {"local_size", "lrn", "lrn_param.local_size"},
    {"alpha", "lrn", "lrn_param.alpha"},
    {"beta", "lrn", "lrn_param.beta"},
    {"k", "lrn", "lrn_param.k"},
    {"source", "data", "data_param.source"},
    {"source", "hdf5_data", "hdf5_data_param.source"},
    {"source", "images", "image_data_param.source"},
    {"source", "window_data", "window_data_param.source"},
    {"source", "infogain_loss", "infogain_loss_param.source"},
    {"scale", "", "transform_param.scale"},
    {"meanfile", "", "transform_param.mean_file"},
    {"cropsize", "", "transform_param.crop_size"},
    {"mirror", "", "transform_param.mirror"},
    {"batchsize", "data", "data_param.batch_size"},
    {"batchsize", "hdf5_data", "hdf5_data_param.batch_size"},
    {"batchsize", "images", "image_data_param.batch_size"},
    {"batchsize", "window_data", "window_data_param.batch_size"},
    {"rand_skip", "data", "data_param.rand_skip"},
    {"rand_skip", "images", "image_data_param.rand_skip"},
    {"shuffle_images", "images", "image_data_param.shuffle"},
    {"new_height", "images", "image_data_param.new_height"},
    {"new_width", "images", "image_data_param.new_width"},
    {"concat_dim", "concat", "concat_param.concat_dim"},
    {"det_fg_threshold", "window_data", "window_data_param.fg_threshold"},
    {"det_bg_threshold", "window_data", "window_data_param.bg_threshold"},
    {"det_fg_fraction", "window_data", "window_data_param.fg_fraction"},
    {"det_context_pad", "window_data", "window_data_param.context_pad"},
    {"det_crop_mode", "window_data", "window_data_param.crop_mode"},
    {"hdf5_output_param", "hdf5_output", "hdf5_output_param"},
};

/// Sets the field at the path, such as "data_param.source", to the value that `field` has in
/// `from`. Numbers keep their value and enums their name in whatever type the new field has.
void put(const Message& from, const FieldDescriptor* field, Message& root, std::string_view path) {
  Message* to = &root;
  for (size_t dot; (dot = path.find('.')) != std::string_view::npos; path.remove_prefix(dot + 1)) {
    const auto* step = to->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    to = to->GetReflection()->MutableMessage(to, step);
  }
  const auto* target = to->GetDescriptor()->FindFieldByName(std::string(path));
  if (target->is_repeated()) to->GetReflection()->ClearField(to, target);
  const int count = field->is_repeated() ? from.GetReflection()->FieldSize(from, field) : 1;
  for (int i = 0; i < count; ++i) {
    if (field->message_type() != nullptr) {
      to->GetReflection()
          ->MutableMessage(to, target)
          ->CopyFrom(from.GetReflection()->GetMessage(from, field));
      continue;
    }
    std::string value;
    TextFormat::PrintFieldValueToString(from, field, field->is_repeated() ? i : -1, &value);
    if (!TextFormat::Parser().ParseFieldValueFromString(value, target, to))
      throw Error(field->name(), " ", value, " is no value of ", std::string(path));
  }
}

V1LayerParameter::LayerType type_of(const std::string& name) {
  const auto renamed = renamed_types().find(name);
  std::string capitals = renamed != renamed_types().end() ? renamed->second : name;
  std::ranges::transform(capitals, capitals.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  V1LayerParameter::LayerType type = V1LayerParameter::NONE;
  V1LayerParameter::LayerType_Parse(capitals, &type);
  return type;
}

std::vector<std::string> known_types() {
  std::vector<std::string> names;
  for (const auto& [name, capitals] : renamed_types()) names.push_back(name);
  const auto* types = V1LayerParameter::LayerType_descriptor();
  for (int i = 0; i < types->value_count(); ++i) {
    std::string name = types->value(i)->name();
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto is_capitals = [&](const auto& renamed) {
      return renamed.second == types->value(i)->name();
    };
    if (types->value(i)->number() != V1LayerParameter::NONE &&
        std::ranges::none_of(renamed_types(), is_capitals))
      names.push_back(name);
  }
  return names;
}

class V0Upgrade {
 public:
  explicit V0Upgrade(OldNet& old) : old_(old) {}

  void run() {
    const auto is_v0 = [](const V1LayerParameter& layer) { return layer.has_layer(); };
    const auto count = std::ranges::count_if(old_.net.layers(), is_v0);
    if (count == 0) return;
    const size_t padding = fold_padding();
    for (int i = 0; i < old_.net.layers_size(); ++i) {
      if (layer(i).has_layer()) convert(i);
    }
    old_.result.changes.push_back(text(counted(count, "layer"),
                                       " of the V0 format became `layer {}`",
                                       padding ? text(", ", counted(padding, "padding layer"),
                                                      " of them `pad` of the layers behind them")
                                               : ""));
  }

 private:
  V1LayerParameter& layer(int i) { return *old_.net.mutable_layers(i); }
  const std::string& type(int i) { return layer(i).layer().type(); }
  bool is_padding(int i) { return type(i) == kPadding; }

  template <class... Words>
  [[noreturn]] void fail(int i, const std::string& field, const Words&... words) {
    throw Error(words...)
        .in_layer(layer(i).layer().name(), type(i))
        .at(old_.place(i, "layer." + field));
  }

  void need_one(int i, const char* what, int count) {
    if (count == 1) return;
    fail(i, "type", "has ", counted(count, what),
         "; a padding layer has one, and so has the layer behind it: write pad in that layer");
  }

  /// The layer reads a padding layer: takes its pad, and its bottom as bottom j.
  void take_pad(int i, int j, int padding) {
    if (type(i) != "conv" && type(i) != "pool")
      fail(i, "type", "reads the padding layer '", layer(padding).layer().name(),
           "', which only conv and pool layers can; pad in another way");
    need_one(i, "bottom", layer(i).bottom_size());
    need_one(padding, "bottom", layer(padding).bottom_size());
    V0LayerParameter& settings = *layer(i).mutable_layer();
    if (settings.pad() != 0)
      fail(i, "pad", "has pad ", settings.pad(), " and reads the padding layer '",
           layer(padding).layer().name(), "' with pad ", layer(padding).layer().pad(),
           "; write one pad in this layer, and remove the padding layer");
    settings.set_pad(layer(padding).layer().pad());
    layer(i).set_bottom(j, layer(padding).bottom(0));
  }

  /// Removes the padding layers. Returns how many there were.
  size_t fold_padding() {
    std::map<std::string, int> makers;  // of each blob, the last layer that has it as top
    std::vector<int> readers(old_.paths.size(), 0);
    for (int i = 0; i < old_.net.layers_size(); ++i) {
      for (int j = 0; j < layer(i).bottom_size(); ++j) {
        const auto maker = makers.find(layer(i).bottom(j));
        if (maker == makers.end() || !is_padding(maker->second)) continue;
        take_pad(i, j, maker->second);
        ++readers[static_cast<size_t>(maker->second)];
      }
      if (is_padding(i)) need_one(i, "top", layer(i).top_size());
      for (const auto& top : layer(i).top()) makers[top] = i;
    }
    int kept = 0;
    for (int i = 0; i < old_.net.layers_size(); ++i) {
      if (is_padding(i)) {
        if (readers[static_cast<size_t>(i)] == 0)
          old_.warn(old_.place(i, "layer"), text("layer '", layer(i).layer().name(),
                                                 "' (padding) is left out: no layer reads its "
                                                 "top"));
        continue;
      }
      old_.net.mutable_layers()->SwapElements(i, kept);
      std::swap(old_.paths[static_cast<size_t>(i)], old_.paths[static_cast<size_t>(kept)]);
      ++kept;
    }
    const int removed = old_.net.layers_size() - kept;
    old_.net.mutable_layers()->DeleteSubrange(kept, removed);
    old_.paths.resize(static_cast<size_t>(kept));
    return static_cast<size_t>(removed);
  }

  /// Moves what is in `layer {}` to the fields of V1 around it.
  void convert(int i) {
    V0LayerParameter settings = std::move(*layer(i).mutable_layer());
    V1LayerParameter& to = layer(i);
    to.clear_layer();
    const auto in_layer = [&](Error error, const std::string& field) {
      return error.in_layer(settings.name(), settings.type()).at(old_.place(i, "layer." + field));
    };
    if (to.has_type() || to.has_name())
      throw in_layer(Error("has name or type both in `layers {}` and in the `layer {}` inside it; "
                           "keep those inside"),
                     "name");
    std::vector<const FieldDescriptor*> fields;
    settings.GetReflection()->ListFields(settings, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->name() == "type" || is_reshape(settings, field)) continue;
      if (field->name() == "blobs") {
        *to.mutable_blobs() = std::move(*settings.mutable_blobs());
        continue;
      }
      const auto is_home = [&](const Move& move) {
        return move.field == field->name() && (move.type.empty() || move.type == settings.type());
      };
      if (const auto* move = std::ranges::find_if(kMoves, is_home); move != std::end(kMoves)) {
        put(settings, field, to, move->to);
      } else if (differs_from_default(settings, field)) {
        old_.warn(old_.place(i, text("layer.", field->name())),
                  text("layer '", settings.name(), "': ", field->name(),
                       " is left out: it has no effect on layers of type ", settings.type()));
      }
    }
    warn_of_unknown(old_, i, settings.name(), settings.GetReflection()->GetUnknownFields(settings));
    set_type(settings, to, in_layer);
  }

  /// The four sizes of a reshape layer, whose 0 keeps the bottom's. Of an image layer, new_height
  /// and new_width are the size of the image.
  static bool is_reshape(const V0LayerParameter& settings, const FieldDescriptor* field) {
    return settings.type() == "reshape" && field->name().starts_with("new_");
  }

  template <class InLayer>
  void set_type(const V0LayerParameter& settings, V1LayerParameter& to, const InLayer& in_layer) {
    to.set_type(type_of(settings.type()));
    if (to.type() == V1LayerParameter::NONE) {
      throw in_layer(settings.type().empty()
                         ? Error("has no type; add one, such as \"conv\"")
                         : Error("'", settings.type(), "' is no type of the V0 format",
                                 did_you_mean(settings.type(), known_types())),
                     "type");
    }
    if (to.type() == V1LayerParameter::RESHAPE) {
      BlobShape& shape = *to.mutable_reshape_param()->mutable_shape();
      for (const int size : {settings.new_num(), settings.new_channels(), settings.new_height(),
                             settings.new_width()}) {
        shape.add_dim(size);
      }
    }
  }

  OldNet& old_;
};

}  // namespace

void upgrade_v0(OldNet& old) { V0Upgrade(old).run(); }

}  // namespace crema
