// DummyData: tops from fillers. See README.md.
#include <memory>
#include <vector>

#include "crema/layer.hpp"
#include "crema/random.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"

namespace crema {
namespace {

/// Error unless there are `given` settings for all tops, or for each.
void check_count(const char* what, int given, size_t tops) {
  if (given == 1 || static_cast<size_t>(given) == tops) return;
  throw Error("dummy_data_param gives ", given, " ", what, " for ", tops,
              " tops; give one for all of them, or one each");
}

class DummyDataLayer : public Layer {
 public:
  explicit DummyDataLayer(const LayerInit& init) : Layer(init) {
    for (const FillerParameter& filler : settings().data_filler()) fillers_.emplace_back(filler);
    if (fillers_.empty()) fillers_.push_back(Filler::constant(0));
  }

  Arity arity() const override { return {0, 0, 1, -1}; }
  bool is_source() const override { return true; }

  void setup(Blobs, Blobs top) override {
    const DummyDataParameter& param = settings();
    check_count("data_filler", static_cast<int>(fillers_.size()), top.size());
    const bool sizes =
        param.num_size() + param.channels_size() + param.height_size() + param.width_size() > 0;
    if (sizes && param.shape_size() > 0)
      throw Error(
          "dummy_data_param gives shape, and num, channels, height or width; keep the shape");
    if (sizes) {
      check_count("num", param.num_size(), top.size());
      check_count("channels", param.channels_size(), top.size());
      check_count("height", param.height_size(), top.size());
      check_count("width", param.width_size(), top.size());
    } else {
      check_count("shape", param.shape_size(), top.size());
    }
    for (size_t i = 0; i < top.size(); ++i) {
      shapes_.push_back(sizes ? sizes_of_top(i) : shape_of_top(i));
      streams_.push_back(stream_id(text(name(), " top ", i)));
    }
    constants_.resize(top.size());
  }

  void reshape(Blobs, Blobs top) override {
    for (size_t i = 0; i < top.size(); ++i) top[i]->reshape(shapes_[i]);
  }

  void forward_cpu(Blobs, Blobs top) override {
    for (size_t i = 0; i < top.size(); ++i) {
      if (fills_constant(i)) {
        fill_constant(i, top[i]->data);
        continue;
      }
      Random random(run().seed, streams_[i], run().iteration);
      Random pass(random.next_u64(), run().pass, static_cast<uint64_t>(run().rank));
      filler(i).fill(top[i]->data, pass.next_u64(), streams_[i]);
    }
  }

 protected:
  /// Before the first pass, so that the program may write something else there.
  void prepare_reference(Blobs, Blobs top) override {
    for (size_t i = 0; i < top.size(); ++i) {
      if (fills_constant(i)) fill_constant(i, top[i]->data);
    }
  }

 private:
  const DummyDataParameter& settings() const { return param().dummy_data_param(); }
  const Filler& filler(size_t top) const { return fillers_[fillers_.size() == 1 ? 0 : top]; }
  bool fills_constant(size_t top) const { return filler(top).type == Filler::Type::constant; }

  /// Does nothing if it filled this memory before.
  void fill_constant(size_t top, Tensor& data) {
    if (data.has_memory() && data.memory() == constants_[top].lock()) return;
    filler(top).fill(data, 0, 0);
    constants_[top] = data.memory();
  }

  Shape shape_of_top(size_t top) const {
    const auto& shapes = settings().shape();
    const auto& dims = shapes.Get(shapes.size() == 1 ? 0 : static_cast<int>(top)).dim();
    return Shape(std::vector<int64_t>(dims.begin(), dims.end()));
  }
  Shape sizes_of_top(size_t top) const {
    const auto size = [top](const auto& sizes) {
      return int64_t{sizes.Get(sizes.size() == 1 ? 0 : static_cast<int>(top))};
    };
    const DummyDataParameter& param = settings();
    return {size(param.num()), size(param.channels()), size(param.height()), size(param.width())};
  }

  std::vector<Filler> fillers_;                   // one, or one a top
  std::vector<Shape> shapes_;                     // one a top, as the following
  std::vector<uint64_t> streams_;                 // of random numbers
  std::vector<std::weak_ptr<Memory>> constants_;  // the memory that has the constant
};

}  // namespace

void register_dummy_data(Registry& registry) { registry.add<DummyDataLayer>("DummyData"); }

}  // namespace crema
