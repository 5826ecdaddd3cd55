// What commands share that show image files to a net with one input: the flags --list, --mean,
// --channel_mean, --scale, --channel_swap, --interp and --batch, the images, and their batches.
#pragma once

#include <gflags/gflags.h>

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "crema/net.hpp"
#include "data/batches/image_input.hpp"

DECLARE_string(list);
DECLARE_string(mean);
DECLARE_bool(channel_mean);
DECLARE_double(scale);
DECLARE_string(channel_swap);
DECLARE_string(interp);
DECLARE_int32(batch);
DECLARE_bool(skip_bad);

namespace crema::tools {

/// Image files. One may be named twice, as with two labels; its place among the paths tells which.
struct NamedImages {
  std::vector<std::string> paths;
  std::map<size_t, std::string> folders;  // of those of folders: the name of the one it is in
  std::map<size_t, int64_t> labels;       // of those of a list that has labels
};

/// The files that the arguments name, those in folders and in their folders among them, and those
/// of --list, whose lines may end with a label. Error if there are none.
NamedImages named_images(const char* command, const std::vector<std::string>& arguments);

/// The channels, height and width of the net's input. Error if it has several inputs, or one that
/// is of no images.
Shape image_shape(const char* command, const std::string& model, Net& net);

/// Channels, scale, mean and interpolation as the flags say; `mean` and `channel_mean` stand for
/// those flags. The whole image is resized to the input.
ImageInputOptions image_options(const Shape& sample, const std::string& mean, bool channel_mean);

/// Whether --mean names a mean image and not values.
bool is_mean_image(const std::string& mean);

/// An image of a batch.
struct ReadImage {
  size_t place;  // among the images to read
  std::string path;
  ImageSize size;  // of the file
};

struct ReadCounts {
  int bad = 0;   // images that could not be read
  int deep = 0;  // those of more than 8 bits a channel
};

/// Whether the command goes on behind an image that cannot be read: as --skip_bad says, or, where
/// it is not given, if there are other images.
bool goes_on_without(const std::vector<std::string>& images);

/// Reads the images into the net's input, whose batch becomes as large; if `skips`, without those
/// that cannot be read, which are logged. Returns the others.
std::vector<ReadImage> read_images(Net& net, ImageInput& input, const Shape& sample,
                                   std::span<const std::string> images, bool skips,
                                   ReadCounts& counts);

/// Logs how many of the images could not be read, or lack bits. Returns the exit status: 1 if some
/// could not be read.
int report_read(const ReadCounts& counts, size_t images);

/// Reads all images, --batch at a time, runs the net, and calls body(images) for each batch.
/// Returns the exit status.
template <class Body>
int for_each_batch(Net& net, ImageInput& input, const Shape& sample,
                   const std::vector<std::string>& images, const Body& body) {
  const auto batch = static_cast<size_t>(FLAGS_batch);
  const std::span<const std::string> all = images;
  const bool skips = goes_on_without(images);
  ReadCounts counts;
  for (size_t first = 0; first < images.size(); first += batch) {
    std::vector<ReadImage> read = read_images(
        net, input, sample, all.subspan(first, std::min(all.size() - first, batch)), skips, counts);
    if (read.empty()) continue;
    for (ReadImage& image : read) image.place += first;
    net.forward();
    body(read);
  }
  return report_read(counts, images.size());
}

}  // namespace crema::tools
