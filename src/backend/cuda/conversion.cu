// Tensors of any floating point type and format: conversions, sums, and one value everywhere.
#include "backend/conversion_math.hpp"
#include "backend/cuda/vectors.cuh"
#include "crema/registry.hpp"

namespace crema {
namespace {

constexpr int kTile = 32, kTileRows = 8;

/// to[n][k][r] = from[n][r][k]: contiguous memory to channels_last and back. By tiles, so that
/// neighbouring threads read and write neighbours.
template <class T>
__global__ void transpose_kernel(int64_t tiles, int64_t rows, int64_t columns, FastDivision across,
                                 FastDivision down, ValuesIn<T> from, ValuesOut<T> to) {
  __shared__ T tile[kTile][kTile + 1];
  const auto x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const auto by_across = across.divide(t);
    const auto by_down = down.divide(by_across.quotient);
    const int64_t base = by_down.quotient * rows * columns;
    const int64_t row = by_down.remainder * kTile, column = by_across.remainder * kTile;
    for (int i = y; i < kTile; i += kTileRows) {
      if (row + i < rows && column + x < columns) {
        tile[i][x] = from[base + (row + i) * columns + column + x];
      }
    }
    __syncthreads();
    for (int i = y; i < kTile; i += kTileRows) {
      if (column + i < columns && row + x < rows) {
        to[base + (column + i) * rows + row + x] = tile[x][i];
      }
    }
    __syncthreads();
  }
}

template <class T>
void transpose(CudaBackend& backend, int64_t images, int64_t rows, int64_t columns,
               ValuesIn<T> from, ValuesOut<T> to) {
  const int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const int64_t tiles = images * across * down;
  constexpr int64_t kMostBlocks = 1 << 16;
  const auto blocks = static_cast<unsigned>(std::min(tiles, kMostBlocks));
  transpose_kernel<T><<<blocks, dim3(kTile, kTileRows), 0, backend.stream()>>>(
      tiles, rows, columns, FastDivision(across, tiles + 1), FastDivision(down, tiles + 1), from,
      to);
  cuda_check(cudaGetLastError(), "launching a conversion of formats");
}

template <class T>
void convert_in(CudaBackend& backend, const Tensor& source, Tensor& target) {
  const ElementOrder from(source.shape(), source.format()), to(target.shape(), target.format());
  const ValuesIn<T> x(source.read_bytes(&backend), stored_as<T>(source.dtype()));
  const ValuesOut<T> y(target.overwrite_bytes(&backend), stored_as<T>(target.dtype()));
  const int64_t count = target.storage();
  if (to.same_as(from)) {
    return cuda_for_each_pack<T>(backend, count, aligned(x, y), ConvertPack<T>{x, y});
  }
  // With few channels, tiles would be mostly empty.
  constexpr int64_t kFew = 8;
  const auto is = [&](Format one, Format other) {
    return source.format() == one && target.format() == other;
  };
  const int64_t channels = to.channels, places = to.places;
  const int64_t images = std::min(channels, places) < kFew ? 0 : source.shape()[0];
  if (images > 0 && is(Format::contiguous, Format::channels_last)) {
    return transpose<T>(backend, images, channels, places, x, y);
  }
  if (images > 0 && is(Format::channels_last, Format::contiguous)) {
    return transpose<T>(backend, images, places, channels, x, y);
  }
  cuda_for_each(backend, count, ConvertOrdered<T>(from, to, count, x, y));
}

void convert_on_device(CudaBackend& backend, const Tensor& source, Tensor& target) {
  if (target.storage() == 0) return;
  const bool is_double = source.dtype() == DType::f64 || target.dtype() == DType::f64;
  is_double ? convert_in<double>(backend, source, target)
            : convert_in<float>(backend, source, target);
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
  bool capturable() const override { return true; }

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
  const auto add_in = [&](auto zero) {
    using T = decltype(zero);
    const SumPack<T> body(terms, stored_as<T>(dtype), sum);
    cuda_for_each_pack<T>(*this, count, body.are_aligned(), body);
  };
  dtype == DType::f64 ? add_in(double{}) : add_in(float{});
}

void CudaBackend::fill(DType dtype, int64_t count, double value, bool adds, void* y) {
  activate();
  dispatch_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    cuda_for_each(*this, count, FillElement<T>{static_cast<T>(value), adds, static_cast<T*>(y)});
  });
}

}  // namespace crema
