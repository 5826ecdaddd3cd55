// Values whose type is known at run time: a pass computes in T, float or double, while each of its
// operands is stored as T, or in 16 bits. The body of a pass is compiled for T alone: a branch that
// is the same for all threads converts what it reads and writes, which takes less time than memory
// does, and saves an instantiation of each body for each type of each operand.
//
//   ValuesIn<T>, ValuesOut<T>   an operand, by its elements: x[i], y[i] = value
//   Pack<T>, PackAt<T>          some elements at once, in vectors of 16 bytes
//
// Values are converted as core/vector_words.hpp does it.
#pragma once

#include "core/move.hpp"
#include "core/vector_words.hpp"

namespace crema {

/// How an operand of a pass in T is stored. f32 is an operand of passes in f64: of conversions.
enum class Stored : uint8_t { as_computed, bf16, f16, f32 };

/// Error if values of that type are not computed in T.
template <class T>
Stored stored_as(DType dtype) {
  if (dtype == dtype_of<T>()) return Stored::as_computed;
  if (dtype == DType::bf16) return Stored::bf16;
  if (dtype == DType::f16) return Stored::f16;
  if (dtype == DType::f32) return Stored::f32;
  throw Error("a pass in ", to_string(dtype_of<T>()), " has no operands of ", to_string(dtype));
}

template <class T>
CREMA_FUNCTOR int64_t bytes_of(Stored stored) {
  return stored == Stored::as_computed ? int64_t{sizeof(T)} : stored == Stored::f32 ? 4 : 2;
}

/// Of 16 bits.
CREMA_FUNCTOR float value_of_bits(uint32_t bits, Stored stored) {
  return stored == Stored::bf16 ? value_of<bfloat16>(bits) : value_of<float16>(bits);
}

/// The bits of two values, the first one below.
CREMA_FUNCTOR uint32_t bits_of_values(float first, float second, Stored stored) {
  return stored == Stored::bf16 ? word_of<bfloat16>(first, second)
                                : word_of<float16>(first, second);
}

/// Values that a pass reads. Null without memory.
template <class T>
class ValuesIn {
 public:
  ValuesIn() = default;
  CREMA_FUNCTOR ValuesIn(const void* at, Stored stored) : at_(at), stored_(stored) {}

  CREMA_FUNCTOR explicit operator bool() const { return at_ != nullptr; }
  CREMA_FUNCTOR T operator[](int64_t i) const {
    if (stored_ == Stored::as_computed) return static_cast<const T*>(at_)[i];
    if constexpr (std::is_same_v<T, double>) {
      if (stored_ == Stored::f32) return static_cast<T>(static_cast<const float*>(at_)[i]);
    }
    return static_cast<T>(value_of_bits(static_cast<const uint16_t*>(at_)[i], stored_));
  }
  CREMA_FUNCTOR ValuesIn operator+(int64_t elements) const {
    ValuesIn moved = *this;
    moved.at_ = static_cast<const char*>(at_) + elements * bytes_of<T>(stored_);
    return moved;
  }
  CREMA_FUNCTOR const void* at() const { return at_; }
  CREMA_FUNCTOR Stored stored() const { return stored_; }

 private:
  const void* at_ = nullptr;
  Stored stored_ = Stored::as_computed;
};

/// Values that a pass writes. Null without memory.
template <class T>
class ValuesOut {
 public:
  ValuesOut() = default;
  ValuesOut(void* at, Stored stored) : at_(at), stored_(stored) {}

  /// One of them, as what stands on the left of an assignment, or is read again.
  class Element {
   public:
    CREMA_FUNCTOR Element(const ValuesOut& values, int64_t i) : values_(values), i_(i) {}
    CREMA_FUNCTOR void operator=(T value) const {  // NOLINT: of what it stands for
      if (values_.stored_ == Stored::as_computed) {
        static_cast<T*>(values_.at_)[i_] = value;
      } else if (std::is_same_v<T, double> && values_.stored_ == Stored::f32) {
        static_cast<float*>(values_.at_)[i_] = static_cast<float>(value);
      } else {
        static_cast<uint16_t*>(values_.at_)[i_] =
            static_cast<uint16_t>(bits_of_values(static_cast<float>(value), 0, values_.stored_));
      }
    }
    CREMA_FUNCTOR operator T() const { return ValuesIn<T>(values_)[i_]; }  // NOLINT: as the value

   private:
    const ValuesOut& values_;
    int64_t i_;
  };

