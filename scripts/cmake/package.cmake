# cmake --install: headers, library, tool, models, the scripts of data sets and the digits that ship, pages for man, the
# completion of shells, and what find_package(Crema) and pkg-config read.

include(CMakePackageConfigHelpers)
set(crema_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Crema")

install(TARGETS crema EXPORT CremaTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/crema DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING PATTERN "*.hpp")
# crema_install_share(FOLDER [ARGUMENTS OF install()...]): models/ and data/ into the folder.
function(crema_install_share folder)
  if(EXISTS "${PROJECT_SOURCE_DIR}/models")
    install(DIRECTORY models DESTINATION "${folder}" ${ARGN} USE_SOURCE_PERMISSIONS
      FILES_MATCHING PATTERN "*.prototxt" PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg" PATTERN "CMakeLists.txt"
        PATTERN "*.cpp" PATTERN "*.hpp" PATTERN "*.proto" PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
  endif()
  # Copied into a working folder, data/ is what the nets of models/ read.
  install(DIRECTORY data DESTINATION "${folder}" ${ARGN} USE_SOURCE_PERMISSIONS
    FILES_MATCHING PATTERN "*.md" PATTERN "*.sh" PATTERN "*.py" PATTERN "*.txt" PATTERN "*.prototxt" PATTERN "*-ubyte.gz"
      PATTERN "full" EXCLUDE PATTERN "__pycache__" EXCLUDE PATTERN "*_lmdb" EXCLUDE)
endfunction()
crema_install_share("${CMAKE_INSTALL_DATADIR}/crema")
if(CREMA_PYTHON)
  crema_install_share(crema/share COMPONENT python EXCLUDE_FROM_ALL)
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The program writes its own pages and completion, so they say what it does.
if(TARGET crema_tool)
  set(CREMA_ZSH_FOLDER "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" CACHE STRING "Where zsh looks for completion")
  string(CONFIGURE [[
    function(write_output file)
      set(file "${CMAKE_INSTALL_PREFIX}/${file}")
      message(STATUS "Installing: $ENV{DESTDIR}${file}")
      cmake_path(GET file PARENT_PATH folder)
      file(MAKE_DIRECTORY "$ENV{DESTDIR}${folder}")
      execute_process(COMMAND "$<TARGET_FILE:crema_tool>" ${ARGN}
        OUTPUT_FILE "$ENV{DESTDIR}${file}" COMMAND_ERROR_IS_FATAL ANY)
      list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${file}")
      set(CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_MANIFEST_FILES}" PARENT_SCOPE)
    endfunction()
    write_output("@CMAKE_INSTALL_DATADIR@/bash-completion/completions/crema" completion bash)
    write_output("@CREMA_ZSH_FOLDER@/_crema" completion zsh)
    write_output("@CMAKE_INSTALL_DATADIR@/fish/vendor_completions.d/crema.fish" completion fish)
    set(pages "${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_MANDIR@/man1")
    message(STATUS "Installing: pages in $ENV{DESTDIR}${pages}")
    execute_process(COMMAND "$<TARGET_FILE:crema_tool>" manual --output "$ENV{DESTDIR}${pages}"
      OUTPUT_VARIABLE names OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" names "${names}")
    list(TRANSFORM names PREPEND "${pages}/")
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${names})
  ]] code @ONLY)
  install(CODE "${code}")
endif()

# --- Headers for authors of layers: see authors.cmake --------------------------------------------------------------

set(crema_author_dir "${CMAKE_INSTALL_INCLUDEDIR}/crema/authors")
foreach(header IN LISTS crema_author_headers)
  cmake_path(GET header PARENT_PATH folder)
  string(REGEX REPLACE "^src/" "" folder "${folder}")
  install(FILES "${header}" DESTINATION "${crema_author_dir}/${folder}")
endforeach()
install(FILES "${crema_plugin_abi}" "${CREMA_GENERATED_DIR}/crema/cuda_build.hpp"
  "${CREMA_GENERATED_DIR}/crema/vector_sets.hpp"
  DESTINATION "${crema_author_dir}/crema")
set(crema_proto_dir "${CMAKE_INSTALL_DATADIR}/crema/protos")
foreach(proto IN LISTS crema_protos)
  string(REGEX REPLACE "\\.proto$" ".pb.h" header "${proto}")
  cmake_path(GET proto PARENT_PATH folder)
  install(FILES "${proto}" DESTINATION "${crema_proto_dir}/${folder}")
  install(FILES "${CREMA_GENERATED_DIR}/${header}" DESTINATION "${crema_author_dir}/${folder}")
endforeach()
install(FILES
  "${CMAKE_CURRENT_LIST_DIR}/CremaHost.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/CremaPlugin.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/CremaRooms.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/write_plugin_entry.cmake"
  DESTINATION "${crema_package_dir}/modules")

# --- find_package(Crema) ---------------------------------------------------------------------------

install(EXPORT CremaTargets NAMESPACE Crema:: DESTINATION "${crema_package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/CremaConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/CremaConfig.cmake"
  INSTALL_DESTINATION "${crema_package_dir}"
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR crema_proto_dir
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/CremaConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/CremaConfig.cmake"
  "${PROJECT_BINARY_DIR}/CremaConfigVersion.cmake"
  DESTINATION "${crema_package_dir}")
# A static library leaves its dependencies to whoever links it, who then has to find them as we did.
install(DIRECTORY scripts/cmake/ DESTINATION "${crema_package_dir}/modules"
  FILES_MATCHING PATTERN "Find*.cmake")

# --- crema.pc --------------------------------------------------------------------------------------

# "-lz" for a library where the linker looks by itself, else with its folder for linker and loader.
function(crema_pc_flags result)
  set(flags "")
  foreach(library IN LISTS ARGN)
    get_filename_component(folder "${library}" DIRECTORY)
    get_filename_component(name "${library}" NAME)
    string(REGEX REPLACE "^lib([^.]+)\\..*$" "\\1" name "${name}")
    find_library(found_by_itself "${name}" PATHS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES}
      NO_DEFAULT_PATH NO_CACHE)
    if(NOT found_by_itself)
      list(APPEND flags "-L${folder}" "-Wl,-rpath,${folder}")
    endif()
    list(APPEND flags "-l${name}")
    unset(found_by_itself)
  endforeach()
  list(REMOVE_DUPLICATES flags)
  list(JOIN flags " " flags)
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

set(libraries "${OpenBLAS_LIBRARY}" "${LMDB_LIBRARY}" "${Highway_LIBRARY}")
function(crema_add_libraries condition)
  if(${condition})
    list(APPEND libraries ${ARGN})
    set(libraries "${libraries}" PARENT_SCOPE)
  endif()
endfunction()
crema_add_libraries(CREMA_OPENCV "${OpenCVImage_imgproc_LIBRARY}" "${OpenCVImage_core_LIBRARY}")
crema_add_libraries(CREMA_LIBJPEG "${JPEG_LIBRARIES}")
crema_add_libraries(CREMA_LIBPNG "${PNG_LIBRARY}")
crema_add_libraries(CREMA_LIBGIF "${GIF_LIBRARY}")
crema_add_libraries(CREMA_HDF5 "${HDF5C_LIBRARY}")
crema_add_libraries(CREMA_LEVELDB "${LevelDB_LIBRARY}")
crema_add_libraries(CREMA_LIBARCHIVE "${LibArchive_LIBRARY}")
crema_add_libraries(CREMA_ANNOTATIONS "${Pugixml_LIBRARY}")
crema_add_libraries(CREMA_HAS_YAML "${YamlCpp_LIBRARY}")
if(CppHttplib_LIBRARY)
  crema_add_libraries(CREMA_HAS_HTTPLIB "${CppHttplib_LIBRARY}")
endif()
crema_add_libraries(CREMA_HAS_MPI "${MPIC_LIBRARY}")
crema_add_libraries(CREMA_HAS_ONEDNN "${OneDNN_LIBRARY}")
crema_add_libraries(CREMA_HAS_CUDA "${CUDA_cublas_LIBRARY}" "${CUDA_cublasLt_LIBRARY}" "${CUDNN_LIBRARY}"
  "${CUDA_cudart_static_LIBRARY}")
crema_pc_flags(dependencies ${libraries})
list(JOIN OpenMP_CXX_FLAGS " " openmp_flags)
string(PREPEND dependencies " ")
string(APPEND dependencies " ${openmp_flags} -pthread -ldl -lrt")
if(CREMA_SANITIZE)
  string(APPEND dependencies " -fsanitize=${CREMA_SANITIZE}")
endif()
# A shared library brings its own.
get_target_property(crema_type crema TYPE)
if(crema_type STREQUAL "SHARED_LIBRARY")
  set(CREMA_PC_REQUIRES "")
  set(CREMA_PC_LIBS "")
else()
  set(CREMA_PC_REQUIRES "Requires: protobuf zlib\n")
  set(CREMA_PC_LIBS "${dependencies}")
endif()
file(RELATIVE_PATH CREMA_PC_PREFIX
  "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/crema.pc.in" "${PROJECT_BINARY_DIR}/crema.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/crema.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
