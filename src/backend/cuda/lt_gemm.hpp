// What cuBLASLt is told of a product (backend/products.hpp), and the names of its algorithms. None
// of it needs a device.
#pragma once

#include <cublasLt.h>

#include <optional>
#include <string>

#include "backend/products.hpp"

namespace crema {

/// The descriptors of a call.
class LtCall {
 public:
  LtCall(const DeviceProduct& product, Math math);
  LtCall(const LtCall&) = delete;
  LtCall& operator=(const LtCall&) = delete;

  cublasLtMatmulDesc_t operation() const { return &operation_; }
  cublasLtMatrixLayout_t a() const { return &a_; }
  cublasLtMatrixLayout_t b() const { return &b_; }
  cublasLtMatrixLayout_t d() const { return &d_; }
  cublasComputeType_t compute() const { return compute_; }
  const ProductCall& call() const { return call_; }
  /// The vector of the ending, of which heuristics read the alignment.
  void set_vector(const void* vector);
  bool has_vector() const;

 private:
  ProductCall call_;
  cublasComputeType_t compute_;
  // The library takes pointers to what it does not change.
  mutable cublasLtMatmulDescOpaque_t operation_;
  mutable cublasLtMatrixLayoutOpaque_t a_, b_, d_;
};

/// What heuristics may suggest.
class LtPreference {
 public:
  /// `alignment`: of all matrices, in bytes.
  LtPreference(const DeviceProduct& product, const Arithmetic& arithmetic, size_t workspace,
               uint32_t alignment);
  cublasLtMatmulPreference_t get() const { return &preference_; }

 private:
  mutable cublasLtMatmulPreferenceOpaque_t preference_;
};

/// The ways to add up the parts of a split k that keep f32 and, if the net is deterministic, their
/// order: a mask of cublasLtReductionScheme_t.
uint32_t lt_reductions(const DeviceProduct& product, const Arithmetic& arithmetic);

/// An algorithm's bytes, which the same version of the library reads again: "algorithm 15.0.2a".
std::string lt_name(const cublasLtMatmulAlgo_t& algorithm);
/// None for other texts.
std::optional<cublasLtMatmulAlgo_t> lt_algorithm(const std::string& name);

}  // namespace crema
