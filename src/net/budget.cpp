// Chooses the nodes whose tops are dropped after forward, so that the planned memory fits
// NetOptions::memory_budget.
//
// A candidate is a node whose tops backward reads. To drop it costs the seconds of its forward
// pass, and of those nodes before it whose tops backward does not read: their tops would have to be
// kept otherwise. Candidates are dropped in the order of seconds a byte: cheap layers such as
// BatchNorm and ReLU first, convolutions last.
//
// A chain of dropped nodes is computed again at once, and all its tops are there together. So the
// net is cut into parts: all values that cross a cut are kept. A cut is where the fewest bytes
// cross.
//
// The pass plans the memory for several numbers of parts and of candidates, and takes the fastest
// plan that fits. If none fits, it changes single candidates of the smallest plan as long as that
// saves memory. In the end it keeps the tops of single candidates again, as long as the plan fits.
// All choices follow from the shapes and the seconds of the options.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/memory_error.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

/// Bytes and operations a second of layers that were not measured. Only the order of magnitude
/// matters.
constexpr double kBytesRate = 12e9, kFlopsRate = 50e9;

/// The numbers of parts and the shares of the candidates (in eighths) to plan for.
constexpr size_t kParts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr size_t kShares = 8;

/// Rounded up, so that a budget of that size is enough.
std::string size_text(size_t bytes) {
  const bool small = bytes < 1'000'000;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s",
                std::ceil(static_cast<double>(bytes) / (small ? 1e2 : 1e5)) / 10,
                small ? "kB" : "MB");
  return text;
}

/// What the prototxt asks for.
void drop_as_asked(Program& program) {
  for (const NodeId id : program.order) {
    ProgramNode& node = program[id];
    node.dropped = !node.is_conversion() && node.node->recompute;
  }
}

class Budget {
 public:
  Budget(Plan& plan, Program& program)
      : plan_(plan), program_(program), budget_(plan.options.memory_budget) {
    for (size_t k = 0; k < program_.order.size(); ++k) place_[program_.order[k]] = k;
    fixed_ = program_.memory.parameters + program_.memory.engines +
             plan.arena.data().bytes() * static_cast<size_t>(plan.options.parameter_copies);
  }

  void run() {
    measure_nodes();
    const std::vector<bool> none(program_.order.size(), false);
    const Trial plain = attempt(none, none);
    if (plain.bytes <= budget_) {
      return say(text(size_text(plain.bytes), " are planned, so nothing is dropped for it"));
    }
    find_candidates();
    find_cuts();
    std::optional<Trial> best;
    Trial least = plain;
    for (const size_t parts : kParts) {
      if (parts > candidates_.size()) break;
      const std::vector<bool> kept = kept_by_cuts(parts);
      for (size_t share = 1; share <= kShares; ++share) {
        std::vector<bool> chosen = none;
        for (size_t c = 0; c < candidates_.size() * share / kShares; ++c) {
          if (!kept[candidates_[c]]) chosen[candidates_[c]] = true;
        }
        Trial trial = attempt(std::move(chosen), kept);
        if (trial.bytes < least.bytes) least = trial;
        if (trial.bytes > budget_) continue;
        if (!best || trial.seconds < best->seconds) best = std::move(trial);
      }
    }
    if (!best) {
      squeeze(least);
      if (least.bytes > budget_) refuse(plain.bytes, least.bytes);
      best = std::move(least);
    }
    keep_again(*best);
    apply(*best);
    say(text(size_text(best->bytes), " are planned instead of ", size_text(plain.bytes),
             ": the tops of ", best->again, " of ", program_.order.size(),
             " steps are dropped and computed again, for about ",
             std::lround(100 * (best->seconds - plain.seconds) / total_seconds_), "% more time"));
  }

 private:
  /// A choice of candidates, by their place in Program::order, and what it leads to.
  struct Trial {
    std::vector<bool> chosen;
    std::vector<bool> kept;  // what no chosen candidate may drop along with it
    size_t bytes = 0;        // planned in all
    size_t again = 0;        // nodes that are computed again
    double seconds = 0;      // of these
  };

  ProgramNode& at(size_t k) { return program_[program_.order[k]]; }

