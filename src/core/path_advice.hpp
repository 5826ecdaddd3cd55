// Paths that are written as for a shell or for Windows, which nothing here replaces.
#pragma once

#include <string>
#include <string_view>

namespace crema {

/// What to do where `path` leads to nothing, if the way in which it is written says why; else
/// "; " and `otherwise`, or "" if that is empty.
///
/// ~, ~user, $NAME, ${NAME} and %NAME% are what a shell replaces: the advice names them, and the
/// path with the value of HOME or of the variable in their place, or says that it is not set. A
/// control character is what \t and the like mean in a text file, and a backslash or a drive is of
/// Windows. A path to what is there needs no advice, however it is written.
std::string path_advice(const std::string& path, std::string_view otherwise = {});

/// Error for a path, of a file or folder that is to be made, with ~ or a variable that a shell
/// would have replaced: what is made would bear that name. None if it is there already.
void check_new_path(const std::string& path);

}  // namespace crema
