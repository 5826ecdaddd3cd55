// Each pass is an operation on vectors: of neighbouring elements of one channel (rows), or of
// neighbouring channels of one pixel (strips), whose coefficients and sums stay in registers over
// the elements or pixels. A pass may add up in f32 until flush().
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/channelwise.cpp"
#include "backend/cpu/channelwise.hpp"

#include <algorithm>
#include <type_traits>

#include "backend/cpu/highway.hpp"
#include "backend/cpu/lanes-inl.hpp"
#include "core/parallel.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema::HWY_NAMESPACE {
namespace {

/// Pixels that a strip takes at once where its neighbours are in the same cache lines or near.
constexpr int64_t kStripPixels = 16;
/// Elements of a row that are added up in f32 before they go to the double.
constexpr int64_t kFloatRun = 256;

/// One channel for all lanes.
template <class D>
struct OneChannel {
  D d;
  int64_t channel;
  HWY_INLINE hn::Vec<D> coefficient(const float* from) const {
    return hn::Set(d, from ? from[channel] : 0.0F);
  }
  HWY_INLINE void add(const WideLanes<D>& sums, double* to) const { to[channel] += sums.total(); }
  HWY_INLINE OneChannel next() const { return *this; }
};

/// A channel a lane.
template <class D, class Lanes>
struct NearChannels {
  D d;
  int64_t channel;
  Lanes lanes;
  HWY_INLINE hn::Vec<D> coefficient(const float* from) const {
    return from ? load(d, lanes, from + channel) : hn::Zero(d);
  }
  HWY_INLINE void add(const WideLanes<D>& sums, double* to) const {
    sums.add_to(lanes, to + channel);
  }
  HWY_INLINE NearChannels next() const { return {d, channel + lanes_of(d), lanes}; }
};

/// Passes over `Count` neighbouring vectors, each with its own coefficients and sums.
template <class Op, class D, int Count>
struct Passes {
  typename Op::template Pass<D> pass;
  Passes<Op, D, Count - 1> rest;