  CREMA_FUNCTOR explicit operator bool() const { return at_ != nullptr; }
  CREMA_FUNCTOR Element operator[](int64_t i) const { return Element(*this, i); }
  CREMA_FUNCTOR operator ValuesIn<T>() const {  // NOLINT: as a pointer is one to const
    return ValuesIn<T>(at_, stored_);
  }
  CREMA_FUNCTOR ValuesOut operator+(int64_t elements) const {
    ValuesOut moved = *this;
    moved.at_ = static_cast<char*>(at_) + elements * bytes_of<T>(stored_);
    return moved;
  }
  CREMA_FUNCTOR void* at() const { return at_; }
  CREMA_FUNCTOR Stored stored() const { return stored_; }

 private:
  void* at_ = nullptr;
  Stored stored_ = Stored::as_computed;
};

/// The values of a tensor in the memory of a device, for reading.
template <class T>
ValuesIn<T> values_in(const ComputeDevice& device, const Tensor& tensor) {
  return {device.read_bytes(tensor), stored_as<T>(tensor.dtype())};
}
/// For writing all of them. Not on the host, where overwrite() says who writes.
template <class T>
ValuesOut<T> values_out(const ComputeDevice& device, Tensor& tensor) {
  if (device.on_host()) throw Error("values_out() is for devices");
  return {device.overwrite_bytes(tensor), stored_as<T>(tensor.dtype())};
}

/// Elements that a thread takes at once: in 16 bits they fill a vector of 16 bytes. f64 is for
/// checks, and has no vectors.
template <class T>
inline constexpr int kPackSize = std::is_same_v<T, float> ? 8 : 1;

/// Some values. Operators work on each of them, for mathematics that is written for numbers and for
/// vectors.
template <class T, int N = kPackSize<T>>
struct Pack {
  static constexpr int kSize = N;
  struct Mask {
    bool lanes[kSize];
  };
  T lanes[kSize];

  Pack() = default;
  template <class Number>
  CREMA_FUNCTOR explicit Pack(Number number) {
    for (int k = 0; k < kSize; ++k) lanes[k] = static_cast<T>(number);
  }

