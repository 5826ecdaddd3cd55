// host PLUGIN [NET]: loads the plug-in, twice, and runs the net on x = 1; prints the types that
// came and the net's output "y", or the error.
#include <algorithm>
#include <exception>
#include <iostream>

#include "crema/crema.hpp"

int main(int argc, char** argv) {
  try {
    const crema::Plugin plugin = crema::load_plugin(argv[1]);
    if (crema::load_plugin(argv[1]).path != plugin.path) return 2;
    for (const std::string& type : plugin.types) std::cout << plugin.name << ": " << type << "\n";
    if (argc < 3) return 0;
    crema::Context context;
    crema::Net net(argv[2], context, {.keep_all = true});
    const auto fill = [](crema::Tensor& values) {
      std::fill_n(&values.overwrite<float>()[0], values.count(), 1.0F);
    };
    fill(net.input("x"));
    net.forward();
    fill(net.blob("y").diff);
    net.backward();
    for (const crema::Tensor* values : {&net.blob("y").data, &net.blob("x").diff}) {
      std::cout << values->at(0) << " " << values->at(values->count() - 1) << "\n";
    }
  } catch (const std::exception& error) {
    std::cout << error.what() << "\n";
    return 1;
  }
  return 0;
}