  template <class Where>
  HWY_INLINE Passes(D d, const Op& op, const Where& where)
      : pass(d, op, where), rest(d, op, where.next()) {}
  HWY_INLINE void step(D d, int64_t at) {
    pass.step(at, AllLanes{});
    rest.step(d, at + lanes_of(d));
  }
  HWY_INLINE void flush() {
    pass.flush();
    rest.flush();
  }
  template <class Where>
  HWY_INLINE void finish(const Where& where) const {
    pass.finish(where);
    rest.finish(where.next());
  }
};
template <class Op, class D>
struct Passes<Op, D, 0> {
  template <class Where>
  HWY_INLINE Passes(D, const Op&, const Where&) {}
  HWY_INLINE void step(D, int64_t) {}
  HWY_INLINE void flush() {}
  template <class Where>
  HWY_INLINE void finish(const Where&) const {}
};

template <class D, class Op>
HWY_INLINE void run_rows(D d, const Op& op, const ChannelLayout& layout,
                         const ChannelPiece& piece) {
  const int64_t lanes = lanes_of(d);
  for (int64_t c = piece.channel_begin; c < piece.channel_end; ++c) {
    const OneChannel<D> where{d, c};
    Passes<Op, D, 2> pair(d, op, where);
    for (int64_t n = piece.row_begin; n < piece.row_end; ++n) {
      int64_t at = (n * layout.channels + c) * layout.inner;
      const int64_t end = at + layout.inner;
      while (at + 2 * lanes <= end) {
        const int64_t stop = std::min(end, at + kFloatRun) - 2 * lanes;
        for (; at <= stop; at += 2 * lanes) pair.step(d, at);
        pair.flush();
      }
      if (at + lanes <= end) {
        pair.pass.step(at, AllLanes{});
        at += lanes;
      }
      if (at < end) pair.pass.step(at, FirstLanes{end - at});
      pair.flush();
    }
    pair.finish(where);
  }
}

/// `pixels` pixels that begin at `at` and lie `step` apart: Count vectors of channels of each.
template <int Count, class D, class Op>
HWY_INLINE void run_strip(D d, const Op& op, int64_t at, int64_t pixels, int64_t step,
                          int64_t channel) {
  const NearChannels<D, AllLanes> where{d, channel, {}};
  Passes<Op, D, Count> passes(d, op, where);
  for (int64_t p = 0; p < pixels; p += kStripPixels) {
    const int64_t end = std::min(p + kStripPixels, pixels);
    for (int64_t k = p; k < end; ++k) passes.step(d, at + k * step);
    passes.flush();
  }
  passes.finish(where);
}

/// The same for fewer channels than a vector has lanes.
template <class D, class Op>
HWY_INLINE void run_narrow_strip(D d, const Op& op, int64_t at, int64_t pixels, int64_t step,
                                 int64_t channel, FirstLanes lanes) {
  const NearChannels<D, FirstLanes> where{d, channel, lanes};
  typename Op::template Pass<D> pass(d, op, where);
  for (int64_t p = 0; p < pixels; p += kStripPixels) {
    const int64_t end = std::min(p + kStripPixels, pixels);
    for (int64_t k = p; k < end; ++k) pass.step(at + k * step, lanes);
    pass.flush();
  }
  pass.finish(where);
}

/// Takes Width channels at once, which are a cache line or a block. Not inlined: pixels and blocks
/// of 16 channels share the code.
template <int Width, class D, class Op>
HWY_NOINLINE void run_strips(D d, const Op& op, int64_t at, int64_t pixels, int64_t step,
                             int64_t channel_begin, int64_t channel_end) {
  constexpr int kCount = std::max(Width / static_cast<int>(hn::MaxLanes(D())), 1);
  const int64_t lanes = lanes_of(d), channels = channel_end - channel_begin;
  const int64_t run = channels <= Width ? pixels : kStripPixels;
  for (int64_t p = 0; p < pixels; p += run) {
    const int64_t first = at + p * step, count = std::min(run, pixels - p);
    int64_t c = 0;
    for (; c + kCount * lanes <= channels; c += kCount * lanes) {
      run_strip<kCount>(d, op, first + c, count, step, channel_begin + c);
    }
    for (; c + lanes <= channels; c += lanes) {
      run_strip<1>(d, op, first + c, count, step, channel_begin + c);
    }
    if (c < channels) {
      run_narrow_strip(d, op, first + c, count, step, channel_begin + c, FirstLanes{channels - c});
    }
  }
}

template <int Block, class Op>
HWY_INLINE void run_blocks(const Op& op, const ChannelLayout& layout, const ChannelPiece& piece) {
  const int64_t blocks = layout.padded_channels() / Block;
  for (int64_t c = piece.channel_begin; c < piece.channel_end; c += Block) {
    for (int64_t n = piece.row_begin; n < piece.row_end; ++n) {
      run_strips<Block>(hn::CappedTag<float, Block>(), op,
                        (n * blocks + c / Block) * layout.inner * Block, layout.inner, Block, c,
                        c + Block);
    }
  }
}

template <class Op>
HWY_INLINE void run(const Op& op, const ChannelLayout& layout, const ChannelPiece& piece) {
  const hn::ScalableTag<float> d;
  if (layout.order == ChannelLayout::Order::pixels) {
    run_strips<16>(d, op, piece.row_begin * layout.channels + piece.channel_begin,
                   piece.row_end - piece.row_begin, layout.channels, piece.channel_begin,
                   piece.channel_end);
  } else if (layout.block == 8) {
    run_blocks<8>(op, layout, piece);
  } else if (layout.block == 16) {
    run_blocks<16>(op, layout, piece);
  } else {
    run_rows(d, op, layout, piece);
  }
}

/// For passes that add nothing up.
struct NoSums {
  HWY_INLINE void flush() const {}
  template <class Where>
  HWY_INLINE void finish(const Where&) const {}
};

/// In double: sums in f32 lose the variance where the origin is far from the other values.
struct Moments {
  const float* x;
  const float* origin;
  ChannelSums sums;

  template <class D>
  struct Pass {
    D d;
    const Moments& op;
    hn::Vec<D> origin;
    WideLanes<D> wide_origin, first, second;

