#include "data/boxes/original_boxes.hpp"

#include <algorithm>
#include <optional>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "data/records/text_list.hpp"
#include "proto/augment.pb.h"

namespace crema {
namespace {

/// Takes the last word off the text; "" if it has none.
std::string_view last_word(std::string_view& text) {
  text = trimmed(text);
  const size_t blank = text.find_last_of(" \t");
  if (blank == std::string_view::npos) return {};
  const std::string_view word = text.substr(blank + 1);
  text = trimmed(text.substr(0, blank));
  return word;
}

Box cut(const Box& box, double width, double height) {
  return {std::clamp(box.left, 0.0, width), std::clamp(box.top, 0.0, height),
          std::clamp(box.right, 0.0, width), std::clamp(box.bottom, 0.0, height)};
}
Box scaled(const Box& box, double width, double height) {
  return {box.left * width, box.top * height, box.right * width, box.bottom * height};
}

/// The part of a padded sample that the image covers, relative to the sample.
Box inside_padding(ImageSize image, const ResizeParameter& resize) {
  const auto height = static_cast<double>(resize.height());
  const auto width = static_cast<double>(resize.width());
  const double ratio = static_cast<double>(image.width) / static_cast<double>(image.height);
  if (ratio > width / height) {
    const double padding = (height - width / ratio) / 2 / height;
    return {0, padding, 1, 1 - padding};
  }
  const double padding = (width - height * ratio) / 2 / width;
  return {padding, 0, 1 - padding, 1};
}

}  // namespace

std::vector<NamedSize> read_named_sizes(const std::string& path) {
  std::vector<NamedSize> images;
  read_text_list(path, "lines 'name height width'", [&](std::string_view text, int64_t) {
    std::string_view name = text;
    const auto width = parse_number<int64_t>(last_word(name));
    const auto height = parse_number<int64_t>(last_word(name));
    if (!width || !height || name.empty())
      throw Error("'", text, "' is no line 'name height width'");
    if (*width < 1 || *height < 1)
      throw Error("image '", name, "' of ", *height, " x ", *width, " pixels has no pixel");
    images.push_back({std::string(name), {*height, *width}});
  });
  return images;
}

void check_unresizing(const ResizeParameter& resize) {
  const bool padded = resize.resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD;
  if (padded && (resize.height() == 0 || resize.width() == 0))
    throw Error("resize_param: FIT_LARGE_SIZE_AND_PAD needs height and width");
}

Box in_original(const Box& relative, ImageSize image, const ResizeParameter& resize) {
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  switch (resize.resize_mode()) {
    case ResizeParameter::WARP:
      break;
    case ResizeParameter::FIT_SMALL_SIZE:
      if (resize.height_scale() == 0 || resize.width_scale() == 0) break;
      return cut(scaled(relative, resize.width_scale(), resize.height_scale()), width, height);
    case ResizeParameter::FIT_LARGE_SIZE_AND_PAD: {
      const Box whole = inside_padding(image, resize);
      const double across = whole.right - whole.left, down = whole.bottom - whole.top;
      const Box of_image = {
          (relative.left - whole.left) / across, (relative.top - whole.top) / down,
          (relative.right - whole.left) / across, (relative.bottom - whole.top) / down};
      return scaled(cut(of_image, 1, 1), width, height);
    }
  }
  return scaled(cut(relative, 1, 1), width, height);
}

}  // namespace crema
