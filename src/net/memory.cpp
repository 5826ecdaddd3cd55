// Plans the memory of all tensors of a program.
//
// Time is the index of an action, over the forward pass and then the backward pass. Each tensor
// (the data of a value, its diff, or the diff of an edge) needs a buffer. The life of a buffer goes
// from the first action that uses it to the last. Buffers of layers that run in place are merged;
// those of the parts of a tensor become pieces of its buffer, or ranges of its rows
// (core/row_ranges.hpp). Reserved buffers have their own
// memory. All others are pieces of one arena: in the order of their size, largest first, each gets
// the lowest offset that is free during its life.
#include "core/memory.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/row_ranges.hpp"
#include "net/plan.hpp"

namespace crema {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kTensorAlignment = 64;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// A buffer and its life: the first and the last action that use it.
struct Living : Buffer {
  int first = 0, last = -1;
};

class Planner {
 public:
  Planner(const Plan& plan, Program& program) : plan_(plan), program_(program) {}

  /// The layers that are in place in the prototxt, but have separate memory here.
  const std::vector<const ProgramNode*>& repaired() const { return repaired_; }

  void run() {
    add_buffers();
    int time = 0;
    for (const Action& action : program_.forward) touch(action, time++);
    for (const Action& action : program_.backward) touch(action, time++);
    end_ = time;
    for (Living& buffer : buffers_) {
      if (buffer.reserved) buffer.last = end_;
    }
    // With keep_all, every tensor has its own memory.
    if (!plan_.options.keep_all) pass_through();
    place();
  }

 private:
  /// Makes a buffer for each tensor. Twins use the buffers of other tensors.
  void add_buffers() {
    for (ProgramValue& value : program_.values) {
      if (value.fused_away) continue;
      // With keep_all the caller may run parts of the net, so converted values are reserved too.
      const bool reserved = value.reserved || plan_.options.keep_all;
      add(&value.blob->data, reserved);
      if (plan_.trains && value.has_gradient) add(&value.blob->diff, reserved);
    }
    for (Twin& twin : program_.twins) {
      add_or_join(&twin.blob.data, twin.data);
      add_or_join(&twin.blob.diff, twin.diff);
    }
  }

  void add_or_join(Tensor* tensor, const Tensor* owner) {
    if (owner == nullptr) {
      add(tensor, plan_.options.keep_all);
    } else if (const auto known = of_.find(owner); known != of_.end()) {
      at(known->second).tensors.push_back({tensor});
      of_[tensor] = known->second;
    }
  }

  void add(Tensor* tensor, bool reserved) {
    Living buffer;
    buffer.bytes = tensor->bytes();
    buffer.reserved = reserved;
    buffer.first = std::numeric_limits<int>::max();
    buffer.tensors = {{tensor}};
    buffers_.push_back(std::move(buffer));
    inside_.push_back({static_cast<int>(inside_.size())});
    of_[tensor] = static_cast<int>(buffers_.size()) - 1;
  }

  void use(const Tensor& tensor, int time) {
    const auto found = of_.find(&tensor);
    if (found == of_.end()) return;
    Living& buffer = at(found->second);
    buffer.first = std::min(buffer.first, time);
    buffer.last = std::max(buffer.last, time);
  }

  void touch(const Action& action, int time) {
    const Accesses all = accesses_of(program_, action);
    for (const Tensor* tensor : all.reads) use(*tensor, time);
    for (const Tensor* tensor : all.writes) use(*tensor, time);
  }

  /// Where a tensor lies after merging: a buffer, and an offset in it in bytes.
  struct Place {
    int buffer = -1;  // -1: the tensor needs no memory
    size_t offset = 0;
  };

