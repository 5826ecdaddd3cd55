#include "analysis/layered_layout.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace crema {
namespace {

constexpr double kBetween = 14;      // nodes of a rank
constexpr double kBetweenLines = 8;  // an edge that passes, and what is beside it
constexpr double kPortStep = 12;     // between the ends of edges at a node
constexpr int kOrderSweeps = 24, kPlaceSweeps = 40;

/// A node, or a place where an edge passes a rank.
struct Item {
  int node = -1;  // -1: an edge passes
  int edge = -1;
  int rank = 0;
  double left = 0, right = 0;
  double x = 0;
};

/// A piece of an edge, from one rank to the next.
struct Piece {
  int from = 0, to = 0;  // items
  double from_x = 0;     // from the middle of the item
  double to_x = 0;
  bool is_free = false;  // to_x is chosen here
  double weight = 1;
};

class Ranking {
 public:
  explicit Ranking(const LayeredGraph& graph) : graph_(&graph) {
    rank();
    make_items();
    order();
    place();
    end_edges();
  }

  LayeredLayout result();

 private:
  const LayeredNode& node(int i) const { return graph_->nodes[static_cast<size_t>(i)]; }
  Item& item(int i) { return items_[static_cast<size_t>(i)]; }
  const Item& item(int i) const { return items_[static_cast<size_t>(i)]; }
  std::vector<int>& row(int rank) { return rows_[static_cast<size_t>(rank)]; }

  void rank();
  void make_items();
  int pass(int edge, int rank);
  void order();
  void order_row(int rank, bool by_upper);
  void swap_neighbours(int rank);
  int64_t crossings(int rank) const;
  int64_t crossings_of(int a, int b) const;
  void place();
  void place_row(int rank, bool upper, bool lower);
  void straighten(int rank, bool to_upper);
  double apart(int left, int right) const;
  void end_edges();

