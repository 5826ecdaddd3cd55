// Decoders of sequences.
#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

constexpr int64_t kMostDecodedSteps = 2048;

/// Viterbi, step by step. A sequence that ends makes the next step's state the class with which it
/// ends best, whatever class that step has.
void export_crf_decoder(const ExportedLayer& layer, GraphBuilder& graph) {
  const bool boundary = layer.param().crf_loss_param().boundary_term();
  const Shape& shape = layer.bottom();
  const int64_t steps = shape[0];
  graph.need_fixed_batch("its steps are written one by one");
  if (steps > kMostDecodedSteps)
    throw Error("has ", steps, " steps, each of them nodes of its own; at most ", kMostDecodedSteps,
                " are written");
  const std::string transitions = graph.constant(layer.weight(0), "transitions");
  const std::string first = boundary ? graph.constant(layer.weight(1), "first") : "";
  const std::string last = boundary ? graph.constant(layer.weight(2), "last") : "";
  const auto with = [&](const std::string& scores, const std::string& more) {
    return more.empty() ? scores : graph.add("Add", {scores, more});
  };
  const std::vector<int64_t> ones(static_cast<size_t>(steps), 1);
  const auto rows_of = [&](const std::string& x, int64_t axis) {
    return steps == 1 ? Names{x} : graph.split(x, axis, ones);
  };
  const Names scores = rows_of(layer.input(0), 0);
  Names begins;  // (N, 1): whether a sequence begins at the step
  if (layer.bottoms() > 1) {
    const std::string cont = graph.transpose(layer.input(1), {1, 0});
    begins = rows_of(graph.add("Equal", {cont, graph.number(0)}), 1);
  }
  std::string state = with(graph.squeeze(scores[0], {0}), first);  // (N, C)
  Names before(static_cast<size_t>(steps));                        // (N, C): the best class before
  const Attributes best{{"axis", 1}, {"keepdims", 0}}, best_column{{"axis", 1}, {"keepdims", 1}};
  for (size_t t = 1; t < static_cast<size_t>(steps); ++t) {
    const std::string x = graph.squeeze(scores[t], {0});
    const std::string paths = graph.add("Add", {graph.unsqueeze(state, {2}), transitions});
    before[t] = graph.add("ArgMax", {paths}, best);
    std::string next = graph.add("Add", {graph.reduce("ReduceMax", paths, {1}, false), x});
    if (!begins.empty()) {
      const std::string end = graph.add("ArgMax", {with(state, last)}, best_column);
      before[t] = graph.add("Where", {begins[t], end, before[t]});
      next = graph.add("Where", {begins[t], with(x, first), next});
    }
    state = next;
  }
  Names path(static_cast<size_t>(steps));
  path.back() = graph.add("ArgMax", {with(state, last)}, best_column);
  for (size_t t = static_cast<size_t>(steps) - 1; t > 0; --t)
    path[t - 1] = graph.add("GatherElements", {before[t], path[t]}, {{"axis", 1}});
  const std::string all = steps == 1 ? path[0] : graph.concat(path, 1);
  graph.cast(graph.transpose(all, {1, 0}), TensorProto::FLOAT, layer.output());
}

/// The best class of each step; those that are kept go to the places that they have among those.
void export_ctc_decoder(const ExportedLayer& layer, GraphBuilder& graph) {
  const CTCDecoderParameter& settings = layer.param().ctc_decoder_param();
  const Shape& shape = layer.bottom();
  const int64_t steps = shape[0], classes = shape[2];
  if (layer.bottoms() > 2)
    throw Error("measures the accuracy by labels; leave its third bottom out for inference");
  graph.need_fixed_batch("the number of its steps is a constant of the model");
  const double blank =
      static_cast<double>(settings.blank_index() < 0 ? classes - 1 : settings.blank_index());
  const std::string& x = layer.input();
  const std::string best =
      graph.cast(graph.add("ArgMax", {x}, {{"axis", 2}, {"keepdims", 0}}), TensorProto::FLOAT);
  const auto differs = [&](const std::string& other) {
    return graph.add("Not", {graph.add("Equal", {best, other})});
  };
  std::string keeps = differs(graph.number(blank));
  if (settings.ctc_merge_repeated()) {
    const std::string before = graph.slice(best, {0}, {0}, {-1});
    keeps = graph.add("And", {keeps, differs(graph.pad(before, {1, 0, 0, 0}, -1))});
  }
  std::string is_inside;
  if (layer.bottoms() > 1) {
    std::vector<double> behind_first(static_cast<size_t>(steps), 1.0);
    behind_first[0] = 0;  // the indicator of step 0 is 0 as well
    const std::string ends =
        graph.cast(graph.add("Equal", {layer.input(1), graph.number(0)}), TensorProto::FLOAT);
    const std::string counted_ends =
        graph.add("Mul", {ends, graph.floats(Shape{steps, 1}, behind_first, "behind_first")});
    is_inside =
        graph.add("Equal", {graph.add("CumSum", {counted_ends, graph.index(0)}), graph.number(0)});
    keeps = graph.add("And", {keeps, is_inside});
  }
  const std::string place =
      plus(graph, graph.add("CumSum", {graph.cast(keeps, TensorProto::FLOAT), graph.index(0)}), -1);
  const std::string to =
      graph.add("Where", {keeps, place, graph.number(static_cast<double>(steps))});
  const std::string nothing = plus(graph, graph.add("Sub", {best, best}), -1);
  const std::string room = graph.pad(nothing, {0, 0, 1, 0}, -1);
  const std::string placed =
      graph.add("ScatterElements", {room, graph.cast(to, TensorProto::INT64), best}, {{"axis", 0}});
  graph.slice(placed, {0}, {0}, {steps}, {}, layer.output());
  if (layer.tops() < 2) return;
  std::string values = graph.reduce("ReduceMax", x, {2}, false);
  if (!is_inside.empty()) values = graph.add("Where", {is_inside, values, graph.number(0)});
  graph.add("Neg", {graph.reduce("ReduceSum", values, {0}, false)}, {}, layer.output(1));
}

}  // namespace

void add_sequence_exporters(ExporterTable& table) {
  table.add("CRFDecoder", export_crf_decoder);
  table.add("CTCGreedyDecoder", export_ctc_decoder);
}

}  // namespace crema::onnx
