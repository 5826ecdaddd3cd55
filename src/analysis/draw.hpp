// A net as a drawing: an SVG with a layout of its own, or a text in the language of Graphviz.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "crema/net.hpp"
#include "proto/net.pb.h"

namespace crema {

struct DrawOptions {
  std::string rankdir = "TB";  // direction of a graph for Graphviz: TB, LR, BT or RL
  /// Level, stages and phase of the layers to draw. None: layers of all phases.
  std::optional<NetOptions> state = {};
  /// The net built from the same message; adds shapes and which layers were fused. May be null.
  const Net* net = nullptr;
  /// Draws each of several equal blocks in a row, in place of the first one and their number.
  bool expand = false;
  /// How wide letters are, as a multiple of drawn_text_width(): more than 1 where a picture is made
  /// with other fonts than the first of kDrawnFonts.
  double letters = 1;
};

/// Of SVGs.
inline constexpr const char* kDrawnFonts = "Helvetica, Arial, 'Liberation Sans', sans-serif";
/// The width that an SVG leaves for a text.
double drawn_text_width(std::string_view text, double font);

/// Error unless it is TB, LR, BT or RL.
void check_direction(const std::string& rankdir);

/// The graph of the layers for Graphviz (analysis/net_drawing.hpp). Error for another direction.
std::string draw_net(const NetParameter& net, const DrawOptions& options);

/// The same graph from top to bottom as a picture that needs no other program. Its colours follow
/// the reader's light or dark scheme; printed, it fills a page. Equal nets give equal bytes.
std::string draw_net_as_svg(const NetParameter& net, const DrawOptions& options);

}  // namespace crema
