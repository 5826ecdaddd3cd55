// WindowData: labelled windows of images, warped to one size. See README.md.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/dispatch.hpp"
#include "core/parallel.hpp"
#include "core/spans.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "data/batches/image_tops.hpp"
#include "data/batches/sampled_layer.hpp"
#include "data/images/image_decoder.hpp"
#include "data/records/image_list.hpp"
#include "data/transform/unsupported.hpp"
#include "layers/window_data/window_cut.hpp"
#include "layers/window_data/window_file.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

using P = WindowDataParameter;

/// The window of one sample of a batch.
struct Drawn {
  const Window* window;
  const WindowImage* image;
  bool mirrored;
  WindowCut cut;
};

/// What the loaders of a layer share.
struct WindowLoading {
  std::string list;
  WindowFile windows;
  std::vector<std::string> cache;  // the bytes of the image files, one an image; or none
  CutRules rules;
  int64_t background_size = 0;  // samples of a batch that are background; they come first
  bool mirror = false;
  Placement mean_place;  // of the sample in the mean image
  uint64_t stream = 0;

  /// A function of (seed, number of the sample).
  Drawn draw(uint64_t seed, const Sample& sample, int64_t index) const {
    Random random(seed, stream, sample.number);
    const auto& set = index < background_size ? windows.background : windows.foreground;
    const Window& window = set[static_cast<size_t>(random.below(set.size()))];
    const WindowImage& image = windows.images[static_cast<size_t>(window.image)];
    const bool mirrored = mirror && random.below(2) == 1;
    return {&window, &image, mirrored, cut_of(window, image, rules, mirrored)};
  }
};

class WindowLoader final : public BatchLoader<ImageBatch> {
 public:
  WindowLoader(std::shared_ptr<const WindowLoading> loading, uint64_t seed)
      : loading_(std::move(loading)), seed_(seed) {}

  void load(ImageBatch& batch, const std::atomic<bool>& stop) override {
    const size_t size = batch.samples.size();
    const auto crop = static_cast<size_t>(loading_->rules.crop);
    batch.shape = {3, loading_->rules.crop, loading_->rules.crop};
    batch.bytes.assign(size * 3 * crop * crop, 0);
    batch.placements.assign(size, loading_->mean_place);
    batch.labels.resize(size);
    batch.losses = {};
    for (size_t i = 0; i < size && !stop.load(std::memory_order_relaxed); ++i) {
      const Drawn drawn = loading_->draw(seed_, batch.samples[i], static_cast<int64_t>(i));
      batch.labels[i] = drawn.window->label;
      in_image(drawn.image->path, loading_->list, drawn.image->line, [&] {
        write(warped(drawn, batch.losses), drawn, batch.bytes.data() + i * 3 * crop * crop);
      });
    }
  }

 private:
  Image warped(const Drawn& drawn, ImageBatch::Losses& losses) {
    const std::string* file = &file_;
    if (loading_->cache.empty()) {
      const Span span(SpanKind::read, [] { return "read"; });
      read_file_bytes(drawn.image->path, file_);
    } else {
      file = &loading_->cache[static_cast<size_t>(drawn.window->image)];
    }
    const Span span(SpanKind::decode, [] { return "decode"; });
    const Image image = decoder_.open(*file, ColorMode::color);
    if (decoder_.loss().depth && losses.depth.empty()) losses.depth = drawn.image->path;
    if (image.height != drawn.image->height || image.width != drawn.image->width)
      throw Error("it is of ", image.height, " x ", image.width,
                  " pixels, and the window file says ", drawn.image->height, " x ",
                  drawn.image->width);
    const WindowCut& cut = drawn.cut;
    return decoder_.changed(
        {Cut{{.top = cut.top, .left = cut.left, .height = cut.height, .width = cut.width}},
         Resize{.size = {cut.to_height, cut.to_width}}});
  }

  /// Writes the pixels to their place in the sample, planes (3, crop, crop).
  void write(const Image& image, const Drawn& drawn, uint8_t* sample) const {
    const Span span(SpanKind::transform, [] { return "crop, mirror"; });
    const int64_t crop = loading_->rules.crop;
    const uint8_t* in = image.bytes;
    for (int64_t h = 0; h < image.height; ++h) {
      for (int64_t w = 0; w < image.width; ++w, in += 3) {
        const int64_t across = drawn.mirrored ? image.width - 1 - w : w;
        uint8_t* out = sample + (drawn.cut.to_top + h) * crop + drawn.cut.to_left + across;
        for (int64_t c = 0; c < 3; ++c) out[c * crop * crop] = in[c];
      }
    }
  }

