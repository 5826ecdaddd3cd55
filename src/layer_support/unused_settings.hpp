// Settings that a layer accepts and does not read.
#pragma once

#include <initializer_list>
#include <string_view>

#include "crema/layer.hpp"

namespace google::protobuf {
class Message;
}

namespace crema {

/// Warns of those of the fields of `settings` that say something: they have no effect, `why`, such
/// as "without relu: true".
void warn_without_effect(const LayerInit& init, const google::protobuf::Message& settings,
                         std::initializer_list<std::string_view> fields, std::string_view why);

}  // namespace crema