  Place find(int b) const {
    Place place{b};
    for (Place next = inside_[static_cast<size_t>(b)]; next.buffer != place.buffer;
         next = inside_[static_cast<size_t>(place.buffer)]) {
      place = {next.buffer, place.offset + next.offset};
    }
    return place;
  }
  Place find(const Tensor& tensor) const {
    const auto found = of_.find(&tensor);
    return found == of_.end() ? Place() : find(found->second);
  }
  Living& at(int b) { return buffers_[static_cast<size_t>(b)]; }
  Living& at(const Place& place) { return at(place.buffer); }
  /// Whether the tensor has a buffer that is not larger than the tensor.
  bool fills(const Tensor& tensor, const Place& place) {
    return place.buffer >= 0 && at(place).bytes == tensor.bytes();
  }

  /// Moves all tensors of buffer b to a place in another buffer.
  void merge(const Place& place, int b) {
    Living& into = at(place);
    Living& from = at(b);
    inside_[static_cast<size_t>(b)] = place;
    into.first = std::min(into.first, from.first);
    into.last = std::max(into.last, from.last);
    into.reserved = into.reserved || from.reserved;
    for (Buffer::Resident resident : from.tensors) {
      resident.offset += place.offset;
      into.tensors.push_back(resident);
    }
    from.tensors.clear();
  }

  /// For InPlace::parts: moves the buffers of the parts into that of the whole, one behind the
  /// other. Does nothing if one of them cannot move. `tensor` is &Blob::data or &Blob::diff;
  /// `may_hold(buffer)` tells whether the whole may take in parts, `may_move(buffer)` whether a
  /// part may leave its own buffer.
  template <class MayHold, class MayMove>
  void merge_parts(const Action& action, Tensor Blob::*tensor, const MayHold& may_hold,
                   const MayMove& may_move) {
    const bool joins = action.tops.size() == 1;
    const Tensor& whole = (joins ? action.tops : action.bottoms)[0]->*tensor;
    const std::vector<Blob*>& parts = joins ? action.bottoms : action.tops;
    const Place place = find(whole);
    if (place.buffer < 0 || !may_hold(at(place))) return;
    std::set<int> buffers = {place.buffer};
    std::vector<Place> places;
    size_t offset = place.offset;
    for (const Blob* part : parts) {
      const Place own = find(part->*tensor);
      // Kernels and libraries are faster on memory that is aligned.
      if (!fills(part->*tensor, own) || !buffers.insert(own.buffer).second || at(own).reserved ||
          offset % kTensorAlignment != 0 || !may_move(at(own))) {
        return;
      }
      places.push_back({place.buffer, offset});
      offset += (part->*tensor).bytes();
    }
    if (offset != place.offset + whole.bytes()) return;
    for (size_t k = 0; k < parts.size(); ++k) {
      merge(places[k], find(parts[k]->*tensor).buffer);
    }
  }

  /// The same for a layer that joins rows: parts that may be ranges of the whole's rows move, all
  /// others stay, and are copied.
  template <class MayHold, class MayMove>
  void merge_ranges(const Action& action, Tensor Blob::*tensor, const MayHold& may_hold,
                    const MayMove& may_move) {
    const ProgramNode& node = program_[action.node];
    const auto* const joins = dynamic_cast<const JoinsRows*>(node.layer);
    if (joins == nullptr || joins->joined_rows() == 0 || node.dropped || action.again) return;
    const Tensor& whole = action.tops[0]->*tensor;
    const Place place = find(whole);
    if (place.buffer < 0 || !may_hold(at(place))) return;
    const auto rows = static_cast<size_t>(joins->joined_rows());
    size_t next = place.offset;
    for (size_t i = 0; i < node.reads.size(); ++i) {
      const Tensor& part = action.bottoms[i]->*tensor;
      const Place own = find(part), here = {place.buffer, next};
      next += part.bytes() / rows;
      const ProgramValue& value = program_[node.reads[i]];
      if (!value.may_be_range || program_[value.maker].dropped || !fills(part, own) ||
          own.buffer == place.buffer || at(own).tensors.size() != 1 || at(own).reserved ||
          !may_move(at(own))) {
        continue;
      }
      at(own).tensors[0].rows = joins->joined_rows();
      at(own).tensors[0].row_stride = whole.bytes() / rows;
      merge(here, own.buffer);
      ranges_.insert(&part);
    }
  }

