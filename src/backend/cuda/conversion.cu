// Tensors of any floating point type and format: conversions, sums, and one value everywhere.
#include "backend/conversion_math.hpp"
#include "backend/cuda/kernels.cuh"
#include "crema/registry.hpp"

namespace crema {
namespace {

void convert_on_device(CudaBackend& backend, const Tensor& source, Tensor& target) {
  if (target.storage() == 0) return;
  const ElementOrder from(source.shape(), source.format()), to(target.shape(), target.format());
  dispatch_any_float(source.dtype(), [&](auto from_zero) {
    dispatch_any_float(target.dtype(), [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* x = source.read<From>(&backend);
      To* y = target.overwrite<To>(&backend);
      cuda_for_each(backend, target.storage(),
                    ConvertElement<To, From>{to, from, to.same_as(from), x, y});
    });
  });
}

class ConversionKernel : public Kernel {
 public:
  explicit ConversionKernel(const Layer& layer) : Kernel(layer), backend_(cuda(layer.context())) {}
  void forward(Blobs bottom, Blobs top) override {
    convert_on_device(backend_, bottom[0]->data, top[0]->data);
  }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (propagate[0]) convert_on_device(backend_, top[0]->diff, bottom[0]->diff);
  }

 private:
  CudaBackend& backend_;
};

/// Of the layer Conversion in src/net/layouts.cpp.
class ConversionCuda : public Engine {
 public:
  std::vector<Option> options(const Layer&, Blobs bottom, Blobs top,
                              std::string& why) const override {
    Option option;
    for (const auto& [blobs, layouts] : {std::pair(bottom, &option.bottoms), {top, &option.tops}}) {
      const Tensor& data = blobs[0]->data;
      if (!is_float(data.dtype())) {
        why = text("it converts floating point types only, not ", to_string(data.dtype()));
        return {};
      }
      layouts->push_back({data.dtype(), data.format()});
    }
    return {option};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs, Blobs) const override {
    return std::make_unique<ConversionKernel>(layer);
  }
};

}  // namespace

void register_device_engines(Registry& registry) {
  registry.add_engine<ConversionCuda>("Conversion", "cuda", DeviceType::cuda);
}

void CudaBackend::add(DType dtype, int64_t count, std::span<const void* const> terms, void* sum) {
  activate();
  dispatch_any_float(dtype, [&](auto zero) {
    cuda_for_each(*this, count, SumElement<decltype(zero)>(terms, sum));
  });
}

void CudaBackend::fill(DType dtype, int64_t count, double value, bool adds, void* y) {
  activate();
  dispatch_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda_for_each(*this, count, FillElement<T>{static_cast<T>(value), adds, static_cast<T*>(y)});
  });
}

}  // namespace crema
