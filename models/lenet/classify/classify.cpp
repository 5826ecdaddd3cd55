// Classifies grey images with a trained net:
//
//   classify deploy.prototxt weights.caffemodel image.pgm...
//
// prints a line an image: its most likely class and the probability. The net's input gets the
// pixels times 1/256, as models/lenet was trained.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "crema/crema.hpp"

namespace {

/// The pixels of a binary PGM file of the given size, as floats from 0 to 255.
std::vector<float> read_pgm(const std::string& path, int64_t height, int64_t width) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  int64_t w = 0, h = 0, most = 0;
  file >> magic >> w >> h >> most;
  file.get();
  std::vector<char> bytes(static_cast<size_t>(height * width));
  if (magic == "P5" && most == 255 && w == width && h == height)
    file.read(bytes.data(), height * width);
  if (!file || magic != "P5" || w != width || h != height) {
    throw crema::Error("'", path, "' is no binary PGM image of ", width, "x", height);
  }
  std::vector<float> pixels;
  for (char byte : bytes) pixels.push_back(static_cast<float>(static_cast<unsigned char>(byte)));
  return pixels;
}

int run(int argc, char** argv) {
  if (argc < 4)
    throw crema::Error("usage: classify deploy.prototxt weights.caffemodel image.pgm...");
  crema::Context context;
  crema::Net net(argv[1], context, {.phase = crema::Phase::test});
  net.load_weights(argv[2]);
  const std::string name = net.inputs().at(0);
  net.reshape_input(name, {1, 1, 28, 28});
  for (int i = 3; i < argc; ++i) {
    const std::vector<float> pixels = read_pgm(argv[i], 28, 28);
    float* input = net.input(name).host_overwrite<float>();
    std::transform(pixels.begin(), pixels.end(), input, [](float pixel) { return pixel / 256; });
    net.forward();
    const crema::Tensor output = net.output(net.outputs().at(0));
    const auto scores = output.values<float>();
    const auto best = std::max_element(scores.begin(), scores.end());
    std::printf("%s: %d (%.3f)\n", argv[i], static_cast<int>(best - scores.begin()), *best);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "classify: " << error.what() << "\n";
    return 1;
  }
}
