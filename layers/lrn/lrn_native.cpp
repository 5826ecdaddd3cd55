// The vectorized engine of LRN: f32; every memory format across channels, contiguous memory within
// a channel. What the forward pass computed is computed again in backward: only x has to be kept.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/lrn/lrn_native.cpp"
#include <algorithm>
#include <limits>
#include <vector>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "backend/cpu/math_lanes-inl.hpp"
#include "core/parallel.hpp"
#include "layer_support/native_engine.hpp"
#include "layer_support/options.hpp"
#include "layers/lrn/lrn.hpp"

#ifndef CREMA_LAYERS_LRN_NATIVE
#define CREMA_LAYERS_LRN_NATIVE
namespace crema::lrn_native {

/// Elements of a row that are taken through all channels at once.
constexpr int64_t kRun = 256;
/// Pixels whose blocks are read together: neighbours share cache lines.
constexpr int64_t kPixels = 8;

/// y = x * scale^-beta, scale = k + weight * (sum of x^2 over `reach` neighbours on each side), for
/// one sample, or one plane of one.
struct Problem {
  enum class Memory : uint8_t {
    planes,  // (height, width): within a plane
    rows,    // (channels, inner)
    pixels,  // (blocks, inner, block); channels_last is one block of all channels
  };
  int64_t reach = 2;
  float weight = 0, beta = 0.75F, k = 1;
  Memory memory = Memory::rows;
  int64_t height = 1, width = 1;
  int64_t channels = 0, inner = 0;
  int64_t blocks = 1, block = 1;

  /// Floats of scratch memory that each thread keeps.
  int64_t scratch(bool trains) const {
    switch (memory) {
      case Memory::planes:
        return (trains ? 2 : 1) * height * width + width + 2 * reach;
      case Memory::rows:
        return trains ? channels * kRun : 0;
      case Memory::pixels:
        break;
    }
    return (2 * kPixels + (trains ? 1 : 0)) * (blocks * block + 2 * reach);
  }
};

}  // namespace crema::lrn_native
#endif

HWY_BEFORE_NAMESPACE();
namespace crema::lrn_native {
namespace HWY_NAMESPACE {
namespace {

using namespace crema::HWY_NAMESPACE;  // the lanes
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D kFloats;

/// Room between two passes; each thread keeps its own.
float* room_of_thread(int64_t elements) {
  thread_local std::vector<float> room;
  if (room.size() < static_cast<size_t>(elements)) room.resize(static_cast<size_t>(elements));
  return room.data();
}

/// Sum of `count` vectors that lie `step` apart.
template <class Lanes>
HWY_INLINE V sum_of(Lanes lanes, const float* from, int64_t count, int64_t step) {
  V sum = hn::Zero(kFloats);
  for (int64_t r = 0; r < count; ++r) sum = hn::Add(sum, load(kFloats, lanes, from + r * step));
  return sum;
}
template <class Lanes>
HWY_INLINE V squares_of(Lanes lanes, const float* from, int64_t count, int64_t step) {
  V sum = hn::Zero(kFloats);
  for (int64_t r = 0; r < count; ++r) {
    const V v = load(kFloats, lanes, from + r * step);
    sum = hn::MulAdd(v, v, sum);
  }
  return sum;
}

/// The formulas for the sums of one vector of elements.
template <bool ThreeQuarters>
struct Norm {
  explicit HWY_INLINE Norm(const Problem& c)
      : weight(hn::Set(kFloats, c.weight)),
        k(hn::Set(kFloats, c.k)),
        beta(hn::Set(kFloats, c.beta)),
        factor(hn::Set(kFloats, 2 * c.weight * c.beta)) {}