  std::shared_ptr<const WindowLoading> loading_;
  uint64_t seed_;
  ImageDecoder decoder_;
  std::string file_;
};

/// The layer's transform, whose scale is in window_data_param as published.
TransformationParameter transform_param(const LayerParameter& layer) {
  TransformationParameter transform = layer.transform_param();
  const P& window = layer.window_data_param();
  reject_old_transform(window, "window_data_param", {"mean_file", "crop_size", "mirror"});
  if (window.has_scale() && transform.has_scale())
    throw Error("both window_data_param and transform_param give scale; keep one of them");
  if (window.has_scale()) transform.set_scale(window.scale());
  using T = TransformationParameter;
  reject_unsupported(transform,
                     {T::kScaleFieldNumber, T::kMirrorFieldNumber, T::kCropSizeFieldNumber,
                      T::kMeanFileFieldNumber, T::kMeanValueFieldNumber, T::kForceColorFieldNumber,
                      T::kForceGrayFieldNumber},
                     "transform_param");
  if (transform.force_gray()) throw Error("WindowData reads colour; remove force_gray");
  return transform;
}

class WindowDataLayer : public BatchLayer<ImageBatch> {
 public:
  explicit WindowDataLayer(const LayerInit& init)
      : BatchLayer(init, init.param.window_data_param().batch_size(), "window_data_param"),
        transform_(transform_param(init.param), phase()) {
    const P& settings = init.param.window_data_param();
    loading_.list = settings.source();
    if (loading_.list.empty()) throw Error("window_data_param has no source; name a window file");
    loading_.rules = {.crop = init.param.transform_param().crop_size(),
                      .context_pad = settings.context_pad(),
                      .square = settings.crop_mode() == "square"};
    const CutRules& rules = loading_.rules;
    if (rules.crop == 0)
      throw Error(
          "transform_param has no crop_size, or 0; set the side of the square that windows are "
          "warped to");
    if (2 * rules.context_pad >= rules.crop)
      throw Error("context_pad ", rules.context_pad, " on both sides leaves nothing of crop_size ",
                  rules.crop, "; lower it");
    if (!rules.square && settings.crop_mode() != "warp")
      throw Error("crop_mode '", settings.crop_mode(), "' is unknown",
                  did_you_mean(settings.crop_mode(), {"warp", "square"}, "modes are"));
    const float fraction = settings.fg_fraction();
    if (!(fraction >= 0 && fraction <= 1))
      throw Error("fg_fraction is ", fraction, "; it is a share of the batch, from 0 to 1");
    const auto batch = static_cast<float>(settings.batch_size());
    loading_.background_size = records_per_batch() - static_cast<int64_t>(batch * fraction);
    loading_.mirror = init.param.transform_param().mirror();
    loading_.stream = stream_id(name() + " windows");
    place_mean();
  }

  /// Reads the window file and, with cache_images, the images' files.
  void setup(Blobs, Blobs) override {
    const P& settings = param().window_data_param();
    const CutRules& rules = loading_.rules;
    loading_.windows = read_window_file(
        loading_.list, {.root = settings.root_folder(),
                        .fg_threshold = settings.fg_threshold(),
                        .bg_threshold = settings.bg_threshold(),
                        .must_be_inside = !rules.square && rules.context_pad == 0});
    const auto& [images, foreground, background] = loading_.windows;
    context().log(Severity::info,
                  text("layer '", name(), "': ", images.size(), " images with ", foreground.size(),
                       " windows of foreground and ", background.size(), " of background"));
    if (loading_.background_size < records_per_batch() && foreground.empty())
      throw Error("'", loading_.list, "' has no window of overlap ", settings.fg_threshold(),
                  " or more, the foreground; lower fg_threshold, or set fg_fraction: 0");
    if (loading_.background_size > 0 && background.empty())
      throw Error("'", loading_.list, "' has no window of overlap below ", settings.bg_threshold(),
                  ", the background; raise bg_threshold, or set fg_fraction: 1");
    if (settings.cache_images()) {
      for (const WindowImage& image : images) {
        std::string& file = loading_.cache.emplace_back();
        in_image(image.path, loading_.list, image.line, [&] { read_file_bytes(image.path, file); });
      }
    }
    shared_ = std::make_shared<const WindowLoading>(std::move(loading_));
  }

