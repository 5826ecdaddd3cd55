# proto/*.proto and the message files of the rooms, compiled into the object library crema_proto.
# proto/net.proto becomes "proto/net.pb.h", layers/relu/relu.proto "layers/relu/relu.pb.h".

file(GLOB crema_protos CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/proto/*.proto" "${PROJECT_SOURCE_DIR}/layers/*/*.proto")

set(crema_proto_outputs "")
foreach(proto IN LISTS crema_protos)
  string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
  set(output "${CREMA_GENERATED_DIR}/${stem}")
  get_filename_component(folder "${output}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(
    OUTPUT "${output}.pb.cc" "${output}.pb.h"
    COMMAND protobuf::protoc "-I${PROJECT_SOURCE_DIR}" "--cpp_out=${CREMA_GENERATED_DIR}"
      "--dependency_out=${output}.pb.d" "${PROJECT_SOURCE_DIR}/${proto}"
    DEPENDS "${PROJECT_SOURCE_DIR}/${proto}" protobuf::protoc
    DEPFILE "${output}.pb.d"
    COMMENT "Generating ${stem}.pb.h"
    VERBATIM)
  list(APPEND crema_proto_outputs "${output}.pb.cc" "${output}.pb.h")
endforeach()

# A compiler spends most of a message file on the headers of protobuf's runtime: files that include
# many of them each share that cost. Two names are the same in all of them, and have to differ here.
# Paths are relative, so that ccache serves other clones.
set(crema_message_batch 28)
set(crema_message_units "")
list(LENGTH crema_protos count)
set(first 0)
while(first LESS count)
  list(SUBLIST crema_protos ${first} ${crema_message_batch} batch)
  set(content "// Written by scripts/cmake/protos.cmake.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/extension_set.h>
#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/reflection_ops.h>
#include <google/protobuf/wire_format.h>
")
  foreach(proto IN LISTS batch)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    string(MAKE_C_IDENTIFIER "${stem}" suffix)
    string(APPEND content "
#define schemas schemas_${suffix}
#define file_default_instances file_default_instances_${suffix}
#include \"${stem}.pb.cc\"
#undef schemas
#undef file_default_instances
")
  endforeach()
  math(EXPR number "${first} / ${crema_message_batch}")
  set(unit "${CREMA_GENERATED_DIR}/messages_${number}.cpp")
  file(CONFIGURE OUTPUT "${unit}" CONTENT "${content}" @ONLY)
  list(APPEND crema_message_units "${unit}")
  math(EXPR first "${first} + ${crema_message_batch}")
endwhile()

if(crema_proto_outputs)
  # The generated files are sources of the target for their rules' sake alone.
  set_source_files_properties(${crema_proto_outputs} PROPERTIES HEADER_FILE_ONLY ON)
  add_library(crema_proto OBJECT ${crema_message_units} ${crema_proto_outputs})
  crema_base_flags(crema_proto)
  # The code has little to do: the bytes of records and weights are copied by the runtime. Nobody steps
  # through it in a debugger either.
  target_compile_options(crema_proto PRIVATE -w -O1 -g0)
  target_include_directories(crema_proto PRIVATE "${CREMA_GENERATED_DIR}")
  target_link_libraries(crema_proto PRIVATE protobuf::libprotobuf)
endif()
