// What may be at the place of a file that a command writes.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace crema::tools {

/// Of main(): the command was called by a published name that is none of ours, so by a script that
/// may run again over what it wrote before. `train` is a name of both, and does not count.
void set_called_by_published_name(bool is_published);
bool is_called_by_published_name();

/// Whether both name one file, or would, if one is still to be made. Error for a path that cannot
/// be followed, such as one with links in a circle.
bool is_same_file(const std::string& a, const std::string& b);

/// A kind of files that a command writes.
struct OutputKind {
  std::string name;                                         // "mean file"
  std::function<bool(const std::string& path)> is_of_kind;  // of a file that exists
};

/// Error if `path` is one of `inputs`, a device, a pipe or a file of a database, or exists without
/// --overwrite. Only by a published name a file of the kind that is written is replaced, and a line
/// says so; without a `kind`, none is.
void check_replaced(const std::string& path, const std::vector<std::string>& inputs,
                    const OutputKind& kind = {});

}  // namespace crema::tools
