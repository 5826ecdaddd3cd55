// A model of ONNX: parsed, imported, and built as a net that runs once.
#include <vector>

#include "backend/cpu/blas.hpp"
#include "crema/net.hpp"
#include "fuzz/target.hpp"
#include "onnx/importing/import.hpp"
#include "onnx/model_file.hpp"

using namespace crema;

namespace {

// OpenBLAS takes its memory at its first product, and tries without end where it gets none.
bool take_memory_of_products() {
  constexpr int64_t kSide = 64;
  const std::vector<float> factor(kSide * kSide, 1.0F);
  std::vector<float> product(factor.size());
  gemm(false, false, kSide, kSide, kSide, 1.0F, factor.data(), factor.data(), 0.0F, product.data());
  return product.front() == static_cast<float>(kSide);
}

// Whether a pass over the net takes milliseconds. A longer one is no finding.
bool is_short(Net& net) {
  constexpr int64_t kMostElements = 1 << 16;
  int64_t elements = 0;
  for (const std::string& name : net.blob_names()) elements += net.blob(name).shape().count();
  return elements <= kMostElements;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static const bool is_ready = take_memory_of_products();
  if (!is_ready) fuzz::fail("a product is wrong");
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
    if (is_short(net)) net.forward();
  });
  return 0;
}
