// Pooling of one contiguous channel. Windows are first combined down their columns, then along the
// row, each vectorized along the row. For a stride s above 1 the row is taken apart in between:
// phase p holds its columns p, p + s, p + 2 s, ..., so that one cell of neighbouring windows is
// again a run of neighbours. The gradient of averages goes the same way back.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "layers/pooling/pooling_planes.cpp"
#include <vector>

#include "backend/cpu/highway.hpp"
#include "layers/pooling/pooling_choice-inl.hpp"
#include "layers/pooling/pooling_kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema {
namespace HWY_NAMESPACE {
namespace {

/// The runs that inner windows are made of: cell kx of window o, counted from the first inner one,
/// is at row[kx % stride * length + kx / stride + o].
template <class T>
struct Phases {
  const T* row;
  int64_t stride, length;

  HWY_INLINE const T* run(int64_t kx) const { return row + kx % stride * length + kx / stride; }
};

/// Every second element.
template <class T>
struct Halves {
  const T* from;
  T *even, *odd;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    hn::Vec<D> first, second;
    hn::LoadInterleaved2(d, from + 2 * i, first, second);
    hn::StoreU(first, d, even + i);
    hn::StoreU(second, d, odd + i);
  }
};

/// `from` has `width` elements; `room` is for the phases.
template <class T>
HWY_INLINE Phases<T> phases_of(const T* from, int64_t width, int64_t stride, T* room) {
  if (stride == 1) return {from, 1, width};
  const int64_t length = (width + stride - 1) / stride;
  if (stride == 2) {
    const int64_t pairs = width / 2;
    cover(hn::ScalableTag<T>(), pairs, Halves<T>{from, room, room + length});
    if (width % 2 != 0) room[pairs] = from[width - 1];
  } else {
    for (int64_t p = 0; p < std::min(stride, width); ++p) {
      T* to = room + p * length;
      for (int64_t i = p; i < width; i += stride) *to++ = from[i];
    }
  }
  return {room, stride, length};
}

/// Down the columns of one row of windows.
template <bool Keep>
struct MaxDown {
  const float* in;  // the first row
  int64_t rows, row_step;
  int32_t first_cell, kernel_w;
  float* values;
  int32_t* cells;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    const hn::RebindToSigned<D> di;
    auto best = hn::LoadU(d, in + i);
    auto chosen = hn::Set(di, first_cell);
    for (int64_t y = 1; y < rows; ++y) {
      const auto value = hn::LoadU(d, in + y * row_step + i);
      const auto wins = wins_over(value, best);
      best = hn::IfThenElse(wins, value, best);
      if constexpr (Keep) {
        const auto cell = hn::Set(di, first_cell + static_cast<int32_t>(y) * kernel_w);
        chosen = hn::IfThenElse(hn::RebindMask(di, wins), cell, chosen);
      }
    }
    hn::StoreU(best, d, values + i);
    if constexpr (Keep) hn::StoreU(chosen, di, cells + i);
  }
};

/// Along the row, for inner windows. Of equal values the first one in the order of the window's
/// rows is chosen, of several NaN the last one, although the columns come one after the other.
template <class Choice, bool Keep>
struct MaxAlong {
  Phases<float> values;
  Phases<int32_t> cells;
  int64_t kernel;
  float* out;
  Choice* choice;

  template <class D>
  HWY_INLINE void strip(D d, int64_t o) const {
    const hn::RebindToSigned<D> di;
    auto best = hn::LoadU(d, values.run(0) + o);
    auto chosen = hn::Zero(di);
    if constexpr (Keep) chosen = hn::LoadU(di, cells.run(0) + o);
    for (int64_t kx = 1; kx < kernel; ++kx) {
      const auto value = hn::LoadU(d, values.run(kx) + o);
      const auto wins = wins_over(value, best);
      if constexpr (Keep) {
        const auto cell =
            hn::Add(hn::LoadU(di, cells.run(kx) + o), hn::Set(di, static_cast<int32_t>(kx)));
        const auto equal = hn::RebindMask(di, hn::Eq(value, best));
        const auto both_nan = hn::RebindMask(di, hn::And(hn::IsNaN(value), hn::IsNaN(best)));
        const auto winner = hn::IfThenElse(hn::RebindMask(di, wins), cell, chosen);
        chosen = hn::IfThenElse(equal, hn::Min(cell, chosen),
                                hn::IfThenElse(both_nan, hn::Max(cell, chosen), winner));
      }
      best = hn::IfThenElse(wins, value, best);
    }
    hn::StoreU(best, d, out + o);
    if constexpr (Keep) store_choice(di, chosen, choice + o);
  }
};

