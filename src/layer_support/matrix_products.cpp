#include "layer_support/matrix_products.hpp"

#include <omp.h>

#include <vector>

#include "core/tuner.hpp"

namespace crema {
namespace {

constexpr const char* kNames[kProducts] = {"times-transposed", "times", "outer"};

std::string key_of(bool by_thin) {
  return by_thin ? text("thin @", ThinProduct::kRevision) : text("gemm @", blas_name());
}

TunedProblem problem_of(ProductSizes sizes, Product product) {
  return {text("inner product ", kNames[static_cast<size_t>(product)], " ", omp_get_max_threads(),
               "t ", sizes.rows, "x", sizes.columns, " by "),
          Shape{sizes.batch}};
}

}  // namespace

FasterProducts::FasterProducts(ProductSizes sizes, int threads)
    : library_{{}, sizes}, threads_(threads) {}

void FasterProducts::choose(Product product, bool by_thin) {
  by_thin_[static_cast<size_t>(product)] = by_thin;
  if (!by_thin || thin_.bytes() > 0) return;
  const auto& [batch, rows, columns] = library_.sizes;
  thin_ = ThinProduct(batch, rows, columns, threads_);
}

void FasterProducts::times_transposed(const float* a, const float* matrix, float* out) {
  by_thin(Product::times_transposed) ? thin_.times_transposed(a, matrix, out)
                                     : library_.times_transposed(a, matrix, out);
}

void FasterProducts::times(const float* a, const float* matrix, float* out) {
  by_thin(Product::times) ? thin_.times(a, matrix, out) : library_.times(a, matrix, out);
}

void FasterProducts::outer(const float* a, const float* b, float beta, float* matrix) {
  by_thin(Product::outer) ? thin_.outer(a, b, beta, matrix) : library_.outer(a, b, beta, matrix);
}

ProductTrial::ProductTrial(Context& context, int64_t batch, const Tensor& matrix)
    : context_(context),
      sizes_{batch, matrix.shape()[0], matrix.shape()[1]},
      matrix_(matrix),
      products_(sizes_, omp_get_max_threads()) {}

ProductChoice ProductTrial::choose(Product product, bool probably_thin) {
  std::vector<TunedCandidate> candidates;
  for (const bool by_thin : {probably_thin, !probably_thin}) {
    candidates.push_back({.key = key_of(by_thin), .prepare = [this, product, by_thin] {
                            return [this, product, by_thin] { run(product, by_thin); };
                          }});
  }
  const TunedChoice choice = choose_candidate(context_, problem_of(sizes_, product), candidates);
  return {candidates[choice.candidate].key, choice};
}

void ProductTrial::run(Product product, bool by_thin) {
  const auto need = [](Tensor& tensor, int64_t count) {
    if (tensor.has_memory()) return;
    tensor = Tensor(Shape{count});
    tensor.fill(1e-3);  // zeros and denormals may have other times
  };
  need(of_rows_, sizes_.batch * sizes_.rows);
  need(of_columns_, sizes_.batch * sizes_.columns);
  if (product == Product::outer) need(gradient_, sizes_.rows * sizes_.columns);
  products_.choose(product, by_thin);
  float* const rows = of_rows_.change<float>();
  float* const columns = of_columns_.change<float>();
  const float* const matrix = matrix_.read<float>();
  if (product == Product::times_transposed) products_.times_transposed(columns, matrix, rows);
  if (product == Product::times) products_.times(rows, matrix, columns);
  if (product == Product::outer) products_.outer(rows, columns, 0, gradient_.change<float>());
}

std::string take_choice(Context& context, ProductSizes sizes, Product product,
                        const std::string& key, FasterProducts& products) {
  products.choose(product, key == key_of(true));
  context.tuner().choose(problem_of(sizes, product).name(), key);
  return key.substr(0, key.find(" @"));
}

}  // namespace crema
