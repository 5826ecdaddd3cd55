// Settings that parse, but that nothing here acts on: an error instead of a silent default.
#pragma once

#include <google/protobuf/message.h>

#include <initializer_list>
#include <string_view>

namespace crema {

/// Error when `message` sets a field that is not among `supported` (field numbers) to something
/// else than its default. `where` is the message's name in a prototxt.
void reject_unsupported(const google::protobuf::Message& message,
                        std::initializer_list<int> supported, std::string_view where);

/// Error for these fields in a data layer's own settings, their old place: they belong into
/// transform_param.
void reject_old_transform(const google::protobuf::Message& message, std::string_view where,
                          std::initializer_list<const char*> fields = {"scale", "mean_file",
                                                                       "crop_size", "mirror"});

}  // namespace crema
