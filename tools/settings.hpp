// The settings of solvers, nets and data, as the messages in proto/ have them: types and defaults
// by the descriptors, groups and words by the comments of the files, which the build puts into the
// program.
#pragma once

#include <google/protobuf/descriptor.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

/// The files with comments.
const std::vector<std::string_view>& proto_texts();

struct Setting {
  std::string name, words;
};
struct SettingGroup {
  std::vector<std::string> heading;  // lines
  std::vector<Setting> settings;
};

/// The fields of the message of that name, in the order of the file. Empty if no file has it.
std::vector<SettingGroup> settings_of_message(std::string_view message);

/// Prints the fields of a message: name, type with default, words.
void print_settings(const google::protobuf::Descriptor& message, std::ostream& out, size_t width);

}  // namespace crema::tools
