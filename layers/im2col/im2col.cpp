// Im2col: the windows that a convolution sees, as channels. See README.md.
#include "core/dispatch.hpp"
#include "crema/registry.hpp"
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

class Im2colLayer : public Layer {
 public:
  using Layer::Layer;

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& shape = bottom[0]->shape();
    geometry_ = windows_of(param().convolution_param(), shape);
    geometry_.outputs = geometry_.kernel_count();
    top[0]->reshape(geometry_.top(shape));
  }

  void forward_cpu(Blobs bottom, Blobs top) override {
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* const images = bottom[0]->data.template read<T>();
      T* const columns = top[0]->data.template overwrite<T>();
      for (int64_t i = 0; i < geometry_.batch; ++i) {
        unfold(geometry_, images + i * image(), columns + i * matrix());
      }
    });
  }

  void backward_cpu(Blobs top, const std::vector<bool>& propagate, Blobs bottom) override {
    if (!propagate[0]) return;
    dispatch_float(dtype(), [&]<class T>(T) {
      const T* const columns = top[0]->diff.template read<T>();
      T* const images = bottom[0]->diff.template overwrite<T>();
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

void register_im2col(Registry& registry) { registry.add<Im2colLayer>("Im2col"); }

}  // namespace crema
