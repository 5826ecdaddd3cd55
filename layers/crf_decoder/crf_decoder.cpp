// CRFDecoder: the best path of classes with the parameters of CRFLoss. See README.md.
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
#include "layers/crf_loss/crf_layer.hpp"

namespace crema {
namespace {

class CrfDecoderLayer : public CrfLayer {
 public:
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
    return static_cast<size_t>(path_count()) * sizeof(double);
  }
  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    find_sequences(steps(), batch(), bottom.size() > 1 ? &bottom[1]->data : nullptr, nullptr,
                   sequences_);
    if (side.device() == nullptr) begin_pass();
    dispatch_float(dtype(),
                   [&]<class T>(T) { write_paths<T>(side, bottom[0]->data, top[0]->data); });
  }
  // Paths have no gradient.
  void run_backward(const Side&, Blobs, const std::vector<bool>&, Blobs) override {}

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
};

}  // namespace

void register_crf_decoder(Registry& registry) {
  add_two_sided<CrfDecoderLayer>(registry, "CRFDecoder");
}

}  // namespace crema