  void pass_through() {
    int time = 0;
    for (const Action& action : program_.forward) pass_data(action, time++);
    for (const Action& action : program_.backward) {
      if (action.kind == Action::Kind::forward) pass_data(action, time);
      if (action.kind == Action::Kind::backward) pass_diff(action, time);
      ++time;
    }
  }

  void pass_data(const Action& action, int time) {
    const ProgramNode& node = program_[action.node];
    if (node.is_conversion() || action.bottoms.empty() || node.follows_values) return;
    const InPlace kind = node.kernel->in_place();
    const auto any = [](const Living&) { return true; };
    if (kind == InPlace::never) return merge_ranges(action, &Blob::data, any, any);
    if (kind == InPlace::parts) return merge_parts(action, &Blob::data, any, any);
    const size_t in_place = node.layer->in_place_bottom();
    const Blob& source = *action.bottoms[in_place];
    // What a layer adds may be what it computes from, too.
    for (size_t i = 0; i < in_place; ++i) {
      if (find(action.bottoms[i]->data).buffer == find(source.data).buffer) return;
    }
    for (size_t t = 0; t < action.tops.size(); ++t) {
      const Tensor& data = action.tops[t]->data;
      const Place bottom = find(source.data), top = find(data);
      if (bottom.buffer == top.buffer || !fills(data, top) || data.bytes() != source.data.bytes()) {
        continue;
      }
      if (kind == InPlace::alias) {
        merge(bottom, top.buffer);
        continue;
      }
      if (t > 0) continue;
      if (!at(bottom).reserved && !at(top).reserved && at(bottom).last <= time) {
        merge(bottom, top.buffer);
      } else if (!action.again && asked_in_place(node) && !at(top).reserved &&
                 fills(source.data, bottom)) {
        repaired_.push_back(&node);
      }
    }
  }

  bool asked_in_place(const ProgramNode& node) const {
    const size_t bottom = node.layer->in_place_bottom();
    return program_[node.reads[bottom]].name == program_[node.makes[0]].name;
  }

  void pass_diff(const Action& action, int time) {
    const ProgramNode& node = program_[action.node];
    if (node.is_conversion() || action.bottoms.empty()) return;
    const InPlace kind = node.kernel->in_place();
    // This action must be the first use of a bottom's diff: a part of the gradient that another
    // reader wrote there would be overwritten. It must be the last use of a top's diff.
    const auto begins = [&](const Living& bottom) {
      return !bottom.reserved && bottom.first == time;
    };
    const auto ends = [&](const Living& top) { return !top.reserved && top.last <= time; };
    if (kind == InPlace::parts) {
      // Parts whose sizes are known during forward only have no fixed places in the whole.
      const bool all = std::ranges::find(node.propagate, false) == node.propagate.end();
      if (node.follows_values || !all) return;
      return action.tops.size() == 1 ? merge_parts(action, &Blob::diff, ends, begins)
                                     : merge_parts(action, &Blob::diff, begins, ends);
    }
    if (kind == InPlace::never) return merge_ranges(action, &Blob::diff, ends, begins);
    const size_t source = node.layer->in_place_bottom();
    if (action.tops.size() != 1 || !node.propagate[source]) return;
    const Tensor &dy = action.tops[0]->diff, &dx = action.bottoms[source]->diff;
    const Place top = find(dy), bottom = find(dx);
    if (top.buffer < 0 || !fills(dx, bottom) || top.buffer == bottom.buffer ||
        dx.bytes() != dy.bytes() || ranges_.contains(&dy) || !begins(at(bottom)) ||
        !ends(at(top))) {
      return;
    }
    merge(top, bottom.buffer);
  }

