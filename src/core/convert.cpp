// Conversion between element types and memory formats.
//
// Formats differ in which axis runs fastest: space (contiguous) or channels (the others). Tensors
// are cut into panels, (up to 16 channels) x (up to 64 places), which have plain strides in every
// format and fit the innermost cache; a panel is first converted in type, where the types differ,
// then copied or transposed into place.
#include "core/convert.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/simd.hpp"
#include "core/transpose.hpp"

namespace crema {
namespace {

constexpr int64_t kPanelPlaces = 64;
constexpr int64_t kMaxBlock = 16;
// Elements that are worth a thread of their own.
constexpr int64_t kGrain = 32768;

template <class To, class From>
[[gnu::always_inline]] inline void convert_matrix(const From* from, int64_t from_stride, To* to,
                                                  int64_t to_stride, int64_t rows,
                                                  int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    const From* source = from + row * from_stride;
    To* target = to + row * to_stride;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) target[i] = convert_value<To>(source[i]);
  }
}

/// A matrix of elements; rows lie `stride` elements apart.
struct Rows {
  DType dtype;
  void* data;
  int64_t stride;
};

void convert_rows(int64_t rows, int64_t columns, const Rows& from, const Rows& to) {
  dispatch_any(from.dtype, [&](auto from_zero) {
    dispatch_any(to.dtype, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* source = static_cast<const From*>(from.data);
      To* target = static_cast<To*>(to.data);
      // Conversions between floating point types are worth a version for each vector width.
      if constexpr (!std::is_integral_v<From> && !std::is_integral_v<To>) {
        vectorized<convert_matrix<To, From>>(source, from.stride, target, to.stride, rows, columns);
      } else {
        convert_matrix<To, From>(source, from.stride, target, to.stride, rows, columns);
      }
    });
  });
}

/// The order of a tensor's elements in memory, in the simplest format that has it.
struct Order : ElementOrder {
  Order(const Shape& shape, Format wanted)
      : ElementOrder(shape, wanted), batch(shape.dim_or_1(0)), format(wanted) {
    const ElementOrder contiguous(shape, Format::contiguous);
    if (!same_as(contiguous)) return;
    format = Format::contiguous;
    static_cast<ElementOrder&>(*this) = contiguous;
  }

  /// As in ElementOrder; without divisions, which show in small tensors, where none are needed.
  int64_t index(int64_t n, int64_t c, int64_t place) const {
    if (format == Format::contiguous) return (n * channels + c) * places + place;
    if (format == Format::channels_last) return (n * places + place) * channels + c;
    return ElementOrder::index(n, c, place);
  }

  bool channels_fastest() const { return format != Format::contiguous; }
  int64_t channel_step() const { return channels_fastest() ? 1 : places; }

  int64_t batch;
  Format format;
};

/// One panel on one side.
struct Panel {
  void* data;
  int64_t channel_step, place_step;
};

template <class E>
void move_panel(int64_t channels, int64_t padded, int64_t places, const Panel& from,
                const Panel& to) {
  const E* source = static_cast<const E*>(from.data);
  E* target = static_cast<E*>(to.data);
  const bool transposed = (from.channel_step == 1) != (to.channel_step == 1);
  if (!transposed) {
    for (int64_t s = 0; s < places; ++s) {
      std::memcpy(target + s * to.place_step, source + s * from.place_step, channels * sizeof(E));
    }
  } else if (to.channel_step == 1) {
    transpose(source, from.channel_step, target, to.place_step, channels, places);
  } else {
    transpose(source, from.place_step, target, to.channel_step, places, channels);
  }
  if (padded == channels) return;
  for (int64_t s = 0; s < places; ++s) {
    std::fill_n(target + s * to.place_step + channels, padded - channels, E{0});
  }
}

template <class E>
class Mover {
 public:
  Mover(const Order& from, DType from_dtype, const void* from_data, const Order& to, DType to_dtype,
        void* to_data)
      : from_(from),
        to_(to),
        from_dtype_(from_dtype),
        to_dtype_(to_dtype),
        from_data_(static_cast<const char*>(from_data)),
        to_data_(static_cast<E*>(to_data)) {
    const bool by_8 = from.format == Format::blocked8 || to.format == Format::blocked8;
    group_ = by_8 ? 8 : kMaxBlock;
    // Padding of the target beyond the last channel of the source is a group of its own.
    groups_ = (to.blocks() * to.block + group_ - 1) / group_;
    chunks_ = (from.places + kPanelPlaces - 1) / kPanelPlaces;
    places_first_ = from.format != Format::channels_last && to.format != Format::channels_last;
  }

