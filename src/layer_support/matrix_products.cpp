#include "layer_support/matrix_products.hpp"

#include <omp.h>

#include <vector>

#include "core/tuner.hpp"

namespace crema {
namespace {

constexpr const char* kNames[kProducts] = {"times-transposed", "times", "outer"};

std::string key_of(ProductKernel way, bool keeps) {
  if (way == ProductKernel::thin) return text("thin @", ThinProduct::kRevision);
  if (way == ProductKernel::packed)
    return text(keeps ? "kept @" : "packed @", PackedProduct::kRevision);
  return text("gemm @", blas_name());
}

/// Nets that keep the packed form and nets that do not, such as a test net and its training net,
/// have other candidates, and so other choices.
TunedProblem problem_of(ProductSizes sizes, Product product, bool keeps) {
  return {text("inner product ", keeps ? "kept " : "", kNames[static_cast<size_t>(product)], " ",
               omp_get_max_threads(), "t ", sizes.rows, "x", sizes.columns, " by "),
          Shape{sizes.batch}};
}

}  // namespace

FasterProducts::FasterProducts(ProductSizes sizes, int threads)
    : library_{{}, sizes}, threads_(threads) {}

void FasterProducts::choose(Product product, ProductKernel way) {
  ways_[static_cast<size_t>(product)] = way;
  const auto& [batch, rows, columns] = library_.sizes;
  if (way == ProductKernel::thin && thin_.bytes() == 0)
    thin_ = ThinProduct(batch, rows, columns, threads_);
  if (way == ProductKernel::packed && packed_.packed_bytes(true) == 0)
    packed_ = PackedProduct(batch, rows, columns);
}

void FasterProducts::times_transposed(const float* a, const float* matrix, float* out,
                                      const ProductEnd& end) {
  const ProductKernel by = way(Product::times_transposed);
  if (by == ProductKernel::packed) return packed_.times_transposed(a, {matrix, storage_}, out, end);
  by == ProductKernel::thin ? thin_.times_transposed(a, matrix, out)
                            : library_.times_transposed(a, matrix, out);
  finish_product(library_.sizes.batch, library_.sizes.rows, out, end);
}

void FasterProducts::times(const float* a, const float* matrix, float* out, const ProductEnd& end) {
  const ProductKernel by = way(Product::times);
  if (by == ProductKernel::packed) return packed_.times(a, {matrix, storage_}, out, end);
  by == ProductKernel::thin ? thin_.times(a, matrix, out) : library_.times(a, matrix, out);
  finish_product(library_.sizes.batch, library_.sizes.columns, out, end);
}

void FasterProducts::outer(const float* a, const float* b, float beta, float* matrix) {
  way(Product::outer) == ProductKernel::thin ? thin_.outer(a, b, beta, matrix)
                                             : library_.outer(a, b, beta, matrix);
}

size_t FasterProducts::bytes(bool keeps) const {
  size_t bytes = thin_.bytes();
  for (const Product product : {Product::times_transposed, Product::times}) {
    if (keeps && way(product) == ProductKernel::packed)
      bytes += packed_.packed_bytes(product == Product::times_transposed);
  }
  return bytes;
}

void FasterProducts::plan_scratch(ScratchPlan& plan, bool keeps) const {
  for (const Product product : {Product::times_transposed, Product::times}) {
    if (way(product) == ProductKernel::packed)
      packed_.plan_scratch(plan, product == Product::times_transposed, !keeps);
  }
}

ProductTrial::ProductTrial(Context& context, int64_t batch, const Tensor& matrix,
                           ParameterStorage* storage)
    : context_(context),
      sizes_{batch, matrix.shape()[0], matrix.shape()[1]},
      matrix_(matrix),
      storage_(storage),
      products_(sizes_, omp_get_max_threads()) {}

ProductChoice ProductTrial::choose(Product product, const std::vector<ProductKernel>& ways) {
  std::vector<TunedCandidate> candidates;
  for (const ProductKernel way : ways) {
    candidates.push_back({.key = key_of(way, storage_ != nullptr), .prepare = [this, product, way] {
                            return [this, product, way] { run(product, way); };
                          }});
  }
  const TunedChoice choice =
      choose_candidate(context_, problem_of(sizes_, product, storage_ != nullptr), candidates);
  return {candidates[choice.candidate].key, choice};
}

ProductChoice ProductTrial::choose(Product product, bool probably_thin) {
  using enum ProductKernel;
  return choose(product, probably_thin ? std::vector{thin, library} : std::vector{library, thin});
}

void ProductTrial::run(Product product, ProductKernel way) {
  const auto need = [](Tensor& tensor, int64_t count) {
    if (tensor.has_memory()) return;
    tensor = Tensor(Shape{count});
    tensor.fill(1e-3);  // zeros and denormals may have other times
  };
  need(of_rows_, sizes_.batch * sizes_.rows);
  need(of_columns_, sizes_.batch * sizes_.columns);
  if (product == Product::outer) need(gradient_, sizes_.rows * sizes_.columns);
  products_.choose(product, way);
  products_.keep_in(storage_);
  float* const rows = of_rows_.change<float>();
  float* const columns = of_columns_.change<float>();
  const float* const matrix = matrix_.read<float>();
  if (product == Product::times_transposed) products_.times_transposed(columns, matrix, rows);
  if (product == Product::times) products_.times(rows, matrix, columns);
  if (product == Product::outer) products_.outer(rows, columns, 0, gradient_.change<float>());
}

std::string take_choice(Context& context, ProductSizes sizes, Product product,
                        const std::string& key, FasterProducts& products, bool keeps) {
  ProductKernel way = ProductKernel::library;
  for (const ProductKernel other : {ProductKernel::thin, ProductKernel::packed}) {
    if (key == key_of(other, false) || key == key_of(other, true)) way = other;
  }
  products.choose(product, way);
  context.tuner().choose(problem_of(sizes, product, keeps).name(), key);
  return key.substr(0, key.find(" @"));
}

}  // namespace crema