  HWY_INLINE V inverse_scale(V squares) const {
    return hn::Div(hn::Set(kFloats, 1.0F), hn::MulAdd(squares, weight, k));
  }
  /// inverse^beta.
  HWY_INLINE V power(V inverse) const {
    const V root = hn::Sqrt(inverse);
    if (ThreeQuarters) return hn::Mul(root, hn::Sqrt(root));
    // The root gives what the logarithm does not: 0, infinity and NaN.
    const V infinity = hn::Set(kFloats, std::numeric_limits<float>::infinity());
    const auto ordinary = hn::And(hn::Gt(inverse, hn::Zero(kFloats)), hn::Lt(inverse, infinity));
    const V general = hn::Exp(kFloats, hn::Mul(beta, hn::Log(kFloats, inverse)));
    return hn::IfThenElse(ordinary, general, root);
  }
  /// y = x / scale^beta.
  template <class Lanes>
  HWY_INLINE void forward(Lanes lanes, V squares, const float* x, float* y) const {
    store(kFloats, lanes, hn::Mul(load(kFloats, lanes, x), power(inverse_scale(squares))), y);
  }
  /// direct = dy / scale^beta, ratio = direct * x / scale; direct may be dy.
  template <class Lanes>
  HWY_INLINE void split(Lanes lanes, V squares, const float* x, const float* dy, float* direct,
                        float* ratio) const {
    const V inverse = inverse_scale(squares);
    const V product = hn::Mul(load(kFloats, lanes, dy), power(inverse));
    const V own = load(kFloats, lanes, x);
    store(kFloats, lanes, product, direct);
    store(kFloats, lanes, hn::Mul(hn::Mul(product, own), inverse), ratio);
  }
  /// dx = direct - factor * ratios * x, where dx holds direct before.
  template <class Lanes>
  HWY_INLINE void gradient(Lanes lanes, V ratios, const float* x, float* dx) const {
    const V direct = load(kFloats, lanes, dx), own = load(kFloats, lanes, x);
    store(kFloats, lanes, hn::NegMulAdd(hn::Mul(ratios, factor), own, direct), dx);
  }

  V weight, k, beta, factor;
};

/// Calls body(Norm) with the power that the coefficients need.
template <class Body>
HWY_INLINE void with_norm(const Problem& c, const Body& body) {
  if (c.beta == 0.75F) {
    body(Norm<true>(c));
  } else {
    body(Norm<false>(c));
  }
}

/// The rows around c: those from `first` on, `count` of them.
struct Span {
  int64_t first, count;
};
HWY_INLINE Span around(int64_t c, int64_t reach, int64_t size) {
  const int64_t first = std::max<int64_t>(c - reach, 0);
  return {first, std::min(c + reach + 1, size) - first};
}

// The passes are not inlined into one function, in which they are up to 15 % slower.

// --- (channels, inner) ---------------------------------------------------------------------------

HWY_NOINLINE void rows(const Problem& p, int64_t begin, int64_t end, const float* x, float* y) {
  const int64_t channels = p.channels, inner = p.inner;
  with_norm(p, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t at = begin; at < end; at += kRun) {
      for (int64_t c = 0; c < channels; ++c) {
        const Span span = around(c, p.reach, channels);
        const float* const first = x + span.first * inner + at;
        const int64_t row = c * inner + at;
        each_vector(kFloats, std::min(kRun, end - at),
                    [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
                      norm.forward(lanes, squares_of(lanes, first + i, span.count, inner),
                                   x + row + i, y + row + i);
                    });
      }
    }
  });
}

HWY_NOINLINE void rows_gradient(const Problem& p, int64_t begin, int64_t end, const float* x,
                                const float* dy, float* dx) {
  const int64_t channels = p.channels, inner = p.inner;
  float* const ratios = room_of_thread(p.scratch(true));  // (channels, kRun)
  with_norm(p, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t at = begin; at < end; at += kRun) {
      const int64_t n = std::min(kRun, end - at);
      for (int64_t c = 0; c < channels + p.reach; ++c) {
        if (c < channels) {
          const Span span = around(c, p.reach, channels);
          const float* const first = x + span.first * inner + at;
          const int64_t row = c * inner + at;
          each_vector(kFloats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
            norm.split(lanes, squares_of(lanes, first + i, span.count, inner), x + row + i,
                       dy + row + i, dx + row + i, ratios + c * kRun + i);
          });
        }
        // By now the last neighbour of this channel has its ratio.
        const int64_t ready = c - p.reach;
        if (ready < 0) continue;
        const Span span = around(ready, p.reach, channels);
        const float* const first = ratios + span.first * kRun;
        const int64_t row = ready * inner + at;
        each_vector(kFloats, n, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          norm.gradient(lanes, sum_of(lanes, first + i, span.count, kRun), x + row + i,
                        dx + row + i);
        });
      }
    }
  });
}

