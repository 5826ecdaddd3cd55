// Proposal: regions from anchor boxes, their scores and offsets. See README.md.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "layer_support/suppression.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/proposal/proposal_boxes.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 512;  // anchors that a thread should have at least

/// Boxes around a cell at the origin, by ratio, then scale; in pixels.
std::vector<BoundingBox<double>> anchors_of(const ProposalParameter& settings) {
  const auto values = [](const auto& given, std::vector<double> usual, const char* name) {
    if (!given.empty()) usual.assign(given.begin(), given.end());
    for (const double value : usual) {
      if (!(value > 0 && std::isfinite(value))) throw Error(name, " ", value, " is not above 0");
    }
    return usual;
  };
  const std::vector<double> ratios = values(settings.ratio(), {0.5, 1, 2}, "ratio");
  const std::vector<double> scales = values(settings.scale(), {8, 16, 32}, "scale");
  const auto base = static_cast<double>(settings.base_size());
  const double centre = (base - 1) / 2;
  std::vector<BoundingBox<double>> anchors;
  for (const double ratio : ratios) {
    const double width = std::round(std::sqrt(base * base / ratio));
    const double height = std::round(width * ratio);
    for (const double scale : scales) {
      const double x = (width * scale - 1) / 2, y = (height * scale - 1) / 2;
      anchors.push_back({centre - x, centre - y, centre + x, centre + y});
    }
  }
  return anchors;
}

/// What is kept from pass to pass for its memory only.
template <class T>
struct Scratch {
  struct OfImage {
    std::vector<Candidate<T>> candidates;
    BoxColumns<T> columns;
    std::vector<int32_t> kept;  // anchors, best first
  };
  std::vector<BoundingBox<T>> boxes;  // (images, H, W, anchors)
  std::vector<OfImage> images;
};

class ProposalLayer : public TwoSidedLayer {
 public:
  explicit ProposalLayer(const LayerInit& init)
      : TwoSidedLayer(init),
        settings_(init.param.proposal_param()),
        anchors_(anchors_of(settings_)) {
    if (settings_.feat_stride() == 0 || settings_.base_size() == 0)
      throw Error("feat_stride ", settings_.feat_stride(), " and base_size ", settings_.base_size(),
                  " have to be above 0: pixels between positions, and the side of an anchor");
    if (!(settings_.nms_thresh() >= 0))
      throw Error("nms_thresh ", settings_.nms_thresh(),
                  " is below 0; it is the overlap above which regions are dropped");
  }

  Arity arity() const override {
    return {.min_bottoms = 3, .max_bottoms = 3, .min_tops = 1, .max_tops = 2};
  }
  bool can_propagate(int) const override { return false; }
  bool has_gradient(int) const override { return false; }
  TopShapes top_shapes() const override { return TopShapes::from_values; }

  /// With the largest number of regions: forward sets how many there are.
  void reshape(Blobs bottom, Blobs top) override {
    const Shape& scores = bottom[0]->shape();
    const auto each = static_cast<int64_t>(anchors_.size());
    const auto check = [&](const Blob& blob, int64_t channels, const char* what) {
      const Shape& shape = blob.shape();
      const bool fits = shape.rank() == 4 && shape[1] == channels && shape[0] == scores[0] &&
                        shape[2] == scores[2] && shape[3] == scores[3];
      if (!fits)
        throw Error("'", blob.name, "' (", shape.str(), ") must be ", what, " N x ", channels,
                    " x H x W, for ", each, " anchors (ratio times scale)",
                    &blob == bottom[0] ? ""
                                       : text(", with the N, H and W of '", bottom[0]->name, "' (",
                                              scores.str(), ")"));
    };
    check(*bottom[0], 2 * each, "scores of background and object");
    check(*bottom[1], 4 * each, "offsets");
    const Shape& info = bottom[2]->shape();
    const bool rows = info.rank() >= 2 && info[0] == scores[0] && info.count(1) >= 3;
    if (!rows)
      throw Error("'", bottom[2]->name, "' (", info.str(), ") must have a row for each of the ",
                  scores[0], " images: height, width and scale, in pixels");
    images_ = scores[0];
    height_ = scores[2];
    width_ = scores[3];
    reshape_tops(top, images_ * most_regions());
  }

  size_t kept_bytes() const override { return there_ ? there_->bytes() : 0; }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    if (!device.on_host()) {
      if (!there_) there_.emplace(anchors_);
      const auto reshape = [&](int64_t regions) { reshape_tops(top, regions); };
      if (there_->run(device, problem(*bottom[2]), bottom, top, reshape)) return;
      // Something is refused: the host finds it again, and throws.
    }
    dispatch_float(dtype(), [&]<class T>(T) { propose<T>(bottom, top); });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  int64_t anchors_an_image() const {
    return height_ * width_ * static_cast<int64_t>(anchors_.size());
  }
  int64_t most_regions() const {
    const int64_t most = settings_.post_nms_topn();
    return most > 0 ? std::min(most, anchors_an_image()) : anchors_an_image();
  }
  static void reshape_tops(Blobs top, int64_t regions) {
    top[0]->reshape(Shape{regions, 5});
    if (top.size() > 1) top[1]->reshape(Shape{regions, 1});
  }

