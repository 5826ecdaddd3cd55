// By the BLAS on memory that the host can read: for the device of the tests alone. It computes the
// call of a library, so that tests see what such a library is told.
#include "backend/products.hpp"

#include "backend/cpu/blas.hpp"
#include "core/convert.hpp"
#include "core/dispatch.hpp"

namespace crema {
namespace {

constexpr const char* kAlgorithm = "algorithm of the tests";

/// A matrix of the batch as dense columns in f32.
std::vector<float> dense(const ColumnMatrix& matrix, int64_t place, const void* memory) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.columns));
  dispatch_any_float(matrix.dtype, [&]<class T>(T) {
    const T* const from = static_cast<const T*>(memory) + place * matrix.stride;
    for (int64_t column = 0; column < matrix.columns; ++column) {
      for (int64_t row = 0; row < matrix.rows; ++row) {
        values[static_cast<size_t>(column * matrix.rows + row)] =
            convert_value<float>(from[column * matrix.leading + row]);
      }
    }
  });
  return values;
}

void store(const std::vector<float>& values, const ColumnMatrix& matrix, int64_t place,
           void* memory) {
  dispatch_any_float(matrix.dtype, [&]<class T>(T) {
    T* const to = static_cast<T*>(memory) + place * matrix.stride;
    for (int64_t column = 0; column < matrix.columns; ++column) {
      for (int64_t row = 0; row < matrix.rows; ++row) {
        to[column * matrix.leading + row] =
            convert_value<T>(values[static_cast<size_t>(column * matrix.rows + row)]);
      }
    }
  });
}

/// The sums of each row of a factor, over its columns, or of each column.
void store_sums(const std::vector<float>& factor, const ColumnMatrix& matrix, bool over_columns,
                DType dtype, void* sums) {
  const int64_t count = over_columns ? matrix.rows : matrix.columns;
  std::vector<double> all(static_cast<size_t>(count));
  for (int64_t i = 0; i < matrix.rows * matrix.columns; ++i) {
    const int64_t kept = over_columns ? i % matrix.rows : i / matrix.rows;
    all[static_cast<size_t>(kept)] += static_cast<double>(factor[static_cast<size_t>(i)]);
  }
  std::vector<float> rounded(all.begin(), all.end());
  store(rounded, {dtype, count, 1, count}, 0, sums);
}

void compute(const ProductCall& call, const ProductOperands& operands) {
  // The library's a is our b.
  const void *const of_a = operands.b, *const of_b = operands.a;
  const int64_t rows = call.d.rows, columns = call.d.columns;
  const int64_t k = call.transpose_a ? call.a.rows : call.a.columns;
  const bool has_bias =
      call.ending == ProductEnding::bias || call.ending == ProductEnding::bias_relu;
  const bool has_relu =
      call.ending == ProductEnding::relu || call.ending == ProductEnding::bias_relu;
  for (int64_t place = 0; place < call.d.batch; ++place) {
    const std::vector<float> a = dense(call.a, place, of_a), b = dense(call.b, place, of_b);
    std::vector<float> d(static_cast<size_t>(rows * columns));
    if (operands.beta != 0) d = dense(call.d, place, operands.c);
    // Columns of d are rows of its transpose.
    gemm<float>(call.transpose_b, call.transpose_a, columns, rows, k, call.scale, b.data(),
                a.data(), operands.beta, d.data());
    if (call.ending == ProductEnding::sums_of_a) {
      store_sums(a, call.a, !call.transpose_a, call.d.dtype, operands.vector);
    }
    if (call.ending == ProductEnding::sums_of_b) {
      store_sums(b, call.b, call.transpose_b, call.d.dtype, operands.vector);
    }
    const std::vector<float> bias =
        has_bias ? dense({call.d.dtype, rows, 1, rows}, 0, operands.vector) : std::vector<float>();
    for (int64_t i = 0; i < rows * columns; ++i) {
      float& value = d[static_cast<size_t>(i)];
      if (has_bias) value += bias[static_cast<size_t>(i % rows)];
      if (has_relu && value < 0) value = 0;
    }
    store(d, call.d, place, operands.c);
  }
}

class HostPlan : public ProductPlan {
 public:
  HostPlan(DeviceBackend& backend, const ProductCall& call) : backend_(backend), call_(call) {}
  void run(const ProductOperands& operands) override {
    backend_.queue_loop([call = call_, operands] { compute(call, operands); });
  }

 private:
  DeviceBackend& backend_;
  ProductCall call_;
};

}  // namespace

std::string product_library(DeviceBackend&) { return "the BLAS"; }

std::vector<std::string> product_algorithms(DeviceBackend&, const DeviceProduct&, const Arithmetic&,
                                            std::string&) {
  return {kAlgorithm};
}

std::unique_ptr<ProductPlan> make_product_plan(DeviceBackend& backend, const DeviceProduct& product,
                                               const Arithmetic&, const std::string& algorithm,
                                               std::string& why) {
  if (algorithm == kAlgorithm) return std::make_unique<HostPlan>(backend, call_of(product));
  why = text("there is no '", algorithm, "'");
  return nullptr;
}

}  // namespace crema