  std::vector<std::string> input_files() const override {
    std::vector<std::string> paths;
    for (const WindowImage& image : shared_->windows.images) paths.push_back(image.path);
    return paths;
  }
  /// Windows are drawn.
  bool takes_each_once() const override { return false; }

  void reshape(Blobs, Blobs top) override {
    const int64_t crop = shared_->rules.crop;
    top[0]->reshape({records_per_batch(), 3, crop, crop});
    if (top.size() > 1) top[1]->reshape({records_per_batch()});
  }

  /// Of the batches that are read ahead, and of the images' files.
  size_t kept_bytes() const override {
    const auto pixels = static_cast<size_t>(3 * shared_->rules.crop * shared_->rules.crop);
    size_t bytes = kDepth * static_cast<size_t>(records_per_batch()) * pixels;
    for (const std::string& file : shared_->cache) bytes += file.size();
    return bytes;
  }

 private:
  /// The sample lies in the middle of the mean image.
  void place_mean() {
    const int64_t crop = loading_.rules.crop;
    const Shape& mean = transform_.mean_shape();
    if (mean.count() == 0) {
      transform_.output_shape({.channels = 3, .height = crop, .width = crop});  // checks mean_value
      return;
    }
    if (mean[0] != 3 || mean[1] < crop || mean[2] < crop)
      throw Error("mean_file is of ", mean.str(), ", and windows of 3x", crop, "x", crop,
                  "; give a mean image of 3 channels that is as large, or mean_value");
    // As published, by the width in both directions.
    const int64_t offset = (mean[2] - crop) / 2;
    loading_.mean_place.left = static_cast<int32_t>(offset);
    loading_.mean_place.top = static_cast<int32_t>(std::min(offset, mean[1] - crop));
  }

  SamplerOptions sampling() const override {
    const WindowFile& windows = shared_->windows;
    return {.count = static_cast<int64_t>(windows.foreground.size() + windows.background.size())};
  }

  Loading loading() override {
    seed_ = run().seed;
    return {.threads = loader_threads(0, {.encoded = true}),
            .make_loader = [shared = shared_, seed = seed_] {
              return std::make_unique<WindowLoader>(shared, seed);
            }};
  }

  void give(const ImageBatch& batch, Blobs top) override {
    const int64_t crop = shared_->rules.crop;
    convert_batch(batch, false, transform_, top[0]->data);
    dispatch_float(top[0]->data.dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* const out = top[0]->data.change<T>();
      parallel_for(records_per_batch(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const auto& sample = batch.samples[static_cast<size_t>(n)];
          clear_padding(shared_->draw(seed_, sample, n).cut, out + n * 3 * crop * crop);
        }
      });
    });
    if (top.size() > 1)
      write_labels(
          batch, [this](const Sample& sample, int64_t index) { return key_of(sample, index); },
          top[1]->data);
    losses_.tell(batch, name(), context());
  }

  /// As published, padding is 0 in the sample: the mean of the images.
  template <class T>
  void clear_padding(const WindowCut& cut, T* sample) const {
    const int64_t crop = shared_->rules.crop;
    for (int64_t row = 0; row < 3 * crop; ++row, sample += crop) {
      const int64_t h = row % crop - cut.to_top;
      const bool inside = h >= 0 && h < cut.to_height;
      std::fill(sample, sample + (inside ? cut.to_left : crop), T{0});
      if (inside) std::fill(sample + cut.to_left + cut.to_width, sample + crop, T{0});
    }
  }

  std::string key_of(const Sample& sample, int64_t index) const override {
    const Drawn drawn = shared_->draw(seed_, sample, index);
    return text(drawn.image->path, ", window of line ", drawn.window->line);
  }

  Transform transform_;
  LossWarnings losses_;
  WindowLoading loading_;                        // until setup()
  std::shared_ptr<const WindowLoading> shared_;  // from then on
  uint64_t seed_ = 0;                            // of the windows that are read ahead
};

}  // namespace

void register_window_data(Registry& registry) { registry.add<WindowDataLayer>("WindowData"); }

}  // namespace crema