  ProposalProblem problem(const Blob& info) const {
    return {.images = images_,
            .height = height_,
            .width = width_,
            .anchors = static_cast<int64_t>(anchors_.size()),
            .stride = static_cast<int64_t>(settings_.feat_stride()),
            .columns = info.shape().count(1),
            .least_side = static_cast<double>(settings_.min_size()),
            .threshold = static_cast<double>(settings_.nms_thresh()),
            .first = settings_.pre_nms_topn() > 0 ? int64_t{settings_.pre_nms_topn()} : -1,
            .most = most_regions()};
  }

  template <class T>
  ImageInfo<T> info(const Blob& blob, int64_t image) const {
    const int64_t columns = blob.shape().count(1);
    const T* const row = blob.data.read<T>() + image * columns;
    for (int64_t k = 0; k < std::min<int64_t>(columns, 4); ++k) {
      if (!(row[k] > 0 && std::isfinite(row[k])))
        throw Error("'", blob.name, "' says ", row[k], " for image ", image,
                    "; its height, width and scale have to be above 0")
            .of_sample(image);
    }
    return ImageInfo<T>::of(row, columns, static_cast<T>(settings_.min_size()));
  }

  template <class T>
  void propose(Blobs bottom, Blobs top) {
    auto& scratch = std::get<Scratch<T>>(scratch_);
    scratch.boxes.resize(static_cast<size_t>(images_ * anchors_an_image()));
    scratch.images.resize(static_cast<size_t>(images_));
    const ProposalProblem all = problem(*bottom[2]);
    const T *scores = bottom[0]->data.read<T>(), *offsets = bottom[1]->data.read<T>();
    const auto score_of = [=](int64_t image, int64_t i) { return scores[all.score_at(image, i)]; };
    for (int64_t n = 0; n < images_; ++n) {
      const ImageInfo<T> image = info<T>(*bottom[2], n);
      BoundingBox<T>* const boxes = scratch.boxes.data() + n * anchors_an_image();
      parallel_for(anchors_an_image(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          boxes[i] = all.box_at(anchors_.data(), offsets, n, i, image);
      });
    }
    parallel_for(images_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const ImageInfo<T> image = info<T>(*bottom[2], n);
        const BoundingBox<T>* const boxes = scratch.boxes.data() + n * anchors_an_image();
        auto& own = scratch.images[static_cast<size_t>(n)];
        own.candidates.clear();
        for (int64_t i = 0; i < anchors_an_image(); ++i) {
          const T score = score_of(n, i), width = boxes[i].xmax - boxes[i].xmin + 1,
                  height = boxes[i].ymax - boxes[i].ymin + 1;
          if (score != score) refuse_score(bottom[0]->name, n, i);
          // False for NaN.
          if (width >= image.least_width && height >= image.least_height)
            own.candidates.push_back({score, static_cast<int32_t>(i)});
        }
        choose(boxes, own);
      }
    });
    int64_t regions = 0;
    for (const auto& image : scratch.images) regions += static_cast<int64_t>(image.kept.size());
    reshape_tops(top, regions);
    T* to = top[0]->data.overwrite<T>();
    T* kept_scores = top.size() > 1 ? top[1]->data.overwrite<T>() : nullptr;
    for (int64_t n = 0; n < images_; ++n) {
      const BoundingBox<T>* const boxes = scratch.boxes.data() + n * anchors_an_image();
      for (const int32_t i : scratch.images[static_cast<size_t>(n)].kept) {
        *to++ = static_cast<T>(n);
        boxes[i].store(to);
        to += 4;
        if (kept_scores) *kept_scores++ = score_of(n, i);
      }
    }
  }

  [[noreturn]] void refuse_score(const std::string& name, int64_t image, int64_t i) const {
    const auto each = static_cast<int64_t>(anchors_.size());
    const int64_t cell = i / each;
    throw Error("'", name, "': the score of an object of image ", image, ", row ", cell / width_,
                ", column ", cell % width_, ", anchor ", i % each,
                ", is NaN; the net has diverged, or its input has NaN")
        .of_sample(image);
  }

  /// Keeps the best candidates that do not overlap better ones.
  template <class T>
  void choose(const BoundingBox<T>* boxes, typename Scratch<T>::OfImage& image) const {
    const int64_t first = settings_.pre_nms_topn();
    sort_candidates(image.candidates, first > 0 ? first : -1);
    // In pixels a box covers its last row and column.
    const auto box_of = [&](int64_t k) {
      BoundingBox<T> box = boxes[image.candidates[static_cast<size_t>(k)].index];
      box.xmax += 1;
      box.ymax += 1;
      return box;
    };
    suppress<T>({.threshold = static_cast<double>(settings_.nms_thresh())},
                static_cast<int64_t>(image.candidates.size()), box_of, image.columns, image.kept,
                most_regions());
    for (int32_t& k : image.kept) k = image.candidates[static_cast<size_t>(k)].index;
  }

  ProposalParameter settings_;
  std::vector<BoundingBox<double>> anchors_;
  int64_t images_ = 0, height_ = 0, width_ = 0;
  std::tuple<Scratch<float>, Scratch<double>> scratch_;
  std::optional<ProposalOnDevice> there_;
};

}  // namespace

void register_proposal(Registry& registry) { add_two_sided<ProposalLayer>(registry, "Proposal"); }

}  // namespace crema
