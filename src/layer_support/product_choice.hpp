// Choosing how a device computes a product of a layer (backend/products.hpp): by which algorithm of
// its library, and what of the product's surroundings the library computes in the same pass.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/products.hpp"
#include "crema/layer.hpp"
#include "layer_support/tuning.hpp"

namespace crema {

/// One way to compute a pass: the product, and what the layer computes beside it.
struct ProductWay {
  std::string
      form;  // its name, one word, with the revision of what runs beside: "fused", "apart@1"
  DeviceProduct product;
  /// What runs beside, for measuring, on memory like that of the product. Null: nothing.
  std::function<void(const ProductOperands&)> beside = {};
};

/// The product of a pass, ready to run.
struct ChosenProduct {
  size_t way = 0;      // its index
  std::string name;    // of form and algorithm, the same in each process
  double seconds = 0;  // of a run with what is beside; 0: not measured
  std::unique_ptr<ProductPlan> plan;
};

/// Of the names of problems: all that times depend on beside the product.
std::string product_family(const Layer& layer, DType factors);

/// The fastest of the ways, as the tuner measures or knows them; without tuning the first one that
/// can run. None if none can; `why` then says why. All products have elements and a k.
std::optional<ChosenProduct> choose_product(const Layer& layer, const TunedProblem& problem,
                                            const std::vector<ProductWay>& ways, std::string& why);

/// That of an earlier name, for which nothing is measured: where shapes follow from values, that of
/// the largest ones. Where it cannot compute these, another one. Tells the tuner what was taken.
std::optional<ChosenProduct> choose_named_product(const Layer& layer, const TunedProblem& problem,
                                                  const std::vector<ProductWay>& ways,
                                                  const std::string& name, std::string& why);

/// What of a name is for a summary: "fused".
std::string form_of(const std::string& name);

}  // namespace crema
