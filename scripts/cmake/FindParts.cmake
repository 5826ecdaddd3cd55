# What the Find modules beside this file have in common. Not a module of its own.

# Sets NAME_VERSION to what headers define in lines such as "#define HWY_MAJOR 1", the parts in order.
function(crema_version_of_headers name prefix parts)
  list(JOIN parts "|" any)
  set(lines "")
  foreach(header IN LISTS ARGN)
    file(STRINGS "${header}" found REGEX "#define ${prefix}(${any})[ \t]+[0-9]+")
    list(APPEND lines ${found})
  endforeach()
  set(version "")
  foreach(part IN LISTS parts)
    if("${lines}" MATCHES "${prefix}${part}[ \t]+([0-9]+)")
      list(APPEND version ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(JOIN version "." version)
  set(${name}_VERSION "${version}" PARENT_SCOPE)
endfunction()

# The target NAME::NAME of NAME_INCLUDE_DIR and NAME_LIBRARY, which were found.
function(crema_import_library name)
  if(NOT ${name}_FOUND OR TARGET ${name}::${name})
    return()
  endif()
  add_library(${name}::${name} UNKNOWN IMPORTED)
  set_target_properties(${name}::${name} PROPERTIES
    IMPORTED_LOCATION "${${name}_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${${name}_INCLUDE_DIR}")
endfunction()
