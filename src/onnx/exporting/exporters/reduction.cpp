// Layers that make one number of many.
#include <algorithm>

#include "onnx/exporting/exporters/common.hpp"
#include "proto/layer.pb.h"

namespace crema::onnx {
namespace {

void export_reduction(const ExportedLayer& layer, GraphBuilder& graph) {
  const ReductionParameter& settings = layer.param().reduction_param();
  const int rank = layer.bottom().rank();
  const int first = rank == 0 ? 0 : layer.bottom().canonical_axis(settings.axis());
  const std::vector<int64_t> axes = counted(rank - first, first);
  const char* op = "ReduceSum";
  switch (settings.operation()) {
    case ReductionParameter::SUM:
      break;
    case ReductionParameter::ASUM:
      op = "ReduceL1";
      break;
    case ReductionParameter::SUMSQ:
      op = "ReduceSumSquare";
      break;
    case ReductionParameter::MEAN:
      op = "ReduceMean";
      break;
  }
  std::string y = layer.input();
  if (!axes.empty()) {
    y = graph.reduce(op, y, axes, false);
  } else if (settings.operation() == ReductionParameter::ASUM) {
    y = graph.add("Abs", {y});
  } else if (settings.operation() == ReductionParameter::SUMSQ) {
    y = graph.add("Mul", {y, y});
  }
  finish(layer, graph, times(graph, y, settings.coeff()));
}

void export_reduce(const ExportedLayer& layer, GraphBuilder& graph) {
  const ReduceParameter& settings = layer.param().reduce_param();
  std::vector<int64_t> axes;
  for (const int axis : settings.axis()) axes.push_back(layer.bottom().canonical_axis(axis));
  if (axes.empty()) axes = counted(layer.bottom().rank());
  const char* op = "ReduceSum";
  switch (settings.operation()) {
    case ReduceParameter::SUM:
      break;
    case ReduceParameter::MEAN:
      op = "ReduceMean";
      break;
    case ReduceParameter::MAX:
      op = "ReduceMax";
      break;
    case ReduceParameter::MIN:
      op = "ReduceMin";
      break;
    case ReduceParameter::PROD:
      op = "ReduceProd";
      break;
    case ReduceParameter::L1:
      op = "ReduceL1";
      break;
    case ReduceParameter::L2:
      op = "ReduceL2";
      break;
    case ReduceParameter::SUM_SQUARE:
      op = "ReduceSumSquare";
      break;
    case ReduceParameter::LOG_SUM:
      op = "ReduceLogSum";
      break;
    case ReduceParameter::LOG_SUM_EXP:
      op = "ReduceLogSumExp";
      break;
  }
  graph.reduce(op, layer.input(), axes, settings.keep_dims(), layer.output());
}

void export_softmax(const ExportedLayer& layer, GraphBuilder& graph) {
  const int axis = layer.bottom().canonical_axis(layer.param().softmax_param().axis());
  graph.add("Softmax", {layer.input()}, {{"axis", axis}}, layer.output());
}

}  // namespace

void add_reduction_exporters(ExporterTable& table) {
  table.add("Reduce", export_reduce);
  table.add("Reduction", export_reduction);
  table.add("Softmax", export_softmax);
}

}  // namespace crema::onnx
