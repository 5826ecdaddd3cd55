# crema_plugin_host(TARGET): the program loads plug-ins (crema/plugin.hpp).
#
# Plug-ins are linked against no libcrema.a of their own: there has to be one registry, and each message
# once. So the program holds all of the library, not only the members that it uses, and exports it.
# Nothing need be done for a libcrema.so, which plug-ins name themselves.
function(crema_plugin_host target)
  if(CMAKE_VERSION VERSION_LESS 3.25)
    message(FATAL_ERROR "crema_plugin_host needs CMake 3.25, and this is ${CMAKE_VERSION}")
  endif()
  foreach(library IN ITEMS crema Crema::crema)
    if(TARGET ${library})
      get_target_property(type ${library} TYPE)
      if(NOT type STREQUAL "SHARED_LIBRARY")
        set_property(TARGET ${target} PROPERTY LINK_LIBRARY_OVERRIDE_${library} WHOLE_ARCHIVE)
        set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON)
      endif()
    endif()
  endforeach()
endfunction()
