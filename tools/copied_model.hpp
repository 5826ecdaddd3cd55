// The files of a model in a copy outside of the repository.
#pragma once

#include <filesystem>
#include <string>

namespace crema::tools {

/// Where a model was, "models/NAME", and where its copy is.
struct MovedModel {
  std::string name;
  std::string folder;  // of the copy, without '/' at its end
};

/// The text of a file of the model as it stands in the copy. Paths of the model are those of the
/// copy, in commands with the quotes that a shell needs. Of pages and comments, sentences and
/// commands that only the repository can fulfil are left out: those with its scripts, its tests and
/// its data scripts.
std::string text_of_copy(const std::string& text, const std::filesystem::path& file,
                         const MovedModel& moved);

}  // namespace crema::tools
