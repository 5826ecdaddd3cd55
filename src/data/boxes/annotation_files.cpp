#include "data/boxes/annotation_files.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "data/records/image_list.hpp"
#include "data/records/record_labels.hpp"

namespace crema {
namespace {

constexpr std::pair<const char*, AnnotationForm> kForms[] = {{"xml", AnnotationForm::xml},
                                                             {"json", AnnotationForm::json},
                                                             {"txt", AnnotationForm::text},
                                                             {"yolo", AnnotationForm::yolo}};

double number_of(std::string_view word) {
  const auto number = parse_number<double>(word);
  if (!number || !std::isfinite(*number)) throw Error("'", word, "' is no number");
  return *number;
}

int32_t whole_number_of(std::string_view word, const char* what) {
  const auto number = parse_number<int32_t>(word);
  if (!number || *number < 0)
    throw Error("'", word, "' is no ", what, ", a whole number from 0 on");
  return *number;
}

/// Calls body(words) for each line that is not blank, and adds the line to its Errors.
template <class Body>
void for_each_line(const std::string& text, const Body& body) {
  int64_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    ++line;
    const auto words = words_of(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (words.empty()) continue;
    try {
      body(words, line);
    } catch (const Error& error) {
      throw Error("line ", line, ": ", error.message());
    }
  }
}

AnnotationFile parse_text(const std::string& content, const LabelNames& names) {
  AnnotationFile file;
  for_each_line(content, [&](const std::vector<std::string_view>& words, int64_t line) {
    if (words.size() != 5 && words.size() != 6)
      throw Error("it has ", words.size(),
                  " words; a line is 'label xmin ymin xmax ymax', in pixels");
    RawBox box{.labeled = {}, .where = text("line ", line)};
    box.labeled.label = whole_number_of(words[0], "label");
    names.check(box.labeled.label);
    box.labeled.box = {number_of(words[1]), number_of(words[2]), number_of(words[3]),
                       number_of(words[4])};
    box.labeled.difficult = words.size() == 6 && number_of(words[5]) != 0;
    file.boxes.push_back(std::move(box));
  });
  return file;
}

/// Of centre and sides.
Box box_of_yolo(std::span<const double> values) {
  const double x = values[0], y = values[1], width = values[2], height = values[3];
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

/// Of points x, y, x, y, ...
Box box_around(std::span<const double> values) {
  Box box{values[0], values[1], values[0], values[1]};
  for (size_t i = 0; i < values.size(); i += 2) {
    box.left = std::min(box.left, values[i]);
    box.top = std::min(box.top, values[i + 1]);
    box.right = std::max(box.right, values[i]);
    box.bottom = std::max(box.bottom, values[i + 1]);
  }
  return box;
}

AnnotationFile parse_yolo(const std::string& content, ImageSize image,
                          const AnnotationReading& how) {
  AnnotationFile file;
  for_each_line(content, [&](const std::vector<std::string_view>& words, int64_t line) {
    const bool is_polygon = words.size() >= 7 && words.size() % 2 == 1;
    if (words.size() != 5 && !(is_polygon && how.polygons))
      throw Error("it has ", words.size(),
                  " words; a line is 'class cx cy width height', relative to the image",
                  is_polygon ? "; for a polygon, 'class x1 y1 x2 y2 x3 y3 ...', --polygons takes "
                               "the box around it"
                             : "");
    RawBox box{.labeled = {}, .where = text("line ", line)};
    box.labeled.label = label_of_class(whole_number_of(words[0], "class"), how);
    std::vector<double> values;
    for (const std::string_view word : std::span(words).subspan(1)) {
      values.push_back(number_of(word));
      if (values.back() < -1 || values.back() > 2)
        throw Error("'", word,
                    "' is not relative to the image, 0 to 1; for pixels give --label_type=txt");
    }
    box.labeled.box = to_pixels(is_polygon ? box_around(values) : box_of_yolo(values), image);
    file.boxes.push_back(std::move(box));
  });
  return file;
}

AnnotationFile parse(const std::string& text, ImageSize image, const AnnotationReading& how) {
  switch (how.form) {
    case AnnotationForm::xml:
      return parse_voc_xml(text, how.names);
    case AnnotationForm::json:
      return parse_coco_image(text, how.names);
    case AnnotationForm::text:
      return parse_text(text, how.names);
    case AnnotationForm::yolo:
      break;
  }
  return parse_yolo(text, image, how);
}

}  // namespace

AnnotationForm annotation_form(std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [known, form] : kForms) {
    if (name == known) return form;
    names.emplace_back(known);
  }
  throw Error("label_type '", name, "' is unknown", did_you_mean(name, names, "there are"));
}

void BoxOddities::add(Kind kind, int64_t index, const std::string& where) {
  const std::lock_guard guard(mutex_);
  Seen& seen = kinds_[kind];
  if (seen.count++ > 0 && seen.first <= index) return;
  seen.first = index;
  seen.where = where;
}

std::vector<std::string> BoxOddities::warnings() const {
  constexpr const char* kTexts[] = {
      "boxes reach out of their images and were clipped", "boxes have no area and were left out",
      "files give their images another size than these have; boxes are relative to the files' size",
      "images have no file of boxes and count as images without boxes",
      "boxes have the label 0, which is that of the background in detection layers"};
  std::vector<std::string> lines;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Seen& seen = kinds_[kind];
    if (seen.count > 0)
      lines.push_back(text(seen.count, " ", kTexts[kind], "; the first: ", seen.where));
  }
  return lines;
}

