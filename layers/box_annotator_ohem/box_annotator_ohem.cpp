// BoxAnnotatorOHEM: keeps the labels and the weights of the regions with the greatest loss. See
// README.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/axis_split.hpp"
#include "core/dispatch.hpp"
#include "layer_support/labels.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/box_annotator_ohem/region_ranks.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class BoxAnnotatorOHEMLayer : public TwoSidedLayer {
 public:
  explicit BoxAnnotatorOHEMLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        keep_(init.param.box_annotator_ohem_param().roi_per_img()),
        ignored_(init.param.box_annotator_ohem_param().ignore_label()) {
    if (keep_ == 0) throw Error("roi_per_img 0 keeps no region; give their number an image");
  }

  Arity arity() const override {
    return {.min_bottoms = 4, .max_bottoms = 4, .min_tops = 2, .max_tops = 2};
  }
  bool can_propagate(int) const override { return false; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& regions = bottom[0]->shape();
    if (regions.rank() < 2 || regions[1] != 5)
      throw Error("'", bottom[0]->name, "' must be regions R x 5 (image, x1, y1, x2, y2), not ",
                  regions.str());
    regions_ = AxisSplit(regions, 1);
    for (size_t i = 1; i < 4; ++i) {
      const Shape& shape = bottom[i]->shape();
      const bool same = shape.rank() >= 2 || (i < 3 && shape.rank() == 1);
      const int64_t positions = !same   ? -1
                                : i < 3 ? shape.count()
                                        : AxisSplit(shape, 1).positions();
      if (positions != regions_.positions() || shape[0] != regions.dim_or_1(0))
        throw Error("'", bottom[i]->name, "' (", shape.str(), ") does not fit the ",
                    regions_.positions(), " regions of '", bottom[0]->name, "' (", regions.str(),
                    "); give ", i < 3 ? "one value" : "the weights of one", " for each");
      if (i < 3) check_in_step(*bottom[0], without_axis(regions, 1), *bottom[i]);
    }
    weights_ = AxisSplit(bottom[3]->shape(), 1);
    top[0]->reshape(bottom[2]->shape());
    top[1]->reshape(bottom[3]->shape());
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (!device.on_host()) return run_there(device, bottom, top);
    dispatch_float(dtype(), [&]<class T>(T) {
      sort_regions(*bottom[0], bottom[0]->data.template read<T>(),
                   bottom[1]->data.template read<T>());
      const T *labels = bottom[2]->data.template read<T>(),
              *weights = bottom[3]->data.template read<T>();
      T* const kept_labels = top[0]->data.template overwrite<T>();
      T* const kept_weights = top[1]->data.template overwrite<T>();
      std::fill_n(kept_labels, top[0]->count(), static_cast<T>(ignored_));
      std::fill_n(kept_weights, top[1]->count(), T{0});
      int64_t image = -1, left = 0;
      for (const Sorted& region : order_) {
        if (region.image != image) left = keep_;
        image = region.image;
        if (left-- <= 0) continue;
        const auto label = static_cast<double>(labels[region.index]);
        // Also true for NaN.
        if (std::floor(label) != label)
          refuse_label(bottom[0]->name, bottom[2]->name, region.index, label);
        kept_labels[region.index] = labels[region.index];
        for (int64_t c = 0; c < weights_.size; ++c) {
          const int64_t at = weights_.at(region.index) + c * weights_.inner;
          kept_weights[at] = weights[at];
        }
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  struct Sorted {
    int64_t image, index;
    double loss;
    bool operator<(const Sorted& other) const {
      if (image != other.image) return image < other.image;
      return loss != other.loss ? loss > other.loss : index < other.index;
    }
  };

  /// By image, falling loss and index; a loss that is NaN comes first.
  template <class T>
  void sort_regions(const Blob& regions, const T* values, const T* losses) {
    order_.clear();
    for (int64_t i = 0; i < regions_.positions(); ++i) {
      const auto image = static_cast<double>(values[regions_.at(i)]);
      if (!(image >= 0 && image < 0x1p53) || std::floor(image) != image)
        refuse_image(regions.name, i, image);
      const auto loss = static_cast<double>(losses[i]);
      order_.push_back({.image = static_cast<int64_t>(image),
                        .index = i,
                        .loss = loss == loss ? loss : std::numeric_limits<double>::infinity()});
    }
    std::sort(order_.begin(), order_.end());
  }

  [[noreturn]] static void refuse_image(const std::string& regions, int64_t i, double image) {
    throw Error("region ", i, " of '", regions, "' is of image ", image,
                "; images are whole numbers from 0 on");
  }
  [[noreturn]] static void refuse_label(const std::string& regions, const std::string& labels,
                                        int64_t i, double label) {
    throw Error("region ", i, " of '", regions, "' has the label ", label, " in '", labels,
                "'; labels are whole numbers");
  }

  void run_there(const ComputeDevice& device, Blobs bottom, Blobs top) {
    const std::string &regions = bottom[0]->name, &labels = bottom[2]->name;
    const auto explain_image = [this, regions](int64_t place, double image) {
      const int64_t inner = regions_.inner, each = regions_.size * inner;
      refuse_image(regions, place / each * inner + place % each, image);
    };
    const auto explain_label = [regions, labels](int64_t i, double label) {
      refuse_label(regions, labels, i, label);
    };
    keep_regions(
        device,
        {regions_, weights_, keep_, static_cast<double>(ignored_),
         image_check_.begin(*this, explain_image), label_check_.begin(*this, explain_label)},
        bottom, top);
  }

  int64_t keep_;
  int ignored_;
  LayerCheck image_check_, label_check_;
  AxisSplit regions_, weights_;
  std::vector<Sorted> order_;
};

}  // namespace

void register_box_annotator_ohem(Registry& registry) {
  add_two_sided<BoxAnnotatorOHEMLayer>(registry, "BoxAnnotatorOHEM");
}

}  // namespace crema
