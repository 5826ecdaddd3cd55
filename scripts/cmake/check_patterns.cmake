# cmake -DPROGRAM=FILE -DPATTERNS=A:B:... -P this
# Fails unless each pattern of GoogleTest fits a case of the test program.
string(REPLACE ":" ";" patterns "${PATTERNS}")
foreach(pattern IN LISTS patterns)
  if(pattern STREQUAL "")
    continue()
  endif()
  execute_process(COMMAND "${PROGRAM}" --gtest_list_tests "--gtest_filter=${pattern}"
    OUTPUT_VARIABLE cases COMMAND_ERROR_IS_FATAL ANY)
  # Cases are indented, below the name of their suite.
  if(NOT cases MATCHES "\n  [^ ]")
    message(SEND_ERROR "No case of ${PROGRAM} fits '${pattern}', which scripts/cmake/tests.cmake lists")
  endif()
endforeach()
