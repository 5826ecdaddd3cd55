// Bounding boxes of detection layers: size, overlap, clipping, and how boxes are encoded against
// prior boxes. Functions of one box or of two, for f32 and f64, on host and device.
//
// Coordinates are relative to the image, 0 to 1, or pixels (BoxUnits). A box with xmax < xmin or
// ymax < ymin has the size 0.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/functor.hpp"
#include "crema/layer.hpp"

namespace crema {

class NonMaximumSuppressionParameter;

/// Edges of a box. Four values in memory, as blobs have them.
template <class T>
struct BoundingBox {
  T xmin = 0, ymin = 0, xmax = 0, ymax = 0;

  CREMA_FUNCTOR static BoundingBox load(const T* from) {
    return {from[0], from[1], from[2], from[3]};
  }
  CREMA_FUNCTOR void store(T* to) const {
    to[0] = xmin;
    to[1] = ymin;
    to[2] = xmax;
    to[3] = ymax;
  }
  bool operator==(const BoundingBox&) const = default;
};

/// In pixels a box covers its last row and column: its width is xmax - xmin + 1.
enum class BoxUnits : uint8_t { relative, pixels };

/// What the last pixel adds to a side.
template <class T>
CREMA_FUNCTOR T last_pixel(BoxUnits units) {
  return units == BoxUnits::pixels ? T{1} : T{0};
}

namespace boxes_detail {

template <class T>
CREMA_FUNCTOR T lower(T a, T b) {
  return b < a ? b : a;
}
template <class T>
CREMA_FUNCTOR T upper(T a, T b) {
  return a < b ? b : a;
}
template <class T>
CREMA_FUNCTOR T between(T value, T low, T high) {
  return value < low ? low : high < value ? high : value;
}

}  // namespace boxes_detail

/// Width times height.
template <class T>
CREMA_FUNCTOR T area(const BoundingBox<T>& box, BoxUnits units = BoxUnits::relative) {
  const T more = last_pixel<T>(units);
  const T size = (box.xmax - box.xmin + more) * (box.ymax - box.ymin + more);
  return box.xmax < box.xmin || box.ymax < box.ymin ? T{0} : size;
}

/// Area of the part that both boxes cover; 0 for disjoint ones, also in pixels.
template <class T>
CREMA_FUNCTOR T shared_area(const BoundingBox<T>& a, const BoundingBox<T>& b,
                            BoxUnits units = BoxUnits::relative) {
  using namespace boxes_detail;
  const T more = last_pixel<T>(units);
  const T width = lower(a.xmax, b.xmax) - upper(a.xmin, b.xmin) + more;
  const T height = lower(a.ymax, b.ymax) - upper(a.ymin, b.ymin) + more;
  return width > T{0} && height > T{0} ? width * height : T{0};
}

/// Intersection over union, in [0, 1]; 0 for disjoint boxes. The areas are those of a and b, for
/// loops that compare one box with many.
template <class T>
CREMA_FUNCTOR T overlap(const BoundingBox<T>& a, T area_a, const BoundingBox<T>& b, T area_b,
                        BoxUnits units = BoxUnits::relative) {
  const T both = shared_area(a, b, units);
  const T all = area_a + area_b - both;
  return both > T{0} && all > T{0} ? both / all : T{0};
}
template <class T>
CREMA_FUNCTOR T overlap(const BoundingBox<T>& a, const BoundingBox<T>& b,
                        BoxUnits units = BoxUnits::relative) {
  return overlap(a, area(a, units), b, area(b, units), units);
}

/// The share of `box` that `other` covers, in [0, 1]; 0 for a box of size 0.
template <class T>
CREMA_FUNCTOR T coverage(const BoundingBox<T>& box, const BoundingBox<T>& other,
                         BoxUnits units = BoxUnits::relative) {
  const T both = shared_area(box, other, units), all = area(box, units);
  return both > T{0} && all > T{0} ? both / all : T{0};
}

/// The edges, cut to [0, width] and [0, height].
template <class T>
CREMA_FUNCTOR BoundingBox<T> clipped(const BoundingBox<T>& box, T width = 1, T height = 1) {
  using boxes_detail::between;
  return {between(box.xmin, T{0}, width), between(box.ymin, T{0}, height),
          between(box.xmax, T{0}, width), between(box.ymax, T{0}, height)};
}

/// Whether any edge lies outside of the image; coordinates are relative.
template <class T>
CREMA_FUNCTOR bool crosses_border(const BoundingBox<T>& box) {
  return box.xmin < T{0} || box.ymin < T{0} || box.xmax > T{1} || box.ymax > T{1};
}

/// What the four values of an encoded box are. The numbers are those of
/// PriorBoxParameter.CodeType. With a prior box p of width w, height h and centre (x, y), and the
/// centre (X, Y), width W and height H of a box b:
enum class BoxCode : uint8_t {
  corner = 1,       // b.xmin - p.xmin, b.ymin - p.ymin, b.xmax - p.xmax, b.ymax - p.ymax
  center_size = 2,  // (X - x) / w, (Y - y) / h, log(W / w), log(H / h)
  corner_size = 3,  // as corner; over w, h, w, h
};

/// Encodes boxes against prior boxes, and decodes them. Each of the four values is divided by its
/// variance, unless `in_target`: the net then learns them with the variance in them.
///
/// Boxes to encode and priors must have sides above 0 for the codes that divide by them or take
/// logarithms; variances must not be 0. check_priors() sees to the priors.
struct BoxCoder {
  BoxCode code = BoxCode::corner;
  bool in_target = false;

