// The end of files of Highway kernels that are tables of functions in f32 and f64.
#pragma once

/// In crema, after HWY_ONCE: defines accessor<float>() and accessor<double>(), which give the
/// Table<T> of this processor. For each target there are functions kernels_f32() and kernels_f64()
/// that return pointers to the tables, the latter CREMA_KERNELS_F64(tables) of highway.hpp. A macro
/// since HWY_EXPORT is one.
#define CREMA_FLOAT_KERNELS(Table, accessor)     \
  HWY_EXPORT(kernels_f32);                       \
  HWY_EXPORT(kernels_f64);                       \
  template <>                                    \
  const Table<float>& accessor<float>() {        \
    return *HWY_DYNAMIC_DISPATCH(kernels_f32)(); \
  }                                              \
  template <>                                    \
  const Table<double>& accessor<double>() {      \
    return *HWY_DYNAMIC_DISPATCH(kernels_f64)(); \
  }                                              \
  static_assert(true)
