// Classifies grey images with a trained net:
//
//   classify deploy.prototxt weights.caffemodel image.pgm...
//
// prints a line an image: its most likely class and the probability. The net's input gets the
// pixels times 1/256, as models/lenet was trained.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "../pgm.hpp"
#include "crema/crema.hpp"

namespace {

int run(int argc, char** argv) {
  if (argc < 4)
    throw crema::Error("usage: classify deploy.prototxt weights.caffemodel image.pgm...");
  crema::Context context({.tuning_file = crema::user_tuning_file()});
  crema::Net net(argv[1], context, {.phase = crema::Phase::test});
  const std::vector<std::string> missing = net.load_weights(argv[2]).missing;
  if (!missing.empty())
    throw crema::Error("'", argv[2], "' has no weights for ", crema::joined(missing), " of '",
                       argv[1], "'; give weights that were trained for this net");
  const std::string input = digit_input(net, argv[1]);
  const std::string output = only_one(net.outputs(), "output", argv[1]);
  const crema::Shape sample = net.input(input).shape();  // (any, 1, H, W)
  net.reshape_input(input, {1, 1, sample[2], sample[3]});
  for (int i = 3; i < argc; ++i) {
    read_digit(argv[i], sample[2], sample[3], net.input(input).overwrite<float>());
    net.forward();
    const crema::Tensor classes = net.output(output);
    const auto scores = classes.values<float>();
    const auto best = std::max_element(scores.begin(), scores.end());
    std::printf("%s: %d (%.3f)\n", argv[i], static_cast<int>(best - scores.begin()), *best);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw crema::Error("cannot write to standard output; is the disk full?");
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
