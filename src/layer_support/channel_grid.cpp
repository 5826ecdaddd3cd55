#include "layer_support/channel_grid.hpp"

#include <algorithm>
#include <bit>

namespace crema {
namespace {

int64_t parts_of(int64_t count, int64_t part) { return (count + part - 1) / part; }

int64_t power_from(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(least, 1))));
}
int64_t power_below(int64_t most) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(most, 1))));
}

/// Pieces of a channel of which a thread reads `work` vectors, where `groups` blocks lie side by
/// side.
int64_t pieces_for(int64_t work, int64_t groups, const GridLimits& limits) {
  if (work <= limits.single) return 1;
  const int64_t room = int64_t{limits.multiprocessors} * limits.blocks;
  const int64_t wanted = std::max<int64_t>(room / std::max<int64_t>(groups, 1), 1);
  const int64_t most = parts_of(work, limits.least), least = parts_of(work, limits.most);
  // What does not run at once comes in whole turns, so that all end together.
  return least > wanted ? parts_of(least, wanted) * wanted : std::min(wanted, most);
}

}  // namespace

ChannelGrid::ChannelGrid(const ChannelMaps& maps, int vector_, bool aligned_,
                         const GridLimits& limits)
    : batch(maps.batch),
      outer(maps.view.outer),
      channels(maps.view.channels),
      inner(maps.view.inner),
      vector(vector_),
      aligned(aligned_) {
  rows() ? plan_rows(limits) : plan_planes(limits);
}

void ChannelGrid::plan_rows(const GridLimits& limits) {
  constexpr int64_t kMostWidth = 32;  // a warp reads 512 bytes that lie side by side
  aligned = aligned && channels % vector == 0;
  const int64_t vectors = parts_of(channels, vector);
  groups = parts_of(vectors, kMostWidth);
  width = static_cast<int>(std::max<int64_t>(parts_of(vectors, std::max<int64_t>(groups, 1)), 1));
  lines = kThreads / width;
  together = 1;
  const int64_t wanted = pieces_for(parts_of(outer, lines), groups * batch, limits);
  each = std::max<int64_t>(parts_of(parts_of(outer, wanted), lines), 1) * lines;
  pieces = std::max<int64_t>(parts_of(outer, each), 1);
}

void ChannelGrid::plan_planes(const GridLimits& limits) {
  // A thread reads some vectors of a plane, but neighbours read at least a line of the cache.
  constexpr int64_t kOfPlane = 8, kLine = 8;
  const int64_t vectors = parts_of(inner, vector);
  width = static_cast<int>(std::clamp<int64_t>(power_below(vectors / kOfPlane),
                                               std::min(kLine, power_from(vectors)), kThreads));
  const int64_t room = kThreads / width;
  lines = static_cast<int>(std::min(room, power_from(outer)));
  together = static_cast<int>(std::min(room / lines, power_from(channels)));
  groups = parts_of(channels, together);
  const int64_t of_plane = parts_of(vectors, width), planes = parts_of(outer, lines);
  const int64_t wanted = pieces_for(of_plane * planes, groups, limits);
  const int64_t across = std::min(wanted, std::max<int64_t>(planes, 1));
  each = std::max<int64_t>(parts_of(planes, across), 1) * lines;
  const int64_t ranges = std::max<int64_t>(parts_of(outer, each), 1);
  const int64_t of_segment = parts_of(of_plane, parts_of(wanted, ranges));
  segment = std::max<int64_t>(of_segment, 1) * width * vector;
  segments = std::max<int64_t>(parts_of(inner, segment), 1);
  pieces = ranges * segments;
}

}  // namespace crema
