# tests/<area>/*.cpp -> test_<area>, one CTest case a GoogleTest case (or CREMA_TEST_SHARDS of them), labelled "unit", or
# with its area where tests start programs. tests/backend and tests/layer_support are parts of test_core, tests/analysis of
# test_net: each program takes long to link. Those that take whole nets through code that quicker tests cover are labelled
# "slow" instead: scripts/test --slow runs them. tests/support/ helps all of them, tests/golden/ is the golden runner,
# tests/bench/ prints numbers and is never run as a test; fuzz.cmake builds tests/fuzz/.

find_package(GTest QUIET)
if(NOT TARGET GTest::gtest_main OR NOT TARGET GTest::gmock)
  if(CREMA_TESTS STREQUAL "ON")
    message(FATAL_ERROR "CREMA_TESTS=ON, but GoogleTest was not found; on Debian and Ubuntu: \
apt install libgtest-dev libgmock-dev")
  endif()
  message(STATUS "Tests are off: GoogleTest was not found")
  return()
endif()
include(GoogleTest)

set(CREMA_SHARED_DIR "${PROJECT_SOURCE_DIR}/../shared" CACHE PATH
  "Real data that some tests read; the environment variable of the same name overrides it")

# What every test program is compiled and linked with.
add_library(crema_test_base INTERFACE)
target_link_libraries(crema_test_base INTERFACE crema_internal GTest::gmock GTest::gtest)
target_compile_definitions(crema_test_base INTERFACE
  CREMA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  CREMA_SHARED_DIR="${CREMA_SHARED_DIR}"
  CREMA_BUILT_WITH_CUDA=$<BOOL:${CREMA_HAS_CUDA}>
  CREMA_BUILT_WITH_OPENCV=$<BOOL:${CREMA_OPENCV}>
  CREMA_BUILT_WITH_LIBJPEG=$<BOOL:${CREMA_LIBJPEG}>
  CREMA_BUILT_WITH_LIBPNG=$<BOOL:${CREMA_LIBPNG}>
  CREMA_BUILT_WITH_LIBGIF=$<BOOL:${CREMA_LIBGIF}>
  CREMA_BUILT_WITH_HDF5=$<BOOL:${CREMA_HDF5}>
  CREMA_BUILT_WITH_LEVELDB=$<BOOL:${CREMA_LEVELDB}>
  CREMA_BUILT_WITH_LIBARCHIVE=$<BOOL:${CREMA_LIBARCHIVE}>
  CREMA_BUILT_WITH_ANNOTATIONS=$<BOOL:${CREMA_ANNOTATIONS}>
  CREMA_BUILT_WITH_HTTPLIB=$<BOOL:${CREMA_HAS_HTTPLIB}>
  CREMA_BUILT_WITH_MPI=$<BOOL:${CREMA_HAS_MPI}>)
target_include_directories(crema_test_base INTERFACE "${PROJECT_SOURCE_DIR}/tests")
if(TARGET crema_tool)
  target_compile_definitions(crema_test_base INTERFACE
    CREMA_TOOL="$<TARGET_FILE:crema_tool>")
endif()

# Half the time to compile.
function(crema_compile_tests target)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo>>:-O1>")
endfunction()

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cpp")
add_library(crema_test_support STATIC ${sources})
crema_flags(crema_test_support)
crema_compile_tests(crema_test_support)
target_link_libraries(crema_test_support PUBLIC crema_test_base)
crema_link_if(CREMA_LIBJPEG crema_test_support JPEG::JPEG)
crema_link_if(CREMA_HDF5 crema_test_support HDF5C::HDF5C)
crema_link_if(CREMA_LEVELDB crema_test_support LevelDB::LevelDB)
target_precompile_headers(crema_test_support PRIVATE ${CREMA_SLOW_HEADERS}
  <gmock/gmock.h> <gtest/gtest.h>)
