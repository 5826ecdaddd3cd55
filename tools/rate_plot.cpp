#include "tools/rate_plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "core/xml.hpp"
#include "monitor/report/charts.hpp"
#include "tools/text.hpp"

namespace crema::tools {
namespace {

using Step = RateCurve::Step;

/// "1e-07", "0.0032".
std::string rate_word(double rate) {
  char said[32];
  std::snprintf(said, sizeof said, "%.2g", rate);
  return said;
}

/// "2.5", "40".
std::string tick_word(double loss) {
  char said[32];
  std::snprintf(said, sizeof said, "%.4g", loss);
  return said;
}

/// The losses that the curve shows: from the least to the greatest one before it, with some room.
std::pair<double, double> shown_losses(const RateCurve& curve) {
  const auto least = std::ranges::min_element(curve.steps, {}, &Step::smoothed);
  double top = least->smoothed;
  for (auto step = curve.steps.begin(); step <= least; ++step) top = std::max(top, step->smoothed);
  const double room =
      top > least->smoothed ? 0.1 * (top - least->smoothed) : std::max(0.1 * std::fabs(top), 1e-6);
  return {least->smoothed - room, top + room};
}

/// From 0 at the first rate to 1 at the last.
double place_of(const RateCurve& curve, double rate) {
  const double first = std::log(curve.steps.front().rate), last = std::log(curve.steps.back().rate);
  return std::clamp((std::log(rate) - first) / (last - first), 0.0, 1.0);
}

constexpr double kWidth = 720, kHeight = 360, kLeft = 64, kRight = 24, kTop = 56, kBottom = 56;

constexpr const char* kRateStyle = R"(<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328 }
.paper { fill: #ffffff } .grid { stroke: #d0d7de; stroke-width: 1; fill: none }
.title { font-size: 15px; font-weight: 600 } .faint { fill: #59636e }
.loss { fill: #8c959f } .line { stroke: #0969da; stroke-width: 2; fill: none }
.mark { stroke: #cf222e; stroke-width: 1; stroke-dasharray: 4 3 } .word { fill: #cf222e }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .paper { fill: #0d1117 } .grid { stroke: #30363d } .faint { fill: #9198a1 }
.loss { fill: #6e7681 } .line { stroke: #388bfd } .mark { stroke: #f85149 } .word { fill: #f85149 }
}
</style>
)";

std::string fixed(double value) {
  char said[32];
  std::snprintf(said, sizeof said, "%.1f", value);
  return said;
}

/// The axes and the places of values on them.
class RateDrawing {
 public:
  explicit RateDrawing(const RateCurve& curve) : curve_(curve), range_(shown_losses(curve)) {}

  double x(double rate) const { return kLeft + place_of(curve_, rate) * (kWidth - kLeft - kRight); }
  bool has(double loss) const { return loss >= range_.first && loss <= range_.second; }
  double y(double loss) const { return place(loss, 0); }

  std::string axes() const {
    std::string out;
    const double bottom = kHeight - kBottom;
    const double first = curve_.steps.front().rate, last = curve_.steps.back().rate;
    for (double rate = std::pow(10, std::ceil(std::log10(first) - 1e-9)); rate <= last * 1.0001;
         rate *= 10) {
      out +=
          text("<path class=\"grid\" d=\"M", fixed(x(rate)), ' ', fixed(kTop), 'V', fixed(bottom),
               "\"/><text class=\"faint\" text-anchor=\"middle\" x=\"", fixed(x(rate)), "\" y=\"",
               fixed(bottom + 18), "\">", rate_word(rate), "</text>\n");
    }
    for (const double loss : round_ticks(range_.first, range_.second, 4)) {
      out += text("<path class=\"grid\" d=\"M", fixed(kLeft), ' ', fixed(y(loss)), 'H',
                  fixed(kWidth - kRight), "\"/><text class=\"faint\" text-anchor=\"end\" x=\"",
                  fixed(kLeft - 8), "\" y=\"", fixed(y(loss) + 4), "\">", tick_word(loss),
                  "</text>\n");
    }
    return out;
  }

  std::string losses() const {
    // A loss beyond the frame is an arrow at its edge. The line goes on behind the frame.
    std::string points, line;
    for (const Step& step : curve_.steps) {
      const double at = x(step.rate);
      if (has(step.loss)) {
        points += text("<circle class=\"loss\" r=\"2\" cx=\"", fixed(at), "\" cy=\"",
                       fixed(y(step.loss)), "\"/>");
      } else if (std::isfinite(step.loss)) {
        const bool is_above = step.loss > range_.second;
        const double edge = is_above ? kTop : kHeight - kBottom, tip = is_above ? -6 : 6;
        points += text("<path class=\"loss\" d=\"M", fixed(at - 3), ' ', fixed(edge), "h6l-3 ",
                       fixed(tip), "z\"/>");
      }
      if (std::isfinite(step.smoothed))
        line += text(line.empty() ? "M" : "L", fixed(at), ' ', fixed(beyond(step.smoothed)));
    }
    return text("<clipPath id=\"frame\"><rect x=\"", kLeft, "\" y=\"", kTop, "\" width=\"",
                kWidth - kLeft - kRight, "\" height=\"", kHeight - kTop - kBottom,
                "\"/></clipPath>\n", points,
                "\n<path class=\"line\" clip-path=\"url(#frame)\" d=\"", line, "\"/>\n");
  }

  std::string mark(const std::optional<double>& rate, const char* word, double at) const {
    if (!rate) return "";
    const bool is_left = place_of(curve_, *rate) > 0.6;
    return text("<path class=\"mark\" d=\"M", fixed(x(*rate)), ' ', fixed(kTop), 'V',
                fixed(kHeight - kBottom), "\"/><text class=\"word\" text-anchor=\"",
                is_left ? "end" : "start", "\" x=\"", fixed(x(*rate) + (is_left ? -6 : 6)),
                "\" y=\"", fixed(at), "\">", word, ": ", rate_word(*rate), "</text>\n");
  }

 private:
  /// Of a loss that may lie outside of the frame, as far as so many heights of it.
  double place(double loss, double heights) const {
    const double part = (loss - range_.first) / (range_.second - range_.first);
    return kTop + (1 - std::clamp(part, -heights, 1 + heights)) * (kHeight - kTop - kBottom);
  }
  double beyond(double loss) const { return place(loss, 9); }

  const RateCurve& curve_;
  std::pair<double, double> range_;
};

}  // namespace

std::vector<std::string> rate_plot(const RateCurve& curve, size_t columns, bool utf8) {
  constexpr size_t kRows = 12, kLabel = 10, kLeast = 20;
  if (curve.steps.size() < 2) return {};
  const size_t width = std::max(columns, kLabel + kLeast) - kLabel;
  const auto [low, high] = shown_losses(curve);
  std::array<std::string, kRows> rows;
  std::vector<std::vector<bool>> dots(kRows, std::vector<bool>(width, false));
  for (const Step& step : curve.steps) {
    // A sign at the edge would pass for a loss that was measured.
    if (!(step.smoothed >= low && step.smoothed <= high)) continue;
    const double up = (step.smoothed - low) / (high - low);
    const auto row = static_cast<size_t>(std::lround((1 - up) * (kRows - 1)));
    const auto column = static_cast<size_t>(
        std::lround(place_of(curve, step.rate) * static_cast<double>(width - 1)));
    dots[row][column] = true;
  }
  std::vector<std::string> lines;
  for (size_t row = 0; row < kRows; ++row) {
    const bool is_labelled = row == 0 || row == kRows - 1 || row == kRows / 2;
    const double loss = high - (high - low) * static_cast<double>(row) / (kRows - 1);
    std::string label = is_labelled ? human_value(loss) : "";
    label.insert(0, kLabel - 2 - std::min(label.size(), kLabel - 2), ' ');
    std::string line = label + (utf8 ? " │" : " |");
    for (size_t column = 0; column < width; ++column)
      line += dots[row][column] ? (utf8 ? "•" : "*") : " ";
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  const std::string first = rate_word(curve.steps.front().rate),
                    last = rate_word(curve.steps.back().rate), name = "learning rate";
  const size_t used = first.size() + name.size() + last.size();
  const size_t left = width > used ? (width - used) / 2 : 1;
  const size_t right = width > used + left ? width - used - left : 1;
  lines.push_back(std::string(kLabel, ' ') + first + std::string(left, ' ') + name +
                  std::string(right, ' ') + last);
  return lines;
}

std::string rate_svg(const RateCurve& curve, const std::string& title) {
  std::string out =
      text("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"", kHeight,
           "\" viewBox=\"0 0 ", kWidth, ' ', kHeight, "\" role=\"img\">\n<title>",
           xml_escaped(drawable(title)), "</title>\n", kRateStyle, "<rect class=\"paper\" width=\"",
           kWidth, "\" height=\"", kHeight, "\"/>\n<text class=\"title\" x=\"16\" y=\"26\">",
           xml_escaped(drawable(title)),
           "</text>\n<text class=\"faint\" x=\"16\" y=\"44\">loss, raw (dots) and "
           "smoothed (line); arrows: beyond the frame</text>\n");
  if (curve.steps.size() >= 2) {
    const RateDrawing drawing(curve);
    out += drawing.axes() + drawing.losses() +
           drawing.mark(curve.steepest, "steepest", kHeight - kBottom - 26) +
           drawing.mark(curve.tenth_of_least, "a tenth of the least", kHeight - kBottom - 10);
  }
  return out + text("<text class=\"faint\" text-anchor=\"middle\" x=\"",
                    fixed((kLeft + kWidth - kRight) / 2), "\" y=\"", fixed(kHeight - 14),
                    "\">learning rate</text>\n</svg>\n");
}

std::string rate_json(const RateCurve& curve) {
  const auto rate = [](const std::optional<double>& value) {
    return value ? json_number(*value) : std::string("null");
  };
  std::string steps;
  for (const Step& step : curve.steps) {
    steps += text(steps.empty() ? "" : ",", "{\"rate\":", json_number(step.rate),
                  ",\"loss\":", json_number(step.loss),
                  ",\"smoothed\":", json_number(step.smoothed), "}");
  }
  return text("{\"steepest\":", rate(curve.steepest),
              ",\"tenth_of_least\":", rate(curve.tenth_of_least),
              ",\"diverged\":", curve.diverged ? "true" : "false", ",\"steps\":[", steps, "]}");
}

}  // namespace crema::tools
