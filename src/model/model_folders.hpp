// Where the files of models/ are when a program runs outside of the repository.
#pragma once

#include <string>
#include <vector>

namespace crema {

/// The environment variable that lists folders of models, separated by colons.
inline constexpr const char* kModelPath = "CREMA_MODEL_PATH";

/// The folders that CREMA_MODEL_PATH lists; none where it is not set.
std::vector<std::string> model_path();

/// The file that a path names. A path that begins with "models/" and names no file is looked for
/// in the folders of model_path(): "models/lenet/solver.prototxt" is then lenet/solver.prototxt in
/// one of them. Any other path, and one that is found nowhere, is returned as it is.
std::string find_model_file(const std::string& path);

/// For the error about such a file that is found nowhere: "; did you mean 'models/lenet/...'?" with
/// the file of a similar name, or the files of the model, or "; it is not in 'a', 'b'" with the
/// folders of model_path(), or the folder that model_path() should have in place of another. Empty
/// for other paths, and for what is there but is no file.
std::string where_models_were_sought(const std::string& path);

}  // namespace crema
