// What weights say of the data that they were trained on.
#pragma once

#include <string>
#include <vector>

namespace crema {

class Origin;  // proto/net.proto

/// What a weights file says of where it comes from, without the parameters being read. Empty if it
/// says nothing, or cannot be read.
Origin origin_of_weights(const std::string& path);

/// The names of the classes in the order of their labels, as NetParameter.origin of a weights file
/// has them, without the parameters being read. None if the file has none, or cannot be read.
std::vector<std::string> class_names_of_weights(const std::string& path);
/// Those of the first of these files that has some.
std::vector<std::string> class_names_of_weights(const std::vector<std::string>& paths);

}  // namespace crema
