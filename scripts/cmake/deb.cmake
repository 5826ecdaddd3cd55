# cpack makes the Debian package crema: scripts/package. One package has all: headers, .proto files and the library have to
# be of one build with the program, or the plug-ins that are compiled with them are refused, and together they are a few MB.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME crema)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains and runs neural nets in the published Caffe formats")
set(CPACK_PACKAGE_CONTACT "The Crema authors <noreply@crema.invalid>" CACHE STRING "Maintainer of the package")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/deb_files.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "\
Crema trains nets from configuration files, on the CPU: prototxt files name
layers and solvers, data comes from databases, folders of images, HDF5 and
tar files. It reads and writes prototxt, caffemodel, solverstate, LMDB and
LevelDB as published programs do.
.
The package has the program crema, also under the names of the published
programs, the C++ library with its headers, CMake package and pkg-config
file, nets that are ready to train, 5,000 handwritten digits for a first
training, manual pages, and completion for bash, zsh and fish.")
# What it was built with. Of libopenblas0 alone, apt takes the build that has threads of its own.
set(CPACK_DEBIAN_PACKAGE_DEPENDS libopenblas0-openmp)
# What the program loads by itself has no entry that dpkg-shlibdeps finds.
if(CREMA_OPENCV)
  file(REAL_PATH "${OpenCVImage_imgcodecs_LIBRARY}" codecs)
  execute_process(COMMAND dpkg-query --search "${codecs}" OUTPUT_VARIABLE owner ERROR_QUIET)
  if(owner MATCHES "^([^:]+):")
    string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", ${CMAKE_MATCH_1}")
  endif()
endif()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
# For programs, then for plug-ins, then for scripts of data sets.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS
  "g++, cmake (>= 3.25), pkg-config, libprotobuf-dev, protobuf-compiler, libhwy-dev, python3, curl, graphviz, librsvg2-2")
include(CPack)