// --- (blocks, inner, block) ----------------------------------------------------------------------

// A pixel's channels are copied to a row with `reach` zeros on both ends, so that its neighbours
// are shifted rows.

/// Copies the channels of some pixels: block b of pixel p from from + b * from_block + p *
/// from_pixel; likewise to.
HWY_INLINE void copy_pixels(int64_t blocks, int64_t block, int64_t pixels, const float* from,
                            int64_t from_block, int64_t from_pixel, float* to, int64_t to_block,
                            int64_t to_pixel) {
  auto copy = [&](auto d) CREMA_LANES_LAMBDA {
    for (int64_t b = 0; b < blocks; ++b) {
      for (int64_t p = 0; p < pixels; ++p) {
        const float* const source = from + b * from_block + p * from_pixel;
        float* const target = to + b * to_block + p * to_pixel;
        each_vector(d, block, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          store(d, lanes, load(d, lanes, source + i), target + i);
        });
      }
    }
  };
  // A load that follows a masked store of the same bytes is slow.
  if (block == 8) {
    copy(hn::CappedTag<float, 8>());
  } else {
    copy(kFloats);
  }
}

HWY_NOINLINE void pixels(const Problem& p, int64_t begin, int64_t end, const float* x, float* y) {
  const int64_t blocks = p.blocks, block = p.block, far = p.inner * block;
  const int64_t channels = blocks * block, step = channels + 2 * p.reach;
  float* const rows = room_of_thread(p.scratch(false));  // (kPixels, step)
  float* const results = rows + kPixels * step;          // (kPixels, step)
  std::fill_n(rows, kPixels * step, 0.0F);
  with_norm(p, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t first = begin; first < end; first += kPixels) {
      const int64_t count = std::min(kPixels, end - first);
      copy_pixels(blocks, block, count, x + first * block, far, block, rows + p.reach, block, step);
      for (int64_t r = 0; r < count; ++r) {
        const float* const row = rows + r * step;
        each_vector(kFloats, channels, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          norm.forward(lanes, squares_of(lanes, row + i, 2 * p.reach + 1, 1), row + p.reach + i,
                       results + r * step + i);
        });
      }
      copy_pixels(blocks, block, count, results, block, step, y + first * block, far, block);
    }
  });
}

HWY_NOINLINE void pixels_gradient(const Problem& p, int64_t begin, int64_t end, const float* x,
                                  const float* dy, float* dx) {
  const int64_t blocks = p.blocks, block = p.block, far = p.inner * block;
  const int64_t channels = blocks * block, step = channels + 2 * p.reach;
  float* const rows = room_of_thread(p.scratch(true));  // (kPixels, step)
  float* const d_rows = rows + kPixels * step;          // (kPixels, step)
  float* const ratios = d_rows + kPixels * step;        // (step)
  std::fill_n(rows, (2 * kPixels + 1) * step, 0.0F);
  with_norm(p, [&](const auto& norm) CREMA_LANES_LAMBDA {
    for (int64_t first = begin; first < end; first += kPixels) {
      const int64_t count = std::min(kPixels, end - first);
      copy_pixels(blocks, block, count, x + first * block, far, block, rows + p.reach, block, step);
      copy_pixels(blocks, block, count, dy + first * block, far, block, d_rows, block, step);
      for (int64_t r = 0; r < count; ++r) {
        const float* const row = rows + r * step;
        float* const d = d_rows + r * step;
        each_vector(kFloats, channels, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          norm.split(lanes, squares_of(lanes, row + i, 2 * p.reach + 1, 1), row + p.reach + i,
                     d + i, d + i, ratios + p.reach + i);
        });
        each_vector(kFloats, channels, [&](int64_t i, auto lanes) CREMA_LANES_LAMBDA {
          norm.gradient(lanes, sum_of(lanes, ratios + i, 2 * p.reach + 1, 1), row + p.reach + i,
                        d + i);
        });
      }
      copy_pixels(blocks, block, count, d_rows, block, step, dx + first * block, far, block);
    }
  });
}

