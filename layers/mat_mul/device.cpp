// MatMul on a device by its library of products: cuBLASLt.
#include <algorithm>
#include <array>

#include "layer_support/device_kernel.hpp"
#include "layer_support/product_choice.hpp"
#include "layers/mat_mul/products.hpp"

namespace crema {
namespace {

using DescribeMatMul = MatMulProblem (*)(const Layer&);

constexpr const char* kMatMulPasses[] = {"forward", "of A", "of B"};

MatMulProblem mat_mul_problem(DescribeMatMul describe, const Layer& layer, DType dtype) {
  MatMulProblem problem = describe(layer);
  problem.dtype = dtype;
  return problem;
}

/// The passes that the net runs.
std::vector<MatMulPass> mat_mul_passes(const Layer& layer) {
  std::vector<MatMulPass> passes = {MatMulPass::forward};
  if (layer.propagates(0)) passes.push_back(MatMulPass::of_a);
  if (layer.propagates(1)) passes.push_back(MatMulPass::of_b);
  return passes;
}

std::vector<ProductWay> ways_of(const MatMulProblem& problem, MatMulPass pass) {
  return {{"one", problem.pass(pass).product}};
}

class MatMulByLibrary : public Kernel {
 public:
  /// `names`: of the algorithms of the passes, for these or for other shapes.
  MatMulByLibrary(Layer& layer, const MatMulProblem& problem, const std::vector<std::string>& names)
      : Kernel(layer), backend_(layer.context().backend()), problem_(problem) {
    // Where shapes follow from values, they may have no elements.
    if (problem_.is_empty()) return;
    const std::vector<MatMulPass> passes = mat_mul_passes(layer);
    const std::string library = product_family(layer, problem_.dtype);
    for (size_t i = 0; i < passes.size(); ++i) {
      std::string why;
      auto chosen =
          choose_named_product(layer, problem_.tuned(passes[i], library),
                               ways_of(problem_, passes[i]), i < names.size() ? names[i] : "", why);
      if (!chosen) throw Error("cannot multiply on this device: ", why);
      plans_[static_cast<size_t>(passes[i])] = std::move(chosen->plan);
      detail_ += text(i > 0 ? ", " : "", kMatMulPasses[static_cast<size_t>(passes[i])], " in one");
    }
  }

  void forward(Blobs bottom, Blobs top) override {
    run(MatMulPass::forward, bottom, top, top[0]->data);
  }
  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (propagate[0]) run(MatMulPass::of_a, bottom, top, bottom[0]->diff);
    if (propagate[1]) run(MatMulPass::of_b, bottom, top, bottom[1]->diff);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    size_t most = 0;
    for (const auto& one : plans_) {
      if (one) most = std::max(most, one->scratch_bytes());
    }
    if (most > 0) plan.need(kDeviceScratch, most);
  }
  std::string detail() const override { return detail_; }
  bool capturable() const override { return true; }

 private:
  void run(MatMulPass of, Blobs bottom, Blobs top, Tensor& result) {
    void* const to = result.overwrite_bytes(&backend_);
    if (problem_.is_empty()) return backend_.fill_zero(to, result.bytes());
    const auto memory = [&](MatMulProblem::Operand operand) -> const void* {
      switch (operand) {
        case MatMulProblem::Operand::a:
          return bottom[0]->data.read_bytes(&backend_);
        case MatMulProblem::Operand::b:
          return bottom[1]->data.read_bytes(&backend_);
        case MatMulProblem::Operand::dy:
          return top[0]->diff.read_bytes(&backend_);
      }
      return nullptr;
    };
    const MatMulProblem::Pass pass = problem_.pass(of);
    plans_[static_cast<size_t>(of)]->run(
        {.a = memory(pass.first), .b = memory(pass.second), .c = to});
  }

  DeviceBackend& backend_;
  MatMulProblem problem_;
  std::array<std::unique_ptr<ProductPlan>, 3> plans_;  // by MatMulPass
  std::string detail_;
};

class MatMulEngineOfDevices : public Engine {
 public:
  explicit MatMulEngineOfDevices(DescribeMatMul describe) : describe_(describe) {}

  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& /*why*/) const override {
    std::vector<Option> options;
    if (layer.dtype() == DType::f32) options = by_library(layer, bottom, top);
    if (!options.empty()) return options;
    return static_cast<const TwoSidedLayer&>(layer).device_options(bottom, top);
  }

  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs bottom,
                               Blobs top) const override {
    if (option.choice.empty()) {
      return make_device_kernel(static_cast<TwoSidedLayer&>(layer), bottom, top);
    }
    return std::make_unique<MatMulByLibrary>(
        layer, mat_mul_problem(describe_, layer, option.tops[0].dtype), option.choice);
  }

 private:
  /// In the type of the activations; empty where the library cannot.
  std::vector<Option> by_library(const Layer& layer, Blobs bottom, Blobs top) const {
    const MatMulProblem problem = mat_mul_problem(describe_, layer, layer.activations());
    if (problem.is_empty()) return {};
    Option option = uniform_option(bottom, top, problem.dtype);
    const std::string library = product_family(layer, problem.dtype);
    bool measured = true;
    for (const MatMulPass pass : mat_mul_passes(layer)) {
      if (problem.needs_several(pass)) return {};
      std::string why;
      const auto chosen =
          choose_product(layer, problem.tuned(pass, library), ways_of(problem, pass), why);
      if (!chosen) {
        layer.context().log(Severity::info, text("layer '", layer.name(), "' (", layer.type(),
                                                 ") multiplies in f32, by cuBLAS: ", why));
        return {};
      }
      option.choice.push_back(chosen->name);
      option.seconds += chosen->seconds;
      measured = measured && chosen->seconds > 0;
    }
    if (!measured) option.seconds = 0;
    return {option};
  }

  DescribeMatMul describe_;
};

}  // namespace

void add_mat_mul_engine(Registry& registry, const std::string& type, DescribeMatMul describe) {
  registry.add_engine<MatMulEngineOfDevices>(type, "cuda", DeviceType::cuda, describe);
}

}  // namespace crema
