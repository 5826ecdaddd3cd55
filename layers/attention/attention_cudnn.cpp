// The engine "cudnn" of Attention: cuDNN's fused attention in bf16 and f16. What its backward pass
// cannot compute, and samples without any key, the passes of the layer compute.
#include <algorithm>
#include <optional>

#include "backend/cuda/dnn_attention.hpp"
#include "crema/registry.hpp"
#include "layer_support/options.hpp"
#include "layers/attention/attention_layer.hpp"

namespace crema {
namespace {

constexpr const char* kOwnPasses = "own passes";

DnnAttentionProblem problem_of(const AttentionLayer& layer, Blobs bottom) {
  const AttentionSizes& s = layer.sizes();
  return {.dtype = layer.activations(),
          .batch = s.batch,
          .heads = s.heads,
          .queries = s.queries,
          .keys = s.keys,
          .depth = s.depth,
          .value_depth = s.value_depth,
          .causal = layer.causal(),
          .has_lengths = bottom.size() == 4,
          .trains = layer.trains()};
}

bool propagates_any(const AttentionLayer& layer) {
  return layer.propagates(0) || layer.propagates(1) || layer.propagates(2);
}

/// The first way of a pass whose plan can be made and keeps within the limit of scratch memory.
/// Nothing is measured: where the library's engines can run, they are alike.
std::optional<DnnAttentionWay> way_of(const AttentionLayer& layer,
                                      const DnnAttentionProblem& problem, DnnAttentionPass pass,
                                      std::string& why) {
  DnnPlans& plans = cuda(layer.context()).dnn_plans();
  for (const DnnAttentionWay& way :
       dnn_attention_ways(plans, problem, pass, layer.arithmetic().deterministic, why)) {
    const std::optional<size_t> workspace = way.candidate->workspace(why);
    if (!workspace) continue;
    if (*workspace <= layer.arithmetic().workspace_limit) return way;
    why = text("it takes ", *workspace,
               " bytes of scratch memory, and workspace_limit of the net "
               "is ",
               layer.arithmetic().workspace_limit);
  }
  return std::nullopt;
}

class CudnnAttention : public Kernel {
 public:
  CudnnAttention(AttentionLayer& layer, Blobs bottom, Blobs top)
      : Kernel(layer), layer_(layer), backend_(cuda(layer.context())) {
    problem_ = problem_of(layer, bottom);
    std::string why;
    if (top[0]->count() == 0 || problem_.keys == 0) return;
    if (const auto way = way_of(layer, problem_, DnnAttentionPass::forward, why))
      forward_.emplace(problem_, *way);
    detail_ = forward_ ? forward_->way().str() : text("forward ", kOwnPasses);
    if (!layer.trains() || !propagates_any(layer)) return;
    if (const auto way = way_of(layer, problem_, DnnAttentionPass::backward, why))
      backward_.emplace(problem_, *way);
    planned_unwanted_ =
        unwanted_bytes({layer.propagates(0), layer.propagates(1), layer.propagates(2)}, bottom);
    detail_ += text(", ", backward_ ? backward_->way().str() : text("backward ", kOwnPasses));
  }

  void forward(Blobs bottom, Blobs top) override {
    const ComputeDevice device(backend_);
    // Without any key, the library's result is not that of the layer.
    by_library_ = forward_ && (!problem_.has_lengths || layer_.least_length(*bottom[3]) > 0);
    if (!by_library_) return layer_.run_forward(device, bottom, top);
    if (problem_.has_lengths) layer_.write_lengths(device, *bottom[3], lengths_);
    DnnAttentionTensors tensors = tensors_of(bottom);
    tensors.y = top[0]->data.overwrite_bytes(&backend_);
    if (problem_.trains) tensors.log_sums = layer_.log_sums().overwrite<float>(&backend_);
    forward_->run(backend_, tensors, static_cast<float>(layer_.scale()),
                  backend_.scratch(forward_->scratch_bytes()));
  }