// --- One plane -----------------------------------------------------------------------------------

/// along[v][u] = sum of in[v][u'] (squared) over the neighbourhood along a row; `padded` holds
/// width + 2 * reach elements.
template <bool Squared>
HWY_INLINE void sums_along(const Problem& p, const float* in, float* padded, float* along) {
  const int64_t width = p.width, reach = p.reach;
  std::fill_n(padded, width + 2 * reach, 0.0F);
  for (int64_t v = 0; v < p.height; ++v) {
    std::copy_n(in + v * width, width, padded + reach);
    each_vector(kFloats, width, [&](int64_t u, auto lanes) CREMA_LANES_LAMBDA {
      store(kFloats, lanes,
            Squared ? squares_of(lanes, padded + u, 2 * reach + 1, 1)
                    : sum_of(lanes, padded + u, 2 * reach + 1, 1),
            along + v * width + u);
    });
  }
}

/// Calls body(place in the plane, sum over the neighbourhood, lanes) for all of it.
template <class Body>
HWY_INLINE void each_box(const Problem& p, const float* along, const Body& body) {
  const int64_t width = p.width;
  for (int64_t v = 0; v < p.height; ++v) {
    const Span span = around(v, p.reach, p.height);
    each_vector(kFloats, width, [&](int64_t u, auto lanes) CREMA_LANES_LAMBDA {
      body(v * width + u, sum_of(lanes, along + span.first * width + u, span.count, width), lanes);
    });
  }
}

HWY_NOINLINE void plane(const Problem& p, const float* x, float* y) {
  float* const along = room_of_thread(p.scratch(false));
  sums_along<true>(p, x, along + p.height * p.width, along);
  with_norm(p, [&](const auto& norm) CREMA_LANES_LAMBDA {
    each_box(p, along, [&](int64_t i, V squares, auto lanes) CREMA_LANES_LAMBDA {
      norm.forward(lanes, squares, x + i, y + i);
    });
  });
}

HWY_NOINLINE void plane_gradient(const Problem& p, const float* x, const float* dy, float* dx) {
  const int64_t n = p.height * p.width;
  float* const along = room_of_thread(p.scratch(true));
  float *const ratios = along + n, *const padded = ratios + n;
  sums_along<true>(p, x, padded, along);
  with_norm(p, [&](const auto& norm) CREMA_LANES_LAMBDA {
    each_box(p, along, [&](int64_t i, V squares, auto lanes) CREMA_LANES_LAMBDA {
      norm.split(lanes, squares, x + i, dy + i, dx + i, ratios + i);
    });
    sums_along<false>(p, ratios, padded, along);
    each_box(p, along, [&](int64_t i, V sums, auto lanes) CREMA_LANES_LAMBDA {
      norm.gradient(lanes, sums, x + i, dx + i);
    });
  });
}

// --- Of any memory -------------------------------------------------------------------------------