    template <class Where>
    HWY_INLINE Pass(D tag, const Moments& moments, const Where& where)
        : d(tag), op(moments), origin(where.coefficient(op.origin)), wide_origin(origin) {}
    template <class Lanes>
    HWY_INLINE void step(int64_t at, Lanes lanes) {
      WideLanes<D> v(keep(d, lanes, load(d, lanes, op.x + at), origin));
      v.subtract(wide_origin);
      first.add(v);
      second.add_product(v, v);
    }
    HWY_INLINE void flush() const {}
    template <class Where>
    HWY_INLINE void finish(const Where& where) const {
      where.add(first, op.sums.first);
      where.add(second, op.sums.second);
    }
  };
};

/// What ReLU gets, or the result without one.
template <class D>
struct AffineLanes {
  hn::Vec<D> scale, centre, shift;

  template <class Where>
  HWY_INLINE AffineLanes(const AffineCoefficients& affine, const Where& where)
      : scale(where.coefficient(affine.scale)),
        centre(where.coefficient(affine.centre)),
        shift(where.coefficient(affine.shift)) {}
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D> x) const {
    return hn::MulAdd(hn::Sub(x, centre), scale, shift);
  }
};

template <bool Relu, bool Adds>
struct Affine {
  const float* x;
  AffineCoefficients affine;
  float* y;

  template <class D>
  struct Pass : NoSums {
    D d;
    const Affine& op;
    AffineLanes<D> affine;

    template <class Where>
    HWY_INLINE Pass(D tag, const Affine& from, const Where& where)
        : d(tag), op(from), affine(from.affine, where) {}
    template <class Lanes>
    HWY_INLINE void step(int64_t at, Lanes lanes) const {
      hn::Vec<D> z = affine(load(d, lanes, op.x + at));
      if (Adds) z = hn::Add(z, load(d, lanes, op.affine.add + at));
      if (Relu) z = hn::IfThenZeroElse(hn::Lt(z, hn::Zero(d)), z);  // NaN stays
      store(d, lanes, z, op.y + at);
    }
  };
};

enum class Sign : uint8_t {
  any,      // all of dy counts
  again,    // dy counts where ReLU's input, computed again from x, is positive
  of_y,     // dy counts where y is
  written,  // likewise, and what counts of dy is written too
};

/// dy, or 0 where ReLU held the value back.
template <Sign kSign, class D>
struct PassedLanes {
  const ReluMask& mask;
  AffineLanes<D> forward;

  template <class Where>
  HWY_INLINE PassedLanes(const ReluMask& from, const Where& where)
      : mask(from), forward(from.forward, where) {}

  template <class Lanes>
  HWY_INLINE hn::Vec<D> operator()(D d, Lanes lanes, const float* dy, int64_t at,
                                   hn::Vec<D> x) const {
    hn::Vec<D> g = load(d, lanes, dy + at);
    // Not IfThenElseZero, of which GCC makes a load under the mask for AVX-512: such a load waits
    // for x or y, and dy's memory is asked for late.
    if (kSign == Sign::again) {
      g = hn::And(hn::VecFromMask(d, hn::Gt(forward(x), hn::Zero(d))), g);
    } else if (kSign != Sign::any) {
      const hn::Vec<D> y = load(d, lanes, mask.y + at);
      g = hn::And(hn::VecFromMask(d, hn::Gt(y, hn::Zero(d))), g);
    }
    if (kSign == Sign::written) store(d, lanes, g, mask.passed + at);
    return g;
  }
};

/// Calls body(std::integral_constant<Sign, ...>) for what the mask asks for.
template <class Body>
HWY_INLINE void with_sign(const ReluMask& mask, const Body& body) {
  if (mask.y != nullptr && mask.passed != nullptr) {
    body(std::integral_constant<Sign, Sign::written>());
  } else if (mask.y != nullptr) {
    body(std::integral_constant<Sign, Sign::of_y>());
  } else if (mask.forward.relu) {
    body(std::integral_constant<Sign, Sign::again>());
  } else {
    body(std::integral_constant<Sign, Sign::any>());
  }
}

template <Sign kSign>
struct GradientSums {
  const float* x;
  const float* dy;
  const float* centre;
  ReluMask mask;
  ChannelSums sums;

  template <class D>
  struct Pass {
    D d;
    const GradientSums& op;
    PassedLanes<kSign, D> passed;
    hn::Vec<D> centre;
    hn::Vec<D> first = hn::Zero(D()), second = hn::Zero(D());
    WideLanes<D> wide_first, wide_second;

