// Equal blocks of a net, one behind the other, as one. The nodes of a block follow each other in
// the order of the file. The way to draw the net with the fewest nodes is found from its end.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/net_drawing.hpp"

namespace crema {
namespace {

constexpr int kLongest = 100;   // nodes of a block
constexpr int kLeastSaved = 3;  // nodes

/// Which top of which node of a block.
using InBlock = std::pair<int, size_t>;

class Folding {
 public:
  explicit Folding(NetDrawing& drawing) : drawing_(&drawing) {
    std::map<std::string, int> known;
    for (const DrawnNode& node : drawing.nodes) {
      const auto number = static_cast<int>(known.size());
      // A blob of no layer is like no other.
      signatures_.push_back(node.signature.empty()
                                ? -1 - static_cast<int>(signatures_.size())
                                : known.try_emplace(node.signature, number).first->second);
    }
  }

  void fold() {
    const int n = count();
    // What drawing from a node on costs; nodes first, then frames and their edges.
    std::vector<int64_t> costs(static_cast<size_t>(n) + 1);
    std::vector<DrawnBlock> choices(static_cast<size_t>(n));
    for (int i = n - 1; i >= 0; --i) {
      const auto at = static_cast<size_t>(i);
      costs[at] = costs[at + 1] + kNode;
      DrawnBlock shortest;
      for (int size = 1; size <= std::min(kLongest, (n - i) / 2); ++size) {
        // Blocks of several of the shortest ones would draw more nodes.
        if (shortest.copies * shortest.size >= 2 * size && size % shortest.size == 0) continue;
        const DrawnBlock block = block_at(i, size);
        if (block.copies < 2) continue;
        if (shortest.copies < 2) shortest = block;
        const int64_t cost = size * kNode + kFrame + edges_ +
                             costs[static_cast<size_t>(i + block.copies * block.size)];
        if (cost >= costs[at]) continue;
        costs[at] = cost;
        choices[at] = block;
      }
    }
    for (int i = 0; i < n;) {
      const DrawnBlock& choice = choices[static_cast<size_t>(i)];
      if (choice.copies > 1) chosen_.push_back(choice);
      i += std::max(1, choice.copies * choice.size);
    }
    rewrite();
  }

 private:
  static constexpr int64_t kNode = 10000, kFrame = 100;

  int count() const { return static_cast<int>(drawing_->nodes.size()); }
  const DrawnNode& node(int i) const { return drawing_->nodes[static_cast<size_t>(i)]; }
  const DrawnValue& value(int v) const { return drawing_->values[static_cast<size_t>(v)]; }

  /// The node and the top that make the value; a node of -1 where there are several.
  std::pair<int, size_t> origin(int v) const {
    if (value(v).makers.size() != 1) return {-1, 0};
    const int maker = value(v).makers[0];
    const std::vector<int>& tops = node(maker).tops;
    return {maker, static_cast<size_t>(std::ranges::find(tops, v) - tops.begin())};
  }

  bool is_alike(int a, int b) const {
    const DrawnNode &left = node(a), &right = node(b);
    if (signatures_[static_cast<size_t>(a)] != signatures_[static_cast<size_t>(b)]) return false;
    if (left.bottoms.size() != right.bottoms.size() || left.tops.size() != right.tops.size())
      return false;
    for (size_t t = 0; t < left.tops.size(); ++t) {
      const auto &x = value(left.tops[t]).shape, &y = value(right.tops[t]).shape;
      if (x.has_value() != y.has_value()) return false;
      if (x && !is_of_sides(*x, *y)) return false;
    }
    return true;
  }

  /// Whether shapes differ in the number of channels alone.
  static bool is_of_sides(const Shape& x, const Shape& y) {
    if (x.rank() != y.rank()) return false;
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (axis != 1 && x[axis] != y[axis]) return false;
    }
    return true;
  }

  /// As many blocks from node `first` on as are equal; fewer than two: none. Sets edges_.
  DrawnBlock block_at(int first, int size) {
    DrawnBlock block{.first = first, .size = size, .copies = 1};
    // What a block reads of the one before it, and the first block from elsewhere.
    std::map<InBlock, int> carried;
    std::set<int> common;  // what all read from elsewhere
    while (first + (block.copies + 1) * size <= count() &&
           continues(block, block.copies, carried, common)) {
      ++block.copies;
    }
    while (block.copies > 1 && !ends_well(block, carried)) --block.copies;
    if (carried.empty() || (block.copies - 1) * size < kLeastSaved) block.copies = 1;
    edges_ = static_cast<int64_t>(carried.size() + common.size());
    return block;
  }

