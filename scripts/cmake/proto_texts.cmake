# cmake "-DFILES=a.proto;b.proto" -DOUTPUT=proto_texts.cpp -P proto_texts.cmake: writes these files as a source of the
# program crema, whose command `help` prints the settings in them with their comments.

set(texts "")
foreach(file IN LISTS FILES)
  file(READ "${file}" text)
  string(APPEND texts "    R\"proto(${text})proto\",\n")
endforeach()
file(WRITE "${OUTPUT}"
"// Written by scripts/cmake/proto_texts.cmake.
#include \"tools/settings.hpp\"

namespace crema::tools {

const std::vector<std::string_view>& proto_texts() {
  static const std::vector<std::string_view> texts = {
${texts}  };
  return texts;
}

}  // namespace crema::tools
")
