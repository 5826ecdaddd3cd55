// CopyTarget: memory that has a parameter's values in another order and type, which whoever writes
// the values may write as well. One text for the CPU and CUDA.
#pragma once

#include "backend/depth_map.hpp"

namespace crema {

struct CopyTarget {
  DepthMap map;              // DepthMap::of_weights(); from the order of the parameter
  DType dtype = DType::f32;  // f32 or of 16 bits
  void* to = nullptr;

  bool operator==(const CopyTarget&) const = default;

  /// Copies the elements `begin`, `begin` + `step` and so on below `end` of the parameter. What
  /// follows from no element, such as padding, stays as it is.
  template <class T>
  CREMA_FUNCTOR void write(const T* values, int64_t begin, int64_t end, int64_t step) const {
    switch (dtype) {
      case DType::bf16:
        return write_as<bfloat16>(values, begin, end, step);
      case DType::f16:
        return write_as<float16>(values, begin, end, step);
      default:
        return write_as<float>(values, begin, end, step);
    }
  }

 private:
  template <class To, class T>
  CREMA_FUNCTOR void write_as(const T* values, int64_t begin, int64_t end, int64_t step) const {
    const DepthMap order = map;  // stores cannot change it
    To* const copy = static_cast<To*>(to);
    const bool same = order.keeps_order();
    for (int64_t i = begin; i < end; i += step) {
      int64_t place = i;
      if (!same) {
        const uint32_t index = static_cast<uint32_t>(i), output = index / order.weights();
        place = int64_t{output} * order.deep_weights() +
                order.deep_weight_of(index - output * order.weights());
      }
      copy[place] = convert_value<To>(static_cast<float>(values[i]));
    }
  }
};

/// Beside the runs of an update: the copies that it writes, in memory of the device.
struct CopyTable {
  /// Run r has those from first[r] up to first[r + 1]. Null: there are none.
  const int64_t* first = nullptr;
  const CopyTarget* targets = nullptr;

  /// Writes what the copies of run `run` have of elements [begin, end) of it, from `begin` + `lane`
  /// on in steps of `lanes`. `values`: of the run.
  template <class T>
  CREMA_FUNCTOR void write(int64_t run, const T* values, int64_t begin, int64_t end, int64_t lane,
                           int64_t lanes) const {
    if (first == nullptr) return;
    for (int64_t t = first[run]; t < first[run + 1]; ++t) {
      const CopyTarget target = targets[t];
      target.write(values, begin + lane, end, lanes);
    }
  }
};

}  // namespace crema
