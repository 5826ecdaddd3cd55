// Asks the kernels whose tops a layer joins along the rows of memory whether they can write them
// where they are to be joined (core/row_ranges.hpp).
#include "core/row_ranges.hpp"

#include <algorithm>

#include "net/plan.hpp"

namespace crema {
namespace {

/// Of the beginnings and the lengths of rows: loads and stores of vectors need it, and plans of
/// libraries.
constexpr size_t kRowAlignment = 16;

/// The kernel that could write the value as a range; null if there is none.
WritesRanges* writer_of(const Plan& plan, const Program& program, ValueId id) {
  const ProgramValue& value = program[id];
  // Nobody else may look at the value or its diff.
  if (plan.shows(value) || value.loss_weight != 0 || !program.only_reader(id)) return nullptr;
  const ProgramNode& maker = program[value.maker];
  // Kernels of nodes whose shapes follow from values are made anew between passes.
  if (maker.follows_values || maker.layer->top_shapes() != TopShapes::fixed) return nullptr;
  return dynamic_cast<WritesRanges*>(maker.kernel.get());
}

}  // namespace

void offer_ranges(const Plan& plan, Program& program) {
  if (!plan.options.fuse || plan.options.keep_all || plan.debug_info) return;
  for (const NodeId id : program.order) {
    const ProgramNode& node = program[id];
    const auto* const joins = dynamic_cast<const JoinsRows*>(node.layer);
    if (joins == nullptr || node.follows_values || node.kernel->in_place() != InPlace::never)
      continue;
    const auto rows = static_cast<size_t>(joins->joined_rows());
    if (rows == 0) continue;
    const size_t stride = node.top_blobs[0]->data.bytes() / rows;
    size_t begin = 0;  // of the part in a row
    for (const ValueId read : node.reads) {
      const size_t bytes = program[read].blob->data.bytes() / rows;
      const bool is_aligned = (begin | bytes | stride) % kRowAlignment == 0;
      begin += bytes;
      WritesRanges* const writer = is_aligned ? writer_of(plan, program, read) : nullptr;
      if (writer == nullptr) continue;
      const ProgramNode& maker = program[program[read].maker];
      const auto top = std::ranges::find(maker.makes, read) - maker.makes.begin();
      program[read].may_be_range = in_node(maker, [&] {
        return writer->take_ranges(static_cast<size_t>(top), joins->joined_rows(), stride);
      });
    }
  }
}

}  // namespace crema
