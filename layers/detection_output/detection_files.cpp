#include "layers/detection_output/detection_files.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/json.hpp"
#include "core/parse_number.hpp"
#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "model/whole_file.hpp"

namespace crema {
namespace {

constexpr int64_t kValues = 7;  // of a box in a state

DetectionFiles::Format format_of(const SaveOutputParameter& settings) {
  const std::string& name = settings.output_format();
  if (name == "VOC") return DetectionFiles::Format::voc;
  if (name == "COCO") return DetectionFiles::Format::coco;
  if (name == "ILSVRC") return DetectionFiles::Format::ilsvrc;
  throw Error("save_output_param: output_format '", name, "' is none of VOC, COCO and ILSVRC",
              did_you_mean(name, {"VOC", "COCO", "ILSVRC"}));
}

double to_hundredths(double value) { return std::round(value * 100) / 100; }

/// A whole number without leading zeros where the text is one, else a string.
std::string number_or_string(const std::string& text) {
  const auto number = parse_number<int64_t>(text);
  return number ? std::to_string(*number) : json_string(text);
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
    if (c == background_) continue;
    const std::string& name = names_->name(static_cast<int32_t>(c));
    if (format_ == Format::voc && name.find('/') != std::string::npos)
      throw Error("label_map_file '", settings_.label_map_file(), "': the class '", name,
                  "' has a '/', so that it can have no VOC file '", name,
                  ".txt'; rename it, or write another output_format");
  }
  sizes_ = read_named_sizes(settings_.name_size_file());
  const auto listed = static_cast<int64_t>(sizes_.size());
  const int64_t images = settings_.has_num_test_image() ? settings_.num_test_image() : listed;
  if (images > listed)
    throw Error("num_test_image ", images, " is more than the ", listed, " images of '",
                settings_.name_size_file(), "'");
  check_new_path(folder());
  std::error_code code;
  std::filesystem::create_directories(folder(), code);
  if (!std::filesystem::is_directory(folder()))
    throw Error("output_directory '", folder(), "' cannot be made: ", code.message());
  if (format_ == Format::voc) {
    for (int64_t c = 0; c < classes_; ++c) {
      if (c != background_) check_output_file(path_of_class(c));
    }
  } else {
    check_output_file(path_of_set());
  }
  images_ = images;
}

void DetectionFiles::begin_image() {
  if (images_ == 0) open();
  if (image_ >= images_)
    throw Error("the run that is continued is at image ", image_, " of its test set, but the set ",
                "has ", images_, " images; give name_size_file and num_test_image of that run");
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
  // First the next set: what follows a file that cannot be written is in its place.
  image_ = 0;
  const std::vector<Line> lines = std::exchange(lines_, {});
  write(lines);
  return true;
}

std::vector<Tensor> DetectionFiles::carried() const {
  if (image_ == 0) return {};
  Tensor state(Shape{1 + static_cast<int64_t>(lines_.size()), kValues}, DType::f64);
  double* to = state.overwrite<double>();
  to = std::fill_n(to, kValues, static_cast<double>(image_));
  for (const Line& line : lines_) {
    const double values[kValues] = {static_cast<double>(line.image),
                                    static_cast<double>(line.label),
                                    line.score,
                                    line.xmin,
                                    line.ymin,
                                    line.width,
                                    line.height};
    to = std::ranges::copy(values, to).out;
  }
  return {state};
}

void DetectionFiles::carry(const std::vector<Tensor>& state) {
  if (state.empty()) {
    image_ = 0;
    lines_.clear();
    return;
  }
  const Shape& shape = state[0].shape();
  if (state.size() != 1 || shape.rank() != 2 || shape[0] < 1 || shape[1] != kValues)
    throw Error("a state of shape ", shape.str(), " holds no detections of a test set (1 + D, ",
                kValues, ")");
  const Tensor values = state[0].to(DType::f64, crema::Format::contiguous);
  const double* from = values.read<double>();
  const auto whole = [](double value, double end) {
    if (!(value >= 0 && value < end && std::floor(value) == value))
      throw Error("the state of the detections of a test set has ", value,
                  " for an image or a label, which is none in [0, ", end, ")");
    return static_cast<int64_t>(value);
  };
  const int64_t image = whole(from[0], 1e15);
  std::vector<Line> lines;
  for (int64_t i = 1; i < shape[0]; ++i) {
    from += kValues;
    lines.push_back({whole(from[0], static_cast<double>(image)),
                     whole(from[1], static_cast<double>(classes_)), from[2], from[3], from[4],
                     from[5], from[6]});
  }
  image_ = image;
  lines_ = std::move(lines);
}

/// Whole pixels, as published: fractions are dropped of corner and sides.
std::string DetectionFiles::line(const Line& line, bool with_label) const {
  char score[32];
  std::snprintf(score, sizeof(score), "%g", line.score);
  const auto left = static_cast<int64_t>(line.xmin), top = static_cast<int64_t>(line.ymin);
  return text(sizes_[static_cast<size_t>(line.image)].name, " ",
              with_label ? text(line.label, " ") : "", score, " ", left, " ", top, " ",
              left + static_cast<int64_t>(line.width), " ", top + static_cast<int64_t>(line.height),
              "\n");
}

std::string DetectionFiles::json(const Line& line) const {
  // In the digits that f32 needs.
  const auto number = [](double value) { return json_number(static_cast<float>(value)); };
  return text(
      "{\"image_id\": ", number_or_string(sizes_[static_cast<size_t>(line.image)].name),
      ", \"category_id\": ", number_or_string(names_->name(static_cast<int32_t>(line.label))),
      ", \"bbox\": [", number(line.xmin), ", ", number(line.ymin), ", ", number(line.width), ", ",
      number(line.height), "], \"score\": ", number(line.score), "}");
}

std::string DetectionFiles::path_of(const std::string& ending) const {
  return (std::filesystem::path(folder()) / (settings_.output_name_prefix() + ending)).string();
}
std::string DetectionFiles::path_of_class(int64_t label) const {
  return path_of(names_->name(static_cast<int32_t>(label)) + ".txt");
}
std::string DetectionFiles::path_of_set() const {
  const std::string ending = format_ == Format::coco ? ".json" : ".txt";
  // The ending alone would be the name of a hidden file.
  const std::string& prefix = settings_.output_name_prefix();
  const bool is_named = !prefix.empty() && !prefix.ends_with('/');
  return path_of(is_named ? ending : "detections" + ending);
}

void DetectionFiles::write(const std::vector<Line>& lines) const {
  const auto write_file = [](const std::string& path, const std::string& text) {
    WholeFile file(path);
    file.append(text);
    file.finish();
  };
  if (format_ == Format::voc) {
    std::vector<std::string> texts(static_cast<size_t>(classes_));
    for (const Line& one : lines) texts[static_cast<size_t>(one.label)] += line(one, false);
    for (int64_t c = 0; c < classes_; ++c) {
      if (c != background_) write_file(path_of_class(c), texts[static_cast<size_t>(c)]);
    }
    return;
  }
  std::string content;
  if (format_ == Format::coco) {
    content = "[";
    for (const Line& one : lines) content += text(content.size() > 1 ? ",\n" : "\n", json(one));
    content += "\n]\n";
  } else {
    for (const Line& one : lines) content += line(one, true);
  }
  write_file(path_of_set(), content);
}

}  // namespace crema
