#include "backend/cpu/pixel_rows.hpp"

// The file's own path, for highway.hpp, which compiles the file for each set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/pixel_rows.cpp"
#include "backend/cpu/highway.hpp"

HWY_BEFORE_NAMESPACE();
namespace crema {
namespace HWY_NAMESPACE {
namespace {

struct Split {
  const uint8_t* in;
  uint8_t *blue, *green, *red;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    hn::Vec<D> b, g, r;
    hn::LoadInterleaved3(d, in + 3 * i, b, g, r);
    hn::StoreU(b, d, blue + i);
    hn::StoreU(g, d, green + i);
    hn::StoreU(r, d, red + i);
  }
};

template <bool kMeans, bool kMirrored>
struct Convert {
  const uint8_t* in;
  int64_t n;
  PixelScaling scaling;
  float* out;

  template <class D>
  HWY_INLINE void strip(D d, int64_t i) const {
    const hn::Rebind<uint8_t, D> bytes;
    const hn::Rebind<int32_t, D> ints;
    const auto x = hn::ConvertTo(d, hn::PromoteTo(ints, hn::LoadU(bytes, in + i)));
    auto mean = hn::Set(d, scaling.mean);
    if constexpr (kMeans) mean = hn::LoadU(d, scaling.means + i);
    const auto y = hn::Mul(hn::Sub(x, mean), hn::Set(d, scaling.scale));
    if constexpr (kMirrored) {
      hn::StoreU(hn::Reverse(d, y), d, out + n - i - static_cast<int64_t>(hn::Lanes(d)));
    } else {
      hn::StoreU(y, d, out + i);
    }
  }
};

void split(const uint8_t* in, int64_t n, uint8_t* blue, uint8_t* green, uint8_t* red) {
  cover(hn::ScalableTag<uint8_t>(), n, Split{in, blue, green, red});
}

void convert(const uint8_t* in, int64_t n, const PixelScaling* scaling, bool mirrored, float* out) {
  const hn::ScalableTag<float> d;
  if (scaling->means != nullptr) {
    if (mirrored) return cover(d, n, Convert<true, true>{in, n, *scaling, out});
    return cover(d, n, Convert<true, false>{in, n, *scaling, out});
  }
  if (mirrored) return cover(d, n, Convert<false, true>{in, n, *scaling, out});
  cover(d, n, Convert<false, false>{in, n, *scaling, out});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace crema
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace crema {
namespace {
HWY_EXPORT(split);
HWY_EXPORT(convert);
}  // namespace

void split_pixels(const uint8_t* in, int64_t n, uint8_t* blue, uint8_t* green, uint8_t* red) {
  HWY_DYNAMIC_DISPATCH(split)(in, n, blue, green, red);
}

void scale_pixels(const uint8_t* in, int64_t n, const PixelScaling& scaling, bool mirrored,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(convert)(in, n, &scaling, mirrored, out);
}

}  // namespace crema
#endif
