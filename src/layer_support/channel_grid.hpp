// How the blocks of threads of a device share a map whose channels have sums or coefficients of
// their own (channel_blocks.hpp). All divisions are here and at the beginning of a block: the loops
// of threads add strides.
//
// Rows: the channels lie side by side (channels_last, matrices). A thread has a vector of
// neighbouring channels, `width` threads lie side by side, and `lines` rows are read at once.
//
// Planes: the values of a channel lie side by side (contiguous). `width` threads share a plane,
// `lines` planes of a channel are read at once, and `together` channels are of one block.
//
// The blocks of a channel are its pieces. A piece is of whole rows or of whole planes, or of a
// segment of each plane.
#pragma once

#include "backend/channel_view.hpp"

namespace crema {

/// A map of `batch` samples, each (outer, channels, inner). Channel c of sample n is number
/// n * channels + c. Several samples are for rows alone: where planes are of different samples,
/// they are different channels.
struct ChannelMaps {
  ChannelView view;
  int64_t batch = 1;

  CREMA_FUNCTOR int64_t count() const { return batch * view.channels; }
};

/// What pieces of a pass are measured by.
struct GridLimits {
  int multiprocessors = 1;  // of the device
  int blocks = 1;           // that run on one of them at once
  // Vectors that a thread reads of one operand: up to `single` there is one piece, and otherwise
  // about `least` at least and `most` at most.
  int64_t single, least, most;
};

struct ChannelGrid {
  static constexpr int kThreads = 256;  // of a block

  int64_t batch, outer, channels, inner;
  int vector;                         // elements of a vector
  bool aligned;                       // vectors can be read and written as such
  int width, lines, together;         // of threads; see above
  int64_t groups;                     // blocks side by side, of different channels
  int64_t pieces, each;               // pieces of a channel; rows or planes of a piece
  int64_t segments = 1, segment = 0;  // pieces of a plane, and the elements of each
  bool reversed = false;              // the last pieces first

  /// `aligned`: all operands begin at multiples of a vector.
  ChannelGrid(const ChannelMaps& maps, int vector, bool aligned, const GridLimits& limits);

  CREMA_FUNCTOR bool rows() const { return inner == 1; }
  CREMA_FUNCTOR int64_t count() const { return batch * channels; }
  CREMA_FUNCTOR int64_t blocks() const { return groups * pieces * (rows() ? batch : 1); }
  /// The first value of channel number i.
  CREMA_FUNCTOR int64_t origin(int64_t i) const {
    return batch == 1 ? i * inner : i / channels * outer * channels + i % channels;
  }

  /// What a block has.
  struct Place {
    int64_t group, piece, sample;
  };
  CREMA_FUNCTOR Place place(int64_t block) const {
    const int64_t rest = block / groups, sample = rest / pieces, piece = rest - sample * pieces;
    return {block - rest * groups, reversed ? pieces - 1 - piece : piece, sample};
  }

 private:
  void plan_rows(const GridLimits& limits);
  void plan_planes(const GridLimits& limits);
};

}  // namespace crema
