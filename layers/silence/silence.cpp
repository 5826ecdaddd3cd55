// Silence: reads blobs that nothing else reads, so that they are no outputs. See README.md.
#include "core/move.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {
namespace {

class SilenceLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override {
    return {.min_bottoms = 1, .max_bottoms = -1, .min_tops = 0, .max_tops = 0};
  }
  void reshape(Blobs, Blobs) override {}
  void run_forward(const ComputeDevice&, Blobs, Blobs) override {}
  /// dx = 0.
  void run_backward(const ComputeDevice& device, Blobs, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate[i]) fill_zero(device, bottom[i]->diff);
    }
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return moving_options(*this, bottom, top, true);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
};

}  // namespace

void register_silence(Registry& registry) { add_two_sided<SilenceLayer>(registry, "Silence"); }

}  // namespace crema