  /// Whether copy `m` is as the first one.
  bool continues(const DrawnBlock& block, int m, std::map<InBlock, int>& carried,
                 std::set<int>& common) const {
    std::map<InBlock, int> next_carried = carried;
    std::set<int> next_common = common;
    const int shift = m * block.size, begin = block.first + shift;
    for (int i = block.first; i < block.first + block.size; ++i) {
      if (!is_alike(i, i + shift)) return false;
      for (size_t k = 0; k < node(i).bottoms.size(); ++k) {
        const int v = node(i).bottoms[k], w = node(i + shift).bottoms[k];
        const auto [maker, top] = origin(v);
        const auto [other, other_top] = origin(w);
        if (v == w && (maker < block.first)) {
          next_common.insert(v);
        } else if (other >= begin) {
          if (maker != other - shift || top != other_top) return false;
        } else if (other >= begin - block.size && maker < block.first) {
          const InBlock place = {other - begin + block.size, other_top};
          if (next_carried.try_emplace(place, v).first->second != v) return false;
        } else {
          return false;
        }
      }
    }
    if (m > 1 && next_carried.size() != carried.size()) return false;
    std::set<int> entries;
    for (const auto& [place, v] : next_carried) {
      if (next_common.contains(v) || !entries.insert(v).second) return false;
    }
    carried = std::move(next_carried);
    common = std::move(next_common);
    return true;
  }

  /// Whether what is behind the blocks reads no more than the next block would.
  bool ends_well(const DrawnBlock& block, const std::map<InBlock, int>& carried) const {
    for (int m = 0; m < block.copies; ++m) {
      const int begin = block.first + m * block.size, end = begin + block.size;
      for (int i = begin; i < end; ++i) {
        for (size_t t = 0; t < node(i).tops.size(); ++t) {
          const DrawnValue& made = value(node(i).tops[t]);
          if (made.makers.size() != 1) return false;
          const int last = made.readers.empty() ? i : made.readers.back();
          const bool is_last_copy = m + 1 == block.copies;
          if (last >= end + (is_last_copy ? 0 : block.size) &&
              !(is_last_copy && carried.contains({i - begin, t})))
            return false;
        }
      }
    }
    return true;
  }

  void rewrite() {
    if (chosen_.empty()) return;
    std::vector<int> places(drawing_->nodes.size(), -1);  // of nodes; -1: folded
    std::vector<int> stands_for(drawing_->values.size());
    for (size_t v = 0; v < stands_for.size(); ++v) stands_for[v] = static_cast<int>(v);
    std::vector<DrawnNode> nodes;
    std::vector<std::string> labels(drawing_->values.size());
    for (size_t v = 0; v < labels.size(); ++v) labels[v] = drawing_->values[v].label;
    auto block = chosen_.begin();
    for (int i = 0; i < count();) {
      const bool folds = block != chosen_.end() && block->first == i;
      const int kept = folds ? block->size : 1;
      const int first = static_cast<int>(nodes.size());
      for (int k = i; k < i + kept; ++k) {
        places[static_cast<size_t>(k)] = static_cast<int>(nodes.size());
        nodes.push_back(node(k));
      }
      if (!folds) {
        ++i;
        continue;
      }
      const int last = i + (block->copies - 1) * block->size;
      for (int k = 0; k < block->size; ++k) {
        for (size_t t = 0; t < node(i + k).tops.size(); ++t) {
          const int v = node(i + k).tops[t], of_last = node(last + k).tops[t];
          for (int m = 1; m < block->copies; ++m) {
            stands_for[static_cast<size_t>(node(i + k + m * block->size).tops[t])] = v;
          }
          const auto &x = value(v).shape, &y = value(of_last).shape;
          if (x && *x != *y) labels[static_cast<size_t>(v)] += " \xE2\x80\xA6 " + y->str();
        }
      }
      drawing_->blocks.push_back(
          {.first = first,
           .size = block->size,
           .copies = block->copies,
           .label = text(block->copies, " \xC3\x97, up to ", node(last + block->size - 1).name)});
      i = last + block->size;
      ++block;
    }
    drawing_->nodes = std::move(nodes);
    renumber(places, stands_for, labels);
  }

  /// Leaves the values of the nodes that are left.
  void renumber(const std::vector<int>& places, const std::vector<int>& stands_for,
                const std::vector<std::string>& labels) {
    std::vector<DrawnValue> values;
    std::vector<int> numbers(drawing_->values.size(), -1);
    for (size_t v = 0; v < drawing_->values.size(); ++v) {
      if (stands_for[v] != static_cast<int>(v)) continue;
      numbers[v] = static_cast<int>(values.size());
      values.push_back(drawing_->values[v]);
      values.back().label = labels[v];
      values.back().readers.clear();
      for (int& maker : values.back().makers) maker = places[static_cast<size_t>(maker)];
    }
    for (size_t i = 0; i < drawing_->nodes.size(); ++i) {
      DrawnNode& left = drawing_->nodes[i];
      for (std::vector<int>* list : {&left.bottoms, &left.tops}) {
        for (int& v : *list) v = numbers[static_cast<size_t>(stands_for[static_cast<size_t>(v)])];
      }
      for (const int v : left.bottoms) {
        std::vector<int>& readers = values[static_cast<size_t>(v)].readers;
        if (readers.empty() || readers.back() != static_cast<int>(i))
          readers.push_back(static_cast<int>(i));
      }
    }
    drawing_->values = std::move(values);
  }

  NetDrawing* drawing_;
  std::vector<int> signatures_;
  std::vector<DrawnBlock> chosen_;
  int64_t edges_ = 0;  // into the frame of the last block_at()
};

}  // namespace

void fold_repeated_blocks(NetDrawing& drawing) { Folding(drawing).fold(); }

}  // namespace crema
