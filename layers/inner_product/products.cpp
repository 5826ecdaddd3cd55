#include "layers/inner_product/products.hpp"

namespace crema {

DeviceProduct InnerProductProblem::product(InnerProductPass pass, ProductEnding ending) const {
  DeviceProduct p{.factors = dtype, .result = dtype, .ending = ending};
  switch (pass) {
    case InnerProductPass::forward:
      p.m = batch, p.n = outputs, p.k = inputs;
      p.transpose_b = !transposed;
      break;
    case InnerProductPass::data:
      p.m = batch, p.n = inputs, p.k = outputs;
      p.transpose_b = transposed;
      break;
    case InnerProductPass::weights:
      p.m = transposed ? inputs : outputs, p.n = transposed ? outputs : inputs, p.k = batch;
      p.transpose_a = true;
      p.result = DType::f32;
      break;
  }
  return p;
}

ProductEnding InnerProductProblem::ending(InnerProductPass pass) const {
  if (pass == InnerProductPass::weights) {
    // With a ReLU, the pass that undoes it reads dy as well, and adds it up.
    if (!bias_learns || relu) return ProductEnding::none;
    return transposed ? ProductEnding::sums_of_b : ProductEnding::sums_of_a;
  }
  if (pass == InnerProductPass::data) return ProductEnding::none;
  // The library has no slope. But it adds the bias before the sum is rounded: in 16 bits, the sign
  // that the ReLU looks at is that of the sum then.
  if (!relu || *relu != 0) return has_bias ? ProductEnding::bias : ProductEnding::none;
  return has_bias ? ProductEnding::bias_relu : ProductEnding::relu;
}

InnerProductProblem::Rest InnerProductProblem::rest(ProductEnding ending) const {
  const bool adds = ending == ProductEnding::bias || ending == ProductEnding::bias_relu;
  const bool cuts = ending == ProductEnding::relu || ending == ProductEnding::bias_relu;
  return {.bias = has_bias && !adds, .relu = cuts ? std::nullopt : relu};
}

std::vector<ProductWay> InnerProductProblem::ways(InnerProductPass pass,
                                                  DeviceBackend& backend) const {
  std::vector<ProductWay> ways;
  const ProductEnding all = ending(pass);
  if (pass == InnerProductPass::forward) {
    const auto add = [&](const char* form, ProductEnding with) {
      ProductWay way{form, product(pass, with)};
      if (const Rest left = rest(with); left.any()) {
        way.form += "@1";
        way.beside = [&backend, rows = result(), left](const ProductOperands& o) {
          device_finish_rows(backend, rows,
                             left.bias ? static_cast<const float*>(o.vector) : nullptr, left.relu,
                             o.c);
        };
      }
      ways.push_back(std::move(way));
    };
    if (all != ProductEnding::none) add(rest(all).any() ? "bias" : "fused", all);
    add("apart", ProductEnding::none);
    return ways;
  }
  ProductWay apart{"apart", product(pass)};
  if (all != ProductEnding::none) {
    ways.push_back({"fused", product(pass, all)});
    apart.form += "@1";
    const bool of_a = all == ProductEnding::sums_of_a;
    apart.beside = [&backend, rows = result(), of_a](const ProductOperands& o) {
      device_undo_and_sum_rows(backend, rows, of_a ? o.a : o.b, nullptr, std::nullopt, nullptr, 0,
                               static_cast<float*>(o.vector));
    };
  }
  ways.push_back(std::move(apart));
  return ways;
}

TunedProblem InnerProductProblem::tuned(InnerProductPass pass, const std::string& library) const {
  constexpr const char* kNames[] = {"forward", "data", "weights"};
  return {
      text("inner product ", library, " ", kNames[static_cast<size_t>(pass)], " ", to_string(dtype),
           " ", inputs, " to ", outputs, transposed ? " transposed" : "", has_bias ? ", bias" : "",
           bias_learns ? " that learns" : "", relu ? text(", relu ", *relu) : "", ", batch "),
      Shape{batch}};
}

}  // namespace crema