  Trial attempt(std::vector<bool> chosen, std::vector<bool> kept) {
    Trial trial{.chosen = std::move(chosen), .kept = std::move(kept)};
    apply(trial);
    make_schedule(plan_, program_);
    try_memory(plan_, program_);
    trial.bytes = fixed_ + program_.memory.activations;
    for (const Action& action : program_.backward) {
      if (!action.again) continue;
      ++trial.again;
      trial.seconds += seconds_.at(action.node);
    }
    return trial;
  }

  void apply(const Trial& trial) {
    drop_as_asked(program_);
    for (size_t k = 0; k < trial.chosen.size(); ++k) {
      if (!trial.chosen[k]) continue;
      for (const size_t other : along_[k]) {
        if (!trial.kept[other]) at(other).dropped = true;
      }
    }
  }

  /// Sets the seconds of a forward pass of each node.
  void measure_nodes() {
    for (const NodeId id : program_.order) {
      const ProgramNode& node = program_[id];
      const Flops flops = node.layer->flops(program_.blobs(node.reads), program_.blobs(node.makes));
      double bytes = 0;
      for (const Blob* blob : program_.blobs(node.reads))
        bytes += static_cast<double>(blob->data.bytes());
      for (const Blob* blob : program_.blobs(node.makes))
        bytes += static_cast<double>(blob->data.bytes());
      // Backward takes about twice the time of forward.
      const double both = node.needs_backward ? 3 : 1;
      double forward = bytes / kBytesRate + flops.forward / kFlopsRate;
      if (node.option.seconds > 0) {
        const bool counts = node.needs_backward && flops.forward > 0 && flops.backward > 0;
        forward = node.option.seconds *
                  (counts ? flops.forward / (flops.forward + flops.backward) : 1 / both);
      }
      seconds_[id] = forward;
      total_seconds_ += node.option.seconds > 0 ? node.option.seconds : forward * both;
    }
  }

  /// Whether a second forward pass may make the tops of the node.
  bool may_drop(const ProgramNode& node) const {
    return !node.is_conversion() && node.needs_backward && !node.follows_values &&
           !node.layer->is_source() && node.layer->top_shapes() == TopShapes::fixed &&
           !node.makes.empty() && std::ranges::none_of(node.node->tops, [&](ValueId top) {
             return program_[top].reserved || plan_.graph->has_late_shape(top);
           });
  }

  /// Sets the candidates, in the order of seconds a byte, and what is dropped along with each. The
  /// schedule is that without dropped nodes.
  void find_candidates() {
    IdVector<ValueId, bool> stored(program_.values.size(), false);
    for (const NodeId id : program_.order) {
      const ProgramNode& node = program_[id];
      if (!node.needs_backward) continue;
      const BackwardReads reads = node.kernel->backward_reads();
      for (size_t i = 0; i < node.reads.size(); ++i) {
        if (reads.bottom_data[i]) stored[node.reads[i]] = true;
      }
      for (size_t t = 0; t < node.makes.size(); ++t) {
        if (reads.top_data[t]) stored[node.makes[t]] = true;
      }
    }
    const size_t count = program_.order.size();
    bytes_.assign(count, 0);
    for (const ValueId id : IdRange<ValueId>(program_.values.size())) {
      const ProgramValue& value = program_[id];
      if (stored[id] && !value.fused_away)
        bytes_[place_.at(value.producer)] += value.blob->data.bytes();
    }
    along_.assign(count, {});
    std::vector<double> rates(count, 0);
    for (size_t k = 0; k < count; ++k) {
      if (!may_drop(at(k))) continue;
      along_[k] = {k};
      for (const ValueId read : at(k).reads) {
        const size_t maker = place_.at(program_[read].producer);
        if (bytes_[maker] == 0) along_[k].insert(along_[maker].begin(), along_[maker].end());
      }
      if (bytes_[k] == 0) continue;
      candidates_.push_back(k);
      for (const size_t other : along_[k]) rates[k] += seconds_.at(program_.order[other]);
      rates[k] /= static_cast<double>(bytes_[k]);
    }
    std::ranges::stable_sort(candidates_, {}, [&](size_t k) { return rates[k]; });
  }

  /// Sets what crosses the place behind each node: values that may be dropped and are read later.
  void find_cuts() {
    const size_t count = program_.order.size();
    crossing_.assign(count, {});
    for (size_t k = 0; k < count; ++k) {
      if (along_[k].empty()) continue;
      size_t last = k;
      for (const ProgramValue& value : program_.values) {
        if (value.producer != program_.order[k]) continue;
        for (const Use& use : value.readers) last = std::max(last, place_.at(use.node));
      }
      for (size_t cut = k; cut < last; ++cut) crossing_[cut].push_back(k);
    }
  }

