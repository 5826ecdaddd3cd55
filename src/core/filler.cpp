#include "crema/filler.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <vector>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "crema/random.hpp"
#include "proto/common.pb.h"

namespace crema {
namespace {

Filler::Type type_of(const std::string& name) {
  // In the order of the enum.
  const std::vector<std::string> names = {"constant", "uniform",           "gaussian", "xavier",
                                          "msra",     "positive_unitball", "bilinear"};
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw Error("there is no filler '", name, "'", did_you_mean(name, names, "fillers are"));
  return static_cast<Filler::Type>(found - names.begin());
}

// Numbers are drawn in blocks of this many elements, each block a sequence of its own: any thread
// may draw any block.
constexpr int64_t kBlock = 4096;

/// A sequence of uniform numbers, drawn many at a time.
class Units {
 public:
  Units(uint64_t seed, uint64_t stream, int64_t block)
      : random_(seed, stream, static_cast<uint64_t>(block)) {}

  /// In [0, 1), 53 bits.
  double next() {
    if (used_ == std::size(words_)) {
      random_.fill(words_);
      used_ = 0;
    }
    const uint64_t upper = words_[used_++];
    return static_cast<double>((upper << 32 | words_[used_++]) >> 11) * 0x1p-53;
  }

 private:
  Random random_;
  uint32_t words_[1024];
  size_t used_ = std::size(words_);
};

/// Calls body(units, begin, end) for every block of [0, count).
template <class Body>
void for_blocks(int64_t count, uint64_t seed, uint64_t stream, const Body& body) {
  parallel_for((count + kBlock - 1) / kBlock, 4, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      Units units(seed, stream, block);
      body(units, block * kBlock, std::min(count, (block + 1) * kBlock));
    }
  });
}

template <class T>
void fill_uniform(T* x, int64_t count, double low, double high, uint64_t seed, uint64_t stream) {
  // Rounding may reach the upper end, which is excluded.
  const T end_value = static_cast<T>(high);
  const T last = low < high ? std::nextafter(end_value, static_cast<T>(low)) : end_value;
  for_blocks(count, seed, stream, [=](Units& units, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      x[i] = std::min(static_cast<T>(low + (high - low) * units.next()), last);
    }
  });
}

// Pairs of normal numbers (Box-Muller); elements are kept with probability `keep`.
template <class T>
void fill_gaussian(T* x, int64_t count, double mean, double std, double keep, uint64_t seed,
                   uint64_t stream) {
  for_blocks(count, seed, stream, [=](Units& units, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += 2) {
      const double radius = std * std::sqrt(-2 * std::log(units.next() + 0x1p-53));
      const double angle = 2 * std::numbers::pi * units.next();
      x[i] = static_cast<T>(mean + radius * std::cos(angle));
      if (i + 1 < end) x[i + 1] = static_cast<T>(mean + radius * std::sin(angle));
    }
    if (keep >= 1) return;
    for (int64_t i = begin; i < end; ++i) {
      if (units.next() >= keep) x[i] = 0;
    }
  });
}

template <class T>
void normalize_rows(T* x, int64_t rows, int64_t columns) {
  parallel_for(rows, kBlock / std::max<int64_t>(columns, 1) + 1, [=](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      T* const begin = x + row * columns;
      double sum = 0;
      for (int64_t i = 0; i < columns; ++i) sum += begin[i];
      for (int64_t i = 0; i < columns; ++i) begin[i] = static_cast<T>(begin[i] / sum);
    }
  });
}

// Weights of linear interpolation around the kernel's centre, the same for all (O, I).
template <class T>
void fill_bilinear(T* x, const Shape& shape) {
  const int64_t side = shape[3];
  const double half = static_cast<double>((side + 1) / 2);
  const double centre = static_cast<double>(side - 1) / (2 * half);
  std::vector<double> weight(side);
  for (int64_t i = 0; i < side; ++i) {
    weight[i] = 1 - std::abs(static_cast<double>(i) / half - centre);
  }
  const int64_t count = shape.count();
  for (int64_t i = 0; i < count; ++i) {
    x[i] = static_cast<T>(weight[i % side] * weight[i / side % side]);
  }
}