std::vector<LabeledBox> AnnotationReading::read(const std::string& path, ImageSize image,
                                                int64_t index, bool sideways) const {
  std::string content;
  try {
    read_file_bytes(path, content);
    AnnotationFile file = parse(content, image, *this);
    const bool says_size = file.image.height > 0 && file.image.width > 0;
    if (sideways) refuse_boxes_of_file(file.image, image);
    if (says_size && (file.image.height != image.height || file.image.width != image.width))
      oddities.add(
          BoxOddities::other_size, index,
          text("'", path, "' says ", file.image.width, " wide and ", file.image.height,
               " high, and the image is ", image.width, " wide and ", image.height, " high"));
    return checked_boxes(std::move(file.boxes), says_size ? file.image : image, index, path,
                         oddities);
  } catch (const Error& error) {
    throw Error("boxes '", path, "': ", error.message()).about(error.path());
  }
}

int32_t label_of_name(const std::string& name, const LabelNames& names) {
  if (const auto found = names.find_displayed(name)) return *found;
  return names.label(name);
}

int32_t label_of_class(int64_t index, const AnnotationReading& how) {
  if (how.classes.empty()) {
    if (index >= std::numeric_limits<int32_t>::max())
      throw Error("class ", index, " is too large: its label is ", index + 1,
                  ", and labels have 31 bits; classes are numbered from 0");
    const auto label = static_cast<int32_t>(index + 1);
    how.names.check(label);
    return label;
  }
  if (index >= static_cast<int64_t>(how.classes.size()))
    throw Error("class ", index, " is not among the ", how.classes.size(),
                " classes, numbered from 0; give the --class_names of this data set");
  if (how.names.empty()) return static_cast<int32_t>(index + 1);
  return label_of_name(how.classes[static_cast<size_t>(index)], how.names);
}

void refuse_boxes_of_file(ImageSize said, ImageSize image) {
  if (said.height != image.width || said.width != image.height || said.height == said.width) return;
  throw Error(
      "it says ", said.width, " wide and ", said.height, " high, as the image lies in its ",
      "file, and EXIF turns that to ", image.width, " wide and ", image.height,
      " high: its boxes are not those of the picture that is shown; draw them on the upright "
      "picture, or write the image without its EXIF orientation");
}

std::vector<LabeledBox> checked_boxes(std::vector<RawBox> raw, ImageSize size, int64_t index,
                                      const std::string& path, BoxOddities& oddities) {
  std::vector<LabeledBox> boxes;
  for (RawBox& each : raw) {
    const Box& box = each.labeled.box;
    const auto refuse = [&](const auto&... why) {
      throw Error(each.where, ": its box from (", box.left, ", ", box.top, ") to (", box.right,
                  ", ", box.bottom, ") ", why..., "; correct it");
    };
    for (const double edge : {box.left, box.top, box.right, box.bottom}) {
      if (!std::isfinite(edge)) refuse("has the coordinate ", edge);
    }
    if (box.left > box.right || box.top > box.bottom)
      refuse("has its right edge left of the left one, or the lower one above the upper");
    const std::string where = text("'", path, "', ", each.where);
    if (box.left == box.right || box.top == box.bottom) {
      oddities.add(BoxOddities::empty, index, where);
      continue;
    }
    const auto part = clipped(box, size);
    if (!part)
      refuse("lies outside of its image, which is ", size.width, " wide and ", size.height,
             " high");
    // A rounding error is no reach.
    constexpr double kPixels = 1e-3;
    const bool reaches = part->left - box.left > kPixels || part->top - box.top > kPixels ||
                         box.right - part->right > kPixels || box.bottom - part->bottom > kPixels;
    if (reaches) oddities.add(BoxOddities::clipped, index, where);
    if (each.labeled.label == 0) oddities.add(BoxOddities::background, index, where);
    each.labeled.box = to_relative(*part, size);
    boxes.push_back(each.labeled);
  }
  return boxes;
}

int line_at(std::string_view text, size_t offset) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

}  // namespace crema
