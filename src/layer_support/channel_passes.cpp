#include "layer_support/channel_passes.hpp"

#include "backend/relu.hpp"
#include "core/dispatch.hpp"
#include "layer_support/channel_phases.hpp"
#include "layer_support/passes.hpp"

namespace crema::channels {
namespace {

// Of a thread: some 32 vectors at most where one piece does, and about 256 at most for the sake of
// rounding: up to 512 where pieces are rounded up to whole rows and planes. Maps have no such
// bound.
constexpr GridLimits kSumLimits{.single = 32, .least = 16, .most = 256};
constexpr GridLimits kMapLimits{.single = 2, .least = 2, .most = int64_t{1} << 40};
constexpr int kMostResident = 4;

int multiprocessors_of([[maybe_unused]] const ComputeDevice& device) {
#ifdef __CUDACC__
  if (!device.on_host()) return cuda(*device.backend()).multiprocessors();
#endif
  constexpr int kOfTests = 4;
  return kOfTests;
}

/// For blocks of a device that share so many pairs.
template <class Blocks>
GridLimits limits_for(const ComputeDevice& device, GridLimits limits, [[maybe_unused]] int shared) {
  static_assert(Blocks::kResident <= kMostResident);
  limits.multiprocessors = multiprocessors_of(device);
  limits.blocks = Blocks::kResident;
#ifdef __CUDACC__
  // The memory that blocks share may be short before the registers are.
  if (!device.on_host()) limits.blocks = cuda_resident_blocks<Blocks>(shared);
#endif
  return limits;
}

/// Calls body with a zero of the stored type, of which T is the computing type.
template <class T, class Body>
void dispatch_stored(DType dtype, const Body& body) {
  if constexpr (std::is_same_v<T, double>) {
    if (dtype == DType::f64) return body(double{});
  } else {
    if (dtype == DType::f32) return body(float{});
    if (dtype == DType::bf16) return body(bfloat16{});
    if (dtype == DType::f16) return body(float16{});
  }
  throw Error("a map of ", to_string(dtype), " is not computed in ", to_string(dtype_of<T>()));
}

template <class S>
const S* read(const ComputeDevice& device, const Tensor* tensor) {
  return tensor != nullptr ? device.read<S>(*tensor) : nullptr;
}

/// Of operands, which may be null.
template <class S, int kCount>
bool all_aligned(S* const (&operands)[kCount]) {
  return std::all_of(std::begin(operands), std::end(operands), is_aligned);
}

/// Memory of sums and of origins.
struct SumMemory {
  SumPair* sums;
  double* origins;
};
int64_t doubles_of(int64_t pieces, int64_t count, bool has_origins) {
  return 2 * pieces * count + (has_origins ? count : 0);
}

/// Scratch memory for the sums of all pieces, of all of them together, and for the origins.
SumMemory sum_memory(const ComputeDevice& device, const ChannelGrid& grid) {
  // The device of the tests has memory of the host.
  static thread_local Tensor on_host;
  auto* const memory =
      pass_scratch<double>(device, doubles_of(grid.pieces + 1, grid.count(), true), on_host);
  return {reinterpret_cast<SumPair*>(memory), memory + 2 * (grid.pieces + 1) * grid.count()};
}

struct StoreTotal {
  SumPair* totals;
  CREMA_FUNCTOR void operator()(int64_t i, const SumPair& sums) const { totals[i] = sums; }
};

/// The first stage of sums that may end in gradients.
template <class S, class Term>
PartialSums sum_terms(const ComputeDevice& device, const ChannelMaps& maps, const Term& term,
                      const AddSums<Wide<S>>& end) {
  const ChannelGrid grid(maps, kVector<S>, all_aligned(term.from),
                         limits_for<SumBlocks<Term>>(
                             device, kSumLimits, SumBlocks<Term>::shared_of(maps.view.inner == 1)));
  const SumMemory memory = sum_memory(device, grid);
  run_phases(device, SumBlocks<Term>{grid, term, memory.sums, memory.origins, end});
  return {memory.sums, grid.pieces, grid.count(), memory.origins};
}

template <class T>
PartialSums sum_gradients(const ComputeDevice& device, const ChannelMaps& maps,
                          const GradientOperands& from, const Coefficients<const T>& coefficients,
                          const AddSums<T>& end) {
  PartialSums result;
  dispatch_stored<T>(from.dy->dtype(), [&]<class S>(S) {
    const GradientTerm<S> term{
        {},
        {read<S>(device, from.dy), read<S>(device, from.x), read<S>(device, from.y)},
        coefficients,
        from.mask};
    result = sum_terms<S>(device, maps, term, end);
  });
  return result;
}

}  // namespace

ChannelMaps channels_of(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  // Of one channel, all values lie side by side, and fill vectors.
  if (shape.rank() < 2 || shape[1] == 1) return {{1, 1, shape.count()}};
  const int64_t inner = shape.count(2);
  if (tensor.format() == Format::channels_last) return {{shape[0] * inner, shape[1], 1}};
  return {{shape[0], shape[1], inner}};
}

ChannelMaps channels_of_samples(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  if (shape.rank() < 2) return {{1, 1, shape.count()}};
  const int64_t inner = shape.count(2);
  if (tensor.format() == Format::channels_last && shape[1] > 1)
    return {{inner, shape[1], 1}, shape[0]};
  return {{1, shape[0] * shape[1], inner}};
}

size_t sums_scratch_bytes(Context& context, const ChannelMaps& maps) {
  const ComputeDevice device =
      context.on_gpu() ? ComputeDevice(context.backend()) : ComputeDevice();
  return sums_scratch_bytes(multiprocessors_of(device), maps);
}

size_t sums_scratch_bytes(int multiprocessors, const ChannelMaps& maps) {
  GridLimits limits = kSumLimits;
  limits.multiprocessors = multiprocessors;
  int64_t doubles = 0;
  // More blocks do not always mean more pieces.
  for (limits.blocks = 1; limits.blocks <= kMostResident; ++limits.blocks) {
    for (const int vector : {kVector<double>, kVector<float>, kVector<bfloat16>}) {
      const ChannelGrid grid(maps, vector, true, limits);
      doubles = std::max(doubles, doubles_of(grid.pieces + 1, grid.count(), true));
    }
  }
  return static_cast<size_t>(doubles) * sizeof(double);
}

PartialSums moment_sums(const ComputeDevice& device, const ChannelMaps& maps, const Tensor& x) {
  PartialSums result;
  dispatch_any_float(x.dtype(), [&]<class S>(S) {
    result = sum_terms<S>(device, maps, MomentTerm<S>{{}, {device.read<S>(x)}}, {});
  });
  return result;
}

template <class T>
PartialSums gradient_sums(const ComputeDevice& device, const ChannelMaps& maps,
                          const GradientOperands& from, const Coefficients<const T>& coefficients) {
  return sum_gradients<T>(device, maps, from, coefficients, {});
}

PartialSums total_sums(const ComputeDevice& device, const PartialSums& of) {
  if (of.pieces == 1) return of;
  // sum_memory() has room for one more piece.
  auto* const totals = const_cast<SumPair*>(of.sums) + of.pieces * of.count;
  finish_sums(device, of, StoreTotal{totals});
  return {totals, 1, of.count, of.origins};
}

template <class T>
void add_sums(const ComputeDevice& device, const ChannelMaps& maps, const GradientOperands& from,
              const AddSums<T>& to) {
  const PartialSums sums = sum_gradients<T>(device, maps, from, {}, to);
  if (sums.pieces > 1) finish_sums(device, sums, to);
}

template <class T>
void add_channel_sums(const ComputeDevice& device, const ChannelView& view, int64_t grain,
                      const T* values, bool overwrites, T* gradient) {
  if (device.on_host()) {
    return channel_sums(HostSide(), view, grain, ValueTerm<T>{values},
                        AccumulateSum<T>{static_cast<T>(overwrites ? 0 : 1), gradient});
  }
  const AddSums<T> to{gradient, nullptr, overwrites};
  const GradientTerm<T> term{{}, {values, nullptr, nullptr}, {}, Mask::all};
  const PartialSums sums = sum_terms<T>(device, {view}, term, to);
  if (sums.pieces > 1) finish_sums(device, sums, to);
}

template <class T>
void add_column_sums(const ComputeDevice& device, int64_t rows, int64_t size, const Tensor& dy,
                     const Tensor& x, const Coefficients<const T>& of_rows, const AddSums<T>& to) {
  dispatch_stored<T>(dy.dtype(), [&]<class S>(S) {
    const ColumnTerm<S> term{{device.read<S>(dy), device.read<S>(x)}, of_rows};
    const PartialSums sums = sum_terms<S>(device, {{rows, size, 1}}, term, to);
    if (sums.pieces > 1) finish_sums(device, sums, to);
  });
}

template <class T>
void map_affine(const ComputeDevice& device, const ChannelMaps& maps, const Tensor& x,
                const Tensor* add, const Coefficients<const T>& coefficients, bool relu,
                Tensor& y) {
  dispatch_stored<T>(x.dtype(), [&]<class S>(S) {
    const AffineMap<S> map{
        {device.read<S>(x), read<S>(device, add)}, {device.overwrite<S>(y)}, coefficients, relu};
    ChannelGrid grid(maps, kVector<S>, all_aligned(map.from) && all_aligned(map.to),
                     limits_for<MapBlocks<AffineMap<S>>>(device, kMapLimits, 0));
    grid.reversed = true;  // what the pass before read last may still be in the cache
    run_phases(device, MapBlocks<AffineMap<S>>{grid, map});
  });
}

template <class T>
void map_gradient(const ComputeDevice& device, const ChannelMaps& maps,
                  const GradientOperands& from, const Coefficients<const T>& coefficients,
                  Tensor* dx, Tensor* d_add) {
  dispatch_stored<T>(from.dy->dtype(), [&]<class S>(S) {
    // Reads before writes: what is written may be what is read.
    GradientMap<S> map{{read<S>(device, from.dy), read<S>(device, from.x), read<S>(device, from.y)},
                       {nullptr, nullptr},
                       coefficients,
                       from.mask};
    if (dx != nullptr) map.to[0] = device.overwrite<S>(*dx);
    if (d_add != nullptr) map.to[1] = device.overwrite<S>(*d_add);
    ChannelGrid grid(maps, kVector<S>, all_aligned(map.from) && all_aligned(map.to),
                     limits_for<MapBlocks<GradientMap<S>>>(device, kMapLimits, 0));
    grid.reversed = true;
    run_phases(device, MapBlocks<GradientMap<S>>{grid, map});
  });
}

template PartialSums gradient_sums<float>(const ComputeDevice&, const ChannelMaps&,
                                          const GradientOperands&,
                                          const Coefficients<const float>&);
template PartialSums gradient_sums<double>(const ComputeDevice&, const ChannelMaps&,
                                           const GradientOperands&,
                                           const Coefficients<const double>&);
template void add_sums<float>(const ComputeDevice&, const ChannelMaps&, const GradientOperands&,
                              const AddSums<float>&);
template void add_sums<double>(const ComputeDevice&, const ChannelMaps&, const GradientOperands&,
                               const AddSums<double>&);
template void add_channel_sums<float>(const ComputeDevice&, const ChannelView&, int64_t,
                                      const float*, bool, float*);
template void add_channel_sums<double>(const ComputeDevice&, const ChannelView&, int64_t,
                                       const double*, bool, double*);
template void add_column_sums<float>(const ComputeDevice&, int64_t, int64_t, const Tensor&,
                                     const Tensor&, const Coefficients<const float>&,
                                     const AddSums<float>&);
template void add_column_sums<double>(const ComputeDevice&, int64_t, int64_t, const Tensor&,
                                      const Tensor&, const Coefficients<const double>&,
                                      const AddSums<double>&);
template void map_affine<float>(const ComputeDevice&, const ChannelMaps&, const Tensor&,
                                const Tensor*, const Coefficients<const float>&, bool, Tensor&);
template void map_affine<double>(const ComputeDevice&, const ChannelMaps&, const Tensor&,
                                 const Tensor*, const Coefficients<const double>&, bool, Tensor&);
template void map_gradient<float>(const ComputeDevice&, const ChannelMaps&, const GradientOperands&,
                                  const Coefficients<const float>&, Tensor*, Tensor*);
template void map_gradient<double>(const ComputeDevice&, const ChannelMaps&,
                                   const GradientOperands&, const Coefficients<const double>&,
                                   Tensor*, Tensor*);

}  // namespace crema::channels