  /// The nodes whose tops cross a cut, if there are `parts` parts of about the same bytes.
  std::vector<bool> kept_by_cuts(size_t parts) {
    const size_t count = program_.order.size();
    std::vector<double> behind(count);  // bytes up to each node
    std::partial_sum(bytes_.begin(), bytes_.end(), behind.begin());
    std::vector<bool> kept(count, false);
    const double part = behind.back() / static_cast<double>(parts);
    for (size_t i = 1; i < parts; ++i) {
      std::pair<double, double> least = {std::numeric_limits<double>::infinity(), 0};
      size_t best = count;
      for (size_t k = 0; k < count; ++k) {
        const double distance = std::abs(behind[k] - part * static_cast<double>(i));
        if (along_[k].empty() || bytes_[k] == 0 || distance > part / 2) continue;
        double bytes = 0;
        for (const size_t other : crossing_[k]) bytes += static_cast<double>(tops_bytes(other));
        if (std::pair(bytes, distance) >= least) continue;
        least = {bytes, distance};
        best = k;
      }
      if (best == count) continue;
      for (const size_t other : crossing_[best]) kept[other] = true;
    }
    return kept;
  }

  size_t tops_bytes(size_t k) {
    size_t bytes = 0;
    for (const Blob* blob : program_.blobs(at(k).makes)) bytes += blob->data.bytes();
    return bytes;
  }

  /// Changes the choice of single candidates until the plan fits, or no change saves memory.
  void squeeze(Trial& best) {
    for (bool better = true; better;) {
      better = false;
      for (const size_t k : candidates_) {
        if (best.bytes <= budget_) return;
        Trial trial = best;
        trial.chosen[k] = !trial.chosen[k];
        trial.kept[k] = !trial.chosen[k];
        trial = attempt(std::move(trial.chosen), std::move(trial.kept));
        if (std::pair(trial.bytes, trial.seconds) >= std::pair(best.bytes, best.seconds)) continue;
        best = std::move(trial);
        better = true;
      }
    }
  }

  /// Keeps the tops of candidates again, the most expensive ones first, as long as the plan fits.
  void keep_again(Trial& best) {
    for (size_t c = candidates_.size(); c-- > 0;) {
      const size_t k = candidates_[c];
      if (!best.chosen[k]) continue;
      std::vector<bool> chosen = best.chosen;
      chosen[k] = false;
      Trial trial = attempt(std::move(chosen), best.kept);
      if (trial.bytes <= budget_ && trial.seconds <= best.seconds) best = std::move(trial);
    }
  }

  void say(const std::string& what) {
    const std::string content = text("memory budget ", size_text(budget_), ": ", what);
    // One note, not one for each set of shapes.
    if (plan_.programs.empty()) plan_.note(content);
  }

  [[noreturn]] void refuse(size_t plain, size_t least) const {
    throw MemoryError(
        "the memory budget of ", size_text(budget_), " is too small for the net, which needs ",
        size_text(plain),
        plan_.options.keep_all ? std::string(", and keep_all lets it drop nothing")
        : plan_.trains
            ? text(size_text(least) == size_text(plain) ? "" : text(", or ", size_text(least)),
                   " in the smallest plan found, with tops that are dropped and computed again")
            : std::string(" and does not train, so that nothing is kept for backward"),
        "; ", size_text(fixed_),
        " of it are not activations; use a smaller batch, or a larger budget");
  }

  Plan& plan_;
  Program& program_;
  size_t budget_;
  size_t fixed_ = 0;                  // bytes of all but activations
  std::map<NodeId, size_t> place_;    // in Program::order
  std::map<NodeId, double> seconds_;  // of a forward pass
  double total_seconds_ = 0;          // of both passes of all nodes
  // By the place in Program::order:
  std::vector<size_t> bytes_;            // of the tops that backward reads
  std::vector<std::set<size_t>> along_;  // what is dropped together; empty if it may not be dropped
  std::vector<std::vector<size_t>> crossing_;
  std::vector<size_t> candidates_;
};

}  // namespace

void choose_dropped(Plan& plan, Program& program) {
  drop_as_asked(program);
  if (plan.options.memory_budget > 0) Budget(plan, program).run();
}

}  // namespace crema
