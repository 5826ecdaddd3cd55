#include "layer_support/boxes.hpp"

#include <cmath>

#include "crema/error.hpp"
#include "proto/detection.pb.h"

namespace crema {

int64_t prior_count(const Blob& priors, int64_t images) {
  const Shape& shape = priors.shape();
  const bool fits =
      shape.rank() >= 3 && (shape[0] == 1 || (images > 0 && shape[0] == images)) && shape[1] == 2;
  if (!fits || shape.count(2) % 4 != 0)
    throw Error("'", priors.name,
                "' must be prior boxes 1 x 2 x 4 P, as PriorBox writes them, not ", shape.str());
  return shape.count(2) / 4;
}

template <class T>
void check_priors(const BoxCoder& coder, std::string_view name, const T* boxes, const T* variances,
                  int64_t count) {
  const bool divides = coder.code != BoxCode::corner;
  for (int64_t p = 0; p < count; ++p, boxes += 4, variances += 4) {
    const auto box = BoundingBox<T>::load(boxes);
    for (int k = 0; k < 4; ++k) {
      if (!std::isfinite(boxes[k]))
        throw Error("prior box ", p, " of '", name, "' has the coordinate ", boxes[k]);
      if (!coder.in_target && !(std::isfinite(variances[k]) && variances[k] != T{0}))
        throw Error("prior box ", p, " of '", name, "' has the variance ", variances[k],
                    "; offsets of boxes are divided by it");
    }
    if (divides && !(box.xmax > box.xmin && box.ymax > box.ymin))
      throw Error("prior box ", p, " of '", name, "' is (", box.xmin, ", ", box.ymin, ", ",
                  box.xmax, ", ", box.ymax,
                  "): its sides have to be above 0 for this code_type; CORNER takes any box");
  }
}

template void check_priors(const BoxCoder&, std::string_view, const float*, const float*, int64_t);
template void check_priors(const BoxCoder&, std::string_view, const double*, const double*,
                           int64_t);

Suppression suppression_of(const NonMaximumSuppressionParameter& settings) {
  if (!(settings.nms_threshold() >= 0 && settings.nms_threshold() <= 1))
    throw Error("nms_threshold ", settings.nms_threshold(),
                " is not in [0, 1]; it is the overlap (intersection over union) above which boxes "
                "are dropped, and 1 drops none");
  if (!(settings.eta() > 0 && settings.eta() <= 1))
    throw Error("eta ", settings.eta(), " of nms_param is not in (0, 1]; 1 keeps the threshold");
  if (settings.has_top_k() && (settings.top_k() == 0 || settings.top_k() < -1))
    throw Error("top_k ", settings.top_k(),
                " of nms_param considers no box; give a number above 0, or -1 for all");
  return {.threshold = static_cast<double>(settings.nms_threshold()),
          .eta = static_cast<double>(settings.eta()),
          .top_k = settings.has_top_k() ? settings.top_k() : -1};
}

}  // namespace crema
