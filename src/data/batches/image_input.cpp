#include "data/batches/image_input.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "crema/error.hpp"
#include "data/images/image_name.hpp"
#include "data/records/image_list.hpp"
#include "data/transform/mean_file.hpp"

namespace crema {

ImageInput::ImageInput(const ImageInputOptions& options) : options_(options) {
  const Shape& sample = options_.sample;
  if (sample.rank() != 3 || (sample[0] != 1 && sample[0] != 3))
    throw Error("the input is of ", sample.str(),
                " an item; images are of 1 or 3 channels, height "
                "and width");
  if (options_.crop != ImageCrop::whole) {
    options_.transform.set_crop_h(static_cast<uint32_t>(sample[1]));
    options_.transform.set_crop_w(static_cast<uint32_t>(sample[2]));
  }
  transform_ = std::make_unique<Transform>(options_.transform, Phase::test);
  cut_.resize(static_cast<size_t>(sample.count()));
}

int64_t ImageInput::samples() const { return options_.crop == ImageCrop::ten ? 10 : 1; }

Image ImageInput::load(std::string_view file) {
  const Shape& sample = options_.sample;
  const Image opened = decoder_.open(file, sample[0] == 1 ? ColorMode::gray : ColorMode::color);
  opened_ = {.height = opened.height, .width = opened.width};
  const bool whole = options_.crop == ImageCrop::whole;
  const ImageSize size = whole ? ImageSize{sample[1], sample[2]} : options_.resize;
  std::vector<ImageStep> steps;
  if (!whole && transform_->augmentation().has_steps()) {
    steps = transform_->augmentation().draw(opened_, {}).steps;
  } else if (size.height != 0) {
    steps.emplace_back(resize_to(size, options_.interpolation));
  }
  Image image = decoder_.changed(steps);
  if (sample[0] == 1 || options_.channels == std::array<int, 3>{2, 1, 0}) return image;
  swapped_.resize(static_cast<size_t>(image.count()));
  for (size_t pixel = 0; pixel < swapped_.size(); pixel += 3) {
    for (size_t c = 0; c < 3; ++c) {
      swapped_[pixel + c] = image.bytes[pixel + 2 - static_cast<size_t>(options_.channels[c])];
    }
  }
  image.bytes = swapped_.data();
  return image;
}

std::vector<Placement> ImageInput::placements(const Image& image) const {
  if (options_.crop == ImageCrop::whole) return {{}};
  const auto rows = static_cast<int32_t>(image.height - options_.sample[1]);
  const auto columns = static_cast<int32_t>(image.width - options_.sample[2]);
  const Placement center{rows / 2, columns / 2, false};
  if (options_.crop == ImageCrop::center) return {center};
  std::vector<Placement> all = {
      {0, 0, false}, {0, columns, false}, {rows, 0, false}, {rows, columns, false}, center};
  for (size_t i = 0; i < 5; ++i) {
    all.push_back(all[i]);
    all.back().mirrored = true;
  }
  return all;
}

ImageSize ImageInput::read(const std::string& path, float* out) {
  try {
    read_file_bytes(path, bytes_);
  } catch (const Error& error) {
    throw Error("image '", path, "': ", error.message()).about(error.path());
  }
  return read(bytes_, path, out);
}

ImageSize ImageInput::read(std::string_view file, const std::string& name, float* out) {
  try {
    const Image image = load(file);
    const Shape shape = transform_->output_shape(image);
    for (const Placement& placement : placements(image)) {
      transform_->cut(image, placement, cut_.data());
      transform_->convert(cut_.data(), shape, placement, out);
      out += shape.count();
    }
    return opened_;
  } catch (const Error& error) {
    throw Error("image '", name, "': ", error.message()).about(error.path());
  }
}

std::vector<std::string> images_in_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> images;
  std::error_code error, ignored;
  std::vector<fs::path> above = {fs::canonical(folder, ignored)};  // folders that the entry is in
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const bool is_hidden = entry->path().filename().native().starts_with('.');
    if (entry->is_directory(ignored)) {
      above.resize(static_cast<size_t>(entry.depth()) + 1);
      fs::path place = fs::canonical(entry->path(), ignored);
      // A link may lead to a folder that it is in.
      const bool is_cycle = std::ranges::find(above, place) != above.end();
      if (is_hidden || is_cycle) entry.disable_recursion_pending();
      above.push_back(std::move(place));
    } else if (!is_hidden && is_image_name(entry->path().native())) {
      images.push_back(entry->path().string());
    }
  }
  if (error) throw Error("cannot read the folder '", folder, "': ", error.message()).about(folder);
  if (images.empty()) throw Error("the folder '", folder, "' has no image files (.jpg, .png, ...)");
  std::ranges::sort(images);
  return images;
}

std::vector<float> channel_means(const std::string& mean_file) {
  return channel_means(read_mean_file(mean_file));
}

Shape mean_image_shape(const std::string& mean_file) { return read_mean_file(mean_file).shape; }

}  // namespace crema
