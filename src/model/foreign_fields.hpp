// Fields that forks of Caffe have, under names that no message here has, for what one here does.
#pragma once

#include <google/protobuf/descriptor.h>

#include <span>
#include <string>
#include <string_view>

namespace crema {

struct ForeignField {
  std::string_view message;  // here
  std::string_view name;     // that the message lacks
  std::string_view write;    // fields of the message, in which V stands for the value
  std::string_view note{};   // what else there is to say
};

/// All that are known.
std::span<const ForeignField> foreign_fields();

/// "; write `...`" for a field `name: value` of a fork; "" for others. `value` may be empty.
std::string advice_for_foreign(const google::protobuf::Descriptor& message, const std::string& name,
                               const std::string& value);

}  // namespace crema
