#include "layers/detection_output/detection_files.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace {

DetectionFiles::Format format_of(const SaveOutputParameter& settings) {
  const std::string& name = settings.output_format();
  if (name == "VOC") return DetectionFiles::Format::voc;
  if (name == "COCO") return DetectionFiles::Format::coco;
  if (name == "ILSVRC") return DetectionFiles::Format::ilsvrc;
  throw Error("save_output_param: output_format '", name, "' is none of VOC, COCO and ILSVRC",
              did_you_mean(name, {"VOC", "COCO", "ILSVRC"}));
}

double to_hundredths(double value) { return std::round(value * 100) / 100; }

/// The fewest digits that give the same f32.
std::string digits(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<float>(value)).ptr;
  return {text, end};
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      result += code;
    } else {
      result += c;
    }
  }
  return result + '"';
}

/// A whole number without leading zeros where the text is one, else a string.
std::string number_or_string(const std::string& text) {
  const auto number = parse_number<int64_t>(text);
  return number ? std::to_string(*number) : quoted(text);
}

}  // namespace

DetectionFiles::DetectionFiles(const SaveOutputParameter& settings, int64_t classes,
                               int64_t background)
    : settings_(settings),
      format_(format_of(settings)),
      classes_(classes),
      background_(background) {
  if (settings.label_map_file().empty())
    throw Error(
        "save_output_param has an output_directory but no label_map_file; give the names "
        "of the classes");
  if (settings.name_size_file().empty())
    throw Error(
        "save_output_param has an output_directory but no name_size_file; give lines 'name "
        "height width' of the test images, in their order");
  if (settings.has_num_test_image() && settings.num_test_image() == 0)
    throw Error(
        "save_output_param: num_test_image 0 would never write; leave it out for all "
        "images of name_size_file");
  check_unresizing(settings.resize_param());
}

void DetectionFiles::open() {
  names_ = LabelNames::read(settings_.label_map_file());
  for (int64_t c = 0; c < classes_; ++c) {
    if (c != background_) names_->name(static_cast<int32_t>(c));
  }
  sizes_ = read_named_sizes(settings_.name_size_file());
  images_ = settings_.has_num_test_image() ? settings_.num_test_image()
                                           : static_cast<int64_t>(sizes_.size());
  if (images_ > static_cast<int64_t>(sizes_.size()))
    throw Error("num_test_image ", images_, " is more than the ", sizes_.size(), " images of '",
                settings_.name_size_file(), "'");
  std::error_code code;
  std::filesystem::create_directories(folder(), code);
  if (!std::filesystem::is_directory(folder()))
    throw Error("output_directory '", folder(), "' cannot be made: ", code.message());
}

void DetectionFiles::begin_image() {
  if (images_ == 0) open();
}

void DetectionFiles::add(int64_t label, double score, const Box& box) {
  const Box pixels =
      in_original(box, sizes_[static_cast<size_t>(image_)].size, settings_.resize_param());
  lines_.push_back({image_, label, score, to_hundredths(pixels.left), to_hundredths(pixels.top),
                    to_hundredths(pixels.right - pixels.left),
                    to_hundredths(pixels.bottom - pixels.top)});
}

bool DetectionFiles::end_image() {
  if (++image_ < images_) return false;
  write();
  image_ = 0;
  lines_.clear();
  return true;
}

/// Whole pixels, as published: fractions are dropped of corner and sides.
std::string DetectionFiles::line(const Line& line, bool with_label) const {
  char score[32];
  std::snprintf(score, sizeof(score), "%g", line.score);
  const auto left = static_cast<int64_t>(line.xmin), top = static_cast<int64_t>(line.ymin);
  return concat(sizes_[static_cast<size_t>(line.image)].name, " ",
                with_label ? concat(line.label, " ") : "", score, " ", left, " ", top, " ",
                left + static_cast<int64_t>(line.width), " ",
                top + static_cast<int64_t>(line.height), "\n");
}

std::string DetectionFiles::json(const Line& line) const {
  return concat(
      "{\"image_id\": ", number_or_string(sizes_[static_cast<size_t>(line.image)].name),
      ", \"category_id\": ", number_or_string(names_->name(static_cast<int32_t>(line.label))),
      ", \"bbox\": [", digits(line.xmin), ", ", digits(line.ymin), ", ", digits(line.width), ", ",
      digits(line.height), "], \"score\": ", digits(line.score), "}");
}

void DetectionFiles::write_file(const std::string& name, const std::string& text) const {
  WholeFile file(
      (std::filesystem::path(folder()) / (settings_.output_name_prefix() + name)).string());
  file.append(text);
  file.finish();
}

void DetectionFiles::write() const {
  if (format_ == Format::voc) {
    std::vector<std::string> texts(static_cast<size_t>(classes_));
    for (const Line& one : lines_) texts[static_cast<size_t>(one.label)] += line(one, false);
    for (int64_t c = 0; c < classes_; ++c) {
      if (c == background_) continue;
      write_file(names_->name(static_cast<int32_t>(c)) + ".txt", texts[static_cast<size_t>(c)]);
    }
    return;
  }
  std::string text;
  if (format_ == Format::coco) {
    text = "[";
    for (const Line& one : lines_) text += concat(text.size() > 1 ? ",\n" : "\n", json(one));
    text += "\n]\n";
  } else {
    for (const Line& one : lines_) text += line(one, true);
  }
  write_file(format_ == Format::coco ? ".json" : ".txt", text);
}

}  // namespace crema
