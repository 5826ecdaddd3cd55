#include "model/upgrade/written_defaults.hpp"

#include <initializer_list>

#include "proto/net.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Sets single fields that are not set to the values that they have without it.
void set_defaults(Message& message, std::initializer_list<int> fields) {
  const auto& reflection = *message.GetReflection();
  for (const int number : fields) {
    const FieldDescriptor& field = *message.GetDescriptor()->FindFieldByNumber(number);
    if (reflection.HasField(message, &field)) continue;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.SetBool(&message, &field, field.default_value_bool());
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(&message, &field, field.default_value_int32());
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(&message, &field, field.default_value_uint32());
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetFloat(&message, &field, field.default_value_float());
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.SetEnum(&message, &field, field.default_value_enum());
        break;
      default:
        break;
    }
  }
}

void write_out(DetectionOutputParameter& settings) {
  using P = DetectionOutputParameter;
  set_defaults(settings, {P::kShareLocationFieldNumber, P::kBackgroundLabelIdFieldNumber,
                          P::kCodeTypeFieldNumber, P::kKeepTopKFieldNumber});
  NonMaximumSuppressionParameter& suppression = *settings.mutable_nms_param();
  set_defaults(suppression, {NonMaximumSuppressionParameter::kNmsThresholdFieldNumber});
  if (!suppression.has_top_k()) suppression.set_top_k(-1);
}

void write_out(PriorBoxParameter& settings, bool from_sizes) {
  using P = PriorBoxParameter;
  constexpr float kVariance = 0.1F;
  if (from_sizes) set_defaults(settings, {P::kFlipFieldNumber});
  set_defaults(settings, {P::kClipFieldNumber, P::kOffsetFieldNumber});
  if (settings.variance_size() == 0) settings.add_variance(kVariance);
}

void write_out(ProposalParameter& settings) {
  using P = ProposalParameter;
  set_defaults(settings,
               {P::kFeatStrideFieldNumber, P::kBaseSizeFieldNumber, P::kMinSizeFieldNumber,
                P::kPreNmsTopnFieldNumber, P::kPostNmsTopnFieldNumber, P::kNmsThreshFieldNumber});
  if (settings.ratio_size() == 0) {
    for (const float ratio : {0.5F, 1.0F, 2.0F}) settings.add_ratio(ratio);
  }
  if (settings.scale_size() == 0) {
    for (const float scale : {8.0F, 16.0F, 32.0F}) settings.add_scale(scale);
  }
}

}  // namespace

void write_out_defaults(NetParameter& net) {
  for (LayerParameter& layer : *net.mutable_layer()) {
    if (layer.type() == "DetectionOutput") write_out(*layer.mutable_detection_output_param());
    if (layer.type() == "PriorBox") write_out(*layer.mutable_prior_box_param(), true);
    if (layer.type() == "PriorBoxClustered") write_out(*layer.mutable_prior_box_param(), false);
    if (layer.type() == "Proposal") write_out(*layer.mutable_proposal_param());
  }
}

}  // namespace crema