  const LayeredGraph* graph_;
  std::vector<int> ranks_;  // of nodes
  std::vector<Item> items_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<int>> upper_, lower_;  // pieces of each item
  std::vector<std::vector<int>> rows_;           // items of each rank, from left to right
  std::vector<int> at_;                          // of each item, in its row
  /// Of each end of each edge, the pieces on its way, from the top.
  std::vector<std::vector<std::vector<int>>> ways_;
};

/// The longest way from above; what nothing leads to goes down to where it is read.
void Ranking::rank() {
  const size_t n = graph_->nodes.size();
  ranks_.assign(n, 0);
  std::vector<std::vector<int>> edges_of(n);
  std::vector<bool> is_read(n);
  for (size_t e = 0; e < graph_->edges.size(); ++e)
    edges_of[static_cast<size_t>(graph_->edges[e].from)].push_back(static_cast<int>(e));
  const auto each_end = [&](size_t i, const auto& body) {
    for (const int e : edges_of[i]) {
      for (const LayeredEnd& end : graph_->edges[static_cast<size_t>(e)].to)
        body(static_cast<size_t>(end.node));
    }
  };
  for (size_t i = 0; i < n; ++i) {
    each_end(i, [&](size_t end) {
      ranks_[end] = std::max(ranks_[end], ranks_[i] + 1);
      is_read[end] = true;
    });
  }
  const int last = n == 0 ? 0 : *std::ranges::max_element(ranks_);
  for (size_t i = n; i-- > 0;) {
    if (graph_->nodes[i].border == LayeredNode::Border::bottom) ranks_[i] = last;
    if (is_read[i] || graph_->nodes[i].border != LayeredNode::Border::none) continue;
    int next = std::numeric_limits<int>::max();
    each_end(i, [&](size_t end) { next = std::min(next, ranks_[end]); });
    if (next != std::numeric_limits<int>::max()) ranks_[i] = next - 1;
  }
  rows_.resize(static_cast<size_t>(last) + 1);
}

int Ranking::pass(int edge, int rank) {
  const int i = static_cast<int>(items_.size());
  items_.push_back({.edge = edge, .rank = rank});
  row(rank).push_back(i);
  return i;
}

void Ranking::make_items() {
  for (size_t i = 0; i < graph_->nodes.size(); ++i) {
    const LayeredNode& one = graph_->nodes[i];
    items_.push_back({.node = static_cast<int>(i),
                      .rank = ranks_[i],
                      .left = one.left,
                      .right = std::max(one.right, one.label)});
    row(ranks_[i]).push_back(static_cast<int>(i));
  }
  ways_.resize(graph_->edges.size());
  for (size_t e = 0; e < graph_->edges.size(); ++e) {
    const LayeredEdge& edge = graph_->edges[e];
    std::vector<int> trunk;  // pieces down to the deepest place so far
    for (const LayeredEnd& end : edge.to) {
      const int first = item(edge.from).rank, last = item(end.node).rank;
      const auto between = static_cast<size_t>(last - first - 1);
      while (trunk.size() < between) {
        const int from = trunk.empty() ? edge.from : pieces_[static_cast<size_t>(trunk.back())].to;
        const int to = pass(static_cast<int>(e), item(from).rank + 1);
        trunk.push_back(static_cast<int>(pieces_.size()));
        pieces_.push_back({.from = from,
                           .to = to,
                           .from_x = from == edge.from ? edge.from_x : 0,
                           .weight = from == edge.from ? 1.0 : 8.0});
      }
      std::vector<int> way(trunk.begin(), trunk.begin() + static_cast<std::ptrdiff_t>(between));
      const int from = way.empty() ? edge.from : pieces_[static_cast<size_t>(way.back())].to;
      way.push_back(static_cast<int>(pieces_.size()));
      pieces_.push_back({.from = from,
                         .to = end.node,
                         .from_x = from == edge.from ? edge.from_x : 0,
                         .to_x = end.x.value_or(0),
                         .is_free = !end.x});
      ways_[e].push_back(std::move(way));
    }
  }
  upper_.resize(items_.size());
  lower_.resize(items_.size());
  for (size_t p = 0; p < pieces_.size(); ++p) {
    lower_[static_cast<size_t>(pieces_[p].from)].push_back(static_cast<int>(p));
    upper_[static_cast<size_t>(pieces_[p].to)].push_back(static_cast<int>(p));
  }
  at_.resize(items_.size());
}

/// Of the pieces between a rank and the next one.
int64_t Ranking::crossings(int rank) const {
  std::vector<std::pair<int, int>> ends;
  for (const int i : rows_[static_cast<size_t>(rank)]) {
    for (const int p : lower_[static_cast<size_t>(i)])
      ends.emplace_back(at_[static_cast<size_t>(i)],
                        at_[static_cast<size_t>(pieces_[static_cast<size_t>(p)].to)]);
  }
  std::ranges::sort(ends);
  int64_t found = 0;
  for (size_t a = 0; a < ends.size(); ++a) {
    for (size_t b = a + 1; b < ends.size(); ++b)
      found += ends[a].first < ends[b].first && ends[a].second > ends[b].second;
  }
  return found;
}

/// Of the pieces of two items of a row, if `a` is left of `b`.
int64_t Ranking::crossings_of(int a, int b) const {
  int64_t found = 0;
  for (const int p : upper_[static_cast<size_t>(a)]) {
    for (const int q : upper_[static_cast<size_t>(b)])
      found += at_[static_cast<size_t>(pieces_[static_cast<size_t>(p)].from)] >
               at_[static_cast<size_t>(pieces_[static_cast<size_t>(q)].from)];
  }
  for (const int p : lower_[static_cast<size_t>(a)]) {
    for (const int q : lower_[static_cast<size_t>(b)])
      found += at_[static_cast<size_t>(pieces_[static_cast<size_t>(p)].to)] >
               at_[static_cast<size_t>(pieces_[static_cast<size_t>(q)].to)];
  }
  return found;
}

void Ranking::order_row(int rank, bool by_upper) {
  std::vector<std::pair<double, int>> keys;
  for (const int i : row(rank)) {
    const auto& pieces = (by_upper ? upper_ : lower_)[static_cast<size_t>(i)];
    double sum = 0;
    for (const int p : pieces) {
      const Piece& piece = pieces_[static_cast<size_t>(p)];
      sum += at_[static_cast<size_t>(by_upper ? piece.from : piece.to)];
    }
    const double own = at_[static_cast<size_t>(i)];
    keys.emplace_back(pieces.empty() ? own : sum / static_cast<double>(pieces.size()), i);
  }
  std::ranges::stable_sort(keys, {}, &std::pair<double, int>::first);
  for (size_t k = 0; k < keys.size(); ++k) {
    row(rank)[k] = keys[k].second;
    at_[static_cast<size_t>(keys[k].second)] = static_cast<int>(k);
  }
}

void Ranking::swap_neighbours(int rank) {
  std::vector<int>& items = row(rank);
  bool changes = true;
  for (int round = 0; changes && round < 8; ++round) {
    changes = false;
    for (size_t k = 0; k + 1 < items.size(); ++k) {
      if (crossings_of(items[k + 1], items[k]) >= crossings_of(items[k], items[k + 1])) continue;
      std::swap(items[k], items[k + 1]);
      std::swap(at_[static_cast<size_t>(items[k])], at_[static_cast<size_t>(items[k + 1])]);
      changes = true;
    }
  }
}

/// Sorts the rows by the middle of what their items are joined to, up and down, and keeps the order
/// with the fewest crossings.
void Ranking::order() {
  const int rows = static_cast<int>(rows_.size());
  const auto number = [&] {
    for (const auto& items : rows_) {
      for (size_t k = 0; k < items.size(); ++k)
        at_[static_cast<size_t>(items[k])] = static_cast<int>(k);
    }
  };
  const auto all_crossings = [&] {
    int64_t found = 0;
    for (int r = 0; r + 1 < rows; ++r) found += crossings(r);
    return found;
  };
  number();
  std::vector<std::vector<int>> best = rows_;
  int64_t least = all_crossings();
  for (int sweep = 0; sweep < kOrderSweeps && least > 0; ++sweep) {
    const bool down = sweep % 2 == 0;
    for (int k = 1; k < rows; ++k) order_row(down ? k : rows - 1 - k, down);
    for (int r = 0; r < rows; ++r) swap_neighbours(r);
    const int64_t found = all_crossings();
    if (found >= least) continue;
    least = found;
    best = rows_;
  }
  rows_ = std::move(best);
  number();
}

/// The least distance of the middles of two items of a row.
double Ranking::apart(int left, int right) const {
  const bool passes = item(left).node < 0 || item(right).node < 0;
  return item(left).right + item(right).left + (passes ? kBetweenLines : kBetween);
}

/// Moves the items of a row to where their pieces are straight, as far as they have room: the least
/// sum of squares, by pooling of neighbours that would meet.
void Ranking::place_row(int rank, bool upper, bool lower) {
  struct Pool {
    double sum = 0, weight = 0;
    size_t count = 0;
    double mean() const { return sum / weight; }
  };
  const std::vector<int>& items = row(rank);
  std::vector<Pool> pools;
  double shift = 0;
  for (size_t k = 0; k < items.size(); ++k) {
    const int i = items[k];
    if (k > 0) shift += apart(items[k - 1], i);
    double sum = 0, weight = 0;
    const auto pull = [&](double x, double by) {
      sum += x * by;
      weight += by;
    };
    if (upper) {
      for (const int p : upper_[static_cast<size_t>(i)]) {
        const Piece& piece = pieces_[static_cast<size_t>(p)];
        pull(item(piece.from).x + piece.from_x - piece.to_x, piece.weight);
      }
    }
    if (lower) {
      for (const int p : lower_[static_cast<size_t>(i)]) {
        const Piece& piece = pieces_[static_cast<size_t>(p)];
        pull(item(piece.to).x + piece.to_x - piece.from_x, piece.weight);
      }
    }
    if (weight == 0) pull(item(i).x, 0.01);
    pools.push_back({sum - shift * weight, weight, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().weight += last.weight;
      pools.back().count += last.count;
    }
  }
  size_t k = 0;
  shift = 0;
  for (const Pool& pool : pools) {
    for (size_t j = 0; j < pool.count; ++j, ++k) {
      if (k > 0) shift += apart(items[k - 1], items[k]);
      item(items[k]).x = pool.mean() + shift;
    }
  }
}

/// Puts an item exactly below the one above it, or above the one below, where these two are joined
/// to each other alone on that side, and where there is room.
void Ranking::straighten(int rank, bool to_upper) {
  const std::vector<int>& items = row(rank);
  for (size_t k = 0; k < items.size(); ++k) {
    Item& one = item(items[k]);
    const auto& pieces = (to_upper ? upper_ : lower_)[static_cast<size_t>(items[k])];
    if (pieces.size() != 1) continue;
    const Piece& piece = pieces_[static_cast<size_t>(pieces[0])];
    const int other = to_upper ? piece.from : piece.to;
    const auto& back = (to_upper ? lower_ : upper_)[static_cast<size_t>(other)];
    if (back.size() != 1 && !(to_upper && one.node < 0)) continue;
    const double x = to_upper ? item(other).x + piece.from_x - piece.to_x
                              : item(other).x + piece.to_x - piece.from_x;
    const bool fits_left =
        k == 0 || x - item(items[k - 1]).x >= apart(items[k - 1], items[k]) - 1e-6;
    const bool fits_right =
        k + 1 == items.size() || item(items[k + 1]).x - x >= apart(items[k], items[k + 1]) - 1e-6;
    if (fits_left && fits_right) one.x = x;
  }
}

void Ranking::place() {
  const int rows = static_cast<int>(rows_.size());
  for (int r = 0; r < rows; ++r) {
    double x = 0;
    for (size_t k = 0; k < row(r).size(); ++k) {
      if (k > 0) x += apart(row(r)[k - 1], row(r)[k]);
      item(row(r)[k]).x = x;
    }
    for (const int i : row(r)) item(i).x -= x / 2;
  }
  for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
    const bool down = sweep % 2 == 0, both = sweep > kPlaceSweeps / 2;
    for (int k = 0; k < rows; ++k) place_row(down ? k : rows - 1 - k, down || both, !down || both);
  }
  for (int round = 0; round < 2; ++round) {
    for (int r = 1; r < rows; ++r) straighten(r, true);
    for (int r = rows - 2; r >= 0; --r) straighten(r, false);
  }
}

/// Spreads the edges that end at a node over its upper side, in the order in which they come.
void Ranking::end_edges() {
  for (size_t i = 0; i < graph_->nodes.size(); ++i) {
    std::vector<std::pair<double, int>> free;
    for (const int p : upper_[i]) {
      const Piece& piece = pieces_[static_cast<size_t>(p)];
      if (piece.is_free) free.emplace_back(item(piece.from).x + piece.from_x, p);
    }
    if (free.size() < 2) continue;
    std::ranges::stable_sort(free, {}, &std::pair<double, int>::first);
    const double room = std::max(0.0, node(static_cast<int>(i)).left - 6) * 2;
    const double step = std::min(kPortStep, room / static_cast<double>(free.size() - 1));
    for (size_t k = 0; k < free.size(); ++k)
      pieces_[static_cast<size_t>(free[k].second)].to_x =
          step * (static_cast<double>(k) - static_cast<double>(free.size() - 1) / 2);
  }
}

LayeredLayout Ranking::result() {
  LayeredLayout layout;
  double least = 0, most = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    least = i == 0 ? items_[i].x - items_[i].left : std::min(least, items_[i].x - items_[i].left);
    most = i == 0 ? items_[i].x + items_[i].right : std::max(most, items_[i].x + items_[i].right);
  }
  std::vector<double> tops, bottoms;
  double y = 0;
  for (size_t r = 0; r < rows_.size(); ++r) {
    double height = 0, below = 0, reach = 0;
    for (const int i : rows_[r]) {
      if (item(i).node >= 0) {
        height = std::max(height, node(item(i).node).height);
        below = std::max(below, node(item(i).node).below);
      }
      for (const int p : lower_[static_cast<size_t>(i)]) {
        const Piece& piece = pieces_[static_cast<size_t>(p)];
        reach = std::max(reach, std::abs(item(piece.to).x + piece.to_x - item(i).x - piece.from_x));
      }
    }
    tops.push_back(y);
    bottoms.push_back(y + height);
    // Lines that go far to the side get room to do so.
    y += height + (r + 1 < rows_.size() ? below + std::clamp(reach / 12 - 8, 0.0, 60.0) : 0);
  }
  layout.width = most - least;
  layout.height = y;
  for (size_t i = 0; i < graph_->nodes.size(); ++i)
    layout.nodes.push_back({items_[i].x - least, tops[static_cast<size_t>(items_[i].rank)]});
  for (const auto& ways : ways_) {
    layout.lines.emplace_back();
    std::vector<int> drawn;  // the longest way so far
    for (const std::vector<int>& way : ways) {
      std::vector<LayeredPoint> line;
      for (size_t k = 0; k < way.size(); ++k) {
        if (k < drawn.size() && way[k] == drawn[k]) continue;
        const Piece& piece = pieces_[static_cast<size_t>(way[k])];
        const Item &from = item(piece.from), &to = item(piece.to);
        const double x = from.x + piece.from_x - least;
        if (line.empty()) {
          // A node that is lower than its rank.
          const double above = tops[static_cast<size_t>(from.rank)];
          const double begin = from.node < 0 ? bottoms[static_cast<size_t>(from.rank)]
                                             : above + node(from.node).height;
          line.push_back({x, begin});
        }
        if (line.back().y < bottoms[static_cast<size_t>(from.rank)])
          line.push_back({x, bottoms[static_cast<size_t>(from.rank)]});
        line.push_back({to.x + piece.to_x - least, tops[static_cast<size_t>(to.rank)]});
      }
      if (way.size() > drawn.size()) drawn = way;
      layout.lines.back().push_back(std::move(line));
    }
  }
  return layout;
}

}  // namespace

LayeredLayout layered_layout(const LayeredGraph& graph) { return Ranking(graph).result(); }

}  // namespace crema
