// How our direct convolution walks through memory: what its passes have in common.
//
// All formats are one here: memory is [image][block][h][w][unit], where `unit` channels lie side by
// side: 1 of them when contiguous, all when channels-last, the block's when blocked.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/convolution.hpp"
#include "backend/cpu/direct_kernels.hpp"

namespace crema {

struct DirectLayout {
  int64_t channels, unit, blocks, h, w;
  int64_t next_image = 0;  // elements to it; 0: the images lie one behind the other

  DirectLayout(int64_t channel_count, Format format, int64_t height, int64_t width);
  int64_t row() const { return w * unit; }
  int64_t block() const { return h * row(); }
  int64_t image() const { return next_image > 0 ? next_image : blocks * block(); }
};

/// One spatial axis. Pixel i stands at first + i * step in the target. Its tap t reads the source
/// at i * stride + offset + t * dilation, and is tap number first_tap + t * tap_step of the kernel.
struct DirectAxis {
  int64_t pixels = 0, first = 0, step = 1;
  int64_t stride = 1, offset = 0;
  int64_t taps = 0, dilation = 1, first_tap = 0, tap_step = 1;

  /// The extent of the source that so many pixels read.
  int64_t seen(int64_t count) const { return (count - 1) * stride + (taps - 1) * dilation + 1; }
  /// A pixel reads beyond the source.
  bool leaves(int64_t extent) const { return offset < 0 || offset + seen(pixels) > extent; }
};

/// A sum over taps and channels of the source for each pixel and channel of the target.
struct DirectProduct {
  DirectLayout source, target;
  int64_t batch;
  DirectAxis h, w;
  /// Between weights of successive channels of the target and of the source.
  int64_t target_weights, source_weights;
  int64_t kernel_w, kernel_taps;  // of the whole kernel: its width, and its taps

  /// Taps in the order in which products sum them: [block][h][w][channel of the block].
  int64_t block_taps() const { return h.taps * w.taps * source.unit; }
  int64_t taps() const { return source.blocks * block_taps(); }
};

DirectProduct direct_forward(const ConvolutionProblem& problem);
/// The gradient of the source, as the forward product of turned weights. With a stride, pixels of
/// one residue each see some of the kernel's taps: there is a product for each pair of residues.
/// One without taps is zero.
std::vector<DirectProduct> direct_backward(const ConvolutionProblem& problem);

/// Some vectors of a product's columns, as many as one kernel takes.
struct DirectPanel {
  int64_t first;  // vector
  int vectors;
};

/// Splits so many vectors into panels that suit the kernels.
std::vector<DirectPanel> direct_panels(const DirectKernels& kernels, int64_t vectors);

/// Floats of ConvolutionScratch::brick that packing needs; unpacking needs twice as many.
int64_t direct_brick(const DirectProduct& product, int width);
/// Packs weights as [panel][tap][the panel's vectors], with zeros for channels that do not exist.
void pack_direct_weights(const DirectProduct& product, const DirectKernels& kernels,
                         const std::vector<DirectPanel>& panels, const float* weights, float* to);
/// Sums `parts` packed arrays, which lie side by side, and writes the sum in the weights' own
/// order, or adds it to them.
void unpack_direct_weights(const DirectProduct& product, const DirectKernels& kernels,
                           const std::vector<DirectPanel>& panels, const float* from, int64_t parts,
                           bool add, float* weights);

/// Pixels that are worked on together: all of some images, or some rows of one.
struct DirectBand {
  int64_t image, images, row, rows;
};

/// How many ways a product is split by rows of pixels, and each of these by panels.
struct DirectSplit {
  int64_t rows = 1, panels = 1;
};

/// The split for so many threads that gives the most loaded of them the least work; among equals,
/// the one whose threads read the least. At most `most_rows` row parts.
DirectSplit direct_split(const DirectProduct& product, const std::vector<DirectPanel>& panels,
                         int width, int threads, int64_t most_rows);

/// The bands of a product, and its windows: the source as a band's pixels see it, for some blocks
/// of channels at a time.
class DirectPlan {
 public:
  /// Bands have about `band_pixels` pixels.
  DirectPlan(const DirectProduct& what, const DirectKernels& used, int64_t band_pixels);

  int64_t rows() const { return product.batch * product.h.pixels; }
  /// Calls body(band) for bands that cover rows [begin, end) of the images' rows, which are
  /// numbered through.
  template <class Body>
  void each_band(int64_t begin, int64_t end, const Body& body) const {
    const int64_t height = product.h.pixels;
    while (begin < end) {
      DirectBand band{begin / height, 1, begin % height, 0};
      if (band.row == 0 && end - begin >= height && band_images > 1) {
        band.images = std::min(band_images, (end - begin) / height);
        band.rows = height;
      } else {
        band.rows = std::min({band_rows, height - band.row, end - begin});
      }
      body(band);
      begin += band.images * band.rows;
    }
  }

  /// Pixels of the largest band.
  int64_t most_pixels() const { return static_cast<int64_t>(source_at.size()); }
  int64_t pixels(const DirectBand& band) const {
    return band.images * band.rows * product.w.pixels;
  }
  /// Bytes of the tables.
  size_t table_bytes() const {
    return (source_at.capacity() + target_at.capacity() + row_at.capacity() + runs.capacity()) *
           sizeof(int64_t);
  }
  int64_t window_count() const { return padded ? band_images * window_image() : 0; }
  int64_t chunks() const { return (product.source.blocks + chunk_blocks - 1) / chunk_blocks; }
  int64_t blocks_of(int64_t chunk) const {
    return std::min(chunk_blocks, product.source.blocks - chunk * chunk_blocks);
  }
  /// A chunk of the band's window: in place where no pixel reads beyond the source, else copied
  /// into scratch memory, with zeros around it.
  const float* window_of(const DirectBand& band, int64_t chunk, const float* x) const;
  /// Where the band's first pixel is in the target.
  int64_t target_of(const DirectBand& band) const {
    const DirectLayout& y = product.target;
    return band.image * y.image() + (product.h.first + band.row * product.h.step) * y.row() +
           product.w.first * y.unit;
  }

  DirectProduct product;
  const DirectKernels& kernels;
  bool padded;
  int64_t band_images = 1, band_rows = 1;
  int64_t chunk_blocks = 1;  // blocks of a window

  /// Offset of each pixel of a band from the band's first in the window and in the target. Those of
  /// a smaller band are the first ones.
  std::vector<int64_t> source_at, target_at;
  /// The first of these of each row, in the window.
  std::vector<int64_t> row_at;
  /// Taps of a whole chunk that lie side by side in the window, `run_length` a run, in their order:
  /// where each run begins.
  std::vector<int64_t> runs;
  int64_t run_length = 0;

 private:
  int64_t window_row() const { return window_w_ * product.source.unit; }
  int64_t window_block() const { return window_h_ * window_row(); }
  int64_t window_image() const {
    return padded ? chunk_blocks * window_block() : product.source.image();
  }
  void find_bands(int64_t band_pixels);
  void find_runs();
  void place_pixels();

  int64_t window_h_, window_w_;
};

}  // namespace crema
