// Draws the boxes that a detector finds into copies of images:
//
//   detect_and_draw deploy.prototxt weights.caffemodel folder image.ppm...
//
// writes folder/image.ppm with a frame around each digit and the digit in its corner, and prints a
// line for each box: image, digit, confidence, xmin, ymin, xmax, ymax in pixels of the image. The
// net is like models/digits_ssd: label 0 is the background, label 1 + d the digit d, and a pixel
// p of the input is (p - 128) / 128, blue first.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "crema/crema.hpp"

namespace {

namespace fs = std::filesystem;

constexpr float kLeastConfidence = 0.5f;  // of boxes that are drawn

using Color = std::array<unsigned char, 3>;  // red, green, blue

/// Of the frames of each digit.
constexpr std::array<Color, 10> kColors = {{{230, 25, 75},
                                            {60, 180, 75},
                                            {255, 225, 25},
                                            {0, 130, 200},
                                            {245, 130, 48},
                                            {145, 30, 180},
                                            {70, 240, 240},
                                            {240, 50, 230},
                                            {210, 245, 60},
                                            {170, 110, 40}}};

/// The digits in three columns and five rows of pixels, row by row.
constexpr std::array<std::string_view, 10> kGlyphs = {
    "#### ## ## ####", " # ##  #  # ###", "###  #####  ###", "###  ####  ####", "# ## ####  #  #",
    "####  ###  ####", "####  #### ####", "###  #  #  #  #", "#### ##### ####", "#### ####  ####"};

static_assert(std::ranges::all_of(kGlyphs, [](auto glyph) { return glyph.size() == 15; }));

struct Image {
  int64_t width = 0, height = 0;
  std::vector<unsigned char> pixels;  // (height, width, 3): red, green, blue

  /// Nothing outside of the image.
  void set(int64_t x, int64_t y, Color color) {
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    std::copy(color.begin(), color.end(), pixels.begin() + 3 * (y * width + x));
  }
};

/// The next number of a header, which may have lines of comment before it: `# by GIMP`.
int64_t header_number(std::istream& file) {
  while ((file >> std::ws).peek() == '#')
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  int64_t number = 0;
  file >> number;
  return number;
}

/// A binary PPM file.
Image read_ppm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw crema::Error("cannot open '", path, "'");
  Image image;
  std::string magic;
  file >> magic;
  image.width = header_number(file);
  image.height = header_number(file);
  const int64_t most = header_number(file);
  if (!file || magic != "P6" || most != 255 || std::min(image.width, image.height) < 1 ||
      std::max(image.width, image.height) > 16384 || !std::isspace(file.get()))
    throw crema::Error("'", path, "' is no binary PPM image of at most 16384x16384");
  const int64_t bytes = 3 * image.width * image.height;
  image.pixels.resize(static_cast<size_t>(bytes));
  if (!file.read(reinterpret_cast<char*>(image.pixels.data()), bytes))
    throw crema::Error("'", path, "' is cut off");
  return image;
}

/// The file appears under its name when it is whole: until then it is NAME.part.
void write_ppm(const Image& image, const fs::path& path) {
  const fs::path part = path.string() + ".part";
  std::ofstream file(part, std::ios::binary);
  file << "P6\n" << image.width << ' ' << image.height << "\n255\n";
  file.write(reinterpret_cast<const char*>(image.pixels.data()), std::ssize(image.pixels));
  file.close();
  std::error_code error;
  if (file) fs::rename(part, path, error);
  if (!file || error) {
    fs::remove(part, error);
    throw crema::Error("cannot write '", path.string(), "'; is the disk full?");
  }
}

/// Writes the image to `out`, (3, height, width), as the net was trained on images. The whole image
/// is resized to these sides by bilinear interpolation.
void fill_input(const Image& image, int64_t height, int64_t width, float* out) {
  const auto place = [](int64_t i, int64_t to, int64_t from) {  // of the centre of pixel i
    const double at =
        (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to);
    return std::clamp(at - 0.5, 0.0, static_cast<double>(from - 1));
  };
  for (int64_t y = 0; y < height; ++y) {
    const double v = place(y, height, image.height);
    const auto top = static_cast<int64_t>(v), bottom = std::min(top + 1, image.height - 1);
    for (int64_t x = 0; x < width; ++x) {
      const double u = place(x, width, image.width);
      const auto left = static_cast<int64_t>(u), right = std::min(left + 1, image.width - 1);
      for (int64_t c = 0; c < 3; ++c) {
        const auto pixel = [&](int64_t row, int64_t column) {
          const int64_t at = 3 * (row * image.width + column) + 2 - c;  // blue first
          return static_cast<double>(image.pixels[static_cast<size_t>(at)]);
        };
        const double above =
            std::lerp(pixel(top, left), pixel(top, right), u - static_cast<double>(left));
        const double below =
            std::lerp(pixel(bottom, left), pixel(bottom, right), u - static_cast<double>(left));
        const double value = std::lerp(above, below, v - static_cast<double>(top));
        out[(c * height + y) * width + x] = static_cast<float>((value - 128) / 128);
      }
    }
  }
}

/// Corners in pixels, inside the image.
struct Box {
  float xmin, ymin, xmax, ymax;
};

