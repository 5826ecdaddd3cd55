// Values whose type is known at run time: a pass computes in T, float or double, while each of its
// operands is stored as T, or in 16 bits. The body of a pass is compiled for T alone: a branch that
// is the same for all threads converts what it reads and writes, which takes less time than memory
// does, and saves an instantiation of each body for each type of each operand.
//
//   ValuesIn<T>, ValuesOut<T>   an operand, by its elements: x[i], y[i] = value
//   Pack<T>, PackAt<T>          some elements at once, in vectors of 16 bytes
//
// Rounding is that of convert_value() (core/convert.hpp), but for the payload of NaNs on devices.
#pragma once

#include <cstring>

#include "core/convert.hpp"
#include "core/move.hpp"

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
  if (stored == Stored::bf16) return std::bit_cast<float>(bits << 16);
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(bits)));
  return value;
#else
  return float16_value(static_cast<uint16_t>(bits));
#endif
}

/// The bits of two values, the first one below.
CREMA_FUNCTOR uint32_t bits_of_values(float first, float second, Stored stored) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t bits;
  if (stored == Stored::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(second), "f"(first));
  }
  return bits;
#else
  if (stored == Stored::bf16) return bfloat16_bits(first) | uint32_t{bfloat16_bits(second)} << 16;
  return float16_bits(first) | uint32_t{float16_bits(second)} << 16;
#endif
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

struct alignas(16) PackWords {
  uint32_t words[4];
};
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
      raw.parts[0].words[0] = wide ? read_word(at) : uint32_t{*static_cast<const uint16_t*>(at)};
    } else if constexpr (kSize == 8) {
      const char* const at = static_cast<const char*>((from + first).at());
      const bool wide = from.stored() == Stored::as_computed;
      if (vectors) {
        copy_vector(at, &raw.parts[0]);
        if (wide) copy_vector(at + 16, &raw.parts[1]);
        return raw;
      }
      for (int k = 0; k < kSize; ++k) {
        if (k >= count) continue;
        if (wide) {
          raw.parts[k / 4].words[k % 4] = read_word(at + 4 * k);
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
        return V::each([&](int k) { return std::bit_cast<float>(raw.parts[k / 4].words[k % 4]); });
      }
      const auto bits = [&](int k) {
        return raw.parts[0].words[k / 2] >> (16 * (k % 2)) & 0xffffU;
      };
      // One branch for all of them.
      if (from.stored() == Stored::bf16) {
        return V::each([&](int k) { return value_of_bits(bits(k), Stored::bf16); });
      }
      return V::each([&](int k) { return value_of_bits(bits(k), Stored::f16); });
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
        encode(value, Stored::bf16, parts[0]);
      } else {
        encode(value, Stored::f16, parts[0]);
      }
      if (vectors) {
        copy_vector(&parts[0], at);
        if (wide) copy_vector(&parts[1], at + 16);
        return;
      }
      for (int k = 0; k < kSize; ++k) {
        if (k >= count) continue;
        if (wide) {
          copy_word(parts[k / 4].words[k % 4], at + 4 * k);
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
        PackBytes all;
        copy_vector(from + first, &all);
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
        return copy_vector(&all, to + first);
      }
    }
    for (int k = 0; k < kSize; ++k) {
      if (k < count) to[first + k] = static_cast<uint8_t>(value.lanes[k]);
    }
  }

 private:
  CREMA_FUNCTOR static void encode(const V& value, Stored stored, PackWords& words) {
    for (int k = 0; k < kSize / 2; ++k) {
      words.words[k] = bits_of_values(value.lanes[2 * k], value.lanes[2 * k + 1], stored);
    }
  }
  // On the host by memcpy: the memory holds other types.
  CREMA_FUNCTOR static void copy_vector(const void* from, void* to) {
#ifdef __CUDA_ARCH__
    *static_cast<PackWords*>(to) = *static_cast<const PackWords*>(from);
#else
    std::memcpy(to, from, sizeof(PackWords));
#endif
  }
  CREMA_FUNCTOR static void copy_vector(const PackBytes* from, uint8_t* to) {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<PackBytes*>(to) = *from;
#else
    std::memcpy(to, from, sizeof(PackBytes));
#endif
  }
  CREMA_FUNCTOR static void copy_vector(const uint8_t* from, PackBytes* to) {
#ifdef __CUDA_ARCH__
    *to = *reinterpret_cast<const PackBytes*>(from);
#else
    std::memcpy(to, from, sizeof(PackBytes));
#endif
  }
  CREMA_FUNCTOR static uint32_t read_word(const void* from) {
#ifdef __CUDA_ARCH__
    return *static_cast<const uint32_t*>(from);
#else
    uint32_t word;
    std::memcpy(&word, from, sizeof(word));
    return word;
#endif
  }
  CREMA_FUNCTOR static void copy_word(uint32_t word, void* to) {
#ifdef __CUDA_ARCH__
    *static_cast<uint32_t*>(to) = word;
#else
    std::memcpy(to, &word, sizeof(word));
#endif
  }
};

/// Whether packs of all operands may go in vectors. Those without memory may.
template <class... Values>
bool aligned(const Values&... values) {
  return ((reinterpret_cast<uintptr_t>(values.at()) % sizeof(PackWords) == 0) && ...);
}

}  // namespace crema
