// Im2col: the windows that a convolution sees, as channels. See README.md.
#include <array>
#include <string>

#include "core/dispatch.hpp"
#include "layer_support/passes.hpp"
#include "layer_support/two_sided.hpp"
#include "layers/convolution/unfold.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// The windows of a convolution, whatever its outputs are.
ConvolutionGeometry windows_of(ConvolutionParameter settings, const Shape& bottom) {
  settings.set_num_output(1);
  settings.set_group(1);
  ConvolutionGeometry geometry(settings, ConvolutionGeometry::Kind::convolution);
  geometry.set_up(bottom);
  geometry.fit(bottom);
  return geometry;
}

/// The same for passes on a device.
struct WindowMap {
  static constexpr int kMostAxes = 6;
  struct Axis {
    int64_t kernel, stride, pad, dilation, input, output;
  };
  int axes = 0;
  int64_t taps = 1, positions = 1, elements = 1;  // of a channel
  Axis axis[kMostAxes] = {};

  explicit WindowMap(const ConvolutionGeometry& geometry)
      : axes(geometry.spatial_axes()),
        taps(geometry.taps()),
        positions(geometry.positions()),
        elements(geometry.elements()) {
    for (size_t a = 0; a < static_cast<size_t>(axes); ++a) {
      axis[a] = {geometry.kernel[a],   geometry.stride[a], geometry.pad[a],
                 geometry.dilation[a], geometry.input[a],  geometry.output[a]};
    }
  }

  /// The element of a channel that `tap` of the window at `position` is; -1 outside of the image.
  CREMA_FUNCTOR int64_t element(int64_t position, int64_t tap) const {
    int64_t found = 0, each = 1;
    for (int a = axes - 1; a >= 0; --a) {
      const Axis& along = axis[a];
      const int64_t at =
          position % along.output * along.stride - along.pad + tap % along.kernel * along.dilation;
      if (at < 0 || at >= along.input) return -1;
      found += at * each;
      each *= along.input;
      position /= along.output;
      tap /= along.kernel;
    }
    return found;
  }
  /// The position of the window that has `element` at `tap`; -1: none has.
  CREMA_FUNCTOR int64_t position(int64_t element, int64_t tap) const {
    int64_t found = 0, each = 1;
    for (int a = axes - 1; a >= 0; --a) {
      const Axis& along = axis[a];
      const int64_t begin = element % along.input + along.pad - tap % along.kernel * along.dilation;
      if (begin < 0 || begin % along.stride != 0 || begin / along.stride >= along.output) return -1;
      found += begin / along.stride * each;
      each *= along.output;
      element /= along.input;
      tap /= along.kernel;
    }
    return found;
  }
};

/// Element i of the columns of all images.
template <class T>
struct UnfoldElement {
  WindowMap map;
  const T* images;
  T* columns;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t row = i / map.positions;  // of all channels of all images
    const int64_t at = map.element(i % map.positions, row % map.taps);
    columns[i] = at < 0 ? T{0} : images[row / map.taps * map.elements + at];
  }
};

/// Element i of the gradients of all images: the sum over the taps, in their order.
template <class T>
struct FoldElement {
  WindowMap map;
  const T* columns;
  T* images;
  CREMA_FUNCTOR void operator()(int64_t i) const {
    const int64_t channel = i / map.elements, element = i % map.elements;
    T sum{0};
    for (int64_t tap = 0; tap < map.taps; ++tap) {
      const int64_t at = map.position(element, tap);
      if (at >= 0) sum += columns[(channel * map.taps + tap) * map.positions + at];
    }
    images[i] = sum;
  }
};

class Im2colLayer : public TwoSidedLayer {
 public:
  using TwoSidedLayer::TwoSidedLayer;

  std::string device_refusal(Blobs) const override {
    if (geometry_.spatial_axes() <= WindowMap::kMostAxes) return {};
    return text("the bottom has ", geometry_.spatial_axes(), " spatial axes; a device takes ",
                WindowMap::kMostAxes);
  }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    geometry_ = windows_of(param().convolution_param(), shape);
    geometry_.outputs = geometry_.kernel_count();
    top[0]->reshape(geometry_.top(shape));
  }

  void run_forward(const ComputeDevice& device, Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* const images = device.read<T>(bottom[0]->data);
      T* const columns = device.overwrite<T>(top[0]->data);
      if (!device.on_host())
        return for_each(device, top[0]->count(), kElementGrain,
                        UnfoldElement<T>{WindowMap(geometry_), images, columns});
      for (int64_t i = 0; i < geometry_.batch; ++i) {
        unfold(geometry_, images + i * image(), columns + i * matrix());
      }
    });
  }

  void run_backward(const ComputeDevice& device, Blobs top, const std::vector<bool>&,
                    Blobs bottom) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* const columns = device.read<T>(top[0]->diff);
      T* const images = device.overwrite<T>(bottom[0]->diff);
      if (!device.on_host())
        return for_each(device, bottom[0]->count(), kPassGrain,
                        FoldElement<T>{WindowMap(geometry_), columns, images});
      for (int64_t i = 0; i < geometry_.batch; ++i) {
        fold(geometry_, columns + i * matrix(), images + i * image());
      }
    });
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }

 private:
  /// Elements of one image, and of its columns.
  int64_t image() const { return geometry_.channels * geometry_.elements(); }
  int64_t matrix() const { return geometry_.kernel_count() * geometry_.positions(); }

  ConvolutionGeometry geometry_;
};

}  // namespace

void register_im2col(Registry& registry) { add_two_sided<Im2colLayer>(registry, "Im2col"); }

}  // namespace crema
