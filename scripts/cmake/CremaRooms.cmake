# How a room's files become sources and registrations, for the rooms of the tree and for those of plug-ins.

# crema_pointwise_rooms(TO FILE CUDA MESSAGES ROOM MATH [ROOM MATH]...): writes FILE.cpp and, with CUDA, FILE.cu: layers,
# registrations, loops and kernels of pointwise rooms (layer_support/pointwise.hpp), and adds them to the list TO.
# Without CUDA, but with CREMA_TESTS, FILE.cpp has the engine of devices as well, for the device of the tests.
# MATH is the path of a room's NAME_math.hpp, MESSAGES a header that these need, or "".
#
# The sets of vector instructions and their mathematics take most of the time to compile, once for all rooms of a file.

function(crema_pointwise_rooms to file cuda messages)
  set(head "// Written by scripts/cmake/CremaRooms.cmake.\n")
  if(messages)
    string(APPEND head "#include \"${messages}\"\n")
  endif()
  set(device_if "#if 0\n")
  if(CREMA_TESTS)
    set(device_if "#if !CREMA_BUILD_HAS_CUDA && !defined(CREMA_CPU_PLUGIN)\n")
  endif()
  set(loops "")
  set(registrations "")
  set(kernels "")
  set(rooms ${ARGN})
  while(rooms)
    list(POP_FRONT rooms room math)
    string(APPEND loops "
#define CREMA_ROOM ${room}_room
#define CREMA_MATH \"${math}\"
#include \"layer_support/pointwise_room-inl.hpp\"
#undef CREMA_ROOM
#undef CREMA_MATH
")
    string(APPEND registrations
      "void register_${room}(Registry& registry) {
  registry.add<${room}_room::Room>(${room}_room::Math::type);
${device_if}  add_pointwise_device<PointwiseLayer<${room}_room::Math>>(registry);
#endif
}
")
    string(APPEND kernels "
namespace ${room}_room {
#include \"${math}\"
}  // namespace ${room}_room
void register_${room}_cuda(Registry& registry) {
  add_pointwise_device<PointwiseLayer<${room}_room::Math>>(registry);
}
")
  endwhile()

  # highway.hpp reads the whole file once for each set, so it comes before what differs between rooms.
  set(written "${file}.cpp")
  file(CONFIGURE OUTPUT "${file}.cpp" CONTENT "${head}#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE \"${file}.cpp\"
#include \"backend/cpu/highway.hpp\"
${loops}
#undef CREMA_POINTWISE_DECLARED
#define CREMA_POINTWISE_DECLARED

#if HWY_ONCE
#include \"crema/cuda_build.hpp\"
${device_if}#include \"layer_support/pointwise_device.hpp\"
#endif
namespace crema {
${registrations}}  // namespace crema
#endif
" @ONLY)
  if(cuda)
    list(APPEND written "${file}.cu")
    file(CONFIGURE OUTPUT "${file}.cu" CONTENT "${head}#include \"layer_support/pointwise_device.hpp\"
#include \"crema/registry.hpp\"

namespace crema {
${kernels}
}  // namespace crema
" @ONLY)
  endif()
  set(${to} ${${to}} ${written} PARENT_SCOPE)
endfunction()

# crema_room_sources(FILES NAMES ROOM CUDA ONEDNN SOURCE...): sets FILES to the sources of a room that are
# compiled, and NAMES to the registrations that they define:
#
#   relu.cpp               -> register_relu(registry)
#   relu_native.cpp        -> register_relu_native(registry)
#   relu_onednn.cpp        -> register_relu_onednn(registry), with oneDNN
#   *.cu, *_cudnn.cpp      -> register_relu_cuda(registry), with CUDA
function(crema_room_sources files names room cuda onednn)
  set(compiled "")
  set(registered "")
  foreach(source IN LISTS ARGN)
    cmake_path(GET source FILENAME file)
    set(wanted ON)
    set(name "")
    if(file MATCHES "_onednn\\.cpp$")
      set(wanted ${onednn})
      if(file STREQUAL "${room}_onednn.cpp")
        set(name "${room}_onednn")
      endif()
    elseif(file MATCHES "(_cudnn\\.cpp|\\.cu)$")
      set(wanted ${cuda})
      set(name "${room}_cuda")
    elseif(file MATCHES "^(${room}|${room}_native)\\.cpp$")
      set(name "${CMAKE_MATCH_1}")
    endif()
    if(NOT wanted)
      continue()
    endif()
    list(APPEND registered ${name})
    list(APPEND compiled "${source}")
  endforeach()
  list(REMOVE_DUPLICATES registered)
  set(${files} "${compiled}" PARENT_SCOPE)
  set(${names} "${registered}" PARENT_SCOPE)
endfunction()

# crema_passes_for_cuda(SOURCE...): nvcc compiles those whose text includes layer_support/passes.hpp, which hold functors
# that kernels run too. That header refuses any other source, which includes it through a header.
function(crema_passes_for_cuda)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    if(NOT EXISTS "${source}")
      continue()
    endif()
    file(STRINGS "${source}" passes REGEX "^#include \"layer_support/passes.hpp\"")
    if(passes)
      set_source_files_properties("${source}" PROPERTIES LANGUAGE CUDA)
    endif()
  endforeach()
endfunction()
