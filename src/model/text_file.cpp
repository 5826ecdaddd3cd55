#include "model/text_file.hpp"

#include "model/whole_file.hpp"

namespace crema {

void write_text_atomically(const std::string& path, std::string_view text) {
  WholeFile file(path);
  file.append(text);
  file.finish();
}

}  // namespace crema
