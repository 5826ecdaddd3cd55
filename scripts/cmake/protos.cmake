# proto/*.proto and the message files of the rooms, compiled into the object library crema_proto.
# proto/net.proto becomes "proto/net.pb.h", layers/relu/relu.proto "layers/relu/relu.pb.h".

file(GLOB crema_protos CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
  "${PROJECT_SOURCE_DIR}/proto/*.proto" "${PROJECT_SOURCE_DIR}/proto/onnx/*.proto"
  "${PROJECT_SOURCE_DIR}/proto/tensorboard/*.proto"
  "${PROJECT_SOURCE_DIR}/layers/*/*.proto")

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

if(crema_proto_outputs)
  add_library(crema_proto OBJECT ${crema_proto_outputs})
  crema_base_flags(crema_proto)
  # The code has little to do: the bytes of records and weights are copied by the runtime. Nobody steps
  # through it in a debugger either.
  target_compile_options(crema_proto PRIVATE -w -O1 -g0)
  # A compiler spends most of a message file on the headers of protobuf's runtime.
  target_precompile_headers(crema_proto PRIVATE
    <google/protobuf/descriptor.h>
    <google/protobuf/extension_set.h>
    <google/protobuf/generated_enum_reflection.h>
    <google/protobuf/generated_message_reflection.h>
    <google/protobuf/reflection_ops.h>
    <google/protobuf/wire_format.h>)
  target_include_directories(crema_proto PRIVATE "${CREMA_GENERATED_DIR}")
  target_link_libraries(crema_proto PRIVATE protobuf::libprotobuf)
endif()
