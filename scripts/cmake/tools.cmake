# tools/*.cpp -> the one binary bin/crema, and links to it under the published names.

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cpp")
if(NOT sources)
  return()
endif()

find_package(gflags REQUIRED)
find_package(glog REQUIRED)

# The pages of the layers, for `crema layers`.
set(pages "${CREMA_GENERATED_DIR}/pages.cpp")
file(GLOB page_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/layers/*/README.md")
set(pages_script "${PROJECT_SOURCE_DIR}/scripts/cmake/pages.cmake")
add_custom_command(OUTPUT "${pages}"
  COMMAND "${CMAKE_COMMAND}" -DFOLDER=${PROJECT_SOURCE_DIR}/layers -DOUTPUT=${pages} -P "${pages_script}"
  DEPENDS ${page_files} "${pages_script}"
  VERBATIM)

# The settings of solvers, nets and data, for `crema help`.
set(settings "${CREMA_GENERATED_DIR}/proto_texts.cpp")
set(settings_script "${PROJECT_SOURCE_DIR}/scripts/cmake/proto_texts.cmake")
set(settings_files "")
foreach(proto IN ITEMS proto/solver.proto proto/net.proto proto/layer.proto proto/common.proto proto/augment.proto
    layers/data/data.proto)
  list(APPEND settings_files "${PROJECT_SOURCE_DIR}/${proto}")
endforeach()
add_custom_command(OUTPUT "${settings}"
  COMMAND "${CMAKE_COMMAND}" "-DFILES=${settings_files}" -DOUTPUT=${settings} -P "${settings_script}"
  DEPENDS ${settings_files} "${settings_script}"
  VERBATIM)

# The list of commands, tools/commands.txt, as code.
set(commands "${PROJECT_SOURCE_DIR}/tools/commands.txt")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${commands}")
file(STRINGS "${commands}" lines REGEX "^[a-z=]")
set(crema_published_names "")
set(heading "")
set(declared "")
set(listed "")
foreach(line IN LISTS lines)
  if(line MATCHES "^= (.+)")
    set(heading "${CMAKE_MATCH_1}")
    continue()
  endif()
  string(REPLACE " " ";" names "${line}")
  list(POP_FRONT names command)
  string(REPLACE "-" ";" words "${command}")
  set(variable k)
  foreach(word IN LISTS words)
    string(SUBSTRING "${word}" 0 1 first)
    string(SUBSTRING "${word}" 1 -1 rest)
    string(TOUPPER "${first}" first)
    string(APPEND variable "${first}${rest}")
  endforeach()
  string(APPEND declared "extern const Command ${variable};\n")
  list(TRANSFORM names REPLACE "(.+)" "\"\\1\"" OUTPUT_VARIABLE quoted)
  list(JOIN quoted ", " quoted)
  string(APPEND listed "      {&${variable}, {${quoted}}, \"${heading}\"},\n")
  list(APPEND crema_published_names ${names})
endforeach()
file(CONFIGURE OUTPUT "${CREMA_GENERATED_DIR}/commands.cpp" @ONLY CONTENT
"// Written by scripts/cmake/tools.cmake from tools/commands.txt.
#include \"tools/command.hpp\"

namespace crema::tools {

${declared}
const std::vector<ListedCommand>& commands() {
  static const std::vector<ListedCommand> all = {
${listed}  };
  return all;
}

}  // namespace crema::tools
")

list(APPEND sources "${pages}" "${settings}" "${CREMA_GENERATED_DIR}/commands.cpp")
function(crema_compile_tools target)
  crema_flags(${target})
  crema_compile_quickly(${target})
  crema_compile_together(${target} ${sources})
  target_precompile_headers(${target} REUSE_FROM crema_headers)
  target_compile_definitions(${target} PRIVATE CREMA_VERSION="${PROJECT_VERSION}")
endfunction()
# Of the program and of the module of Python, where layers may be written in it (src/python/program.cpp). The program alone
# has teams of its own.
set(tool_main "${PROJECT_SOURCE_DIR}/tools/main.cpp" "${PROJECT_SOURCE_DIR}/tools/openmp.cpp")
set(tool_sources ${sources})
list(REMOVE_ITEM tool_sources ${tool_main})
add_library(crema_tool_code OBJECT ${tool_sources})
crema_compile_tools(crema_tool_code)
target_link_libraries(crema_tool_code PRIVATE crema_internal glog::glog gflags)
add_executable(crema_tool ${tool_main} $<FILTER:$<TARGET_OBJECTS:crema_tool_code>,EXCLUDE,[.]gch$>)
crema_flags(crema_tool)
file(RELATIVE_PATH models_from_program "${CMAKE_INSTALL_FULL_BINDIR}"
  "${CMAKE_INSTALL_FULL_DATADIR}/crema/models")
set_property(SOURCE "${PROJECT_SOURCE_DIR}/tools/models.cpp"
    "${PROJECT_SOURCE_DIR}/tests/tools/models_cli_test.cpp" APPEND PROPERTY
  COMPILE_DEFINITIONS "CREMA_MODELS_FROM_PROGRAM=\"${models_from_program}\"")
# A program that is not installed finds the models that it was built with at the same place.
file(RELATIVE_PATH data_from_program "${CMAKE_INSTALL_FULL_BINDIR}"
  "${CMAKE_INSTALL_FULL_DATADIR}/crema")
cmake_path(SET data_folder NORMALIZE "${PROJECT_BINARY_DIR}/bin/${data_from_program}")
if(EXISTS "${PROJECT_SOURCE_DIR}/models" AND PROJECT_IS_TOP_LEVEL)
  file(MAKE_DIRECTORY "${data_folder}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/models" "${data_folder}/models" SYMBOLIC)
endif()
target_link_libraries(crema_tool PRIVATE crema_internal glog::glog gflags)
crema_plugin_host(crema_tool)
set_target_properties(crema_tool PROPERTIES
  OUTPUT_NAME crema
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}"
  INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS crema_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

# Of caffe, the first word names the command, as of crema itself.
foreach(name IN LISTS crema_published_names ITEMS caffe)
  foreach(link IN ITEMS "${name}" "${name}.bin")
    add_custom_command(TARGET crema_tool POST_BUILD
      COMMAND "${CMAKE_COMMAND}" -E create_symlink crema "${PROJECT_BINARY_DIR}/bin/${link}"
      VERBATIM)
    install(FILES "${PROJECT_BINARY_DIR}/bin/${link}" DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endforeach()
endforeach()
