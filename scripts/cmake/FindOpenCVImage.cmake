# Finds the three modules of OpenCV that decode and resize images: target OpenCVImage::OpenCVImage.
# OpenCV's own config file comes only with Debian's libopencv-dev, which pulls in every module and their
# hundreds of dependencies; the three development packages alone have to be enough.
find_path(OpenCVImage_INCLUDE_DIR opencv2/imgcodecs.hpp PATH_SUFFIXES opencv4)
# Debian keeps cvconfig.h apart, with what differs between architectures.
find_path(OpenCVImage_ARCH_INCLUDE_DIR opencv2/cvconfig.h PATH_SUFFIXES opencv4)
mark_as_advanced(OpenCVImage_INCLUDE_DIR OpenCVImage_ARCH_INCLUDE_DIR)

set(opencv_libraries "")
foreach(module IN ITEMS imgcodecs imgproc core)
  find_library(OpenCVImage_${module}_LIBRARY opencv_${module})
  mark_as_advanced(OpenCVImage_${module}_LIBRARY)
  # The program loads the codecs when an image needs them (data/images/opencv/codecs.hpp). A wheel has copies of the
  # libraries that are linked, and of no others.
  if(NOT module STREQUAL imgcodecs)
    list(APPEND opencv_libraries "${OpenCVImage_${module}_LIBRARY}")
  elseif(CREMA_PYTHON_SPLIT)
    list(APPEND opencv_libraries
      "-Wl,--push-state,--no-as-needed" "${OpenCVImage_imgcodecs_LIBRARY}" "-Wl,--pop-state")
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenCVImage
  REQUIRED_VARS OpenCVImage_imgcodecs_LIBRARY OpenCVImage_imgproc_LIBRARY OpenCVImage_core_LIBRARY
    OpenCVImage_INCLUDE_DIR
  REASON_FAILURE_MESSAGE
    "on Debian and Ubuntu: apt install libopencv-imgcodecs-dev libopencv-imgproc-dev, \
or configure with -DCREMA_OPENCV=OFF")

if(OpenCVImage_FOUND AND NOT TARGET OpenCVImage::OpenCVImage)
  set(opencv_includes "${OpenCVImage_INCLUDE_DIR}")
  if(OpenCVImage_ARCH_INCLUDE_DIR)
    list(APPEND opencv_includes "${OpenCVImage_ARCH_INCLUDE_DIR}")
  endif()
  add_library(OpenCVImage::OpenCVImage INTERFACE IMPORTED)
  set_target_properties(OpenCVImage::OpenCVImage PROPERTIES
    INTERFACE_LINK_LIBRARIES "${opencv_libraries}"
    INTERFACE_INCLUDE_DIRECTORIES "${opencv_includes}")
endif()