/// Elements or pixels [begin, end) of one sample, or all of one plane.
void forward(const Problem& p, int64_t begin, int64_t end, const float* x, float* y) {
  if (p.memory == Problem::Memory::planes) return plane(p, x, y);
  if (p.memory == Problem::Memory::rows) return rows(p, begin, end, x, y);
  pixels(p, begin, end, x, y);
}
void backward(const Problem& p, int64_t begin, int64_t end, const float* x, const float* dy,
              float* dx) {
  if (p.memory == Problem::Memory::planes) return plane_gradient(p, x, dy, dx);
  if (p.memory == Problem::Memory::rows) return rows_gradient(p, begin, end, x, dy, dx);
  pixels_gradient(p, begin, end, x, dy, dx);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema::lrn_native
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace lrn_native {
namespace {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

/// Elements of all channels that one part should have at least.
constexpr int64_t kPartElements = 16384;

class LRNKernel : public NativeKernel<LRNLayer> {
 public:
  static std::vector<Option> options(const LRNLayer& lrn, Blobs bottom, Blobs top, std::string&) {
    const LRNSettings& settings = lrn.settings();
    if (!settings.across_channels) return {uniform_option(bottom, top, DType::f32)};
    // Without k, padding becomes 0 * infinity.
    return same_format_options(bottom, top, DType::f32, settings.k > 0);
  }

  LRNKernel(LRNLayer& lrn, Blobs bottom, Blobs) : NativeKernel(lrn) {
    const LRNSettings& settings = lrn.settings();
    const Tensor& x = bottom[0]->data;
    Problem& p = problem_ = {settings.reach, static_cast<float>(settings.weight),
                             static_cast<float>(settings.beta), static_cast<float>(settings.k)};
    p.channels = x.shape()[1];
    p.inner = x.shape().count(2);
    samples_ = x.shape()[0];
    sample_ = samples_ == 0 ? 0 : x.storage() / samples_;
    // Samples are cut between pixels; `run_` is a whole number of cache lines of every format.
    run_ = std::max<int64_t>(kPartElements / std::max<int64_t>(p.channels, 1) / 64, 1) * 64;
    grain_ = 1;
    if (!settings.across_channels) {
      p.memory = Problem::Memory::planes;
      samples_ *= p.channels;
      sample_ = p.inner;
      p.height = x.shape()[2];
      p.width = x.shape()[3];
      run_ = std::max<int64_t>(p.inner, 1);
      grain_ = kPartElements / run_;
    } else if (x.format() != Format::contiguous || p.inner <= 1) {
      p.memory = Problem::Memory::pixels;
      p.block = block_of(x.format()) > 1 ? block_of(x.format()) : p.channels;
      p.blocks = p.block == 0 ? 0 : (p.channels + p.block - 1) / p.block;
    }
    parts_ = (p.inner + run_ - 1) / run_;
    scratch_bytes_ = static_cast<size_t>(p.scratch(lrn.trains())) * sizeof(float);
  }

  void plan_scratch(ScratchPlan& plan) const override {
    const auto threads = static_cast<size_t>(std::min<int64_t>(plan.threads(), samples_ * parts_));
    plan.need("lrn", threads * scratch_bytes_);
  }

 protected:
  void run_forward(LRNLayer&, Blobs bottom, Blobs top) override {
    const float* x = bottom[0]->data.read<float>();
    float* y = top[0]->data.overwrite<float>();
    each_part([&](int64_t at, int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(forward)(problem_, begin, end, x + at, y + at);
    });
  }

  void run_backward(LRNLayer&, Blobs top, const std::vector<bool>&, Blobs bottom) override {
    const float* x = bottom[0]->data.read<float>();
    const float* dy = top[0]->diff.read<float>();
    float* dx = bottom[0]->diff.overwrite<float>();
    each_part([&](int64_t at, int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(backward)(problem_, begin, end, x + at, dy + at, dx + at);
    });
  }

 private:
  /// Runs body(offset of the sample or plane, begin, end) for parts of it that threads share out.
  template <class Body>
  void each_part(const Body& body) const {
    parallel_for(samples_ * parts_, grain_, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t begin = i % parts_ * run_;
        body(i / parts_ * sample_, begin, std::min(begin + run_, problem_.inner));
      }
    });
  }

  Problem problem_;
  int64_t samples_ = 0;          // or planes
  int64_t sample_ = 0;           // elements of one, padding counted
  int64_t parts_ = 1, run_ = 1;  // parts of one, and elements or pixels of a part
  int64_t grain_ = 1;            // parts for which a further thread is worthwhile
  size_t scratch_bytes_ = 0;     // of each thread
};

}  // namespace
}  // namespace lrn_native

void register_lrn_native(Registry& registry) {
  registry.add_engine<NativeEngine<lrn_native::LRNKernel>>("LRN", "native", DeviceType::cpu);
}

}  // namespace crema
#endif