/// Windows of 2x2 cells side by side: along both rows, then the better of the two.
template <class Choice, bool Keep>
struct MaxOfPairs {
  const float *in, *below;
  float* out;
  Choice* choice;

  template <class D>
  HWY_INLINE void strip(D d, int64_t o) const {
    const hn::RebindToSigned<D> di;
    hn::Vec<D> left, right, left_below, right_below;
    hn::LoadInterleaved2(d, in + 2 * o, left, right);
    hn::LoadInterleaved2(d, below + 2 * o, left_below, right_below);
    const auto second = wins_over(right, left), fourth = wins_over(right_below, left_below);
    const auto above = hn::IfThenElse(second, right, left);
    const auto under = hn::IfThenElse(fourth, right_below, left_below);
    const auto wins = wins_over(under, above);
    hn::StoreU(hn::IfThenElse(wins, under, above), d, out + o);
    if constexpr (Keep) {
      const auto cell = [&](auto right_wins, int32_t left_cell) HWY_ATTR {
        return hn::IfThenElse(hn::RebindMask(di, right_wins), hn::Set(di, left_cell + 1),
                              hn::Set(di, left_cell));
      };
      store_choice(di, hn::IfThenElse(hn::RebindMask(di, wins), cell(fourth, 2), cell(second, 0)),
                   choice + o);
    }
  }
};

/// The gradient of MaxOfPairs.
template <class Choice>
struct PairsOfMax {
  const float* dy;
  const Choice* choice;
  float *dx, *below;

  template <class D>
  HWY_INLINE void strip(D d, int64_t o) const {
    const hn::RebindToSigned<D> di;
    const auto gradient = hn::LoadU(d, dy + o);
    const auto chosen = load_choice(di, choice + o);
    const auto of_cell = [&](int32_t cell) HWY_ATTR {
      return hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(chosen, hn::Set(di, cell))), gradient);
    };
    hn::StoreInterleaved2(of_cell(0), of_cell(1), d, dx + 2 * o);
    hn::StoreInterleaved2(of_cell(2), of_cell(3), d, below + 2 * o);
  }
};

/// The maximum of one window at the border, of the values of MaxDown, as MaxAlong chooses it.
/// Returns its column. `cells` is null if no choice is wanted.
inline int64_t max_at_border(const PoolingAxis& x, int64_t ox, const float* values,
                             const int32_t* cells, float& best) {
  int64_t column = x.begin(ox);
  best = values[column];
  for (int64_t ix = column + 1; ix < x.end(ox); ++ix) {
    const float value = values[ix];
    const bool nan = value != value, both_nan = nan && best != best;
    bool wins = value > best || nan;
    if (cells != nullptr && (value == best || both_nan)) {
      const bool earlier = cells[ix] + ix < cells[column] + column;
      wins = earlier != both_nan;
    }
    if (!wins) continue;
    best = value;
    column = ix;
  }
  return column;
}