  void place() {
    MemoryPlan& memory = program_.memory;
    memory.activations_unshared = memory.reserved = 0;
    program_.buffers.clear();
    std::vector<int> movable;
    for (size_t b = 0; b < buffers_.size(); ++b) {
      memory.activations_unshared += buffers_[b].bytes;
      if (find(static_cast<int>(b)).buffer != static_cast<int>(b)) continue;
      if (buffers_[b].reserved) {
        memory.reserved += buffers_[b].bytes;
        program_.buffers.push_back(buffers_[b]);
      } else {
        movable.push_back(static_cast<int>(b));
      }
    }
    std::ranges::stable_sort(movable, std::greater(), [&](int b) { return at(b).bytes; });
    std::vector<int> placed;  // by offset
    size_t total = 0;
    for (int b : movable) {
      Living& buffer = at(b);
      size_t offset = 0;
      for (int other : placed) {
        const Living& neighbour = at(other);
        if (neighbour.last < buffer.first || buffer.last < neighbour.first) continue;
        if (offset + buffer.bytes <= neighbour.offset) break;
        offset = std::max(offset, round_up(neighbour.offset + neighbour.bytes));
      }
      buffer.offset = offset;
      total = std::max(total, round_up(offset + buffer.bytes));
      const auto offset_of = [&](int other) { return at(other).offset; };
      placed.insert(std::ranges::upper_bound(placed, offset, {}, offset_of), b);
    }
    for (int b : movable) program_.buffers.push_back(at(b));
    program_.arena_bytes = total;
    memory.activations = total + memory.reserved;
  }

  const Plan& plan_;
  Program& program_;
  int end_ = 0;
  std::vector<Living> buffers_;
  std::vector<Place> inside_;  // where each buffer was merged into; itself if it was not
  std::map<const Tensor*, int> of_;
  std::set<const Tensor*> ranges_;  // of the rows of others
  std::vector<const ProgramNode*> repaired_;
};

}  // namespace

bool Plan::shows(const ValueInfo& value) const {
  if (value.fused_away) return false;
  return options.keep_all || value.is_input || value.is_output || value.keep ||
         value.loss_weight != 0 || node(value.producer).layer->is_source();
}

void plan_memory(Plan& plan, Program& program) {
  Planner planner(plan, program);
  planner.run();
  const std::vector<const ProgramNode*>& repaired = planner.repaired();
  if (repaired.empty()) return;
  constexpr size_t kNamed = 4;
  std::string others;
  for (size_t i = 1; i < std::min(repaired.size(), kNamed); ++i) {
    others += " '" + repaired[i]->layer->name() + "'";
  }
  if (repaired.size() > kNamed) others += text(" and ", repaired.size() - kNamed, " more");
  plan.note(text("layer '", repaired[0]->layer->name(), "' runs in place on '",
                 program[repaired[0]->reads[repaired[0]->layer->in_place_bottom()]].name,
                 "', but its bottom is read again later: it gets a separate buffer",
                 others.empty() ? "" : "; so do" + others));
}

void try_memory(const Plan& plan, Program& program) { Planner(plan, program).run(); }

void bind_memory(Plan& plan, Program& program) {
  if (program.arena_bytes > 0 &&
      (!plan.activation_arena || plan.activation_arena->bytes() < program.arena_bytes)) {
    plan.activation_arena = std::make_shared<Memory>(program.arena_bytes);
  }
  std::set<const Memory*> taken;
  for (const Buffer& buffer : program.buffers) {
    std::shared_ptr<Memory> memory;
    if (buffer.reserved) {
      // A reserved buffer keeps its memory when the program changes, if it is large enough: the
      // caller may have written an input already. A piece of the arena is not kept. Nor is memory
      // that another buffer of this program has taken: two tensors may have shared it before.
      memory = buffer.tensors.front().tensor->memory();
      if (!memory || memory->is_piece() || memory->bytes() < buffer.bytes ||
          !taken.insert(memory.get()).second) {
        memory = std::make_shared<Memory>(buffer.bytes);
      }
    } else if (buffer.bytes > 0) {
      memory = std::make_shared<Memory>(plan.activation_arena, buffer.offset, buffer.bytes);
    }
    for (const Buffer::Resident& resident : buffer.tensors) {
      if (!memory) continue;
      if (resident.row_stride == 0) {
        resident.tensor->bind(memory, resident.offset);
      } else {
        resident.tensor->bind_rows(memory, resident.offset, resident.rows, resident.row_stride);
      }
    }
  }
}

}  // namespace crema