  void backward(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!any_of(propagate)) return;
    if (!by_library_ || !backward_) {
      const ComputeDevice device(backend_);
      if (by_library_) layer_.take_masks(device, bottom);
      return layer_.run_backward(device, top, propagate, bottom);
    }
    DnnAttentionTensors tensors = tensors_of(bottom);
    tensors.y = const_cast<void*>(top[0]->data.read_bytes(&backend_));
    tensors.log_sums = const_cast<float*>(layer_.log_sums().read<float>(&backend_));
    tensors.dy = top[0]->diff.read_bytes(&backend_);
    const size_t unwanted = unwanted_bytes(propagate, bottom);
    auto* const scratch =
        static_cast<std::byte*>(backend_.scratch(unwanted + backward_->scratch_bytes()));
    void** const diffs[kInputs] = {&tensors.dq, &tensors.dk, &tensors.dv};
    for (size_t i = 0; i < kInputs; ++i)
      *diffs[i] = propagate[i] ? bottom[i]->diff.overwrite_bytes(&backend_) : scratch;
    backward_->run(backend_, tensors, static_cast<float>(layer_.scale()), scratch + unwanted);
  }

  size_t bytes() const override { return layer_.kept_bytes() + lengths_.bytes(); }
  void plan_scratch(ScratchPlan& plan) const override {
    if (forward_) plan.need(kDeviceScratch, forward_->scratch_bytes());
    if (backward_) plan.need(kDeviceScratch, planned_unwanted_ + backward_->scratch_bytes());
  }
  std::string detail() const override { return detail_; }
  /// Forward reads lengths on the host.
  bool capturable() const override { return !problem_.has_lengths; }

 private:
  static constexpr size_t kInputs = 3, kBoundary = 256;

  /// Memory for gradients that the library writes and nobody wants.
  size_t unwanted_bytes(const std::vector<bool>& propagate, Blobs bottom) const {
    size_t bytes = 0;
    for (size_t i = 0; i < kInputs; ++i) {
      if (!propagate[i])
        bytes = std::max(bytes, static_cast<size_t>(bottom[i]->count()) * size_of(problem_.dtype));
    }
    return (bytes + kBoundary - 1) / kBoundary * kBoundary;
  }

  DnnAttentionTensors tensors_of(Blobs bottom) {
    const int32_t* const lengths =
        problem_.has_lengths ? lengths_.read<int32_t>(&backend_) : nullptr;
    return {.q = bottom[0]->data.read_bytes(&backend_),
            .k = bottom[1]->data.read_bytes(&backend_),
            .v = bottom[2]->data.read_bytes(&backend_),
            .y = nullptr,
            .log_sums = nullptr,
            .query_lengths = lengths,
            .key_lengths = lengths != nullptr ? lengths + lengths_.shape()[1] : nullptr,
            .dy = nullptr,
            .dq = nullptr,
            .dk = nullptr,
            .dv = nullptr};
  }

  AttentionLayer& layer_;
  CudaBackend& backend_;
  DnnAttentionProblem problem_;
  std::optional<DnnAttention> forward_, backward_;  // none: the passes of the layer
  size_t planned_unwanted_ = 0;                     // unwanted_bytes() of the net
  Tensor lengths_{Shape{0}, DType::i32};
  bool by_library_ = false;  // the last forward
  std::string detail_;
};

class AttentionCudnn : public Engine {
 public:
  std::vector<Option> options(const Layer& of, Blobs bottom, Blobs top,
                              std::string& why) const override {
    const auto& layer = static_cast<const AttentionLayer&>(of);
    if (layer.drops()) {
      why = "cuDNN's dropout draws other numbers than the layer's";
      return {};
    }
    if (bottom.size() == 4 && bottom[3]->shape().rank() == 2) {
      why = "cuDNN masks keys behind a length alone, and '" + bottom[3]->name + "' masks any";
      return {};
    }
    const DnnAttentionProblem problem = problem_of(layer, bottom);
    why = layer.dtype() == DType::f32 ? dnn_attention_refusal(problem) : "its statistics are f32";
    if (!why.empty()) return {};
    const auto forward = way_of(layer, problem, DnnAttentionPass::forward, why);
    if (!forward) return {};
    Option option = uniform_option(bottom, top, layer.activations());
    if (bottom.size() == 4) option.bottoms[3].dtype = layer.dtype();
    option.choice.push_back(forward->str());
    return {option};
  }
  std::unique_ptr<Kernel> make(Layer& layer, const Option&, Blobs bottom,
                               Blobs top) const override {
    return std::make_unique<CudnnAttention>(static_cast<AttentionLayer&>(layer), bottom, top);
  }
};

}  // namespace

void register_attention_cuda(Registry& registry) {
  registry.add_engine<AttentionCudnn>("Attention", "cudnn", DeviceType::cuda);
}

}  // namespace crema
