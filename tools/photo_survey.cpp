#include "tools/photo_survey.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/counted.hpp"
#include "core/path_advice.hpp"
#include "crema/error.hpp"
#include "crema/random.hpp"
#include "data/images/image_decoder.hpp"
#include "data/images/image_name.hpp"
#include "data/images/jpeg.hpp"
#include "data/images/png_header.hpp"
#include "data/records/image_list.hpp"
#include "model/file_kind.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLookedAt = 300;

constexpr const char* kFoldersOfTests[] = {"val", "valid", "validation", "test"};

/// Adds the sums of values and squares, and whether the channels are the same.
struct Sums {
  double values[3] = {0}, squares = 0, count = 0;
  bool is_gray = true;

  void add(const Image& image) {
    // Every pixel of small images, some thousand of large ones.
    const int64_t pixels = image.height * image.width;
    const int64_t step = std::max<int64_t>(1, pixels / 5000);
    double own[3] = {0}, own_squares = 0, own_count = 0;
    for (int64_t i = 0; i < pixels; i += step) {
      const uint8_t* pixel = image.bytes + i * image.channels;
      for (int c = 0; c < 3; ++c) {
        const double value = pixel[image.channels >= 3 ? c : 0];
        own[c] += value;
        own_squares += value * value;
      }
      is_gray = is_gray && (image.channels < 3 || (pixel[0] == pixel[1] && pixel[1] == pixel[2]));
      ++own_count;
    }
    for (int c = 0; c < 3; ++c) values[c] += own[c] / own_count;
    squares += own_squares / own_count / 3;
    ++count;
  }
};

}  // namespace

void check_photos(const std::vector<std::string>& files) {
  constexpr size_t kNamed = 5;
  ImageDecoder decoder;
  std::string bytes;
  std::vector<std::string> bad;
  size_t count = 0;
  for (const std::string& file : files) {
    try {
      read_file_bytes(file, bytes);
      check_is_image(bytes);
      const std::string_view type = image_type(bytes);
      if (type == "png") read_png_header(bytes);
      if (type == "jpg") decoder.open(bytes, ColorMode::color);
      if (type == "jpg" && lacks_jpeg_end(bytes)) throw Error("it is cut off");
    } catch (const Error& error) {
      if (++count <= kNamed) bad.push_back(text("'", file, "' (", error.message(), ")"));
    }
  }
  if (count > 0)
    throw Error(count, " of ", counted(files.size(), "image"), " cannot be read: ", joined(bad),
                count > kNamed ? " and others" : "", "; replace or remove them");
}

PhotoSurvey survey_photos(const std::vector<std::string>& files) {
  if (files.empty()) throw Error("there are no images to look at");
  PhotoSurvey survey;
  Sums sums;
  ImageDecoder decoder;
  std::vector<int64_t> shorter;
  std::string bytes;
  const size_t step = std::max<size_t>(1, files.size() / kLookedAt);
  for (size_t i = 0; i < files.size(); i += step) {
    in_image(files[i], "", 0, [&] {
      read_file_bytes(files[i], bytes);
      decoder.open(bytes, ColorMode::color);
      const Image image = decoder.whole();
      if (image.bytes == nullptr) throw Error("it has more than 8 bits a channel");
      sums.add(image);
      const int64_t side = std::min(image.height, image.width);
      if (shorter.empty() || side < survey.smallest) {
        survey.smallest = side;
        survey.smallest_file = files[i];
      }
      shorter.push_back(side);
    });
  }
  std::ranges::nth_element(shorter,
                           shorter.begin() + static_cast<std::ptrdiff_t>(shorter.size() / 2));
  survey.shorter = shorter[shorter.size() / 2];
  survey.is_gray = sums.is_gray;
  double square_of_mean = 0;
  for (int c = 0; c < 3; ++c) {
    survey.mean[c] = sums.values[c] / sums.count;
    square_of_mean += survey.mean[c] * survey.mean[c] / 3;
  }
  survey.deviation = std::sqrt(std::max(0.0, sums.squares / sums.count - square_of_mean));
  return survey;
}

std::string pixel_settings(const PhotoSurvey& survey) {
  const auto rounded = [](double value, double digits) {
    return text(std::round(value * digits) / digits);
  };
  std::string settings;
  for (int c = 0; c < (survey.is_gray ? 1 : 3); ++c)
    settings += "mean_value: " + rounded(survey.mean[c], 10) + "  ";
  return settings + "scale: " + rounded(1 / std::max(survey.deviation, 1.0), 10000);
}

std::vector<std::string> images_below(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code why;
  for (fs::recursive_directory_iterator
           entry(folder, fs::directory_options::follow_directory_symlink, why),
       end;
       !why && entry != end; entry.increment(why)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with('.')) {
      if (entry->is_directory(why)) entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_regular_file(why) && is_image_name(name))
      names.push_back(entry->path().lexically_relative(folder).string());
  }
  if (why) throw Error("cannot list '", folder, "': ", why.message());
  std::ranges::sort(names);
  return names;
}

std::pair<std::string, std::string> divided_folders(const std::string& folder) {
  std::error_code none;
  if (!fs::is_directory(fs::path(folder) / "train", none)) return {};
  for (const char* tests : kFoldersOfTests) {
    if (fs::is_directory(fs::path(folder) / tests, none)) return {"train", tests};
  }
  return {};
}

Division divide_at_random(std::vector<std::string> files, uint64_t seed, const std::string& of) {
  Random random(seed, stream_id(of));
  for (size_t i = files.size(); i > 1; --i) std::swap(files[i - 1], files[random.below(i)]);
  const size_t tests = files.size() < 2 ? 0 : std::max<size_t>(1, files.size() / 5);
  Division division;
  const auto middle = files.end() - static_cast<std::ptrdiff_t>(tests);
  division.train.assign(files.begin(), middle);
  division.tests.assign(middle, files.end());
  std::ranges::sort(division.train);
  std::ranges::sort(division.tests);
  return division;
}

Division divide(std::vector<std::string> files, const std::string& root, uint64_t seed) {
  const auto [train, tests] = divided_folders(root);
  if (train.empty()) return divide_at_random(std::move(files), seed, "files");
  Division division;
  division.by_folder = true;
  for (const std::string& file : files) {
    const std::string folder = file.substr(0, file.find('/') + 1);
    (folder == train + "/"   ? division.train
     : folder == tests + "/" ? division.tests
                             : division.others)
        .push_back(file);
  }
  for (const auto& [name, part] : {std::pair{train, &division.train}, {tests, &division.tests}}) {
    if (part->empty()) throw Error("no image in '", root, name, "' can be used");
  }
  return division;
}

std::string left_out(const Division& division) {
  return text(counted(division.others.size(), "image"), " left out, such as '", division.others[0],
              "': outside of the folders for training and for tests");
}

std::string checked_folder(const char* flag, const std::string& folder) {
  std::error_code none;
  if (!fs::is_directory(folder, none))
    throw Error("--", flag, "=", folder,
                fs::exists(folder, none) ? " is no folder" : " is not there", path_advice(folder));
  if (folder.find_first_of("\"'\\\n") != std::string::npos)
    throw Error("--", flag, "=", folder, " cannot stand in a prototxt; give the folder a name ",
                "without quotes and \\");
  return folder.ends_with('/') ? folder : folder + "/";
}

}  // namespace crema::tools