double norm_of(const Shape& shape, Filler::VarianceNorm norm) {
  const auto count = static_cast<double>(shape.count());
  const double fan_in = count / static_cast<double>(shape.dim_or_1(0));
  const double fan_out = count / static_cast<double>(shape.dim_or_1(1));
  if (norm == Filler::VarianceNorm::fan_in) return fan_in;
  if (norm == Filler::VarianceNorm::fan_out) return fan_out;
  return (fan_in + fan_out) / 2;
}

double kept_share(int sparse, const Shape& shape) {
  if (sparse < 0) return 1;
  const int64_t outputs = shape.dim_or_1(0);
  if (sparse > outputs)
    throw Error("gaussian filler: sparse ", sparse, " exceeds the ", outputs, " outputs of shape ",
                shape.str(), "; lower it or leave it out");
  return static_cast<double>(sparse) / static_cast<double>(outputs);
}

}  // namespace

Filler::Filler(const FillerParameter& param)
    : type(type_of(param.type())),
      value(param.value()),
      min(param.min()),
      max(param.max()),
      mean(param.mean()),
      std(param.std()),
      sparse(param.sparse()),
      scale(param.scale()),
      variance_norm(static_cast<VarianceNorm>(param.variance_norm())) {
  // VarianceNorm counts as the message does.
  static_assert(FillerParameter::FAN_IN == static_cast<int>(VarianceNorm::fan_in) &&
                FillerParameter::FAN_OUT == static_cast<int>(VarianceNorm::fan_out) &&
                FillerParameter::AVERAGE == static_cast<int>(VarianceNorm::average));
  if (sparse < -1)
    throw Error("filler: sparse ", sparse, " is negative; leave it out for a dense filler");
  if (sparse != -1 && type != Type::gaussian)
    throw Error("filler '", param.type(), "' cannot be sparse; only gaussian can");
  if (!(min <= max)) throw Error("filler: min ", min, " exceeds max ", max);
  if (!(std >= 0)) throw Error("filler: std ", std, " is negative");
}

Filler Filler::constant(double value) {
  Filler filler;
  filler.value = value;
  return filler;
}

void Filler::fill(Tensor& tensor, uint64_t seed, uint64_t stream) const {
  if (tensor.format() != Format::contiguous)
    throw Error("fillers fill contiguous tensors, not ", to_string(tensor.format()));
  const Shape& shape = tensor.shape();
  const int64_t count = shape.count();
  if (type == Type::bilinear) {
    if (shape.rank() != 4 || shape[2] != shape[3])
      throw Error("bilinear filler: needs a parameter of 4 axes with square kernels, not ",
                  shape.str());
  }
  if (count == 0) return;
  if (type == Type::constant && sparse < 0) {
    tensor.fill(value * scale);
    return;
  }
  dispatch_float(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const Changing<T> writing = tensor.changing<T>();
    T* const x = writing;
    switch (type) {
      case Type::constant:
        // Of layers alone, not of messages: `sparse` zeros between two values. The diagonal of a
        // square matrix has as many between its values as the matrix has columns.
        for (int64_t i = 0; i < count; ++i) {
          x[i] = i % (sparse + 1) == 0 ? static_cast<T>(value * scale) : T{0};
        }
        break;
      case Type::uniform:
        fill_uniform(x, count, scale * min, scale * max, seed, stream);
        break;
      case Type::gaussian:
        fill_gaussian(x, count, scale * mean, scale * std, kept_share(sparse, shape), seed, stream);
        break;
      case Type::xavier: {
        const double bound = scale * std::sqrt(3 / norm_of(shape, variance_norm));
        fill_uniform(x, count, -bound, bound, seed, stream);
        break;
      }
      case Type::msra:
        fill_gaussian(x, count, 0, scale * std::sqrt(2 / norm_of(shape, variance_norm)), 1, seed,
                      stream);
        break;
      case Type::positive_unitball:
        fill_uniform(x, count, 0, 1, seed, stream);
        normalize_rows(x, shape.dim_or_1(0), count / shape.dim_or_1(0));
        break;
      case Type::bilinear:
        fill_bilinear(x, shape);
        break;
    }
  });
}

}  // namespace crema
