// InnerProduct on a device by its library of products: cuBLASLt.
#include <algorithm>
#include <array>
#include <optional>

#include "backend/parameter_copies.hpp"
#include "layer_support/device_kernel.hpp"
#include "layer_support/options.hpp"
#include "layers/inner_product/products.hpp"

namespace crema {
namespace {

using DescribeInnerProduct = InnerProductProblem (*)(const Layer&);

constexpr const char* kInnerProductPasses[] = {"forward", "data", "weights"};

InnerProductProblem inner_product_problem(DescribeInnerProduct describe, const Layer& layer,
                                          DType dtype) {
  InnerProductProblem problem = describe(layer);
  problem.dtype = dtype;
  problem.bias_learns = problem.has_bias && layer.trains() && layer.params()[1]->needs_gradient;
  return problem;
}

/// The passes that the net runs.
std::vector<InnerProductPass> inner_product_passes(const Layer& layer) {
  std::vector<InnerProductPass> passes = {InnerProductPass::forward};
  if (layer.propagates(0)) passes.push_back(InnerProductPass::data);
  if (layer.trains() && layer.params()[0]->needs_gradient)
    passes.push_back(InnerProductPass::weights);
  return passes;
}

class InnerProductByLibrary : public Kernel {
 public:
  /// `names`: of the ways of the passes, for these or for other shapes.
  InnerProductByLibrary(Layer& layer, const InnerProductProblem& problem,
                        const std::vector<std::string>& names, Blobs top)
      : Kernel(layer), layer_(layer), backend_(layer.context().backend()), problem_(problem) {
    if (problem_.relu && layer.trains() && layer.requirements().top_diffs_stay) {
      masked_ = Tensor(top[0]->shape(), problem_.dtype);
    }
    // Where shapes follow from values, they may have no elements.
    if (problem_.batch == 0) return;
    const std::vector<InnerProductPass> passes = inner_product_passes(layer);
    const std::string library = product_family(layer, problem_.dtype);
    for (size_t i = 0; i < passes.size(); ++i) {
      std::string why;
      const std::vector<ProductWay> ways = problem_.ways(passes[i], backend_);
      auto chosen = choose_named_product(layer, problem_.tuned(passes[i], library), ways,
                                         i < names.size() ? names[i] : "", why);
      if (!chosen) throw Error("cannot multiply on this device: ", why);
      detail_ += text(i > 0 ? ", " : "", kInnerProductPasses[static_cast<size_t>(passes[i])], " ",
                      form_of(chosen->name));
      One& one = of(passes[i]);
      one.plan = std::move(chosen->plan);
      one.ending = ways[chosen->way].product.ending;
    }
    if (of(InnerProductPass::weights).ending != ProductEnding::none)
      sums_ = Tensor(Shape{problem_.outputs});
    const DepthMap::Extents no_axes{1, 1, 1};
    weight_form_ = {DepthMap::plain(static_cast<uint32_t>(problem_.inputs), no_axes),
                    problem_.outputs, problem_.dtype};
    if (adds_bias()) bias_form_ = {DepthMap::plain(1, no_axes), problem_.outputs, problem_.dtype};
  }

  void forward(Blobs bottom, Blobs top) override {
    if (problem_.batch == 0) return;
    prepare();
    const One& one = of(InnerProductPass::forward);
    void* const y = top[0]->data.overwrite_bytes(&backend_);
    one.plan->run({.a = bottom[0]->data.read_bytes(&backend_),
                   .b = weights_ready_,
                   .c = y,
                   .vector = adds_bias() ? const_cast<void*>(bias_ready_) : nullptr});
    const InnerProductProblem::Rest rest = problem_.rest(one.ending);
    if (!rest.any()) return;
    const float* const shift = rest.bias ? bias()->data.read<float>(&backend_) : nullptr;
    device_finish_rows(backend_, problem_.result(), shift, rest.relu, y);
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (problem_.batch == 0) return clear_gradients();
    if (weights_ready_ == nullptr) prepare();
    const One &of_weights = of(InnerProductPass::weights), &of_data = of(InnerProductPass::data);
    const void* dy = top[0]->diff.read_bytes(&backend_);
    const bool wants_bias = bias() != nullptr && bias()->needs_gradient;
    const bool sums_apart = wants_bias && of_weights.ending == ProductEnding::none;
    if (problem_.relu || sums_apart) {
      const void* const y = problem_.relu ? top[0]->data.read_bytes(&backend_) : nullptr;
      Tensor& through = masked_.count() > 0 ? masked_ : top[0]->diff;
      void* const undone = problem_.relu ? through.overwrite_bytes(&backend_) : nullptr;
      const auto before = sums_apart ? static_cast<float>(bias()->begin_gradient()) : 0.0F;
      device_undo_and_sum_rows(backend_, problem_.result(), dy, y, problem_.relu, undone, before,
                               sums_apart ? bias()->diff.change<float>(&backend_) : nullptr);
      if (undone != nullptr) dy = undone;
    }
    if (of_weights.plan) add_weights_gradient(bottom[0]->data.read_bytes(&backend_), dy);
    if (!propagate[0]) return;
    of_data.plan->run(
        {.a = dy, .b = weights_ready_, .c = bottom[0]->diff.overwrite_bytes(&backend_)});
  }

  size_t bytes() const override {
    const auto bytes_of = [](const ParameterCopy::Form& form) {
      return form.is_that_of_values() ? 0 : form.bytes();
    };
    return masked_.bytes() + sums_.bytes() + bytes_of(weight_form_) + bytes_of(bias_form_);
  }
  void plan_scratch(ScratchPlan& plan) const override {
    size_t most =
        problem_.bias_learns || problem_.relu ? device_undo_and_sum_scratch(problem_.result()) : 0;
    for (const One& one : passes_) {
      if (one.plan) most = std::max(most, one.plan->scratch_bytes());
    }
    if (most > 0) plan.need(kDeviceScratch, most);
  }
  std::string detail() const override { return detail_; }
  bool capturable() const override { return true; }

