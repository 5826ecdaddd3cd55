// What a drawing of a net shows, before anything has a place: nodes, the values between them, and
// blocks that stand for several equal ones.
//
// A node is a layer with those behind it that change its top in place. Layers of several phases
// that make the same tops are one node. A blob is no node: its shape stands at the edges from the
// node that makes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/draw.hpp"

namespace crema {

enum class DrawnKind : uint8_t { convolution, inner_product, pooling, loss, data, other };

struct DrawnNode {
  std::string name;  // of the layer; of the blob, where no layer that is drawn makes it
  std::string what;  // "Convolution 3x3, 64 + BatchNorm + ReLU"
  std::vector<std::string> layers;  // all about each layer, a line each
  DrawnKind kind = DrawnKind::other;
  bool is_fused = false;     // another layer computes it, too
  std::vector<int> bottoms;  // values, in the order of the layer's bottoms
  std::vector<int> tops;     // values
  std::string signature;     // equal for nodes of equal layers, whatever their names
};

struct DrawnValue {
  std::string label;  // beside its edges: the name, where it is not the node's, and the shape
  std::string name;   // of the blob, or "" where its only maker has the same name
  std::optional<Shape> shape;  // none: not known
  std::vector<int> makers;     // nodes; several where phases have layers of their own
  std::vector<int> readers;    // nodes, ascending, each once
};

/// The nodes from `first` on stand for `copies` blocks of `size` nodes in a row.
struct DrawnBlock {
  int first = 0, size = 0, copies = 0;
  std::string label;
};

struct NetDrawing {
  std::string name;
  std::vector<DrawnNode> nodes;  // each behind those that it reads from
  std::vector<DrawnValue> values;
  std::vector<DrawnBlock> blocks;  // ascending, apart from each other
};

NetDrawing drawing_of(const NetParameter& net, const DrawOptions& options);

/// Finds blocks of nodes that follow each other and are equal but for names and, between blocks,
/// the number of channels, and leaves the first of each. A block stays as it is where the others
/// would save fewer than three nodes.
void fold_repeated_blocks(NetDrawing& drawing);

}  // namespace crema
