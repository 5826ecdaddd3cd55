// Liveness, and one arena for all that need not last.
//
// Time runs through the forward steps and then, backwards, through the backward ones. A buffer (the
// data of a value, its diff, or the diff that one reader of several writes) lives from the step
// that makes it to the last that reads it. Buffers that a layer may pass through in place become
// one. Then each gets the lowest place in the arena that is free during its life, large ones first.
#include <algorithm>
#include <set>
#include <utility>

#include "net/plan.hpp"

namespace crema {
namespace {

constexpr size_t kAlignment = 256;

struct Buffer {
  size_t bytes = 0;
  int first = 0, last = -1;  // steps; last < first: not needed
  bool reserved = false;     // own memory, outlives the pass
  std::vector<Tensor*> tensors;
};

class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan) {
    steps_ = static_cast<int>(plan.order.size());
    step_of_.assign(plan.nodes.size(), -1);
    for (int k = 0; k < steps_; ++k) step_of_[static_cast<size_t>(plan.order[k])] = k;
  }

  void run() {
    connect();
    add_data();
    if (plan_.trains) add_diffs();
    pass_through();
    place();
  }

 private:
  int forward_step(int node) const { return step_of_[static_cast<size_t>(node)]; }
  int backward_step(int node) const { return 2 * steps_ - 1 - forward_step(node); }
  int end() const { return 2 * steps_; }

  /// Who reads what, after fusion and conversions; blobs of their own for all readers but the last.
  void connect() {
    for (auto& value : plan_.values) value->uses.clear();
    for (int id : plan_.order) {
      Node& node = plan_.node(id);
      for (size_t i = 0; i < node.bottoms.size(); ++i) {
        plan_.value(node.bottoms[i]).uses.push_back({id, static_cast<int>(i)});
        node.bottom_blobs[i] = &plan_.value(node.bottoms[i]).blob;
        node.edges[i].reset();
      }
      node.sums.clear();
    }
    for (auto& value : plan_.values) {
      bool last = true;  // in order of computation: the first that backward meets
      value->has_gradient = false;
      GradientSum sum{&value->blob, {}};
      int latest = -1;  // node that made the latest part
      const auto close_sum = [&] {
        if (sum.from.empty()) return;
        for (const Blob* part : sum.from) summed_at_[part] = backward_step(latest);
        plan_.node(latest).sums.push_back(std::exchange(sum, {&value->blob, {}}));
      };
      for (size_t u = value->uses.size(); u-- > 0;) {
        const Use use = value->uses[u];
        Node& node = plan_.node(use.node);
        const auto bottom = static_cast<size_t>(use.bottom);
        if (!node.needs_backward || !node.propagate[bottom]) continue;
        value->has_gradient = true;
        if (!last) {
          node.edges[bottom] = std::make_unique<Blob>(value->blob);
          node.edges[bottom]->data.unbind();
          node.edges[bottom]->diff.unbind();
          node.bottom_blobs[bottom] = node.edges[bottom].get();
          sum.from.push_back(node.edges[bottom].get());
          latest = use.node;
          if (sum.from.size() == GradientSum::kMost) close_sum();
        }
        last = false;
      }
      close_sum();
      if (!value->gone && plan_.node(value->producer).needs_backward) value->has_gradient = true;
      value->reserved = plan_.shows(*value);
      const bool written = !last;
      if (value->loss_weight != 0) {
        value->seed = written ? Seed::add_weight : Seed::weight;
      } else {
        value->seed = written || value->is_output ? Seed::none : Seed::zero;
      }
    }
  }

  int add(size_t bytes, int first, int last, bool reserved, Tensor* tensor) {
    buffers_.push_back({bytes, first, last, reserved, {tensor}});
    parent_.push_back(static_cast<int>(parent_.size()));
    return static_cast<int>(buffers_.size()) - 1;
  }

