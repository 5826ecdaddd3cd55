// Split: hands one blob to several layers. See README.md.
#include "core/move.hpp"
#include "layer_support/two_sided.hpp"

namespace crema {
namespace {

class SplitLayer : public TwoSidedLayer {
 public:
  bool moves_values() const override { return true; }
  using TwoSidedLayer::TwoSidedLayer;

  Arity arity() const override { return {.max_tops = -1}; }
  void reshape(Blobs bottom, Blobs top) override {
    for (Blob* blob : top) blob->reshape(bottom[0]->shape());
    terms_.resize(top.size());
  }
  Flops flops(Blobs bottom, Blobs top) const override {
    return {0, static_cast<double>(bottom[0]->count()) * static_cast<double>(top.size() - 1)};
  }

  /// Copies to the tops that do not lie in the bottom's memory; in a net all do.
  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    for (Blob* blob : top) copy(device, bottom[0]->data, blob->data);
  }
  /// dx = sum of dy.
  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    for (size_t k = 0; k < top.size(); ++k) terms_[k] = &top[k]->diff;
    // Where the first top's diff is the bottom's, it is a sum that goes on.
    Tensor& dx = bottom[0]->diff;
    if (dx.same_memory(*terms_[0])) terms_[0] = &dx;
    add(device, terms_, dx);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    return moving_options(*this, bottom, top, true);
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override { return InPlace::alias; }

 private:
  std::vector<const Tensor*> terms_;
};

}  // namespace

void register_split(Registry& registry) { add_two_sided<SplitLayer>(registry, "Split"); }

}  // namespace crema
