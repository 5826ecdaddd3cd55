# Sources of the rooms under layers/, and generated/rooms.cpp, which calls each room by name: a linker
# that drops unused members of a static library cannot lose one. It also holds the published types,
# from layers/published_types.txt.
#
# CremaRooms.cmake says which file of a room defines what. A pointwise room is layers/relu/relu_math.hpp
# without a relu.cpp (src/layer_support/pointwise.hpp): what else it needs is written here, six rooms to a file.

include(CremaRooms)

# For layer_support/passes.hpp alone: all other files are compiled alike with CUDA and without.
if(CREMA_HAS_CUDA)
  set(crema_build_has_cuda 1)
else()
  set(crema_build_has_cuda 0)
endif()
file(CONFIGURE OUTPUT "${CREMA_GENERATED_DIR}/crema/cuda_build.hpp" CONTENT
"// Written by scripts/cmake/rooms.cmake.
#pragma once

#define CREMA_BUILD_HAS_CUDA ${crema_build_has_cuda}
" @ONLY)

set(crema_room_files "")
set(crema_room_names "")
set(pointwise "")
file(GLOB crema_rooms CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/layers" LIST_DIRECTORIES true
  "${PROJECT_SOURCE_DIR}/layers/*")
foreach(room IN LISTS crema_rooms)
  set(folder "${PROJECT_SOURCE_DIR}/layers/${room}")
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp" "${folder}/*.cu")
  file(GLOB math CONFIGURE_DEPENDS "${folder}/${room}_math.hpp")
  if(math AND NOT EXISTS "${folder}/${room}.cpp")
    list(APPEND pointwise ${room} "layers/${room}/${room}_math.hpp")
    list(APPEND crema_room_names ${room})
    if(CREMA_HAS_CUDA)
      list(APPEND crema_room_names ${room}_cuda)
    endif()
  endif()
  crema_room_sources(files names ${room} ${CREMA_HAS_CUDA} ${CREMA_HAS_ONEDNN} ${sources})
  list(APPEND crema_room_files ${files})
  list(APPEND crema_room_names ${names})
  if(CREMA_HAS_CUDA)
    crema_passes_for_cuda(${files})
  endif()
endforeach()

# The mathematics of all of them once more, for chains of such layers on devices, which one kernel computes.
set(chain_rooms "")
set(chain_maths "")
set(rest ${pointwise})
while(rest)
  list(POP_FRONT rest room math)
  string(APPEND chain_rooms "namespace ${room}_chain {
#include \"${math}\"
}  // namespace ${room}_chain
")
  list(APPEND chain_maths "${room}_chain::Math")
endwhile()
list(JOIN chain_maths ",\n    " chain_maths)
set(chain_file "${CREMA_GENERATED_DIR}/rooms/pointwise_chain.cpp")
if(CREMA_HAS_CUDA)
  set(chain_file "${CREMA_GENERATED_DIR}/rooms/pointwise_chain.cu")
endif()
file(CONFIGURE OUTPUT "${chain_file}" CONTENT "// Written by scripts/cmake/rooms.cmake.
#include \"layer_support/pointwise_chain-inl.hpp\"

namespace crema {
${chain_rooms}
using MathsOfChains = pointwise_chain::MathList<
    ${chain_maths}>;

std::unique_ptr<Kernel> make_pointwise_chain(std::span<const ChainPart> parts, bool goes_back) {
  return pointwise_chain::make_chain<MathsOfChains>(parts, goes_back);
}

}  // namespace crema
" @ONLY)
list(APPEND crema_room_files "${chain_file}")

set(number 0)
while(pointwise)
  list(LENGTH pointwise count)
  list(SUBLIST pointwise 0 12 batch)
  crema_pointwise_rooms(crema_room_files "${CREMA_GENERATED_DIR}/rooms/pointwise_${number}" ${CREMA_HAS_CUDA} ""
    ${batch})
  math(EXPR number "${number} + 1")
  if(count LESS_EQUAL 12)
    break()
  endif()
  list(SUBLIST pointwise 12 -1 pointwise)
endwhile()
list(REMOVE_DUPLICATES crema_room_names)
list(SORT crema_room_names)

set(declarations "")
set(calls "")
foreach(name IN LISTS crema_room_names)
  string(APPEND declarations "void register_${name}(Registry& registry);\n")
  string(APPEND calls "  register_${name}(registry);\n")
endforeach()
set(parameter "[[maybe_unused]] Registry& registry")

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/layers/published_types.txt")
file(STRINGS "${PROJECT_SOURCE_DIR}/layers/published_types.txt" published REGEX "^[^#]")
list(TRANSFORM published REPLACE "^([^ ]+) ?(.*)$" "      {\"\\1\", \"\\2\"},\n")
list(JOIN published "" published)

file(CONFIGURE OUTPUT "${CREMA_GENERATED_DIR}/rooms.cpp" CONTENT
"// Written by scripts/cmake/rooms.cmake from the folders under layers/ and layers/published_types.txt.
#include <map>
#include <string>

namespace crema {

class Registry;

${declarations}
void register_all_rooms(Registry& registry);

void register_all_rooms(${parameter}) {
${calls}}

const std::string* published_type(const std::string& name);

const std::string* published_type(const std::string& name) {
  static const std::map<std::string, std::string> types = {
${published}  };
  const auto found = types.find(name);
  return found == types.end() ? nullptr : &found->second;
}

}  // namespace crema
" @ONLY)
list(APPEND crema_room_files "${CREMA_GENERATED_DIR}/rooms.cpp")
