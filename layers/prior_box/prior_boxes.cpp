#include "layers/prior_box/prior_boxes.hpp"

#include <algorithm>
#include <cmath>

#include "core/checked.hpp"
#include "core/dispatch.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

std::array<double, 4> variances(const PriorBoxParameter& settings) {
  std::array<double, 4> all{};
  const auto& given = settings.variance();
  if (given.size() != 0 && given.size() != 1 && given.size() != 4)
    throw Error(given.size(), " values of variance; give one, or four: of x, y, width and height");
  for (size_t k = 0; k < 4; ++k) {
    all[k] = given.empty()       ? 0.1
             : given.size() == 1 ? static_cast<double>(given[0])
                                 : static_cast<double>(given[static_cast<int>(k)]);
    if (!(all[k] > 0 && std::isfinite(all[k])))
      throw Error("variance ", all[k], " is not above 0; offsets of boxes are divided by it");
  }
  return all;
}

}  // namespace

PriorBoxLayer::PriorBoxLayer(const LayerInit& init, std::vector<Size> sizes)
    : TwoSidedLayer(init),
      sizes_(std::move(sizes)),
      variance_(variances(init.param.prior_box_param())),
      boxes_(Shape{0}, dtype()) {
  const PriorBoxParameter& settings = init.param.prior_box_param();
  if (settings.has_img_size() && (settings.has_img_h() || settings.has_img_w()))
    throw Error("img_size and img_h or img_w mean the same; give img_size, or one an axis");
  if (settings.has_img_h() != settings.has_img_w())
    throw Error("img_h and img_w are the size of the image; give both");
  if (settings.has_step() && (settings.has_step_h() || settings.has_step_w()))
    throw Error("step and step_h or step_w mean the same; give step, or one an axis");
  if (settings.has_step_h() != settings.has_step_w())
    throw Error("step_h and step_w are distances of positions; give both");
  const bool given = settings.has_step() || settings.has_step_h();
  const float step_h = settings.has_step() ? settings.step() : settings.step_h();
  const float step_w = settings.has_step() ? settings.step() : settings.step_w();
  if (given && !(step_h > 0 && step_w > 0))
    throw Error("a step of ", std::min(step_h, step_w), " pixels is not above 0");
}

PriorBoxLayer::Geometry PriorBoxLayer::geometry_of(Blobs bottom) const {
  const Shape &map = bottom[0]->shape(), &image = bottom[1]->shape();
  if (map.rank() != 4)
    throw Error("'", bottom[0]->name, "' must be a map N x C x H x W, not ", map.str());
  const PriorBoxParameter& settings = param().prior_box_param();
  Geometry geometry{map[2], map[3], 0, 0, 0, 0};
  const auto pixels = [&](bool own, uint32_t size, int axis) {
    if (own) return static_cast<double>(size);
    if (settings.has_img_size()) return static_cast<double>(settings.img_size());
    if (image.rank() != 4)
      throw Error("'", bottom[1]->name, "' must be the images N x C x H x W, not ", image.str(),
                  "; or set img_size");
    return static_cast<double>(image[axis]);
  };
  geometry.image_height = pixels(settings.has_img_h(), settings.img_h(), 2);
  geometry.image_width = pixels(settings.has_img_w(), settings.img_w(), 3);
  if (geometry.image_height < 1 || geometry.image_width < 1)
    throw Error("an image of ", geometry.image_height, " x ", geometry.image_width,
                " pixels has no boxes");
  const auto distance = [&](float own, double size, int64_t positions) {
    if (settings.has_step()) return static_cast<double>(settings.step());
    if (settings.has_step_h()) return static_cast<double>(own);
    return size / static_cast<double>(std::max<int64_t>(positions, 1));
  };
  geometry.step_h = distance(settings.step_h(), geometry.image_height, geometry.rows);
  geometry.step_w = distance(settings.step_w(), geometry.image_width, geometry.columns);
  return geometry;
}

void PriorBoxLayer::reshape(Blobs bottom, Blobs top) {
  const Geometry geometry = geometry_of(bottom);
  const int64_t boxes = checked_multiply(geometry.rows * geometry.columns,
                                         static_cast<int64_t>(sizes_.size()), "number of boxes");
  const Shape shape{1, 2, checked_multiply(boxes, 4, "number of coordinates")};
  top[0]->reshape(shape);
  if (boxes_.shape() == shape && geometry == geometry_) return;
  geometry_ = geometry;
  boxes_.reshape(shape);
  write_boxes();
}

std::vector<Option> PriorBoxLayer::reference_options(Blobs bottom, Blobs top) const {
  const Option plain = uniform_option(bottom, top, dtype());
  std::vector<Option> options;
  std::vector<DType> types = {activations()};
  if (dtype() != activations()) types.push_back(dtype());
  for (const DType type : types) {
    for (const Format format :
         {Format::contiguous, Format::channels_last, Format::blocked8, Format::blocked16}) {
      const Option one = uniform_option(bottom, top, type, format);
      options.push_back(plain);
      options.back().bottoms[0] = one.bottoms[0];
      if (one.bottoms[1] == plain.bottoms[1]) continue;
      options.push_back(options.back());
      options.back().bottoms[1] = one.bottoms[1];
    }
  }
  return options;
}

void PriorBoxLayer::write_boxes() {
  const PriorBoxParameter& settings = param().prior_box_param();
  const auto offset = static_cast<double>(settings.offset());
  dispatch_float(dtype(), [&]<class T>(T) {
    T* to = boxes_.overwrite<T>();
    const auto put = [&](double value) {
      *to++ = static_cast<T>(settings.clip() ? std::clamp(value, 0.0, 1.0) : value);
    };
    for (int64_t row = 0; row < geometry_.rows; ++row) {
      const double y = (static_cast<double>(row) + offset) * geometry_.step_h;
      for (int64_t column = 0; column < geometry_.columns; ++column) {
        const double x = (static_cast<double>(column) + offset) * geometry_.step_w;
        for (const auto& [width, height] : sizes_) {
          put((x - width / 2) / geometry_.image_width);
          put((y - height / 2) / geometry_.image_height);
          put((x + width / 2) / geometry_.image_width);
          put((y + height / 2) / geometry_.image_height);
        }
      }
    }
    const int64_t values = boxes_.shape()[2];
    for (int64_t i = 0; i < values; ++i)
      *to++ = static_cast<T>(variance_[static_cast<size_t>(i % 4)]);
  });
}

void PriorBoxLayer::run_forward(const ComputeDevice& device, Blobs, Blobs top) {
  copy(device, boxes_, top[0]->data);
}

}  // namespace crema
