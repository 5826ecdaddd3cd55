#include "data/images/geometry.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace crema {

void Geometry::then(const Affine& next) {
  const Affine m = map_;
  map_ = {.xx = next.xx * m.xx + next.xy * m.yx,
          .xy = next.xx * m.xy + next.xy * m.yy,
          .x1 = next.xx * m.x1 + next.xy * m.y1 + next.x1,
          .yx = next.yx * m.xx + next.yy * m.yx,
          .yy = next.yx * m.xy + next.yy * m.yy,
          .y1 = next.yx * m.x1 + next.yy * m.y1 + next.y1};
}

void Geometry::resize(ImageSize size) {
  then({.xx = static_cast<double>(size.width) / static_cast<double>(sample_.width),
        .yy = static_cast<double>(size.height) / static_cast<double>(sample_.height)});
  sample_ = size;
}

void Geometry::cut(const ImageWindow& window) {
  then({.x1 = static_cast<double>(-window.left), .y1 = static_cast<double>(-window.top)});
  sample_ = {window.height, window.width};
}

void Geometry::rotate(double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const double c = std::cos(angle), s = std::sin(angle);
  const double x = static_cast<double>(sample_.width) / 2;
  const double y = static_cast<double>(sample_.height) / 2;
  then({.xx = c, .xy = s, .x1 = x - c * x - s * y, .yx = -s, .yy = c, .y1 = y + s * x - c * y});
}

void Geometry::mirror() { then({.xx = -1, .x1 = static_cast<double>(sample_.width)}); }

void Geometry::then(const Geometry& next) {
  then(next.map_);
  sample_ = next.sample_;
}

Point Geometry::apply(Point point) const {
  return {map_.xx * point.x + map_.xy * point.y + map_.x1,
          map_.yx * point.x + map_.yy * point.y + map_.y1};
}

Box Geometry::apply(const Box& box) const {
  const Point corners[] = {apply(Point{box.left, box.top}), apply(Point{box.right, box.top}),
                           apply(Point{box.left, box.bottom}), apply(Point{box.right, box.bottom})};
  Box around{corners[0].x, corners[0].y, corners[0].x, corners[0].y};
  for (const Point& corner : corners) {
    around.left = std::min(around.left, corner.x);
    around.right = std::max(around.right, corner.x);
    around.top = std::min(around.top, corner.y);
    around.bottom = std::max(around.bottom, corner.y);
  }
  return around;
}

template <class Label>
void Geometry::apply(const Label* labels, Label outside, Label* out) const {
  const Affine& m = map_;
  if (m.xy == 0 && m.yx == 0) {
    const auto sources = [](int64_t count, double factor, double offset, int64_t last) {
      std::vector<int64_t> from(static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) {
        const double at = std::floor((static_cast<double>(i) + 0.5 - offset) / factor);
        const bool inside = at >= 0 && at < static_cast<double>(last);
        from[static_cast<size_t>(i)] = inside ? static_cast<int64_t>(at) : -1;
      }
      return from;
    };
    const auto rows = sources(sample_.height, m.yy, m.y1, record_.height);
    const auto columns = sources(sample_.width, m.xx, m.x1, record_.width);
    for (const int64_t row : rows) {
      if (row < 0) {
        out = std::fill_n(out, columns.size(), outside);
        continue;
      }
      const Label* const from = labels + row * record_.width;
      for (const int64_t column : columns) *out++ = column < 0 ? outside : from[column];
    }
    return;
  }
  const double determinant = m.xx * m.yy - m.xy * m.yx;
  for (int64_t row = 0; row < sample_.height; ++row) {
    for (int64_t column = 0; column < sample_.width; ++column, ++out) {
      const double x = static_cast<double>(column) + 0.5 - m.x1;
      const double y = static_cast<double>(row) + 0.5 - m.y1;
      const auto from_column =
          static_cast<int64_t>(std::floor((m.yy * x - m.xy * y) / determinant));
      const auto from_row = static_cast<int64_t>(std::floor((m.xx * y - m.yx * x) / determinant));
      const bool inside = from_row >= 0 && from_row < record_.height && from_column >= 0 &&
                          from_column < record_.width;
      *out = inside ? labels[from_row * record_.width + from_column] : outside;
    }
  }
}

template void Geometry::apply(const uint8_t*, uint8_t, uint8_t*) const;
template void Geometry::apply(const int32_t*, int32_t, int32_t*) const;

std::optional<Box> clipped(const Box& box, ImageSize sample) {
  const auto width = static_cast<double>(sample.width), height = static_cast<double>(sample.height);
  const Box part{std::max(box.left, 0.0), std::max(box.top, 0.0), std::min(box.right, width),
                 std::min(box.bottom, height)};
  if (!(part.left < part.right && part.top < part.bottom)) return std::nullopt;
  return part;
}

bool stays(const Box& box, ImageSize sample, std::optional<double> least_share) {
  if (least_share) {
    const auto part = clipped(box, sample);
    return part && part->area() >= *least_share * box.area();
  }
  const double x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
  return x >= 0 && y >= 0 && x <= static_cast<double>(sample.width) &&
         y <= static_cast<double>(sample.height);
}

}  // namespace crema