  void run() const {
    const int64_t panels = from_.batch * groups_ * chunks_;
    parallel_for(panels, kGrain / (group_ * kPanelPlaces), [this](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        // Neighbouring panels share pages: along space, or along channels where these run fastest.
        const int64_t n = panel / (groups_ * chunks_);
        const int64_t rest = panel % (groups_ * chunks_);
        const int64_t group = places_first_ ? rest / chunks_ : rest % groups_;
        const int64_t chunk = places_first_ ? rest % chunks_ : rest / groups_;
        move(n, group * group_, chunk * kPanelPlaces);
      }
    });
  }

 private:
  void move(int64_t n, int64_t c, int64_t s) const {
    const int64_t channels = std::clamp<int64_t>(from_.channels - c, 0, group_);
    const int64_t places = std::min(kPanelPlaces, from_.places - s);
    const int64_t padded = block_of(to_.format) > 1 ? group_ : channels;
    const char* source = from_data_ + from_.index(n, channels > 0 ? c : 0, s) *
                                          static_cast<int64_t>(size_of(from_dtype_));
    Panel from{const_cast<char*>(source), from_.channel_step(), from_.block};
    alignas(64) E converted[kMaxBlock * kPanelPlaces];
    if (from_dtype_ != to_dtype_) {
      if (from_.channels_fastest()) {
        convert_rows(places, channels, {from_dtype_, from.data, from.place_step},
                     {to_dtype_, converted, kMaxBlock});
        from = {converted, 1, kMaxBlock};
      } else {
        convert_rows(channels, places, {from_dtype_, from.data, from.channel_step},
                     {to_dtype_, converted, kPanelPlaces});
        from = {converted, kPanelPlaces, 1};
      }
    }
    const Panel to{to_data_ + to_.index(n, c, s), to_.channel_step(), to_.block};
    move_panel<E>(channels, padded, places, from, to);
  }

  const Order& from_;
  const Order& to_;
  DType from_dtype_, to_dtype_;
  const char* from_data_;
  E* to_data_;
  int64_t group_, groups_, chunks_;
  bool places_first_;
};

/// Converts `count` elements side by side.
void convert_elements(int64_t count, DType from_dtype, const void* from, DType to_dtype, void* to) {
  const auto from_size = static_cast<int64_t>(size_of(from_dtype));
  const auto to_size = static_cast<int64_t>(size_of(to_dtype));
  parallel_for(count, kGrain, [=](int64_t begin, int64_t end) {
    const char* source = static_cast<const char*>(from) + begin * from_size;
    char* target = static_cast<char*>(to) + begin * to_size;
    if (from_dtype == to_dtype) {
      std::memcpy(target, source, (end - begin) * from_size);
    } else {
      convert_rows(1, end - begin, {from_dtype, const_cast<char*>(source), 0},
                   {to_dtype, target, 0});
    }
  });
}

}  // namespace

void convert(const Shape& shape, DType from_dtype, Format from_format, const void* from,
             DType to_dtype, Format to_format, void* to) {
  const Order source(shape, from_format);
  const Order target(shape, to_format);
  if (source.format == target.format) {
    convert_elements(storage_count(shape, to_format), from_dtype, from, to_dtype, to);
    return;
  }
  const auto run = [&](auto element) {
    Mover<decltype(element)>(source, from_dtype, from, target, to_dtype, to).run();
  };
  switch (size_of(to_dtype)) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

void fill_elements(const Shape& shape, DType dtype, Format format, double value, void* to) {
  const ElementOrder order(shape, format);
  const int64_t count = storage_count(shape, format);
  dispatch_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const data = static_cast<T*>(to);
    const T element = convert_value<T>(value);
    parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
      std::fill(data + begin, data + end, element);
      if (count == shape.count()) return;
      for (int64_t i = begin; i < end; ++i) {
        if (order.channel_of(i) >= order.channels) data[i] = T{};
      }
    });
  });
}

double element_as_double(DType dtype, const void* data, int64_t index) {
  return dispatch_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    return convert_value<double>(static_cast<const T*>(data)[index]);
  });
}

}  // namespace crema
