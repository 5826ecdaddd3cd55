#include "model/upgrade/written_defaults.hpp"

#include <google/protobuf/text_format.h>

#include <initializer_list>

#include "crema/error.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Fields that were set, as they stand in a prototxt: "clip: false, offset: 0.5".
class Written {
 public:
  void add(const Message& message, const FieldDescriptor& field) {
    const int count = field.is_repeated() ? message.GetReflection()->FieldSize(message, &field) : 1;
    for (int i = 0; i < count; ++i) {
      std::string value;
      google::protobuf::TextFormat::PrintFieldValueToString(message, &field,
                                                            field.is_repeated() ? i : -1, &value);
      add(crema::text(field.name(), ": ", value));
    }
  }
  void add(const Message& message, int number) {
    add(message, *message.GetDescriptor()->FindFieldByNumber(number));
  }
  void add(const std::string& field) { text_ += (text_.empty() ? "" : ", ") + field; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Sets single fields that are not set to the values that they have without it.
void set_defaults(Message& message, std::initializer_list<int> fields, Written& written) {
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
        continue;
    }
    written.add(message, field);
  }
}

void write_out(DetectionOutputParameter& settings, Written& written) {
  using P = DetectionOutputParameter;
  using Suppression = NonMaximumSuppressionParameter;
  set_defaults(settings,
               {P::kShareLocationFieldNumber, P::kBackgroundLabelIdFieldNumber,
                P::kCodeTypeFieldNumber, P::kKeepTopKFieldNumber},
               written);
  Suppression& suppression = *settings.mutable_nms_param();
  Written inside;
  set_defaults(suppression, {Suppression::kNmsThresholdFieldNumber}, inside);
  if (!suppression.has_top_k()) {
    suppression.set_top_k(-1);
    inside.add(suppression, Suppression::kTopKFieldNumber);
  }
  if (!inside.text().empty()) written.add(text("nms_param { ", inside.text(), " }"));
}

void write_out(PriorBoxParameter& settings, bool from_sizes, Written& written) {
  using P = PriorBoxParameter;
  constexpr float kVariance = 0.1F;
  if (from_sizes) set_defaults(settings, {P::kFlipFieldNumber}, written);
  set_defaults(settings, {P::kClipFieldNumber, P::kOffsetFieldNumber}, written);
  if (settings.variance_size() > 0) return;
  settings.add_variance(kVariance);
  written.add(settings, P::kVarianceFieldNumber);
}

void write_out(ProposalParameter& settings, Written& written) {
  using P = ProposalParameter;
  set_defaults(settings,
               {P::kFeatStrideFieldNumber, P::kBaseSizeFieldNumber, P::kMinSizeFieldNumber,
                P::kPreNmsTopnFieldNumber, P::kPostNmsTopnFieldNumber, P::kNmsThreshFieldNumber},
               written);
  if (settings.ratio_size() == 0) {
    for (const float ratio : {0.5F, 1.0F, 2.0F}) settings.add_ratio(ratio);
    written.add(settings, P::kRatioFieldNumber);
  }
  if (settings.scale_size() == 0) {
    for (const float scale : {8.0F, 16.0F, 32.0F}) settings.add_scale(scale);
    written.add(settings, P::kScaleFieldNumber);
  }
}

}  // namespace

std::vector<std::string> write_out_defaults(NetParameter& net) {
  std::vector<std::string> changes;
  for (LayerParameter& layer : *net.mutable_layer()) {
    Written written;
    const std::string& type = layer.type();
    if (type == "DetectionOutput") write_out(*layer.mutable_detection_output_param(), written);
    if (type == "PriorBox") write_out(*layer.mutable_prior_box_param(), true, written);
    if (type == "PriorBoxClustered") write_out(*layer.mutable_prior_box_param(), false, written);
    if (type == "Proposal") write_out(*layer.mutable_proposal_param(), written);
    if (written.text().empty()) continue;
    changes.push_back(
        text("layer '", layer.name(), "' (", type, "): ", written.text(), " written out"));
  }
  return changes;
}

}  // namespace crema