/// A frame around the box, and on its upper left corner a plate with the digit.
void draw(Image& image, const Box& box, size_t digit) {
  const Color color = kColors[digit];
  const int64_t left = std::min<int64_t>(std::lround(box.xmin), image.width - 1);
  const int64_t top = std::min<int64_t>(std::lround(box.ymin), image.height - 1);
  const int64_t right = std::min<int64_t>(std::lround(box.xmax), image.width - 1);
  const int64_t bottom = std::min<int64_t>(std::lround(box.ymax), image.height - 1);
  for (int64_t x = left; x <= right; ++x) {
    image.set(x, top, color);
    image.set(x, bottom, color);
  }
  for (int64_t y = top; y <= bottom; ++y) {
    image.set(left, y, color);
    image.set(right, y, color);
  }
  for (int y = 0; y < 7; ++y)
    for (int x = 0; x < 5; ++x) {
      const bool inside = x >= 1 && x <= 3 && y >= 1 && y <= 5;
      const bool ink = inside && kGlyphs[digit][static_cast<size_t>(3 * (y - 1) + x - 1)] == '#';
      image.set(left + x, top + y, ink ? Color{0, 0, 0} : color);
    }
}

/// Where the copy of an image is written.
fs::path copy_of(const std::string& image, const std::string& folder) {
  return fs::path(folder) / fs::path(image).filename();
}

/// Error if a copy would replace an image, or the copy of another image.
void check_copies(const std::vector<std::string>& images, const std::string& folder) {
  std::map<fs::path, std::string> originals;  // by their copies
  for (const std::string& image : images) {
    const fs::path copy = copy_of(image, folder);
    std::error_code ignored;
    if (fs::equivalent(copy, image, ignored))
      throw crema::Error("the copy of '", image, "' would replace it; name another folder");
    const auto [same, is_new] = originals.try_emplace(copy, image);
    if (!is_new)
      throw crema::Error("'", same->second, "' and '", image, "' would both be copied to '",
                         copy.string(), "'; give images of different names");
  }
}

/// The only name in `names`, which are the inputs or outputs (`kind`) of the net in the file
/// `deploy`. Error if there are several or none: a train_val.prototxt has data layers instead of an
/// input.
std::string only_one(const std::vector<std::string>& names, const std::string& kind,
                     const std::string& deploy) {
  if (names.empty()) throw crema::Error("'", deploy, "' has no ", kind, "; give a deploy.prototxt");
  if (names.size() > 1)
    throw crema::Error("'", deploy, "' has several ", kind, "s, ", crema::joined(names),
                       "; give a net with one");
  return names[0];
}

void run(const std::vector<std::string>& args) {
  if (args.size() < 4)
    throw crema::Error(
        "usage: detect_and_draw deploy.prototxt weights.caffemodel folder image.ppm...");
  crema::Context context({.tuning_file = crema::user_tuning_file()});
  crema::Net net(args[0], context, {.phase = crema::Phase::test});
  const std::vector<std::string> missing = net.load_weights(args[1]).missing;
  if (!missing.empty())
    throw crema::Error("'", args[1], "' has no weights for ", crema::joined(missing), " of '",
                       args[0], "'; give weights that were trained for this net");
  const std::string input = only_one(net.inputs(), "input", args[0]);
  const std::string output = only_one(net.outputs(), "output", args[0]);
  const crema::Shape sides = net.input(input).shape();  // (any, 3, H, W)
  if (sides.rank() != 4 || sides[1] != 3)
    throw crema::Error("input '", input, "' of '", args[0], "' is ", sides.str(),
                       "; images in colour are N x 3 x H x W");
  net.reshape_input(input, {1, 3, sides[2], sides[3]});
  const std::string& folder = args[2];
  const std::vector<std::string> images(args.begin() + 3, args.end());
  check_copies(images, folder);
  fs::create_directories(folder);

  for (const std::string& name : images) {
    Image image = read_ppm(name);
    fill_input(image, sides[2], sides[3], net.input(input).changing<float>());
    net.forward();
    // 1 x 1 x D x 7; D differs from pass to pass. A row: number of the image in the batch, label,
    // confidence, xmin, ymin, xmax, ymax relative to the image. Label -1: there is no box.
    const crema::Tensor rows = net.output(output);
    if (rows.shape().rank() != 4 || rows.shape()[3] != 7)
      throw crema::Error("output '", output, "' is ", rows.shape().str(), ", not rows of 7");
    const auto width = static_cast<float>(image.width), height = static_cast<float>(image.height);
    for (int64_t r = 0; r < rows.shape()[2]; ++r) {
      const float* const row = rows.read<float>() + 7 * r;
      if (!std::all_of(row, row + 7, [](float value) { return std::isfinite(value); }))
        throw crema::Error("'", name, "': a box is not finite; was the training unstable?");
      if (row[1] < 0 || row[2] < kLeastConfidence) continue;
      if (row[1] < 1 || row[1] > 10) throw crema::Error("label ", row[1], " is no digit");
      const auto digit = static_cast<size_t>(row[1]) - 1;
      const auto at = [&](int k) { return std::clamp(row[k], 0.0f, 1.0f); };  // in the image
      const Box box{at(3) * width, at(4) * height, at(5) * width, at(6) * height};
      draw(image, box, digit);
      std::printf("%s %zu %.4f %.1f %.1f %.1f %.1f\n", name.c_str(), digit, row[2], box.xmin,
                  box.ymin, box.xmax, box.ymax);
    }
    write_ppm(image, copy_of(name, folder));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw crema::Error("cannot write to standard output; is the disk full?");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "detect_and_draw: " << error.what() << "\n";
    return 1;
  }
}
