// Places for the nodes of a graph without cycles, in ranks from top to bottom, and ways for its
// edges. The same graph gets the same places on every machine: ties go by index.
//
// An edge leads from one node to several: a blob and its readers. Over ranks between them, it is
// one line, from which branches go off.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace crema {

struct LayeredNode {
  double left = 0, right = 0;  // from the middle, where edges end unless they say another place
  double label = 0;            // width of what stands beside the edges below it, from the middle on
  double height = 0, below = 0;  // its own, and the least distance of the next rank
  /// Of a frame that the graph is in: nodes on the border above, and below.
  enum class Border : uint8_t { none, top, bottom } border = Border::none;
};

struct LayeredEnd {
  int node = 0;
  std::optional<double> x;  // from the node's middle; none: beside the other edges that end there
};

struct LayeredEdge {
  int from = 0;
  double from_x = 0;  // from the node's middle
  std::vector<LayeredEnd> to;
};

struct LayeredGraph {
  std::vector<LayeredNode> nodes;
  std::vector<LayeredEdge> edges;  // from and to nodes of a lesser and a greater index
};

struct LayeredPoint {
  double x = 0, y = 0;
};

struct LayeredLayout {
  double width = 0, height = 0;
  std::vector<LayeredPoint> nodes;  // middle of the upper side
  /// Of each edge, lines whose points are joined by curves that leave and arrive vertically; the
  /// line to each end of the edge, in their order. A line may begin on another one.
  std::vector<std::vector<std::vector<LayeredPoint>>> lines;
};

LayeredLayout layered_layout(const LayeredGraph& graph);

}  // namespace crema