template <class Choice, bool Keep>
void max_pool_plane_of(const PoolingPlan& plan, PoolingRows& rows, const float* in, float* out,
                       Choice* choice) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const hn::ScalableTag<float> d;
  const int64_t inner = x.first_inner(), inner_end = x.last_inner();
  const int64_t columns = x.end(x.out - 1);
  float* values = rows.values.data();
  int32_t* cells = rows.cells.data();
  for (int64_t oy = 0; oy < y.out; ++oy) {
    const int64_t iy = y.begin(oy);
    if (plan.pairs()) {
      const float* const from = in + iy * x.size;
      cover(d, x.out,
            MaxOfPairs<Choice, Keep>{from, from + x.size, out + oy * x.out,
                                     Keep ? choice + oy * x.out : nullptr});
      continue;
    }
    const auto first_cell = static_cast<int32_t>((iy - y.start(oy)) * x.kernel);
    cover(d, columns,
          MaxDown<Keep>{in + iy * x.size, y.end(oy) - iy, x.size, first_cell,
                        static_cast<int32_t>(x.kernel), values, cells});
    float* to = out + oy * x.out;
    Choice* kept = Keep ? choice + oy * x.out : nullptr;
    if (inner < inner_end) {
      const int64_t first = x.start(inner), width = x.end(inner_end - 1) - first;
      const auto value_runs = phases_of(values + first, width, x.stride, rows.phase_values.data());
      const auto cell_runs =
          Keep ? phases_of(cells + first, width, x.stride, rows.phase_cells.data())
               : Phases<int32_t>{};
      cover(d, inner_end - inner,
            MaxAlong<Choice, Keep>{value_runs, cell_runs, x.kernel, to + inner,
                                   Keep ? kept + inner : nullptr});
    }
    for (int64_t ox = 0; ox < x.out; ++ox) {
      if (ox >= inner && ox < inner_end) continue;
      const int64_t column = max_at_border(x, ox, values, Keep ? cells : nullptr, to[ox]);
      if constexpr (Keep) kept[ox] = static_cast<Choice>(cells[column] + column - x.start(ox));
    }
  }
}

void max_unpool_pairs(const PoolingPlan& plan, const float* dy, const uint8_t* choice, float* dx) {
  const hn::ScalableTag<float> d;
  const int64_t out = plan.x.out, width = plan.x.size;
  for (int64_t oy = 0; oy < plan.y.out; ++oy) {
    float* const to = dx + 2 * oy * width;
    cover(d, out, PairsOfMax<uint8_t>{dy + oy * out, choice + oy * out, to, to + width});
  }
}

struct SumDown {
  const float* in;
  int64_t rows, row_step;
  float* sums;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    auto sum = hn::LoadU(d, in + i);
    for (int64_t y = 1; y < rows; ++y) sum = hn::Add(sum, hn::LoadU(d, in + y * row_step + i));
    hn::StoreU(sum, d, sums + i);
  }
};

struct SumAlong {
  Phases<float> sums;
  int64_t kernel;
  float share_y;
  const float* share_x;
  float* out;

  template <class D>
  HWY_INLINE void strip(D d, int64_t o) const {
    auto sum = hn::LoadU(d, sums.run(0) + o);
    for (int64_t kx = 1; kx < kernel; ++kx) sum = hn::Add(sum, hn::LoadU(d, sums.run(kx) + o));
    const auto share = hn::Mul(hn::LoadU(d, share_x + o), hn::Set(d, share_y));
    hn::StoreU(hn::Mul(sum, share), d, out + o);
  }
};

void average_pool_plane(const PoolingPlan& plan, PoolingRows& rows, const float* in, float* out) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const hn::ScalableTag<float> d;
  // Sums of the padded row; those in the padding stay 0.
  float* sums = rows.values.data();
  const int64_t width = (x.out - 1) * x.stride + x.kernel;
  const int64_t columns = std::min(x.size, width - x.pad);
  std::fill_n(sums, width, 0.0F);
  for (int64_t oy = 0; oy < y.out; ++oy) {
    const int64_t iy = y.begin(oy);
    cover(d, columns, SumDown{in + iy * x.size, y.end(oy) - iy, x.size, sums + x.pad});
    const auto runs = phases_of(sums, width, x.stride, rows.phase_values.data());
    cover(d, x.out,
          SumAlong{runs, x.kernel, plan.share_y[oy], plan.share_x.data(), out + oy * x.out});
  }
}

/// What each window of a row of windows gives one of its cells, added up over `rows` rows of
/// windows.
struct SharesDown {
  const float* dy;       // the first row
  const float* share_y;  // of the first row
  int64_t rows, row_step;
  const float* share_x;
  float* shares;

