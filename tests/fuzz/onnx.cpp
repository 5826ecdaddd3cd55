// A model of ONNX: parsed, imported, and built as a net that runs once.
#include "crema/net.hpp"
#include "fuzz/target.hpp"
#include "onnx/importing/import.hpp"
#include "onnx/model_file.hpp"

using namespace crema;

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  onnx::ModelProto model;
  const bool parsed =
      fuzz::attempt([&] { model = onnx::parse_model(fuzz::text_of(bytes, count), "net.onnx"); });
  if (!parsed) return 0;
  onnx::ImportedNet imported;
  bool is_net = false;
  fuzz::attempt_in_little_memory([&] {
    imported = onnx::import_model(model);
    is_net = true;
  });
  if (!is_net) return 0;
  fuzz::attempt_in_little_memory([&] {
    Net net(imported.net, fuzz::quiet_context(), {.phase = Phase::test});
    net.forward();
  });
  return 0;
}
