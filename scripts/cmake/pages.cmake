# cmake -DFOLDER=layers -DOUTPUT=pages.cpp -P pages.cmake: writes the pages of the rooms as a source of
# the program crema, whose command `layers` prints them.

file(GLOB pages "${FOLDER}/*/README.md")
list(SORT pages)
set(texts "")
foreach(page IN LISTS pages)
  file(READ "${page}" text)
  string(APPEND texts "    R\"page(${text})page\",\n")
endforeach()
file(WRITE "${OUTPUT}"
"// Written by scripts/cmake/pages.cmake from layers/*/README.md.
#include \"tools/pages.hpp\"

namespace crema::tools {

const std::vector<std::string_view>& page_texts() {
  static const std::vector<std::string_view> texts = {
${texts}  };
  return texts;
}

}  // namespace crema::tools
")
