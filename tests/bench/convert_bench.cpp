// Bandwidth of conversions between memory formats: bytes read and written a second. The first one,
// contiguous to contiguous, is a plain copy: what the machine can do.
#include <benchmark/benchmark.h>

#include "core/convert.hpp"
#include "crema/tensor.hpp"

namespace crema {
namespace {

const Shape kShapes[] = {Shape{8, 256, 56, 56}, Shape{16, 64, 112, 112}, Shape{8, 512, 7, 7},
                         Shape{32, 3, 224, 224}};

void convert_format(benchmark::State& state) {
  const Shape& shape = kShapes[state.range(0)];
  const auto from = static_cast<Format>(state.range(1));
  const auto to = static_cast<Format>(state.range(2));
  const auto dtype = static_cast<DType>(state.range(3));
  Tensor source(shape, DType::f32, from);
  source.fill(1);
  Tensor target(shape, dtype, to);
  for (auto _ : state) target.copy_from(source);
  state.SetBytesProcessed(
      static_cast<int64_t>(state.iterations() * (source.bytes() + target.bytes())));
  state.SetLabel(
      text(shape.str(), " f32 ", to_string(from), " -> ", to_string(dtype), " ", to_string(to)));
}

void conversions(benchmark::internal::Benchmark* benchmark) {
  for (int shape = 0; shape < 4; ++shape) {
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < 4; ++to) {
        if (from == to && from != 0) continue;
        benchmark->Args({shape, from, to, static_cast<int>(DType::f32)});
      }
    }
    for (int to = 0; to < 2; ++to) benchmark->Args({shape, 0, to, static_cast<int>(DType::bf16)});
    for (int to = 0; to < 2; ++to) benchmark->Args({shape, 0, to, static_cast<int>(DType::f16)});
  }
}

BENCHMARK(convert_format)->Apply(conversions)->UseRealTime()->MinTime(0.1);

}  // namespace
}  // namespace crema