  template <class D>
  HWY_INLINE void strip(D d, int64_t o) const {
    auto sum = hn::Zero(d);
    for (int64_t y = 0; y < rows; ++y) {
      sum = hn::MulAdd(hn::LoadU(d, dy + y * row_step + o), hn::Set(d, share_y[y]), sum);
    }
    hn::StoreU(hn::Mul(sum, hn::LoadU(d, share_x + o)), d, shares + o);
  }
};

/// One phase of a row of inputs: each sums the shares of the `windows` windows that hold it.
struct Phase {
  const float* shares;  // of the last window that holds the first input
  int64_t windows;

  template <class D>
  HWY_INLINE hn::Vec<D> sum(D d, int64_t i) const {
    auto sum = hn::Zero(d);
    for (int64_t o = 0; o < windows; ++o) sum = hn::Add(sum, hn::LoadU(d, shares + i - o));
    return sum;
  }
};

struct SharesAlong {
  Phase phase;
  float* to;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    hn::StoreU(phase.sum(d, i), d, to + i);
  }
};

/// The inputs of two phases in turn.
struct SharesAlongBoth {
  Phase even, odd;
  float* to;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    hn::StoreInterleaved2(even.sum(d, i), odd.sum(d, i), d, to + 2 * i);
  }
};

void average_unpool_plane(const PoolingPlan& plan, PoolingRows& rows, const float* dy, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  const hn::ScalableTag<float> d;
  // In front of the first window and behind the last one are as many zeros as an input's windows.
  const int64_t most = (x.kernel + x.stride - 1) / x.stride;
  float *shares = rows.phase_values.data() + most, *spread = rows.values.data();
  std::fill_n(shares - most, most + x.out + most, 0.0F);
  const int64_t columns = std::min(x.size, (x.out - 1) * x.stride + x.kernel - x.pad);
  for (int64_t iy = 0; iy < y.size; ++iy) {
    const int64_t oy = y.first_cover(iy), end = y.last_cover(iy);
    float* to = dx + iy * x.size;
    if (iy > 0 && oy == y.first_cover(iy - 1) && end == y.last_cover(iy - 1)) {
      std::copy_n(to - x.size, x.size, to);  // a row of the same windows
      continue;
    }
    cover(d, x.out,
          SharesDown{dy + oy * x.out, plan.share_y.data() + oy, end - oy, x.out,
                     plan.share_x.data(), shares});
    // The inputs first, first + stride, ... are cells cell, cell + stride, ... of their windows.
    const auto phase_of = [&](int64_t first) {
      const int64_t cell = (first + x.pad) % x.stride;
      const int64_t windows = cell < x.kernel ? (x.kernel - cell + x.stride - 1) / x.stride : 0;
      return Phase{shares + (first + x.pad) / x.stride, windows};
    };
    if (x.stride == 1) {
      cover(d, columns, SharesAlong{phase_of(0), to});
    } else if (x.stride == 2) {
      cover(d, columns / 2, SharesAlongBoth{phase_of(0), phase_of(1), to});
      if (columns % 2 != 0) {
        const hn::CappedTag<float, 1> one;
        hn::StoreU(phase_of(0).sum(one, columns / 2), one, to + columns - 1);
      }
    } else {
      for (int64_t first = 0; first < std::min(x.stride, columns); ++first) {
        const int64_t count = (columns - first + x.stride - 1) / x.stride;
        cover(d, count, SharesAlong{phase_of(first), spread});
        for (int64_t i = 0; i < count; ++i) to[first + i * x.stride] = spread[i];
      }
    }
    std::fill(to + columns, to + x.size, 0.0F);
  }
}