  /// `variance`: four values, of xmin, ymin, xmax and ymax of the code. Returns the four values.
  template <class T>
  CREMA_FUNCTOR BoundingBox<T> encode(const BoundingBox<T>& prior, const T* variance,
                                      const BoundingBox<T>& box) const {
    BoundingBox<T> values{box.xmin - prior.xmin, box.ymin - prior.ymin, box.xmax - prior.xmax,
                          box.ymax - prior.ymax};
    const T width = prior.xmax - prior.xmin, height = prior.ymax - prior.ymin;
    if (code == BoxCode::corner_size) {
      values = {values.xmin / width, values.ymin / height, values.xmax / width,
                values.ymax / height};
    } else if (code == BoxCode::center_size) {
      values = {(values.xmin + values.xmax) / 2 / width, (values.ymin + values.ymax) / 2 / height,
                log((box.xmax - box.xmin) / width), log((box.ymax - box.ymin) / height)};
    }
    if (in_target) return values;
    return {values.xmin / variance[0], values.ymin / variance[1], values.xmax / variance[2],
            values.ymax / variance[3]};
  }

  /// The box that has these values. It may reach out of the image.
  template <class T>
  CREMA_FUNCTOR BoundingBox<T> decode(const BoundingBox<T>& prior, const T* variance,
                                      const BoundingBox<T>& values) const {
    BoundingBox<T> v = values;
    if (!in_target) {
      v = {v.xmin * variance[0], v.ymin * variance[1], v.xmax * variance[2], v.ymax * variance[3]};
    }
    const T width = prior.xmax - prior.xmin, height = prior.ymax - prior.ymin;
    if (code == BoxCode::corner_size) {
      v = {v.xmin * width, v.ymin * height, v.xmax * width, v.ymax * height};
    } else if (code == BoxCode::center_size) {
      const T x = v.xmin * width + (prior.xmin + prior.xmax) / 2;
      const T y = v.ymin * height + (prior.ymin + prior.ymax) / 2;
      const T half_width = exp(v.xmax) * width / 2, half_height = exp(v.ymax) * height / 2;
      return {x - half_width, y - half_height, x + half_width, y + half_height};
    }
    return {prior.xmin + v.xmin, prior.ymin + v.ymin, prior.xmax + v.xmax, prior.ymax + v.ymax};
  }
};

/// The number of prior boxes P of a blob (1, 2, 4 P): the boxes, then their variances, four values
/// each. `images`: a blob (images, 2, 4 P), with priors of their own for each image, is accepted
/// too; 0 where it is not. Error if the shape is another one.
int64_t prior_count(const Blob& priors, int64_t images = 0);

/// Error with the number of the prior unless all are finite, with sides above 0 where `coder`
/// needs them, and, unless the variances are in the target, with variances other than 0. `boxes`
/// and `variances`: 4 `count` values each.
template <class T>
void check_priors(const BoxCoder& coder, std::string_view name, const T* boxes, const T* variances,
                  int64_t count);

/// How suppress() chooses.
struct Suppression {
  double threshold = 0.3;  // boxes that overlap a kept one by more than this are dropped
  double eta = 1;          // after each kept box the threshold is multiplied by it, while above 0.5
  int64_t top_k = -1;      // boxes considered, best first; -1 for all
};
/// The settings of the message. Without top_k, or with -1, all boxes are considered. Error if the
/// threshold is negative or NaN, eta not in (0, 1], or top_k 0 or below -1.
Suppression suppression_of(const NonMaximumSuppressionParameter& settings);

}  // namespace crema