# Libraries and programs share a precompiled header only where both are compiled alike.
set_target_properties(crema_test_support PROPERTIES POSITION_INDEPENDENT_CODE OFF)

# A program beside the library, for tests and benchmarks.
function(crema_test_program target)
  add_executable(${target} ${ARGN})
  crema_flags(${target})
  crema_compile_tests(${target})
  target_link_libraries(${target} PRIVATE crema_test_base crema_test_support)
  target_precompile_headers(${target} REUSE_FROM crema_test_support)
  set_target_properties(${target} PROPERTIES
    POSITION_INDEPENDENT_CODE OFF
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
endfunction()

# A program takes longer to start than most cases take to run, under the sanitizers above all.
set(CREMA_TEST_SHARDS 0 CACHE STRING
  "0: a CTest case for each GoogleTest case; N: N CTest cases for each test program, each a share of its cases")

if(NOT CREMA_TEST_SHARDS MATCHES "^[0-9]+$")
  message(FATAL_ERROR "CREMA_TEST_SHARDS=${CREMA_TEST_SHARDS}; give a number of shares, or 0")
endif()

# The slow cases of an area, as patterns of GoogleTest.
set(crema_slow_net TakenMemory.IsWhatTheLargeNetsOfModelsPlanned)
set(crema_slow_core "")
set(crema_slow_tools NewCliTest.FcnMakesASegmentation)
if(crema_sanitizers)
  # Whole nets and the largest problems, which take minutes there.
  list(APPEND crema_slow_net PublishedNets.GiveThePublishedAnswers "Models.*")
  list(APPEND crema_slow_core "*EqualsTheDirectSum/own_tiles" "*EqualsTheDirectSum/several_batches"
    "*EqualsTheDirectSum/taps5_batches" "*EqualsTheDirectSum/groups_in_batches")
endif()
# Cases that measure the memory of the process: what others freed before would serve them.
set(crema_apart_net TakenMemory.*)

# crema_add_share(NAME LABEL PROGRAM FILTER [VARIABLE=VALUE...]): the cases that pass the filter, as one CTest case.
function(crema_add_share name label program filter)
  add_test(NAME ${name} COMMAND ${program} "--gtest_filter=${filter}")
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 1200 ENVIRONMENT "${ARGN}")
endfunction()

