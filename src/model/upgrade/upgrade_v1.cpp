// V1: types are an enum, and what is set a parameter stands in several lists.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

#include "model/upgrade/old_layers.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using V1 = V1LayerParameter;

struct TypeName {
  V1::LayerType old;
  const char* name;
};

constexpr TypeName kTypes[] = {
    {V1::ABSVAL, "AbsVal"},
    {V1::ACCURACY, "Accuracy"},
    {V1::ARGMAX, "ArgMax"},
    {V1::BNLL, "BNLL"},
    {V1::CONCAT, "Concat"},
    {V1::CONTRASTIVE_LOSS, "ContrastiveLoss"},
    {V1::CONVOLUTION, "Convolution"},
    {V1::DATA, "Data"},
    {V1::DECONVOLUTION, "Deconvolution"},
    {V1::DROPOUT, "Dropout"},
    {V1::DUMMY_DATA, "DummyData"},
    {V1::ELTWISE, "Eltwise"},
    {V1::EUCLIDEAN_LOSS, "EuclideanLoss"},
    {V1::EXP, "Exp"},
    {V1::FLATTEN, "Flatten"},
    {V1::HDF5_DATA, "HDF5Data"},
    {V1::HDF5_OUTPUT, "HDF5Output"},
    {V1::HINGE_LOSS, "HingeLoss"},
    {V1::IM2COL, "Im2col"},
    {V1::IMAGE_DATA, "ImageData"},
    {V1::INFOGAIN_LOSS, "InfogainLoss"},
    {V1::INNER_PRODUCT, "InnerProduct"},
    {V1::LRN, "LRN"},
    {V1::MEMORY_DATA, "MemoryData"},
    {V1::MULTINOMIAL_LOGISTIC_LOSS, "MultinomialLogisticLoss"},
    {V1::MVN, "MVN"},
    {V1::POOLING, "Pooling"},
    {V1::POWER, "Power"},
    {V1::RELU, "ReLU"},
    {V1::SIGMOID, "Sigmoid"},
    {V1::SIGMOID_CROSS_ENTROPY_LOSS, "SigmoidCrossEntropyLoss"},
    {V1::SILENCE, "Silence"},
    {V1::SLICE, "Slice"},
    {V1::SOFTMAX, "Softmax"},
    {V1::SOFTMAX_LOSS, "SoftmaxWithLoss"},
    {V1::SPLIT, "Split"},
    {V1::TANH, "TanH"},
    {V1::THRESHOLD, "Threshold"},
    {V1::WINDOW_DATA, "WindowData"},
    // Forks.
    {V1::BN, "BN"},
    {V1::CROP, "Crop"},
    {V1::DENSE_IMAGE_DATA, "DenseImageData"},
    {V1::EMBED, "Embed"},
    {V1::LSTM, "LSTM"},
    {V1::LSTM_UNIT, "LSTMUnit"},
    {V1::MULTI_STAGE_MEANFIELD, "MultiStageMeanfield"},
    {V1::PRELU, "PReLU"},
    {V1::PYTHON, "Python"},
    {V1::RESHAPE, "Reshape"},
    {V1::RNN, "RNN"},
    {V1::ROI_POOLING, "ROIPooling"},
    {V1::SMOOTH_L1_LOSS, "SmoothL1Loss"},
    {V1::SPP, "SPP"},
    {V1::UPSAMPLE, "Upsample"},
    {V1::VIDEO_DATA, "VideoData"},
};

/// A number of the type that the enum does not have, which a binary file of a fork may have; else
/// -1.
int64_t unknown_type(const V1& layer) {
  const auto& unknown = layer.GetReflection()->GetUnknownFields(layer);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() == V1::kTypeFieldNumber &&
        field.type() == google::protobuf::UnknownField::TYPE_VARINT)
      return static_cast<int64_t>(field.varint());
  }
  return -1;
}

std::string new_type(const V1& layer) {
  const auto* found = std::ranges::find(kTypes, layer.type(), &TypeName::old);
  if (found != std::end(kTypes)) return found->name;
  const int64_t number = unknown_type(layer);
  throw number >= 0
      ? Error("its type is the number ", number,
              " of a fork, which has no name here. Upgrade the net's prototxt instead, with "
              "`layer { type: \"...\" }` for this layer, and load the weights of this file "
              "as they are: they need no upgrade")
      : Error("has no type; add one, such as CONVOLUTION");
}

ParamSpec& spec(LayerParameter& layer, int index) {
  while (layer.param_size() <= index) layer.add_param();
  return *layer.mutable_param(index);
}

/// Copies the settings messages, such as convolution_param, that both forms have under one name.
void copy_same(const V1& from, LayerParameter& to) {
  std::vector<const FieldDescriptor*> fields;
  from.GetReflection()->ListFields(from, &fields);
  for (const FieldDescriptor* field : fields) {
    const auto* target = LayerParameter::descriptor()->FindFieldByName(field->name());
    if (target == nullptr || field->is_repeated() || field->message_type() == nullptr) continue;
    to.GetReflection()
        ->MutableMessage(&to, target)
        ->CopyFrom(from.GetReflection()->GetMessage(from, field));
  }
}

void upgrade_layer(V1& from, LayerParameter& to) {
  if (from.has_name()) to.set_name(from.name());
  to.set_type(new_type(from));
  *to.mutable_bottom() = from.bottom();
  *to.mutable_top() = from.top();
  *to.mutable_include() = from.include();
  *to.mutable_exclude() = from.exclude();
  *to.mutable_loss_weight() = from.loss_weight();
  *to.mutable_blobs() = std::move(*from.mutable_blobs());
  for (int i = 0; i < from.param_size(); ++i) spec(to, i).set_name(from.param(i));
  for (int i = 0; i < from.blob_share_mode_size(); ++i) {
    const bool strict = from.blob_share_mode(i) == V1::STRICT;
    spec(to, i).set_share_mode(strict ? ParamSpec::STRICT : ParamSpec::PERMISSIVE);
  }
  for (int i = 0; i < from.blobs_lr_size(); ++i) spec(to, i).set_lr_mult(from.blobs_lr(i));
  for (int i = 0; i < from.weight_decay_size(); ++i) {
    spec(to, i).set_decay_mult(from.weight_decay(i));
  }
  copy_same(from, to);
}

}  // namespace

void upgrade_v1(OldNet& old) {
  const int count = old.net.layers_size();
  if (count == 0) return;
  for (int i = 0; i < count; ++i) {
    V1& from = *old.net.mutable_layers(i);
    try {
      upgrade_layer(from, *old.net.add_layer());
    } catch (Error& error) {
      error.in_layer(from.name(), "").at(old.place(i, "type"));
      throw;
    }
    warn_of_unknown(old, i, from.name(), from.GetReflection()->GetUnknownFields(from));
  }
  old.net.clear_layers();
  if (old.result.changes.empty())  // else they were of V0 before
    old.result.changes.push_back(
        text(counted(count, "layer"), " of the V1 format became `layer {}`"));
}

}  // namespace crema
