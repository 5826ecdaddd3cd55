#include "backend/onednn/activation.hpp"

#include "backend/pointwise.hpp"

namespace crema::onednn {
namespace {

// The algorithms whose backward takes y.
dnnl::algorithm algorithm_of(Activation::Kind kind) {
  return kind == Activation::Kind::tanh ? dnnl::algorithm::eltwise_tanh_use_dst_for_bwd
                                        : dnnl::algorithm::eltwise_logistic_use_dst_for_bwd;
}

// In version 2 a descriptor serves for both sides of the operation.
auto forward_desc(dnnl::algorithm algorithm, const dnnl::memory::desc& desc) {
  const auto training = dnnl::prop_kind::forward_training;
#if DNNL_VERSION_MAJOR >= 3
  return make_desc<dnnl::eltwise_forward>(attributes(), training, algorithm, desc, desc, 0.F, 0.F);
#else
  return make_desc<dnnl::eltwise_forward>(attributes(), training, algorithm, desc, 0.F, 0.F);
#endif
}

auto backward_desc(dnnl::algorithm algorithm, const dnnl::memory::desc& desc,
                   const dnnl::eltwise_forward::primitive_desc& forward) {
#if DNNL_VERSION_MAJOR >= 3
  return make_backward_desc<dnnl::eltwise_backward>(attributes(), forward, algorithm, desc, desc,
                                                    desc, 0.F, 0.F);
#else
  return make_backward_desc<dnnl::eltwise_backward>(attributes(), forward, algorithm, desc, desc,
                                                    0.F, 0.F);
#endif
}

}  // namespace

std::optional<ActivationEngine::Operations> ActivationEngine::make(int64_t elements,
                                                                   std::string& why) const {
  return attempt(why, [&] {
    const auto desc = describe(Shape{elements}, DType::f32, Format::contiguous);
    const auto forward = forward_desc(algorithm_of(kind_), desc);
    const auto backward = backward_desc(algorithm_of(kind_), desc, forward);
    return Operations{
        Operation(dnnl::eltwise_forward(forward), forward,
                  {{DNNL_ARG_SRC, desc}, {DNNL_ARG_DST, desc}}),
        Operation(dnnl::eltwise_backward(backward), backward,
                  {{DNNL_ARG_DST, desc}, {DNNL_ARG_DIFF_DST, desc}, {DNNL_ARG_DIFF_SRC, desc}})};
  });
}

std::vector<Option> ActivationEngine::options(Layer& layer, Blobs bottom, Blobs top,
                                                    std::string& why) {
  const Shape& shape = bottom[0]->shape();
  if (layer.dtype() != DType::f32) {
    why = concat("it computes in f32, not in ", to_string(layer.dtype()));
    return {};
  }
  if (shape.count() == 0) {
    why = concat("a bottom of ", shape.str(), " has no elements");
    return {};
  }
  if (!make(shape.count(), why)) return {};
  return same_format_options(bottom, top, DType::f32, kind_ != Activation::Kind::sigmoid);
}

void ActivationEngine::prepare(Layer&, const Option&, Blobs bottom, Blobs) {
  std::string why;
  std::optional<Operations> made = make(bottom[0]->data.storage(), why);
  require(made.has_value(), "oneDNN refuses: ", why);
  forward_ = std::move(made->forward);
  backward_ = std::move(made->backward);
}

void ActivationEngine::forward(Layer&, Blobs bottom, Blobs top) {
  forward_.run({bottom[0]->data.host<float>(), top[0]->data.host_overwrite<float>()});
}

void ActivationEngine::backward(Layer&, Blobs top, const std::vector<bool>& propagate,
                                Blobs bottom) {
  if (!propagate[0]) return;
  backward_.run({top[0]->data.host<float>(), top[0]->diff.host<float>(),
                 bottom[0]->diff.host_overwrite<float>()});
}

}  // namespace crema::onednn