function(crema_add_cases area label)
  set(apart "${crema_apart_${area}}")
  list(JOIN crema_slow_${area} ":" slow)
  if(slow OR apart)
    # A share without cases passes: a pattern that fits none any more would take its cases out of all runs.
    add_test(NAME ${area}.slow_cases_are_there
      COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:test_${area}>" "-DPATTERNS=${slow}:${apart}"
        -P "${PROJECT_SOURCE_DIR}/scripts/cmake/check_patterns.cmake")
    set_tests_properties(${area}.slow_cases_are_there PROPERTIES LABELS "${label}" TIMEOUT 300)
  endif()
  if(NOT CREMA_TEST_SHARDS)
    set(discovery DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${area}.")
    if(NOT slow)
      gtest_discover_tests(test_${area} ${discovery} PROPERTIES LABELS "${label}" TIMEOUT 300)
      return()
    endif()
    gtest_discover_tests(test_${area} ${discovery} TEST_FILTER "-${slow}" PROPERTIES LABELS "${label}" TIMEOUT 300)
    gtest_discover_tests(test_${area} ${discovery} TEST_FILTER "${slow}" PROPERTIES LABELS slow TIMEOUT 1200)
    return()
  endif()
  math(EXPR last "${CREMA_TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    crema_add_share(${area}.shard_${shard} "${label}" test_${area} "-${slow}:${apart}"
      GTEST_TOTAL_SHARDS=${CREMA_TEST_SHARDS} GTEST_SHARD_INDEX=${shard})
  endforeach()
  if(apart)
    crema_add_share(${area}.apart "${label}" test_${area} "${apart}-${slow}")
  endif()
  if(slow)
    crema_add_share(${area}.slow slow test_${area} "${slow}")
  endif()
endfunction()

# What scripts/test --unit builds and runs: all areas but those whose tests start programs.
set(crema_unit_areas layers core net solver data features model onnx steady monitor)
if(NOT CREMA_HAS_CUDA)
  # Its contexts on CUDA have the device of the tests, in the place of the backend.
  list(APPEND crema_unit_areas device)
endif()
# The other folders of a program.
set(crema_folders_in_core backend layer_support)
set(crema_folders_in_net analysis)
add_custom_target(unit_tests)

foreach(area IN ITEMS ${crema_unit_areas} tools options parallel)
  set(patterns "")
  foreach(folder IN ITEMS ${area} ${crema_folders_in_${area}})
    list(APPEND patterns "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cpp"
      "${PROJECT_SOURCE_DIR}/tests/${folder}/*/*_test.cpp")
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    continue()
  endif()
  crema_test_program(test_${area} ${sources})
  target_link_libraries(test_${area} PRIVATE GTest::gtest_main)
  # Half the time to compile. What a test measures or repeats often is in the library.
  target_compile_options(test_${area} PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  set(label "${area}")
  if(area IN_LIST crema_unit_areas)
    set(label unit)
    add_dependencies(unit_tests test_${area})
  endif()
  crema_add_cases(${area} "${label}")
endforeach()
if(NOT CREMA_HAS_CUDA)
  # The device of the tests works late: a missing wait or event shows as a wrong value (tests/support/fake_queues.hpp).
  # Under the sanitizers with both queues late alone: the others run the same code in another order.
  set(late_queues late upload_late work_late)
  if(crema_sanitizers)
    set(late_queues late)
  endif()
  foreach(queues IN LISTS late_queues)
    set(late "CREMA_FAKE_QUEUES=${queues}")
    crema_add_share(device.${queues} unit test_device "*" "${late}")
    crema_add_share(net.${queues} unit test_net "Recorded.*:DeviceImages.*" "${late}")
    crema_add_share(solver.${queues} unit test_solver "DeviceTraining.*" "${late}")
  endforeach()
endif()
# Tests of what wraps cuDNN and cuBLASLt see their headers.
crema_link_if(CREMA_HAS_CUDA test_core CUDNN::CUDNN)
crema_link_if(CREMA_HAS_CUDA test_core CUDA::cudart_static)
crema_link_if(CREMA_HAS_CUDA test_core CUDA::cublasLt)
target_sources(test_net PRIVATE "${PROJECT_SOURCE_DIR}/tools/markdown.cpp"
  "${PROJECT_SOURCE_DIR}/tools/resident.cpp")
if(TARGET crema_tool)
  add_dependencies(test_tools crema_tool)
  add_dependencies(test_options crema_tool)
  add_dependencies(test_parallel crema_tool parallel_runner)
  target_sources(test_tools PRIVATE "${PROJECT_SOURCE_DIR}/tools/markdown.cpp"
    "${PROJECT_SOURCE_DIR}/tools/columns.cpp" "${PROJECT_SOURCE_DIR}/tools/pages.cpp"
    "${PROJECT_SOURCE_DIR}/tools/signals.cpp" "${PROJECT_SOURCE_DIR}/tools/team.cpp" "${PROJECT_SOURCE_DIR}/tools/text.cpp"
    "${PROJECT_SOURCE_DIR}/tools/sparkline.cpp" "${PROJECT_SOURCE_DIR}/tools/rate_plot.cpp"
    "${CREMA_GENERATED_DIR}/pages.cpp")
  # Found in the place of NVIDIA's driver, it betrays every CUDA call.
  add_library(fake_cuda_driver SHARED "${PROJECT_SOURCE_DIR}/tests/options/fake_cuda_driver/fake_cuda_driver.cpp")
  set_target_properties(fake_cuda_driver PROPERTIES
    OUTPUT_NAME cuda SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fake_cuda_driver")
  target_compile_definitions(test_options PRIVATE
    CREMA_FAKE_CUDA_DRIVER="$<TARGET_FILE_DIR:fake_cuda_driver>")
  add_dependencies(test_options fake_cuda_driver)
endif()

file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/golden/*.cpp")
if(sources)
  crema_test_program(golden_runner ${sources})
  target_compile_options(golden_runner PRIVATE "$<$<NOT:$<CONFIG:Debug>>:-O1>")
  # golden.<kind>.<variant>: the cases of a kind have to pass, but for those that an engine for special
  # problems has to refuse.
  function(crema_golden_test variant)
    foreach(kind IN ITEMS layers ssd torch solvers)
      set(name golden.${kind}.${variant})
      add_test(NAME ${name}
        COMMAND golden_runner --strict ${ARGN} "${PROJECT_SOURCE_DIR}/tests/golden/${kind}")
      set_tests_properties(${name} PROPERTIES
        LABELS golden TIMEOUT 600 SKIP_REGULAR_EXPRESSION "the processor lacks AVX2")
    endforeach()
  endfunction()
  # The engine that is fastest for each problem, as users run them, on any number of threads, and each
  # engine by itself.
  foreach(threads IN ITEMS 1 2 5)
    crema_golden_test(threads_${threads} --threads=${threads})
  endforeach()
  crema_golden_test(reference --engine=reference)
  crema_golden_test(tuned --engine=tuned)
  if(CREMA_HAS_ONEDNN)
    crema_golden_test(onednn --engine=onednn)
  endif()
  crema_golden_test(im2col --engine=im2col)
  crema_golden_test(native --engine=native)
  set(other_kernels convolution_3,convolution_3d,convolution_dw,net_inplace)
  string(APPEND other_kernels ,deconvolution_3,deconvolution_bilinear)
  crema_golden_test(direct --engine=direct --refuses=${other_kernels})
  string(APPEND other_kernels ,convolution_1,convolution_2,convolution_4,convolution_5,convolution_axis)
  string(APPEND other_kernels ,deconvolution_1,deconvolution_2,deconvolution_4,deconvolution_5)
  string(APPEND other_kernels ,net_ssd_test_0,net_ssd_train_0)
  crema_golden_test(winograd --engine=winograd --refuses=${other_kernels})
endif()

# What tests/parallel starts by mpirun.
crema_test_program(parallel_runner "${PROJECT_SOURCE_DIR}/tests/parallel/runner/parallel_runner.cpp")
target_compile_definitions(test_parallel PRIVATE CREMA_PARALLEL_RUNNER="$<TARGET_FILE:parallel_runner>")

# Runs cases of ONNX's operators; scripts/onnx_backend_tests.py calls it.
crema_test_program(onnx_runner "${PROJECT_SOURCE_DIR}/tests/onnx/runner/onnx_runner.cpp")

# tests/bench/NAME.cpp -> tests/NAME. Those without a main of their own take Google Benchmark's.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/bench/*.cpp")
find_package(benchmark QUIET)
if(benchmark_FOUND)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    crema_test_program(${name} ${source})
    target_link_libraries(${name} PRIVATE benchmark::benchmark_main)
  endforeach()
endif()

# What scripts/check_passes looks at: a shared library does not tell objects apart.
if(CREMA_HAS_CUDA)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/crema_objects.txt" CONTENT
    "$<JOIN:$<FILTER:$<TARGET_OBJECTS:crema>,EXCLUDE,[.]gch$>;$<TARGET_OBJECTS:crema_kernels>;$<TARGET_OBJECTS:crema_nets>;$<TARGET_OBJECTS:crema_wrappers>,\n>\n")
endif()

# Shell tests, for what is not C++: tests/<area>/NAME_test.sh SOURCE_DIR SHARED_DIR; exit code 77 skips.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/*/*_test.sh")
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  cmake_path(GET source PARENT_PATH area)
  cmake_path(GET area FILENAME area)
  add_test(NAME ${area}.${name} COMMAND bash "${source}" "${PROJECT_SOURCE_DIR}" "${CREMA_SHARED_DIR}")
  set_tests_properties(${area}.${name} PROPERTIES
    LABELS "${area}" SKIP_RETURN_CODE 77 TIMEOUT 300
    ENVIRONMENT "CREMA_BUILD_DIR=${PROJECT_BINARY_DIR}")
  if("${area}.${name}" MATCHES "^tools[.](embedding|generate|plugin)")
    set_tests_properties(${area}.${name} PROPERTIES FIXTURES_REQUIRED crema_installed)
  endif()
endforeach()
# What they build programs and plug-ins against. cmake --install writes to the build folder, too: it runs once for all.
add_test(NAME tools.install COMMAND bash "${PROJECT_SOURCE_DIR}/tests/tools/install.sh")
set_tests_properties(tools.install PROPERTIES
  LABELS tools TIMEOUT 300 ENVIRONMENT "CREMA_BUILD_DIR=${PROJECT_BINARY_DIR}" FIXTURES_SETUP crema_installed)

# The large nets of models_time_test.
set_tests_properties(tools.models_time_test PROPERTIES TIMEOUT 600)
add_test(NAME tools.models_time_slow
  COMMAND bash "${PROJECT_SOURCE_DIR}/tests/tools/models_time_test.sh" "${PROJECT_SOURCE_DIR}" "${CREMA_SHARED_DIR}" slow)
set_tests_properties(tools.models_time_slow PROPERTIES
  LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 1200 ENVIRONMENT "CREMA_BUILD_DIR=${PROJECT_BINARY_DIR}")

# Whether what was tuned on a busy machine is as fast as what was tuned at rest. It needs a machine at rest.
add_test(NAME tools.check_tuning COMMAND "${PROJECT_SOURCE_DIR}/scripts/check_tuning" "--crema=$<TARGET_FILE:crema_tool>")
set_tests_properties(tools.check_tuning PROPERTIES LABELS slow TIMEOUT 600 RUN_SERIAL TRUE)

# recipe.NAME: the first iterations of models/NAME/recipe.sh.
file(GLOB recipes CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/models/*/recipe.sh")
foreach(recipe IN LISTS recipes)
  cmake_path(GET recipe PARENT_PATH folder)
  cmake_path(GET folder FILENAME name)
  add_test(NAME recipe.${name}
    COMMAND bash "${PROJECT_SOURCE_DIR}/tests/support/check_recipe.sh"
      "${PROJECT_SOURCE_DIR}" "${CREMA_SHARED_DIR}" ${name})
  set_tests_properties(recipe.${name} PROPERTIES
    LABELS recipe SKIP_RETURN_CODE 77 TIMEOUT 300
    ENVIRONMENT "CREMA_BUILD_DIR=${PROJECT_BINARY_DIR}")
endforeach()

# tests/python, where the packages are built and Python has pytest and numpy; else it is skipped, and says so.
if(TARGET crema_python)
  set(suite "${Python_EXECUTABLE}" "${PROJECT_BINARY_DIR}/python" "${PROJECT_SOURCE_DIR}/tests/python")
else()
  set(suite "")
endif()
add_test(NAME python.suite COMMAND bash "${PROJECT_SOURCE_DIR}/tests/python/suite.sh" ${suite})
set_tests_properties(python.suite PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)

# Trainings that tests start leave no folders of runs in the repository. Programs whose cases are found when they run say so
# themselves (tests/tools/cli.hpp).
get_property(all_tests DIRECTORY PROPERTY TESTS)
set_property(TEST ${all_tests} APPEND PROPERTY ENVIRONMENT CREMA_RUN_DIR=none)