  template <class Of>
  CREMA_FUNCTOR static Pack each(const Of& of) {
    Pack result;
    for (int k = 0; k < kSize; ++k) result.lanes[k] = of(k);
    return result;
  }
  template <class Of>
  CREMA_FUNCTOR static Mask each_mask(const Of& of) {
    Mask result;
    for (int k = 0; k < kSize; ++k) result.lanes[k] = of(k);
    return result;
  }
  CREMA_FUNCTOR friend Pack operator+(const Pack& a, const Pack& b) {
    return each([&](int k) { return a.lanes[k] + b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Pack operator-(const Pack& a, const Pack& b) {
    return each([&](int k) { return a.lanes[k] - b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Pack operator*(const Pack& a, const Pack& b) {
    return each([&](int k) { return a.lanes[k] * b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Pack operator/(const Pack& a, const Pack& b) {
    return each([&](int k) { return a.lanes[k] / b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Mask operator<(const Pack& a, const Pack& b) {
    return each_mask([&](int k) { return a.lanes[k] < b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Mask operator>(const Pack& a, const Pack& b) {
    return each_mask([&](int k) { return a.lanes[k] > b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Mask operator>=(const Pack& a, const Pack& b) {
    return each_mask([&](int k) { return a.lanes[k] >= b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Mask operator==(const Pack& a, const Pack& b) {
    return each_mask([&](int k) { return a.lanes[k] == b.lanes[k]; });
  }
  CREMA_FUNCTOR friend Pack select(const Mask& mask, const Pack& yes, const Pack& no) {
    return each([&](int k) { return mask.lanes[k] ? yes.lanes[k] : no.lanes[k]; });
  }
};

using PackWords = VectorWords;
/// Bytes of as many elements.
struct alignas(8) PackBytes {
  uint8_t of[8];
};

/// Where a thread works: `count` elements of the memory of each operand, up to a pack, from `first`
/// on. `vectors`: the pack is whole, and its operands lie on multiples of 16 bytes.
///
/// fetch() starts reading and value() waits for it: a body that fetches all operands first waits
/// once.
template <class T, int N = kPackSize<T>>
struct PackAt {
  using V = Pack<T, N>;
  static constexpr int kSize = N;
  static_assert(N == 1 || (N == 8 && sizeof(T) == sizeof(float)));
  /// Memory as it is: 32 bytes, of which 16-bit values take 16.
  struct Raw {
    PackWords parts[2];
  };

  int64_t first;
  int count;
  bool vectors;

  CREMA_FUNCTOR Raw fetch(const ValuesIn<T>& from) const {
    Raw raw = {};
    if constexpr (kSize == 1 && sizeof(T) == sizeof(float)) {
      const void* const at = (from + first).at();
      const bool wide = from.stored() == Stored::as_computed;
      raw.parts[0].words[0] =
          wide ? load_as<uint32_t>(at) : uint32_t{*static_cast<const uint16_t*>(at)};
    } else if constexpr (kSize == 8) {
      const char* const at = static_cast<const char*>((from + first).at());
      const bool wide = from.stored() == Stored::as_computed;
      if (vectors) {
        raw.parts[0] = load_words(at);
        if (wide) raw.parts[1] = load_words(at + sizeof(PackWords));
        return raw;
      }
      for (int k = 0; k < kSize; ++k) {
        if (k >= count) continue;
        if (wide) {
          raw.parts[k / 4].words[k % 4] = load_as<uint32_t>(at + 4 * k);
        } else {
          raw.parts[0].words[k / 2] |= uint32_t{reinterpret_cast<const uint16_t*>(at)[k]}
                                       << (16 * (k % 2));
        }
      }
    }
    return raw;
  }
  CREMA_FUNCTOR V value(const ValuesIn<T>& from, const Raw& raw) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (from.stored() == Stored::as_computed) {
        return V::each([&](int k) { return value_in<float>(raw.parts[k / 4], k % 4); });
      }
      // One branch for all of them.
      if (from.stored() == Stored::bf16) {
        return V::each([&](int k) { return value_in<bfloat16>(raw.parts[0], k); });
      }
      return V::each([&](int k) { return value_in<float16>(raw.parts[0], k); });
    } else {
      return V(from[first]);
    }
  }
  CREMA_FUNCTOR V load(const ValuesIn<T>& from) const { return value(from, fetch(from)); }

  CREMA_FUNCTOR void store(const V& value, const ValuesOut<T>& to) const {
    if constexpr (kSize == 8) {
      char* const at = static_cast<char*>((to + first).at());
      PackWords parts[2] = {};
      const bool wide = to.stored() == Stored::as_computed;
      if (wide) {
        for (int k = 0; k < kSize; ++k) {
          parts[k / 4].words[k % 4] = std::bit_cast<uint32_t>(value.lanes[k]);
        }
      } else if (to.stored() == Stored::bf16) {
        parts[0] = pack<bfloat16>(value.lanes);
      } else {
        parts[0] = pack<float16>(value.lanes);
      }
      if (vectors) {
        store_words(parts[0], at);
        if (wide) store_words(parts[1], at + sizeof(PackWords));
        return;
      }
      for (int k = 0; k < kSize; ++k) {
        if (k >= count) continue;
        if (wide) {
          store_as(parts[k / 4].words[k % 4], at + 4 * k);
        } else {
          reinterpret_cast<uint16_t*>(at)[k] =
              static_cast<uint16_t>(parts[0].words[k / 2] >> (16 * (k % 2)));
        }
      }
    } else {
      to[first] = value.lanes[0];
    }
  }

  /// Of elements of one byte, such as marks. Where `vectors`, they begin at a multiple of 8.
  CREMA_FUNCTOR V load_byte(const uint8_t* from) const {
    if constexpr (kSize == sizeof(PackBytes)) {
      if (vectors) {
        const auto all = load_as<PackBytes>(from + first);
        return V::each([&](int k) { return static_cast<T>(all.of[k]); });
      }
    }
    return V::each([&](int k) { return static_cast<T>(k < count ? from[first + k] : 0); });
  }
  CREMA_FUNCTOR void store_byte(const V& value, uint8_t* to) const {
    if constexpr (kSize == sizeof(PackBytes)) {
      if (vectors) {
        PackBytes all;
        for (int k = 0; k < kSize; ++k) all.of[k] = static_cast<uint8_t>(value.lanes[k]);
        return store_as(all, to + first);
      }
    }
    for (int k = 0; k < kSize; ++k) {
      if (k < count) to[first + k] = static_cast<uint8_t>(value.lanes[k]);
    }
  }
};

/// Whether packs of all operands may go in vectors. Those without memory may.
template <class... Values>
bool aligned(const Values&... values) {
  return (is_aligned(values.at()) && ...);
}

}  // namespace crema
