#include "monitor/settings_list.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <vector>

#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "crema/net.hpp"
#include "net/plan.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Without the quotes of a text.
std::string value_text(const Message& message, const FieldDescriptor* field, int index) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    const auto* reflection = message.GetReflection();
    return as_utf8(index < 0 ? reflection->GetString(message, field)
                             : reflection->GetRepeatedString(message, field, index));
  }
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, field, index, &text);
  return text;
}

void add_setting(RunInfo& info, const std::string& name, const std::string& value) {
  RunInfo::Setting& setting = *info.add_settings();
  setting.set_name(name);
  setting.set_value(value);
}

void list_fields(const Message& message, const std::string& before,
                 const std::vector<std::string>& without, RunInfo& info) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (std::ranges::count(without, field->name()) > 0) continue;
    const std::string name = before + std::string(field->name());
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      if (is_message) {
        list_fields(reflection->GetMessage(message, field), name + ".", {}, info);
      } else {
        add_setting(info, name, value_text(message, field, -1));
      }
      continue;
    }
    std::string values;
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      if (is_message) {
        list_fields(reflection->GetRepeatedMessage(message, field, i), text(name, "[", i, "]."), {},
                    info);
      } else {
        values += (i > 0 ? "," : "") + value_text(message, field, i);
      }
    }
    if (!is_message) add_setting(info, name, values);
  }
}

}  // namespace

void list_settings(const SolverParameter& solver, const Net& net, RunInfo& info) {
  list_fields(solver, "", {"net_param", "train_net_param", "test_net_param"}, info);
  for (const Layer* layer : net.layers()) {
    list_fields(layer->param(), "net." + as_utf8(layer->name()) + ".",
                {"name", "bottom", "top", "phase", "include", "exclude", "blobs"}, info);
  }
}

NetParameter resolved_net(const Net& net) {
  const Plan& plan = Plan::of(net);
  NetParameter resolved;
  if (!net.name().empty()) resolved.set_name(net.name());
  if (plan.activations == DType::bf16) resolved.set_precision(NetParameter::BF16);
  if (plan.activations == DType::f16) resolved.set_precision(NetParameter::F16);
  if (plan.arithmetic.math == Math::strict) resolved.set_math(NetParameter::STRICT);
  if (!plan.arithmetic.deterministic) resolved.set_deterministic(false);
  if (plan.force_backward) resolved.set_force_backward(true);
  if (plan.debug_info) resolved.set_debug_info(true);
  for (const Layer* layer : net.layers()) {
    LayerParameter& added = *resolved.add_layer();
    added = layer->param();
    // They held, and their stages are not those of who builds this.
    added.clear_include();
    added.clear_exclude();
    added.clear_phase();
    added.clear_blobs();
  }
  return resolved;
}

}  // namespace crema
