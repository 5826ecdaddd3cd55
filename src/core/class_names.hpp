// Names of the classes that labels stand for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema {

/// The names of classes in the order of their labels, and what they are from, for messages.
struct ClassNames {
  std::vector<std::string> names;  // "": of a label without a name
  std::string from;
  /// A file lists them, so that a class without images is no mistake.
  bool listed = false;
};

/// Error where a label that has a name in `one` has another one, or is no class, in `other`.
/// `way_out` ends its message.
void check_same_classes(const ClassNames& one, const ClassNames& other, std::string_view way_out);

}  // namespace crema
