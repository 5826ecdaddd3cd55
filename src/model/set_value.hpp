// Sets one field of a message by its name, as a line of a prototxt would.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>

namespace crema {

/// Sets the field at `path`, such as "base_lr", "convolution_param.num_output" or
/// "param[0].lr_mult", and returns what it was as text: "the default 1", or "none" without one. A
/// list without an index is replaced as a whole, by the values that commas separate; the index
/// behind its last value adds one. The value of a message is its text, with or without braces.
/// Error for what is no field of the message, with the nearest name, or no value of the field.
std::string set_value(google::protobuf::Message& message, std::string_view path,
                      const std::string& value);

/// The name with which a path begins.
std::string first_step(std::string_view path);

}  // namespace crema
