// Reads digits from image files, for the programs in this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "crema/error.hpp"

/// Writes the height * width pixels of a binary PGM file, which are 0 to 255, to `out` as LeNet was
/// trained on them: times 1/256. A crema::Error if the file is no such image.
inline void read_digit(const std::string& path, int64_t height, int64_t width, float* out) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw crema::Error("cannot open '", path, "'");
  std::string magic;
  int64_t w = 0, h = 0, most = 0;
  file >> magic >> w >> h >> most;
  file.get();
  if (!file || magic != "P5" || w != width || h != height || most != 255)
    throw crema::Error("'", path, "' is no binary PGM image of ", width, "x", height);
  std::vector<char> bytes(static_cast<size_t>(height * width));
  if (!file.read(bytes.data(), height * width)) throw crema::Error("'", path, "' is cut off");
  std::transform(bytes.begin(), bytes.end(), out, [](char byte) {
    return static_cast<float>(static_cast<unsigned char>(byte)) / 256;
  });
}
