// Contexts of this program on CUDA have the device of the tests: the functions of backend/none,
// with a FakeDevice behind them. Engines of devices run on the host, on memory that is not the
// host's.
#include "crema/registry.hpp"
#include "support/fake_device.hpp"

namespace crema {
namespace {

class ConversionKernel : public Kernel {
 public:
  explicit ConversionKernel(const Layer& layer)
      : Kernel(layer), device_(layer.context().backend()) {}
  void forward(Blobs bottom, Blobs top) override { run(bottom[0]->data, top[0]->data); }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (propagate[0]) run(top[0]->diff, bottom[0]->diff);
  }
  bool capturable() const override { return true; }

 private:
  void run(const Tensor& from, Tensor& to) const {
    device_.backend()->queue_loop([shape = from.shape(), from_dtype = from.dtype(),
                                   from_format = from.format(), x = device_.read_bytes(from),
                                   to_dtype = to.dtype(), to_format = to.format(),
                                   y = device_.overwrite_bytes(to)] {
      convert_as_devices_do(shape, from_dtype, from_format, x, to_dtype, to_format, y);
    });
  }
  ComputeDevice device_;
};

class ConversionEngine : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs bottom, Blobs top, std::string&) const override {
    return {{.bottoms = {bottom[0]->data.layout()}, .tops = {top[0]->data.layout()}}};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<ConversionKernel>(layer);
  }
};

}  // namespace

std::unique_ptr<DeviceBackend> make_cuda_backend(int) { return std::make_unique<FakeDevice>(); }

void register_device_engines(Registry& registry) {
  registry.add_engine<ConversionEngine>("Conversion", "cuda", DeviceType::cuda);
}

std::vector<DeviceInfo> cuda_devices(std::string&) {
  return {{.index = 0, .name = "the device of the tests"}};
}

}  // namespace crema