    template <class Where>
    HWY_INLINE Pass(D tag, const GradientSums& from, const Where& where)
        : d(tag), op(from), passed(from.mask, where), centre(where.coefficient(op.centre)) {}
    template <class Lanes>
    HWY_INLINE void step(int64_t at, Lanes lanes) {
      const hn::Vec<D> x = load(d, lanes, op.x + at);
      const hn::Vec<D> g = passed(d, lanes, op.dy, at, x);
      first = hn::Add(first, g);
      second = hn::MulAdd(g, hn::Sub(x, centre), second);
    }
    HWY_INLINE void flush() {
      wide_first.add(WideLanes<D>(first));
      wide_second.add(WideLanes<D>(second));
      first = second = hn::Zero(d);
    }
    template <class Where>
    HWY_INLINE void finish(const Where& where) const {
      where.add(wide_first, op.sums.first);
      where.add(wide_second, op.sums.second);
    }
  };
};

/// Reads x only if centred or if the sign is computed again.
template <Sign kSign, bool Centred>
struct Gradient {
  const float* x;
  const float* dy;
  ChannelGradient c;
  ReluMask mask;
  float* dx;

  template <class D>
  struct Pass : NoSums {
    D d;
    const Gradient& op;
    PassedLanes<kSign, D> passed;
    hn::Vec<D> gain, centre, slope, offset;

    template <class Where>
    HWY_INLINE Pass(D tag, const Gradient& from, const Where& where)
        : d(tag),
          op(from),
          passed(from.mask, where),
          gain(where.coefficient(op.c.gain)),
          centre(where.coefficient(op.c.centre)),
          slope(where.coefficient(op.c.slope)),
          offset(where.coefficient(op.c.offset)) {}
    template <class Lanes>
    HWY_INLINE void step(int64_t at, Lanes lanes) const {
      constexpr bool kReads = kSign == Sign::again || Centred;
      const hn::Vec<D> x = kReads ? load(d, lanes, op.x + at) : hn::Zero(d);
      const hn::Vec<D> g = passed(d, lanes, op.dy, at, x);
      const hn::Vec<D> add = Centred ? hn::MulAdd(hn::Sub(x, centre), slope, offset) : hn::Zero(d);
      store(d, lanes, Centred ? hn::MulAdd(gain, g, add) : hn::Mul(gain, g), op.dx + at);
    }
  };
};

struct Slope {
  const float* x;
  const float* slope;
  float* y;

  template <class D>
  struct Pass : NoSums {
    D d;
    const Slope& op;
    hn::Vec<D> slope;

    template <class Where>
    HWY_INLINE Pass(D tag, const Slope& from, const Where& where)
        : d(tag), op(from), slope(where.coefficient(op.slope)) {}
    template <class Lanes>
    HWY_INLINE void step(int64_t at, Lanes lanes) const {
      const hn::Vec<D> x = load(d, lanes, op.x + at);
      store(d, lanes, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(slope, x), x), op.y + at);
    }
  };
};

template <bool Writes>
struct SlopeGradient {
  const float* x;
  const float* dy;
  const float* slope;
  ChannelSums sums;
  float* dx;

  template <class D>
  struct Pass {
    D d;
    const SlopeGradient& op;
    hn::Vec<D> slope, sum = hn::Zero(D());
    WideLanes<D> wide;

    template <class Where>
    HWY_INLINE Pass(D tag, const SlopeGradient& from, const Where& where)
        : d(tag), op(from), slope(where.coefficient(op.slope)) {}
    template <class Lanes>
    HWY_INLINE void step(int64_t at, Lanes lanes) {
      const hn::Vec<D> x = load(d, lanes, op.x + at), g = load(d, lanes, op.dy + at);
      const auto positive = hn::Gt(x, hn::Zero(d));
      // The product is masked: 0 times an infinite factor would be NaN.
      sum = hn::Add(sum, hn::IfThenZeroElse(positive, hn::Mul(x, g)));
      if (Writes) store(d, lanes, hn::IfThenElse(positive, g, hn::Mul(slope, g)), op.dx + at);
    }
    HWY_INLINE void flush() {
      wide.add(WideLanes<D>(sum));
      sum = hn::Zero(d);
    }
    template <class Where>
    HWY_INLINE void finish(const Where& where) const {
      where.add(wide, op.sums.first);
    }
  };
};

