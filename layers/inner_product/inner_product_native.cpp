#include "layers/inner_product/inner_product_native.hpp"

#include <algorithm>
#include <utility>

#include "core/simd.hpp"
#include "crema/registry.hpp"
#include "layers/inner_product/inner_product.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

// Where it is faster than the GEMM of libraries, by measurement (README.md): one row is a GEMV;
// many rows, or weights that a cache holds, make up for what packing costs. Threads share the rows
// of the stored weights, or for one of the products blocks of 32 columns, so both sides have to be
// long. How many threads there are does not count: two were measured, and with kMinSide columns
// more than 8 find nothing to do in that product.
constexpr int64_t kMinRows = 2, kMaxRows = 64;
constexpr int64_t kMinWeights = 1'000'000;
constexpr int64_t kMinSide = 256;

InnerProductLayer& of(Layer& layer) { return static_cast<InnerProductLayer&>(layer); }

bool pays(const InnerProductLayer& layer) {
  const int64_t rows = layer.rows(), inputs = layer.inputs(), outputs = layer.outputs();
  return simd_level() >= SimdLevel::avx2 && rows >= kMinRows && rows <= kMaxRows &&
         inputs * outputs >= kMinWeights && std::min(inputs, outputs) >= kMinSide;
}

}  // namespace

std::vector<Option> InnerProductNative::options(Layer& layer, Blobs bottom, Blobs top,
                                                std::string& why) {
  if (layer.dtype() != DType::f32) {
    why = concat("it computes in f32, not in ", to_string(layer.dtype()));
    return {};
  }
  // If the engine is selected by name, it runs every shape.
  const std::string& asked =
      layer.param().engine().empty() ? layer.context().engine() : layer.param().engine();
  if (asked == "native" || pays(of(layer))) return {uniform_option(bottom, top, layer.dtype())};
  why = "a library's matrix product is faster for this shape";
  return {};
}

void InnerProductNative::prepare(Layer& layer, const Option&, Blobs, Blobs top) {
  InnerProductLayer& inner = of(layer);
  masked_bytes_ = inner.prepare_cpu(top);
  const auto [rows, columns] = inner.transposed() ? std::pair(inner.inputs(), inner.outputs())
                                                  : std::pair(inner.outputs(), inner.inputs());
  product_ = ThinProduct(inner.rows(), rows, columns, layer.context().threads());
}

void InnerProductNative::resume(Layer& layer, Blobs, Blobs top) { of(layer).prepare_cpu(top); }

void InnerProductNative::forward(Layer& layer, Blobs bottom, Blobs top) {
  InnerProductLayer& inner = of(layer);
  const float* x = bottom[0]->data.host<float>();
  const float* w = inner.params()[0]->data.host<float>();
  float* y = top[0]->data.host_overwrite<float>();
  if (inner.transposed()) {
    product_.times(x, w, y);
  } else {
    product_.times_transposed(x, w, y);
  }
  inner.finish_forward<float>(y);
}

void InnerProductNative::backward(Layer& layer, Blobs top, const std::vector<bool>& propagate,
                                  Blobs bottom) {
  InnerProductLayer& inner = of(layer);
  const float* dy = inner.enter_backward<float>(top);
  Parameter& weight = *inner.params()[0];
  if (weight.needs_gradient) {
    const float* x = bottom[0]->data.host<float>();
    const auto beta = static_cast<float>(weight.begin_gradient());
    float* dw = weight.diff.host_mut<float>();
    if (inner.transposed()) {
      product_.outer(x, dy, beta, dw);
    } else {
      product_.outer(dy, x, beta, dw);
    }
  }
  if (!propagate[0]) return;
  const float* w = weight.data.host<float>();
  float* dx = bottom[0]->diff.host_overwrite<float>();
  if (inner.transposed()) {
    product_.times_transposed(dy, w, dx);
  } else {
    product_.times(dy, w, dx);
  }
}

void register_inner_product_native(Registry& registry);

void register_inner_product_native(Registry& registry) {
  registry.add_engine<InnerProductNative>("InnerProduct", "native", DeviceType::cpu);
}

}  // namespace crema