  void add_data() {
    data_.assign(plan_.values.size(), -1);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      Value& value = *plan_.values[v];
      if (value.gone) continue;
      int last = forward_step(value.producer);
      for (const Use& use : value.uses) {
        Node& node = plan_.node(use.node);
        last = std::max(last, forward_step(use.node));
        if (node.needs_backward && node.layer->backward_reads().bottom_data) {
          last = std::max(last, backward_step(use.node));
        }
      }
      const Node& producer = plan_.node(value.producer);
      if (producer.needs_backward && producer.layer->backward_reads().top_data) {
        last = std::max(last, backward_step(value.producer));
      }
      data_[v] = add(value.blob.data.bytes(), forward_step(value.producer),
                     value.reserved ? end() : last, value.reserved, &value.blob.data);
      for (const Use& use : value.uses) {
        Node& node = plan_.node(use.node);
        if (auto& edge = node.edges[static_cast<size_t>(use.bottom)]) {
          buffers_.back().tensors.push_back(&edge->data);
        }
      }
    }
  }

  void add_diffs() {
    diff_.assign(plan_.values.size(), -1);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      Value& value = *plan_.values[v];
      if (value.gone || !value.has_gradient) continue;
      const Node& producer = plan_.node(value.producer);
      const int produced = backward_step(value.producer);
      int first = produced, last = producer.needs_backward ? produced : 0;
      for (const Use& use : value.uses) {
        const Node& node = plan_.node(use.node);
        if (!node.needs_backward || !node.propagate[static_cast<size_t>(use.bottom)]) continue;
        first = std::min(first, backward_step(use.node));
        last = std::max(last, backward_step(use.node));
      }
      diff_[v] = add(value.blob.diff.bytes(), first, value.reserved ? end() : last, value.reserved,
                     &value.blob.diff);
      for (const Use& use : value.uses) {
        Node& node = plan_.node(use.node);
        auto& edge = node.edges[static_cast<size_t>(use.bottom)];
        if (!edge) continue;
        edges_[{use.node, use.bottom}] =
            add(edge->diff.bytes(), backward_step(use.node), summed_at_.at(edge.get()),
                plan_.options.keep_all, &edge->diff);
      }
    }
  }

  int find(int b) {
    while (parent_[static_cast<size_t>(b)] != b) b = parent_[static_cast<size_t>(b)];
    return b;
  }
  Buffer& root(int b) { return buffers_[static_cast<size_t>(find(b))]; }

  void merge(int a, int b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    Buffer& into = buffers_[static_cast<size_t>(a)];
    Buffer& from = buffers_[static_cast<size_t>(b)];
    parent_[static_cast<size_t>(b)] = a;
    into.first = std::min(into.first, from.first);
    into.last = std::max(into.last, from.last);
    into.reserved = into.reserved || from.reserved;
    into.tensors.insert(into.tensors.end(), from.tensors.begin(), from.tensors.end());
    from.tensors.clear();
  }

  void pass_through() {
    for (int id : plan_.order) {
      Node& node = plan_.node(id);
      if (node.is_conversion || node.bottoms.empty() || node.tops.empty()) continue;
      const InPlace kind = node.layer->in_place();
      if (kind == InPlace::never) continue;
      pass_data(id, node, kind);
      if (plan_.trains && node.needs_backward && node.tops.size() == 1) pass_diff(id, node);
    }
    if (repaired_.empty()) return;
    std::string others;
    for (size_t i = 1; i < repaired_.size(); ++i)
      others += " '" + repaired_[i]->layer->name() + "'";
    plan_.note(concat("layer '", repaired_[0]->layer->name(), "' runs in place on '",
                      plan_.value(repaired_[0]->bottoms[0]).name,
                      "', but what was there is needed again: it gets a buffer of its own",
                      others.empty() ? "" : "; so do" + others));
  }

  void pass_data(int id, const Node& node, InPlace kind) {
    const int bottom = data_[static_cast<size_t>(node.bottoms[0])];
    for (size_t t = 0; t < node.tops.size(); ++t) {
      const int top = data_[static_cast<size_t>(node.tops[t])];
      if (root(top).bytes != root(bottom).bytes) continue;
      if (kind == InPlace::alias) {
        merge(bottom, top);
        continue;
      }
      if (t > 0) continue;
      if (!root(bottom).reserved && !root(top).reserved && root(bottom).last <= forward_step(id)) {
        merge(bottom, top);
      } else if (asked_in_place(node) && !plan_.options.keep_all && !root(top).reserved) {
        repaired_.push_back(&node);
      }
    }
  }

  bool asked_in_place(const Node& node) const {
    return plan_.value(node.bottoms[0]).name == plan_.value(node.tops[0]).name;
  }

  void pass_diff(int id, const Node& node) {
    if (!node.propagate[0]) return;
    const int top = diff_[static_cast<size_t>(node.tops[0])];
    const auto edge = edges_.find({id, 0});
    const int bottom =
        edge != edges_.end() ? edge->second : diff_[static_cast<size_t>(node.bottoms[0])];
    if (top < 0 || bottom < 0) return;
    Buffer& from = root(top);
    Buffer& into = root(bottom);
    // The bottom's diff must be born here: a gradient that other readers left there would be lost.
    const bool born_here = into.first == backward_step(id);
    if (from.reserved || into.reserved || from.bytes != into.bytes || !born_here ||
        from.last > backward_step(id)) {
      return;
    }
    merge(bottom, top);
  }

  void place() {
    std::vector<int> movable;
    plan_.memory.activations_unshared = 0;
    plan_.memory.reserved = 0;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      plan_.memory.activations_unshared += buffers_[b].bytes;
      if (find(static_cast<int>(b)) != static_cast<int>(b)) continue;
      if (buffers_[b].reserved) {
        reserve(buffers_[b]);
        plan_.memory.reserved += buffers_[b].bytes;
      } else {
        movable.push_back(static_cast<int>(b));
      }
    }
    std::stable_sort(movable.begin(), movable.end(), [&](int a, int b) {
      return buffers_[static_cast<size_t>(a)].bytes > buffers_[static_cast<size_t>(b)].bytes;
    });
    std::vector<size_t> offset(buffers_.size(), 0);
    std::vector<int> placed;  // by offset
    size_t total = 0;
    for (int b : movable) {
      const Buffer& buffer = buffers_[static_cast<size_t>(b)];
      size_t at = 0;
      for (int other : placed) {
        const Buffer& neighbour = buffers_[static_cast<size_t>(other)];
        if (neighbour.last < buffer.first || buffer.last < neighbour.first) continue;
        const size_t begin = offset[static_cast<size_t>(other)];
        if (at + buffer.bytes <= begin) break;
        at = std::max(at, round_up(begin + neighbour.bytes));
      }
      offset[static_cast<size_t>(b)] = at;
      total = std::max(total, round_up(at + buffer.bytes));
      placed.insert(std::upper_bound(placed.begin(), placed.end(), b,
                                     [&](int x, int y) {
                                       return offset[static_cast<size_t>(x)] <
                                              offset[static_cast<size_t>(y)];
                                     }),
                    b);
    }
    plan_.memory.activations = total + plan_.memory.reserved;
    if (total > 0 && (!plan_.activations || plan_.activations->bytes() < total)) {
      plan_.activations = std::make_shared<Memory>(total);
    }
    for (int b : movable) {
      const Buffer& buffer = buffers_[static_cast<size_t>(b)];
      if (buffer.bytes == 0) continue;
      auto piece =
          std::make_shared<Memory>(plan_.activations, offset[static_cast<size_t>(b)], buffer.bytes);
      for (Tensor* tensor : buffer.tensors) tensor->bind(piece);
    }
  }

  static size_t round_up(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  /// Memory of its own, kept over plans while it is large enough, so that what the caller wrote
  /// into an input stays. A piece is one of the arena, from a plan that did not reserve it; and
  /// what one buffer held in that plan may be two now.
  void reserve(Buffer& buffer) {
    std::shared_ptr<Memory> memory = buffer.tensors.front()->memory();
    if (!memory || memory->is_piece() || memory->bytes() < buffer.bytes ||
        !kept_.insert(memory.get()).second) {
      memory = std::make_shared<Memory>(buffer.bytes);
    }
    for (Tensor* tensor : buffer.tensors) tensor->bind(memory);
  }

  Plan& plan_;
  int steps_ = 0;
  std::vector<int> step_of_;
  std::vector<Buffer> buffers_;
  std::vector<int> parent_;
  std::vector<int> data_, diff_;
  std::map<std::pair<int, int>, int> edges_;
  std::map<const Blob*, int> summed_at_;  // the step until which an edge's diff is needed
  std::set<const Memory*> kept_;          // taken over from the plan before
  std::vector<const Node*> repaired_;     // asked to run in place, and may not
};

}  // namespace

bool Plan::shows(const Value& value) const {
  return options.keep_all || value.is_input || value.is_output || value.keep ||
         value.loss_weight != 0 || nodes[static_cast<size_t>(value.producer)].layer->is_source();
}

void plan_memory(Plan& plan) { Planner(plan).run(); }

}  // namespace crema