 private:
  /// A pass: its product, and what that computes beside.
  struct One {
    std::unique_ptr<ProductPlan> plan;
    ProductEnding ending = ProductEnding::none;
  };
  One& of(InnerProductPass pass) { return passes_[static_cast<size_t>(pass)]; }
  Parameter& weights() { return *layer_.params()[0]; }
  Parameter* bias() { return problem_.has_bias ? layer_.params()[1].get() : nullptr; }
  /// Whether the product of forward adds the bias.
  bool adds_bias() {
    return problem_.has_bias && !problem_.rest(of(InnerProductPass::forward).ending).bias;
  }

  /// Weights and bias as the library reads them: in the type of x.
  void prepare() {
    weights_ready_ = read(weights(), weight_form_, weights_);
    if (adds_bias()) bias_ready_ = read(*bias(), bias_form_, bias_);
  }
  const void* read(Parameter& parameter, const ParameterCopy::Form& form,
                   std::shared_ptr<ParameterCopy>& copy) {
    return ParameterCopies::of(layer_.context().device_run()).read(backend_, parameter, form, copy);
  }

  void add_weights_gradient(const void* x, const void* dy) {
    const One& one = of(InnerProductPass::weights);
    const auto before = static_cast<float>(weights().begin_gradient());
    ProductOperands operands{.a = problem_.transposed ? x : dy,
                             .b = problem_.transposed ? dy : x,
                             .c = weights().diff.change<float>(&backend_),
                             .beta = before};
    if (one.ending == ProductEnding::none) return one.plan->run(operands);
    // The library overwrites its sums.
    const bool adds = bias()->begin_gradient() != 0;
    float* const gradient = bias()->diff.change<float>(&backend_);
    operands.vector = adds ? sums_.overwrite<float>(&backend_) : gradient;
    one.plan->run(operands);
    if (!adds) return;
    const std::array<const void*, 2> terms = {gradient, operands.vector};
    backend_.add(DType::f32, problem_.outputs, terms, gradient);
  }

  /// Sums over no rows.
  void clear_gradients() {
    for (const auto& parameter : layer_.params()) {
      if (!parameter->needs_gradient || parameter->begin_gradient() != 0) continue;
      backend_.fill_zero(parameter->diff.overwrite_bytes(&backend_), parameter->diff.bytes());
    }
  }

  Layer& layer_;
  DeviceBackend& backend_;
  InnerProductProblem problem_;
  std::array<One, 3> passes_;  // see of()
  Tensor masked_{Shape{0}};    // dy through the ReLU, if that of the top must not be overwritten
  Tensor sums_{Shape{0}};      // of dy, where they are added to a gradient
  ParameterCopy::Form weight_form_, bias_form_;
  std::shared_ptr<ParameterCopy> weights_, bias_;
  const void *weights_ready_ = nullptr, *bias_ready_ = nullptr;  // as the library reads them
  std::string detail_;
};

class InnerProductEngineOfDevices : public Engine {
 public:
  explicit InnerProductEngineOfDevices(DescribeInnerProduct describe) : describe_(describe) {}

  std::vector<Option> options(const Layer& layer, Blobs bottom, Blobs top,
                              std::string& /*why*/) const override {
    std::vector<Option> options;
    if (layer.dtype() == DType::f32) options = by_library(layer, bottom, top);
    if (!options.empty()) return options;
    return static_cast<const TwoSidedLayer&>(layer).device_options(bottom, top);
  }

  /// Of what the layer accepts, the passes of a device have the ReLU.
  bool accepts(const Layer& /*layer*/, const Tail& tail) const override {
    return relu_slope_of(tail).has_value();
  }

  std::unique_ptr<Kernel> make(Layer& layer, const Option& option, Blobs bottom,
                               Blobs top) const override {
    if (option.choice.empty()) {
      return make_device_kernel(static_cast<TwoSidedLayer&>(layer), bottom, top);
    }
    return std::make_unique<InnerProductByLibrary>(
        layer, inner_product_problem(describe_, layer, option.tops[0].dtype), option.choice, top);
  }

 private:
  /// In the type of the activations; empty where the library cannot.
  std::vector<Option> by_library(const Layer& layer, Blobs bottom, Blobs top) const {
    const DType dtype = layer.activations();
    const InnerProductProblem problem = inner_product_problem(describe_, layer, dtype);
    if (problem.batch == 0) return {};
    Option option = uniform_option(bottom, top, dtype);
    const std::string library = product_family(layer, dtype);
    bool measured = true;
    for (const InnerProductPass pass : inner_product_passes(layer)) {
      std::string why;
      const auto chosen = choose_product(layer, problem.tuned(pass, library),
                                         problem.ways(pass, layer.context().backend()), why);
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
    std::vector<Option> options = {option};
    // Behind a global pooling, both formats are the same memory.
    const Shape& shape = bottom[0]->shape();
    if (shape.rank() >= 3 && shape.count(2) == 1) {
      option.bottoms[0].format = Format::channels_last;
      options.push_back(std::move(option));
    }
    return options;
  }

  DescribeInnerProduct describe_;
};

}  // namespace

void add_inner_product_engine(Registry& registry, const std::string& type,
                              DescribeInnerProduct describe) {
  registry.add_engine<InnerProductEngineOfDevices>(type, "cuda", DeviceType::cuda, describe);
}

}  // namespace crema
