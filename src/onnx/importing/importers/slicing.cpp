// Operators that take parts: Split, Slice, Gather.
#include <algorithm>

#include "onnx/importing/importers/all.hpp"
#include "onnx/importing/importers/support.hpp"

namespace crema::onnx {

namespace {

void import_split(const Node& node, LayerWriter& writer) {
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  const int axis = call.canonical(call.get_int("axis", 0), x.rank());
  std::vector<LayerEnd> tops;
  std::vector<int64_t> points = {0};
  size_t wanted = 0;
  for (const Value* output : node.outputs) {
    const bool is_wanted = output != nullptr && writer.graph().is_wanted(*output);
    if (output == nullptr) give_up("a part that the model does not name");
    if (output->shape()[axis] == 0) give_up("an empty part");
    wanted += is_wanted ? 1 : 0;
    tops.emplace_back(output);
    points.push_back(points.back() + output->shape()[axis]);
  }
  if (node.outputs.size() == 1) return writer.alias(*node.input(0), *node.output());
  if (wanted == node.outputs.size()) {
    SliceParameter& settings =
        *writer.add(node, "Slice", {node.input(0)}, tops).mutable_slice_param();
    settings.set_axis(axis);
    for (size_t i = 1; i + 1 < points.size(); ++i) settings.add_slice_point(as_setting(points[i]));
    return;
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (!writer.graph().is_wanted(*node.outputs[i])) continue;
    StridedSliceParameter& settings =
        *writer.add(node, "StridedSlice", {node.input(0)}, {tops[i]}, text("part", i))
             .mutable_strided_slice_param();
    settings.add_axis(axis);
    settings.add_begin(points[i]);
    settings.add_end(points[i + 1]);
  }
}

// Beyond the end of every axis that a net has.
constexpr int64_t kBeyond = (int64_t{1} << 31) - 1;

struct Cut {
  int axis = 0;
  int64_t begin = 0, end = 0, step = 1;
};

// Ranges of the axes that are cut, as a layer StridedSlice has them.
std::vector<Cut> cuts_of(const Node& node, bool has_open_batch) {
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  const auto starts = call.ints_of("starts", 1, 10), ends = call.ints_of("ends", 2, 10);
  const auto axes = call.ints_of("axes", 3, 10);
  const std::vector<int64_t> steps = node.opset >= 10 && call.has(4)
                                         ? call.constant(4, "steps").integers()
                                         : std::vector<int64_t>();
  if (!starts || !ends || starts->size() != ends->size()) give_up("starts without ends");
  std::vector<Cut> cuts;
  for (size_t i = 0; i < starts->size(); ++i) {
    if ((axes && i >= axes->size()) || (!steps.empty() && i >= steps.size()))
      give_up("axes or steps that are missing");
    Cut cut;
    cut.axis = call.canonical(axes ? (*axes)[i] : static_cast<int64_t>(i), x.rank());
    cut.step = steps.empty() ? 1 : steps[i];
    const int64_t size = x[cut.axis];
    if (size == 0 || cut.step == 0) give_up("an empty axis");
    if (cut.axis == 0 && has_open_batch) {
      // As the model has it, for batches of other sizes.
      cut.begin = std::clamp((*starts)[i], -kBeyond, kBeyond);
      cut.end = std::clamp((*ends)[i], -kBeyond, kBeyond);
      if (cut.begin != 0 || cut.end <= size || cut.step != 1) cuts.push_back(cut);
      continue;
    }
    const auto from_front = [&](int64_t place) {
      return place < 0 ? std::max(place, -size - 1) + size : std::min(place, size);
    };
    cut.begin = std::max<int64_t>(from_front((*starts)[i]), 0);
    cut.end = from_front((*ends)[i]);
    if (cut.step > 0) {
      cut.end = std::max<int64_t>(cut.end, 0);
      if (cut.begin == 0 && cut.end == size && cut.step == 1) continue;
      // What counts from the end stays so, for inputs of other sizes.
      if ((*ends)[i] < 0 && (*ends)[i] > -size) cut.end = (*ends)[i];
    } else {
      cut.begin = std::min(cut.begin, size - 1);
      if (cut.end < 0) cut.end = -size - 1;
    }
    cuts.push_back(cut);
  }
  return cuts;
}

void import_slice(const Node& node, LayerWriter& writer) {
  if (node.output()->shape().count() == 0) give_up("an empty part");
  const std::vector<Cut> cuts = cuts_of(node, writer.graph().has_open_batch());
  if (cuts.empty()) return writer.alias(*node.input(0), *node.output());
  StridedSliceParameter& settings =
      *writer.add(node, "StridedSlice", {node.input(0)}, {node.output()})
           .mutable_strided_slice_param();
  const bool has_steps = std::ranges::any_of(cuts, [](const Cut& cut) { return cut.step != 1; });
  for (const Cut& cut : cuts) {
    settings.add_axis(cut.axis);
    settings.add_begin(cut.begin);
    settings.add_end(cut.end);
    if (has_steps) settings.add_step(cut.step);
  }
}

// Slices at fixed indices.
void add_fixed_gather(const Node& node, LayerWriter& writer, int axis, const Array& indices) {
  constexpr int64_t kMaxWritten = 4096;
  const Shape &x = node.input(0)->shape(), &out = node.output()->shape();
  if (indices.count() > kMaxWritten || indices.count() == 0) give_up(indices.count(), " indices");
  const bool is_scalar = indices.shape().rank() == 0;
  const bool is_list = indices.shape().rank() == 1;
  Shape flat = x;
  flat.set(axis, indices.count());
  const std::string slices =
      is_scalar || is_list ? std::string() : writer.inner_blob(node, "slices");
  LayerParameter& layer = writer.add(node, "Gather", {node.input(0)},
                                     {slices.empty() ? LayerEnd(node.output()) : LayerEnd(slices)},
                                     slices.empty() ? "" : "slices");
  GatherParameter& settings = *layer.mutable_gather_param();
  settings.set_axis(axis);
  for (const int64_t index : indices.integers()) settings.add_index(index);
  if (is_scalar) settings.set_squeeze(true);
  if (!slices.empty()) add_reshape(node, writer, slices, flat, node.output(), out);
}

void import_gather(const Node& node, LayerWriter& writer) {
  const Call call = node.call();
  const Shape& x = node.input(0)->shape();
  if (x.count() == 0 || node.output()->shape().count() == 0) give_up("an empty tensor");
  const int axis = call.canonical(call.get_int("axis", 0), x.rank());
  const Array* const indices = constant_input(node, 1);
  if (indices != nullptr) return add_fixed_gather(node, writer, axis, *indices);
  LayerParameter& layer =
      writer.add(node, "Gather", {node.input(0), node.input(1)}, {node.output()});
  layer.mutable_gather_param()->set_axis(axis);
}

}  // namespace

void add_slicing_importers(ImporterTable& table) {
  table.add("Split", import_split);
  table.add("Slice", import_slice);
  table.add("Gather", import_gather);
}

}  // namespace crema::onnx
