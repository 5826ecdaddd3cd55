#include "tools/image_net.hpp"

#include <array>
#include <filesystem>

#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "crema/error.hpp"
#include "data/images/image_name.hpp"
#include "data/records/text_list.hpp"
#include "tools/flags.hpp"
#include "tools/terminal.hpp"

DEFINE_string(list, "",
              "A text file with image files, a line each. Of classify, labels may follow the "
              "names: it then counts what is right.");
DEFINE_string(mean, "",
              "What to subtract: a mean image (.binaryproto), or a value for each channel of the "
              "net's input, such as 104,117,123. Default: as the weights say they were trained.");
DEFINE_bool(channel_mean, false,
            "Of a mean image, subtract the mean of each channel, as the published program does.");
DEFINE_double(
    scale, 1,
    "Multiplies pixels, which are 0 to 255, after the mean is subtracted. Default: as the "
    "weights say they were trained, else 1.");
DEFINE_string(channel_swap, "bgr",
              "Channels of the net's input: bgr, as data layers give them, rgb, or three indices "
              "into red, green, blue, such as 2,1,0.");
DEFINE_string(interp, "",
              "How images are resized, exactly: linear, area, nearest, cubic or lanczos4, as "
              "OpenCV has them. Default: averages where images shrink, else linear.");
DEFINE_int32(
    batch, 16,
    "Of deploy: Records in a batch of the inputs. Default: 1. Of others: Images in a pass of "
    "the net.");

namespace crema::tools {
namespace {

std::array<int, 3> read_channels() {
  if (FLAGS_channel_swap == "bgr") return {2, 1, 0};
  if (FLAGS_channel_swap == "rgb") return {0, 1, 2};
  const std::vector<std::string> words = split_list(FLAGS_channel_swap);
  std::array<int, 3> channels{};
  bool good = words.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) {
    good = words[i] == "0" || words[i] == "1" || words[i] == "2";
    if (good) channels[i] = words[i][0] - '0';
  }
  if (!good)
    throw Error("--channel_swap=", FLAGS_channel_swap, " is not bgr, rgb or three of 0, 1, 2");
  return channels;
}

/// Numbers separated by commas; none if the text is something else.
std::vector<float> read_numbers(const std::string& text) {
  std::vector<float> numbers;
  for (const std::string& word : split_list(text)) {
    const auto number = parse_number<float>(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

/// The name of the folder that the file is in.
std::string folder_name(const std::string& file) {
  std::error_code none;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const std::filesystem::path whole = std::filesystem::absolute(folder, none).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

/// Takes a line of --list: a file, or, as lists for data layers have it, a file and a label.
void add_line(std::string_view line, NamedImages& images) {
  const size_t at = line.find_last_of(" \t");
  if (at != std::string_view::npos && !is_image_name(line)) {
    const std::string_view file = trimmed(line.substr(0, at));
    const auto label = parse_number<int64_t>(std::string(line.substr(at + 1)));
    if (label && is_image_name(file)) {
      images.labels[images.paths.size()] = *label;
      images.paths.emplace_back(file);
      return;
    }
  }
  images.paths.emplace_back(line);
}

}  // namespace

NamedImages named_images(const char* command, const std::vector<std::string>& arguments) {
  NamedImages images;
  std::error_code unknown;  // what is no folder is read, and says itself what is wrong with it
  for (const std::string& image : arguments) {
    if (std::filesystem::is_directory(image, unknown)) {
      for (const std::string& file : images_in_folder(image)) {
        images.folders[images.paths.size()] = folder_name(file);
        images.paths.push_back(file);
      }
    } else {
      images.paths.push_back(image);
    }
  }
  if (!FLAGS_list.empty()) {
    read_text_list(FLAGS_list, "lines with an image file",
                   [&](std::string_view text, int64_t) { add_line(text, images); });
  }
  if (images.paths.empty()) throw Error(command, " needs images: files, folders, or --list=FILE");
  return images;
}

Shape image_shape(const char* command, const std::string& model, Net& net) {
  if (net.inputs().size() != 1)
    throw Error(model, " has ", net.inputs().size(), " inputs; ", command,
                " takes a deploy net with one, for images");
  const Shape& shape = net.input(net.inputs()[0]).shape();
  if (shape.rank() != 4)
    throw Error("input '", net.inputs()[0], "' is of ", shape.str(), "; images need (N, C, H, W)");
  return {shape[1], shape[2], shape[3]};
}

bool is_mean_image(const std::string& mean) { return !mean.empty() && read_numbers(mean).empty(); }

ImageInputOptions image_options(const Shape& sample, const std::string& mean, bool channel_mean) {
  if (FLAGS_channel_mean && !is_mean_image(mean))
    throw Error("--channel_mean has no effect without a mean image; give one with --mean=FILE");
  ImageInputOptions options{.sample = sample};
  options.channels = read_channels();
  options.interpolation = interpolation_named(FLAGS_interp, "--interp=");
  options.transform.set_scale(static_cast<float>(FLAGS_scale));
  if (is_mean_image(mean) && !channel_mean) {
    options.transform.set_mean_file(mean);
  } else {
    const std::vector<float> values =
        is_mean_image(mean) ? channel_means(mean) : read_numbers(mean);
    options.transform.mutable_mean_value()->Add(values.begin(), values.end());
  }
  return options;
}

bool goes_on_without(const std::vector<std::string>& images) {
  return is_given("skip_bad") ? FLAGS_skip_bad : images.size() > 1;
}

std::vector<ReadImage> read_images(Net& net, ImageInput& input, const Shape& sample,
                                   std::span<const std::string> images, bool skips,
                                   ReadCounts& counts) {
  std::vector<ReadImage> read;
  std::vector<float> values;
  const auto of_image = static_cast<size_t>(input.samples() * sample.count());
  for (size_t place = 0; place < images.size(); ++place) {
    const std::string& image = images[place];
    values.resize((read.size() + 1) * of_image);
    try {
      const ImageSize size = input.read(image, values.data() + read.size() * of_image);
      read.push_back({place, image, size});
      counts.deep += input.loss().depth;
    } catch (const Error& error) {
      if (!skips) throw;
      say(Severity::warning, error.what());
      ++counts.bad;
    }
  }
  if (read.empty()) return read;
  const std::string& name = net.inputs()[0];
  net.reshape_input(
      name, {static_cast<int64_t>(read.size()) * input.samples(), sample[0], sample[1], sample[2]});
  net.reshape();
  std::copy_n(values.begin(), read.size() * of_image, net.input(name).overwrite<float>());
  return read;
}

int report_read(const ReadCounts& counts, size_t images) {
  if (counts.deep != 0)
    say(Severity::warning,
        text(counts.deep, " of ", images,
             " images have more than 8 bits a channel, of which the net sees the upper 8"));
  if (counts.bad != 0)
    say(Severity::warning, text(counts.bad, " of ", images, " images could not be read"));
  return counts.bad == 0 ? 0 : 1;
}

}  // namespace crema::tools
