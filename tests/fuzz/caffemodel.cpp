// A binary weights file: read with and without its checksum, upgraded, and loaded into a small net.
#include "crema/net.hpp"
#include "fuzz/target.hpp"
#include "model/binary_format.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/upgrade.hpp"

using namespace crema;

namespace {

Net make_net() {
  NetParameter param;
  parse_text_proto(R"(
      layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 2, 3, 3] } } }
      layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
              convolution_param { num_output: 2 kernel_size: 2 } }
      layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "conv" }
      layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
      layer { name: "fc" type: "InnerProduct" bottom: "conv" top: "fc"
              inner_product_param { num_output: 2 } })",
                   "small.prototxt", param);
  return Net(param, fuzz::quiet_context(), {.phase = Phase::test});
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  static Net net = make_net();
  // HDF5 files are those of another library.
  if (fuzz::text_of(bytes, count).starts_with("\x89HDF")) return 0;
  const std::string path = fuzz::write_input("net.caffemodel", bytes, count);
  NetParameter weights;
  const bool read = fuzz::attempt([&] { read_binary_proto(path, weights, Verify::nothing); });
  if (!read) return 0;
  fuzz::attempt_in_little_memory([&] { net.load_weights(path); });
  fuzz::attempt_in_little_memory([&] { values_checksum(weights); });
  fuzz::attempt_in_little_memory([&] {
    upgrade_net(weights);
    net.load_weights(weights, true);
  });
  return 0;
}
