// Reads digits from image files, for the programs in this folder.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "crema/error.hpp"

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
