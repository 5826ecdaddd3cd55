// Concat: joins its bottoms along one axis. See README.md.
#include <algorithm>

#include "core/move.hpp"
#include "kit/two_sided.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

class ConcatLayer : public TwoSidedLayer {
 public:
  explicit ConcatLayer(const LayerInit& init) : TwoSidedLayer(init) {
    const ConcatParameter& settings = init.param.concat_param();
    require(!settings.has_concat_dim() || !settings.has_axis(),
            "axis and concat_dim mean the same; keep axis");
    given_axis_ =
        settings.has_concat_dim() ? static_cast<int>(settings.concat_dim()) : settings.axis();
  }

  Arity arity() const override { return {.min_bottoms = 1, .max_bottoms = -1}; }

  void reshape(Blobs bottom, Blobs top) override {
    const Shape& first = bottom[0]->shape();
    axis_ = first.canonical_axis(given_axis_);
    Shape joined = first;
    int64_t total = first[axis_];
    for (const Blob* other : bottom.subspan(1)) {
      const Shape& shape = other->shape();
      bool fits = shape.rank() == first.rank();
      for (int a = 0; fits && a < first.rank(); ++a) fits = a == axis_ || shape[a] == first[a];
      require(fits, "bottoms differ in more than axis ", axis_, ", along which they are joined: '",
              bottom[0]->name, "' is ", first.str(), ", '", other->name, "' is ", shape.str());
      total += shape[axis_];
    }
    joined.set(axis_, total);
    top[0]->reshape(joined);
  }

  std::vector<Option> reference_options(Blobs bottom, Blobs top) const override {
    std::vector<Option> options = moving_options(*this, bottom, top, true);
    // Joined channels must not have padding between them.
    std::erase_if(options, [&](const Option& option) {
      return axis_ == 1 && std::any_of(bottom.begin(), bottom.end(), [&](const Blob* blob) {
               return blob->shape()[1] % block_of(option.bottoms[0].format) != 0;
             });
    });
    return options;
  }

  void run_forward(const Side& side, Blobs bottom, Blobs top) override {
    if (top[0]->data.same_memory(bottom[0]->data)) return;
    std::byte* to = side.overwrite_bytes(top[0]->data);
    for (const Blob* blob : bottom) {
      const RowCopy rows = rows_of(blob->data, top[0]->data);
      copy_rows(side, rows, side.read_bytes(blob->data), to);
      to += rows.bytes;
    }
  }

  void run_backward(const Side& side, Blobs top, const std::vector<bool>& propagate,
                    Blobs bottom) override {
    if (bottom[0]->diff.same_memory(top[0]->diff)) return;
    const std::byte* from = side.read_bytes(top[0]->diff);
    for (size_t k = 0; k < bottom.size(); ++k) {
      RowCopy rows = rows_of(bottom[k]->data, top[0]->data);
      std::swap(rows.from_stride, rows.to_stride);
      if (propagate[k]) copy_rows(side, rows, from, side.overwrite_bytes(bottom[k]->diff));
      from += rows.bytes;
    }
  }

 protected:
  BackwardReads reference_backward_reads() const override { return {false, false}; }
  InPlace reference_in_place() const override {
    return param().bottom_size() == 1 ? InPlace::alias : InPlace::never;
  }

 private:
  /// The rows of a part, which lie one behind the other in those of the whole.
  RowCopy rows_of(const Tensor& part, const Tensor& whole) const {
    const int64_t rows = rows_around(whole.shape(), whole.format(), axis_);
    if (rows == 0) return {};
    const auto bytes_of_row = [&](const Tensor& tensor) {
      return static_cast<int64_t>(tensor.bytes()) / rows;
    };
    const int64_t bytes = bytes_of_row(part);
    return {.rows = rows, .bytes = bytes, .from_stride = bytes, .to_stride = bytes_of_row(whole)};
  }

  int given_axis_ = 1;
  int axis_ = 1;  // counted from the front
};

}  // namespace

void register_concat(Registry& registry);

void register_concat(Registry& registry) { add_two_sided<ConcatLayer>(registry, "Concat"); }

}  // namespace crema
