# cmake -DOUTPUT=FILE -DVERSION=... -DKIND=static|shared -DFILES=LIST_FILE -DROOT=DIR -P this
# Writes crema/plugin_abi.hpp: what has to be the same in a program and in its plug-ins. Versions are the
# same between releases, so the text of all that plug-ins are compiled with counts, too.
file(STRINGS "${FILES}" files)
set(text "")
foreach(file IN LISTS files)
  file(SHA256 "${ROOT}/${file}" hash)
  string(APPEND text "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
string(SUBSTRING "${hash}" 0 12 hash)
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT
"// Written by scripts/cmake/write_plugin_abi.cmake.
#pragma once

#define CREMA_PLUGIN_ABI \"${VERSION} (${KIND}, ${hash})\"
" @ONLY)
