# src/python -> the packages crema and caffe: crema/_crema, the module of C++, and the sources beside it.
#
# In the build folder, python/ has the module and links to the sources. scikit-build-core installs the component "python".

find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir
  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  message(FATAL_ERROR "CREMA_PYTHON=ON needs nanobind, which ${Python_EXECUTABLE} does not have; install it \
(${Python_EXECUTABLE} -m pip install nanobind), or name another Python with -DPython_EXECUTABLE=FILE")
endif()
find_package(nanobind CONFIG REQUIRED)
option(CREMA_PYTHON_SPLIT "Build for the stable ABI of all Python from 3.10 on, with nanobind-backend from PyPI" OFF)
option(CREMA_PYTHON_CAFFE "Install the package caffe, which has pycaffe's names, beside crema" ON)

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/python/*.cpp")
set(backend NB_STATIC)
if(CREMA_PYTHON_SPLIT)
  set(backend BACKEND_MODULE nanobind_backend)
endif()
nanobind_add_module(crema_python ${backend} NB_SUPPRESS_WARNINGS NOMINSIZE ${sources})
target_sources(crema_python PRIVATE $<FILTER:$<TARGET_OBJECTS:crema_tool_code>,EXCLUDE,[.]gch$>)
crema_flags(crema_python)
target_compile_definitions(crema_python PRIVATE CREMA_VERSION="${PROJECT_VERSION}")
target_link_libraries(crema_python PRIVATE crema_internal glog::glog gflags)
# Other modules of the process may have messages and libraries of the same names.
target_link_options(crema_python PRIVATE "-Wl,--exclude-libs,ALL")
set(package "${PROJECT_BINARY_DIR}/python")
set_target_properties(crema_python PROPERTIES
  OUTPUT_NAME _crema
  LIBRARY_OUTPUT_DIRECTORY "${package}/crema")

# The descriptors of all messages, from which caffe.proto makes its classes.
set(messages "${package}/crema/messages.binpb")
set(proto_files ${crema_protos})
list(TRANSFORM proto_files PREPEND "${PROJECT_SOURCE_DIR}/")
file(MAKE_DIRECTORY "${package}/crema")
add_custom_command(OUTPUT "${messages}"
  COMMAND protobuf::protoc "-I${PROJECT_SOURCE_DIR}" --include_imports "--descriptor_set_out=${messages}" ${proto_files}
  DEPENDS ${proto_files} protobuf::protoc
  COMMENT "Generating messages.binpb"
  VERBATIM)
add_custom_target(crema_python_messages DEPENDS "${messages}")
add_dependencies(crema_python crema_python_messages)

file(GLOB_RECURSE python_files CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src/python"
  "${PROJECT_SOURCE_DIR}/src/python/*.py" "${PROJECT_SOURCE_DIR}/src/python/*.pyi"
  "${PROJECT_SOURCE_DIR}/src/python/*.npy" "${PROJECT_SOURCE_DIR}/src/python/py.typed")
foreach(file IN LISTS python_files)
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY "${package}/${folder}")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/src/python/${file}" "${package}/${file}" SYMBOLIC)
  if(folder MATCHES "^caffe" AND NOT CREMA_PYTHON_CAFFE)
    continue()
  endif()
  install(FILES "${PROJECT_SOURCE_DIR}/src/python/${file}" DESTINATION "${folder}" COMPONENT python EXCLUDE_FROM_ALL)
endforeach()
install(TARGETS crema_python LIBRARY DESTINATION crema COMPONENT python EXCLUDE_FROM_ALL)
install(FILES "${messages}" DESTINATION crema COMPONENT python EXCLUDE_FROM_ALL)
# package.cmake installs models/ and data/ there, where the program looks for them (crema/__main__.py).
if(EXISTS "${PROJECT_SOURCE_DIR}/models")
  file(MAKE_DIRECTORY "${package}/crema/share")
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/models" "${package}/crema/share/models" SYMBOLIC)
  file(CREATE_LINK "${PROJECT_SOURCE_DIR}/data" "${package}/crema/share/data" SYMBOLIC)
endif()
