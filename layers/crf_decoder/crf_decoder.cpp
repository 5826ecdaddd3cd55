// CRFDecoder: the best path of classes with the parameters of CRFLoss. See README.md.
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/resize.hpp"
#include "layers/crf_loss/crf_layer.hpp"
#include "layers/crf_loss/crf_passes.hpp"

namespace crema {
namespace {

class CrfDecoderLayer : public CrfLayer {
 public:
  std::string host_part() const override { return "check of indicators and scores"; }
  bool host_reads(int b) const override { return b > 0; }
  bool host_writes() const override { return false; }
  using CrfLayer::CrfLayer;

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = 2}; }
  bool can_propagate(int) const override { return false; }
  bool is_exact_top(int) const override { return true; }

  void reshape(Blobs bottom, Blobs top) override {
    read_shape(bottom);
    if (classes() != transitions_->shape()[0])
      throw Error("the scores '", bottom[0]->name, "' (", bottom[0]->shape().str(), ") have ",
                  classes(), " classes, but the transitions ", transitions_->shape()[0]);
    if (bottom.size() > 1) check_like_scores(*bottom[1], *bottom[0], "indicators");
    top[0]->reshape(Shape{steps(), batch()});
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(scale_count() + from_count()) * sizeof(double);
  }
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    find_sequences(steps(), batch(), bottom.size() > 1 ? &bottom[1]->data : nullptr, nullptr,
                   sequences_);
    dispatch_float(dtype(), [&]<class T>(T) {
      if (device.on_host()) {
        begin_pass();
        return write_paths<T>(bottom[0]->data, top[0]->data);
      }
      double* const memory = pass_scratch<double>(device, scale_count() + from_count(), scratch_);
      write_paths_there<T>(device, batch_there(device), scales_there<T>(device, false, memory),
                           bottom[0]->data, memory + scale_count(),
                           overwrite<double>(device, values_, steps() * batch()), top[0]->data);
      check_values<T>(values_, bottom[0]->data);
    });
  }
  // Paths have no gradient.
  void run_backward(const ComputeDevice&, Blobs, const std::vector<bool>&, Blobs) override {}

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
};

}  // namespace

void register_crf_decoder(Registry& registry) {
  add_two_sided<CrfDecoderLayer>(registry, "CRFDecoder");
}

}  // namespace crema
