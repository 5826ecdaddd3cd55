// Reads digits from image files into the input of a net, for the programs in this folder.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "crema/crema.hpp"

/// The only name in `names`, which are the inputs or outputs (`kind`) of the net in the file
/// `deploy`. A crema::Error if there are several or none: a train_val.prototxt has data layers
/// instead of an input.
inline std::string only_one(const std::vector<std::string>& names, const std::string& kind,
                            const std::string& deploy) {
  if (names.empty()) throw crema::Error("'", deploy, "' has no ", kind, "; give a deploy.prototxt");
  if (names.size() > 1)
    throw crema::Error("'", deploy, "' has several ", kind, "s, ", crema::joined(names),
                       "; give a net with one");
  return names[0];
}

/// The name of the net's input, which is (any, 1, H, W). A crema::Error if it is another one.
inline std::string digit_input(crema::Net& net, const std::string& deploy) {
  const std::string name = only_one(net.inputs(), "input", deploy);
  const crema::Shape& shape = net.input(name).shape();
  if (shape.rank() != 4 || shape[1] != 1)
    throw crema::Error("input '", name, "' of '", deploy, "' is ", shape.str(),
                       "; grey images are N x 1 x H x W");
  return name;
}

/// The next number of a header, which may have lines of comment before it: `# by GIMP`.
inline int64_t header_number(std::istream& file) {
  while ((file >> std::ws).peek() == '#')
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  int64_t number = 0;
  file >> number;
  return number;
}

/// Writes the height * width pixels of a binary PGM file, which are 0 to 255, to `out` as LeNet was
/// trained on them: times 1/256. A crema::Error if the file is no such image.
inline void read_digit(const std::string& path, int64_t height, int64_t width, float* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw crema::Error("cannot open '", path, "'");
  std::string magic;
  file >> magic;
  const int64_t w = header_number(file), h = header_number(file), most = header_number(file);
  if (!file || magic != "P5" || w != width || h != height || most != 255 ||
      !std::isspace(file.get()))
    throw crema::Error("'", path, "' is no binary PGM image of ", width, "x", height);
  std::vector<char> bytes(static_cast<size_t>(height * width));
  if (!file.read(bytes.data(), height * width)) throw crema::Error("'", path, "' is cut off");
  std::transform(bytes.begin(), bytes.end(), out, [](char byte) {
    return static_cast<float>(static_cast<unsigned char>(byte)) / 256;
  });
}