void max_pool_plane(const PoolingPlan& plan, PoolingRows& rows, const float* in, float* out,
                    PoolingChoices choices) {
  if (choices.words) return max_pool_plane_of<int32_t, true>(plan, rows, in, out, choices.words);
  if (choices.bytes) return max_pool_plane_of<uint8_t, true>(plan, rows, in, out, choices.bytes);
  max_pool_plane_of<uint8_t, false>(plan, rows, in, out, nullptr);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {

PoolingRows& rows_of_thread(const PoolingPlan& plan) {
  thread_local PoolingRows rows;
  const auto width = static_cast<size_t>(plan.row_width());
  if (rows.values.size() < width) {
    for (auto* row : {&rows.values, &rows.phase_values}) row->resize(width);
    for (auto* row : {&rows.cells, &rows.phase_cells}) row->resize(width);
  }
  return rows;
}

HWY_EXPORT(max_pool_plane);
HWY_EXPORT(average_pool_plane);
HWY_EXPORT(max_unpool_pairs);
HWY_EXPORT(average_unpool_plane);

template <class Choice>
void scatter_maxima(const PoolingPlan& plan, const float* dy, const Choice* choice, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  auto place = [&](int64_t cell) { return cell / x.kernel * x.size + cell % x.kernel; };
  int64_t places[256];
  constexpr bool kByte = sizeof(Choice) == 1;
  for (int64_t cell = 0; kByte && cell < y.kernel * x.kernel; ++cell) places[cell] = place(cell);
  std::fill_n(dx, y.size * x.size, 0.0F);
  for (int64_t oy = 0; oy < y.out; ++oy) {
    for (int64_t ox = 0; ox < x.out; ++ox) {
      const int64_t o = oy * x.out + ox;
      if (choice[o] == kNone<Choice>) continue;
      const int64_t cell = kByte ? places[choice[o]] : place(choice[o]);
      dx[y.start(oy) * x.size + x.start(ox) + cell] += dy[o];
    }
  }
}

}  // namespace

PoolingPlan::PoolingPlan(const PoolingWindows& windows, bool of_maximum, int64_t of_pixel)
    : y(windows.y), x(windows.x), maximum(of_maximum), channels(of_pixel) {
  auto fill = [&](const PoolingAxis& axis, std::vector<float>& shares) {
    for (int64_t o = 0; o < axis.out; ++o) {
      const int64_t cells = windows.counts_padding ? axis.padded_extent(o) : axis.extent(o);
      shares.push_back(1.0F / static_cast<float>(cells));
    }
  };
  fill(y, share_y);
  fill(x, share_x);
  for (int64_t i = 0; i < x.size; ++i) {
    first_cover.push_back(static_cast<int32_t>(x.first_cover(i)));
    last_cover.push_back(static_cast<int32_t>(x.last_cover(i)));
  }
}

bool PoolingPlan::pairs() const {
  const auto halves = [](const PoolingAxis& axis) {
    return axis.kernel == 2 && axis.stride == 2 && axis.pad == 0 && axis.size == 2 * axis.out;
  };
  return halves(y) && halves(x);
}

int64_t PoolingPlan::row_width() const {
  // As wide as the padded input, as the phases, each rounded up, and as shares between their zeros.
  const int64_t padded = std::max(x.size, (x.out - 1) * x.stride + x.kernel) + x.stride;
  return std::max(padded, x.out + 2 * x.kernel);
}

void pool_plane(const PoolingPlan& plan, const float* in, float* out, PoolingChoices choices) {
  PoolingRows& rows = rows_of_thread(plan);
  if (plan.maximum) return HWY_DYNAMIC_DISPATCH(max_pool_plane)(plan, rows, in, out, choices);
  HWY_DYNAMIC_DISPATCH(average_pool_plane)(plan, rows, in, out);
}
void unpool_plane(const PoolingPlan& plan, const float* dy, PoolingChoices choices, float* dx) {
  const PoolingAxis &y = plan.y, &x = plan.x;
  if (choices.words) return scatter_maxima(plan, dy, choices.words, dx);
  if (plan.maximum && plan.pairs()) {
    return HWY_DYNAMIC_DISPATCH(max_unpool_pairs)(plan, dy, choices.bytes, dx);
  }
  if (plan.maximum) return scatter_maxima(plan, dy, choices.bytes, dx);
  if (plan.outputs() == 1 && y.extent(0) == y.size && x.extent(0) == x.size) {
    std::fill_n(dx, plan.inputs(), dy[0] * (plan.share_y[0] * plan.share_x[0]));
    return;
  }
  HWY_DYNAMIC_DISPATCH(average_unpool_plane)(plan, rows_of_thread(plan), dy, dx);
}

}  // namespace crema
#endif