void moments(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
             const float* origin, const ChannelSums& sums) {
  run(Moments{x, origin, sums}, layout, piece);
}

template <bool Relu>
void affine_to(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
               const AffineCoefficients& coefficients, float* y) {
  if (coefficients.add != nullptr) {
    run(Affine<Relu, true>{x, coefficients, y}, layout, piece);
  } else {
    run(Affine<Relu, false>{x, coefficients, y}, layout, piece);
  }
}

void affine(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
            const AffineCoefficients& coefficients, float* y) {
  if (coefficients.relu) {
    affine_to<true>(layout, piece, x, coefficients, y);
  } else {
    affine_to<false>(layout, piece, x, coefficients, y);
  }
}

void gradient_sums(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                   const float* dy, const float* centre, const ReluMask& mask,
                   const ChannelSums& sums) {
  with_sign(mask, [&]<Sign kSign>(std::integral_constant<Sign, kSign>) {
    run(GradientSums<kSign>{x, dy, centre, mask, sums}, layout, piece);
  });
}

void gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
              const float* dy, const ChannelGradient& coefficients, const ReluMask& mask,
              float* dx) {
  with_sign(mask, [&]<Sign kSign>(std::integral_constant<Sign, kSign>) {
    if (coefficients.centre) {
      run(Gradient<kSign, true>{x, dy, coefficients, mask, dx}, layout, piece);
    } else {
      run(Gradient<kSign, false>{x, dy, coefficients, mask, dx}, layout, piece);
    }
  });
}

void slope(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
           const float* slope, float* y) {
  run(Slope{x, slope, y}, layout, piece);
}

void slope_gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                    const float* dy, const float* slope, const ChannelSums& sums, float* dx) {
  if (dx) {
    run(SlopeGradient<true>{x, dy, slope, sums, dx}, layout, piece);
  } else {
    run(SlopeGradient<false>{x, dy, slope, sums, dx}, layout, piece);
  }
}

}  // namespace
}  // namespace crema::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

HWY_EXPORT(moments);
HWY_EXPORT(affine);
HWY_EXPORT(gradient_sums);
HWY_EXPORT(gradient);
HWY_EXPORT(slope);
HWY_EXPORT(slope_gradient);

}  // namespace

void channel_origins(const ChannelLayout& layout, const float* x, float* origin) {
  const int64_t inner = layout.order == ChannelLayout::Order::pixels ? 1 : layout.inner;
  for (int64_t c = 0; c < layout.channels; ++c) {
    origin[c] = x[c / layout.block * layout.block * inner + c % layout.block];
  }
}

void channel_moments(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                     const float* origin, const ChannelSums& sums) {
  HWY_DYNAMIC_DISPATCH(moments)(layout, piece, x, origin, sums);
}

void channel_affine(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                    const AffineCoefficients& coefficients, float* y) {
  HWY_DYNAMIC_DISPATCH(affine)(layout, piece, x, coefficients, y);
}

void channel_gradient_sums(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                           const float* dy, const float* centre, const ReluMask& mask,
                           const ChannelSums& sums) {
  HWY_DYNAMIC_DISPATCH(gradient_sums)(layout, piece, x, dy, centre, mask, sums);
}

void channel_gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                      const float* dy, const ChannelGradient& coefficients, const ReluMask& mask,
                      float* dx) {
  HWY_DYNAMIC_DISPATCH(gradient)(layout, piece, x, dy, coefficients, mask, dx);
}

void channel_slope(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                   const float* slope, float* y) {
  HWY_DYNAMIC_DISPATCH(slope)(layout, piece, x, slope, y);
}

void channel_slope_gradient(const ChannelLayout& layout, const ChannelPiece& piece, const float* x,
                            const float* dy, const float* slope, const ChannelSums& sums,
                            float* dx) {
  HWY_DYNAMIC_DISPATCH(slope_gradient)(layout, piece, x, dy, slope, sums, dx);
}

}  // namespace crema
#endif
