#include "monitor/report/charts.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/json.hpp"
#include "crema/error.hpp"
#include "monitor/report/page.hpp"

namespace crema {
namespace {

constexpr double kWidth = 1000, kHeight = 300;  // of the drawing, which the page stretches
constexpr size_t kDrawnColumns = 400;           // of the drawing that needs no script
constexpr double kSmoothing = 2;                // percent of the run, at first
/// Bytes of all curves of a page, and of a column of one.
constexpr double kCurveBytes = 2e6, kColumnBytes = 32;

std::string short_number(double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.5g", value);
  return digits.data();
}

std::string coordinate(double value) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.1f", value);
  std::string all = digits.data();
  if (all.ends_with(".0")) all.resize(all.size() - 2);
  return all;
}

template <class Values>
std::string number_list(const Values& values) {
  std::string all = "[";
  for (const auto value : values) {
    if (all.size() > 1) all += ',';
    all += std::isfinite(static_cast<double>(value)) ? short_number(static_cast<double>(value))
                                                     : "null";
  }
  return all + "]";
}

std::string delta_list(const std::vector<int32_t>& values) {
  std::string all = "[";
  int32_t before = 0;
  for (const int32_t value : values) {
    if (all.size() > 1) all += ',';
    all += std::to_string(value - before);
    before = value;
  }
  return all + "]";
}

/// The title has a unit that is not here.
std::string in_unit(const Chart& chart, double value) {
  if (chart.unit == "share") return value_words(100 * value) + "%";
  if (chart.unit == "bytes") return bytes_words(value);
  return value_words(value);
}

std::string title_words(const Chart& chart) {
  const bool is_in_ticks = chart.unit.empty() || chart.unit == "share" || chart.unit == "bytes";
  return is_in_ticks ? chart.title : chart.title + ", " + chart.unit;
}

std::string short_iteration(double iteration) {
  if (iteration >= 1e6) return value_words(iteration / 1e6) + "M";
  if (iteration >= 1e4) return value_words(iteration / 1e3) + "k";
  return value_words(iteration);
}

/// What is drawn of one line.
struct DrawnLine {
  ThinnedCurve curve;
  std::vector<double> smooth;
};

struct ValueRange {
  double low = 0, high = 1;
};

/// Of the values to show: extremes far beyond what most points have are cut off.
ValueRange range_of(const Chart& chart, const std::vector<DrawnLine>& lines) {
  std::vector<double> all;
  double least = HUGE_VAL, greatest = -HUGE_VAL;  // of what has to be seen
  for (size_t k = 0; k < lines.size(); ++k) {
    const ThinnedCurve& curve = lines[k].curve;
    const bool is_smooth = chart.lines[k].kind == ChartLine::Kind::smooth;
    for (const double value : is_smooth ? lines[k].smooth : curve.values) {
      least = std::min(least, value);
      greatest = std::max(greatest, value);
      all.push_back(value);
    }
    if (!is_smooth) continue;
    const auto& low = curve.least.empty() ? curve.values : curve.least;
    const auto& high = curve.greatest.empty() ? curve.values : curve.greatest;
    all.insert(all.end(), low.begin(), low.end());
    all.insert(all.end(), high.begin(), high.end());
  }
  if (all.empty()) return {};
  std::ranges::sort(all);
  const auto n = static_cast<double>(all.size());
  double low = all.front(), high = all.back();
  const double robust_low = std::min(all[static_cast<size_t>(n * 0.01)], least);
  const double robust_high = std::max(all[static_cast<size_t>(std::ceil(n * 0.99)) - 1], greatest);
  if (high - low > 2.5 * (robust_high - robust_low) && robust_high > robust_low) {
    low = robust_low;
    high = robust_high;
  }
  if (chart.from_zero && low > 0 && low < high * 0.5) low = 0;
  if (!(high > low)) {
    if (chart.from_zero && high >= 0) return {0, high > 0 ? high * 1.1 : 1};
    const double pad = low != 0 ? std::abs(low) * 0.1 : 0.5;
    return {low - pad, high + pad};
  }
  const double margin = (high - low) * 0.04;
  return {low == 0 ? 0 : low - margin, high + margin};
}

/// From numbers to places in the drawing.
struct Scale {
  double last;
  ValueRange range;

  double x(double iteration) const { return iteration / last * kWidth; }
  double y(double value) const {
    const double place = kHeight - (value - range.low) / (range.high - range.low) * kHeight;
    return std::clamp(place, -9 * kHeight, 10 * kHeight);
  }
  std::string point(double iteration, double value) const {
    return coordinate(x(iteration)) + " " + coordinate(y(value));
  }
  std::string path(const std::vector<int32_t>& iterations,
                   const std::vector<double>& values) const {
    std::string all;
    for (size_t i = 0; i < values.size(); ++i)
      all += (all.empty() ? "M" : "L") + point(iterations[i], values[i]);
    return values.size() == 1 ? all + "h0" : all;
  }
};

std::string paths_of(const ChartLine& line, const DrawnLine& drawn, const Scale& scale) {
  const ThinnedCurve& curve = drawn.curve;
  if (line.kind == ChartLine::Kind::smooth) {
    std::string faint;
    if (curve.least.empty()) {
      faint = text("<path class=\"raw\" d=\"", scale.path(curve.iterations, curve.values), "\" />");
    } else {
      faint = "<path class=\"band\" d=\"" + scale.path(curve.iterations, curve.greatest);
      for (size_t i = curve.least.size(); i-- > 0;)
        faint += "L" + scale.point(curve.iterations[i], curve.least[i]);
      faint += "Z\" />";
    }
    return faint + "<path class=\"smooth\" d=\"" + scale.path(curve.iterations, drawn.smooth) +
           "\" />";
  }
  std::string all =
      text("<path class=\"plain\" d=\"", scale.path(curve.iterations, curve.values), "\" />");
  if (line.kind != ChartLine::Kind::points) return all;
  all += "<path class=\"dots\" d=\"";
  for (size_t i = 0; i < curve.values.size(); ++i)
    all += "M" + scale.point(curve.iterations[i], curve.values[i]) + "h0";
  return all + "\" />";
}

/// "0.25, least 0.2 at 1,200".
std::string summary_of(const Chart& chart, const Curve& curve) {
  const CurvePoint& last = curve.back();
  const CurvePoint *least = nullptr, *greatest = nullptr;
  for (const CurvePoint& point : curve) {
    if (!std::isfinite(point.value)) continue;
    if (least == nullptr || point.value < least->value) least = &point;
    if (greatest == nullptr || point.value > greatest->value) greatest = &point;
  }
  std::string all = text(in_unit(chart, last.value), " at ", count_words(last.iteration));
  if (least == nullptr || least->value == greatest->value) return all;
  return all +
         text(" (", in_unit(chart, least->value), " to ", in_unit(chart, greatest->value), ")");
}

}  // namespace

ThinnedCurve thinned(const Curve& curve, size_t columns) {
  ThinnedCurve out;
  size_t finite = 0;
  for (const CurvePoint& point : curve) {
    if (std::isfinite(point.value)) {
      ++finite;
    } else {
      out.not_finite.push_back(point.iteration);
    }
  }
  if (finite == 0) return out;
  if (finite <= 2 * columns) {
    for (const CurvePoint& point : curve) {
      if (!std::isfinite(point.value)) continue;
      out.iterations.push_back(point.iteration);
      out.values.push_back(point.value);
    }
    return out;
  }
  const double first = curve.front().iteration, span = curve.back().iteration - first + 1.0;
  size_t column = columns;  // none
  double sum = 0;
  int64_t count = 0;
  int32_t begin = 0, end = 0;
  const auto finish = [&] {
    if (count == 0) return;
    out.iterations.push_back(begin + (end - begin) / 2);
    out.values.push_back(sum / static_cast<double>(count));
  };
  for (const CurvePoint& point : curve) {
    if (!std::isfinite(point.value)) continue;
    const auto its =
        static_cast<size_t>((point.iteration - first) / span * static_cast<double>(columns));
    if (its != column) {
      finish();
      column = its;
      sum = 0;
      count = 0;
      begin = point.iteration;
      out.least.push_back(point.value);
      out.greatest.push_back(point.value);
    }
    out.least.back() = std::min(out.least.back(), point.value);
    out.greatest.back() = std::max(out.greatest.back(), point.value);
    sum += point.value;
    ++count;
    end = point.iteration;
  }
  finish();
  return out;
}

std::vector<double> smoothed(const std::vector<int32_t>& iterations,
                             const std::vector<double>& values, double reach) {
  const size_t n = values.size();
  if (!(reach > 0)) return values;
  const auto kept = [&](size_t i) {
    return std::exp(-(static_cast<double>(iterations[i + 1]) - iterations[i]) / reach);
  };
  std::vector<double> sums(n), weights(n), out(n);
  double sum = 0, weight = 0;
  for (size_t i = 0; i < n; ++i) {
    const double keep = i > 0 ? kept(i - 1) : 0;
    sums[i] = sum *= keep;
    weights[i] = weight *= keep;
    sum += values[i];
    weight += 1;
  }
  sum = weight = 0;
  for (size_t i = n; i-- > 0;) {
    const double keep = i + 1 < n ? kept(i) : 0;
    sum *= keep;
    weight *= keep;
    out[i] = (sums[i] + sum + values[i]) / (weights[i] + weight + 1);
    sum += values[i];
    weight += 1;
  }
  return out;
}

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low) || !std::isfinite(high - low)) return {low};
  const double raw = (high - low) / count, base = std::pow(10, std::floor(std::log10(raw)));
  const auto first_of = [&](double step) { return std::ceil(low / step - 1e-9); };
  const auto count_of = [&](double step) {
    return std::floor(high / step + 1e-9) - first_of(step) + 1;
  };
  const double factor = raw / base;
  double step = base * (factor > 5 ? 10 : factor > 2.5 ? 5 : factor > 2 ? 2.5 : factor > 1 ? 2 : 1);
  // A range between round numbers has fewer of them: narrower steps then fit.
  for (const double other : {5.0, 2.5, 2.0, 1.0}) {
    if (count_of(step) >= count) break;
    if (base * other < step && count_of(base * other) <= count + 1) step = base * other;
  }
  std::vector<double> all;
  const double first = first_of(step);
  for (double k = first; k * step <= high + step * 1e-9 && all.size() < 20; ++k) {
    const double tick = k * step;
    all.push_back(tick == 0 ? 0 : tick);
  }
  return all;
}

ChartPage::ChartPage(size_t lines)
    : columns_(static_cast<size_t>(
          std::clamp(kCurveBytes / kColumnBytes / static_cast<double>(std::max<size_t>(lines, 1)),
                     100.0, 1500.0))) {}

int ChartPage::add_clock(const Curve& epoch, const Curve& time) {
  constexpr size_t kClockPoints = 500;
  const auto sparse = [](const Curve& curve) {
    Curve some;
    const size_t step = std::max<size_t>(1, curve.size() / kClockPoints);
    for (size_t i = 0; i < curve.size(); i += step) some.push_back(curve[i]);
    if (!curve.empty() && some.back().iteration != curve.back().iteration)
      some.push_back(curve.back());
    std::erase_if(some, [](const CurvePoint& point) { return !std::isfinite(point.value); });
    return some;
  };
  const Curve times = sparse(time), epochs = sparse(epoch);
  const Curve& places = times.size() >= epochs.size() ? times : epochs;
  std::vector<int32_t> iterations;
  for (const CurvePoint& point : places) iterations.push_back(point.iteration);
  // All start at 0.
  const auto column = [&](const Curve& curve) {
    std::vector<double> values;
    if (curve.empty()) return values;
    size_t at = 0;
    for (const int32_t iteration : iterations) {
      while (at + 1 < curve.size() && curve[at].iteration < iteration) ++at;
      const CurvePoint& b = curve[at];
      const CurvePoint a = at > 0 ? curve[at - 1] : CurvePoint{0, 0};
      const double share =
          b.iteration > a.iteration
              ? static_cast<double>(iteration - a.iteration) / (b.iteration - a.iteration)
              : 1;
      values.push_back(a.value + (b.value - a.value) * share);
    }
    if (iterations[0] > 0) values.insert(values.begin(), 0);
    return values;
  };
  const std::vector<double> epoch_values = column(epochs), time_values = column(times);
  if (!iterations.empty() && iterations[0] > 0) iterations.insert(iterations.begin(), 0);
  has_epochs_ = has_epochs_ || !epoch_values.empty();
  has_times_ = has_times_ || !time_values.empty();
  clocks_ +=
      text(clocks_.empty() ? "" : ",", "{\"x\":", delta_list(iterations),
           ",\"epoch\":", number_list(epoch_values), ",\"time\":", number_list(time_values), "}");
  return clock_count_++;
}

std::string ChartPage::add(const Chart& given) {
  Chart chart = given;
  std::erase_if(chart.lines, [](const ChartLine& line) { return line.curve->empty(); });
  if (chart.lines.empty()) return "";
  std::vector<DrawnLine> drawn;
  std::string data, wrong;
  std::vector<ChartMark> marks = chart.marks;
  const double reach = kSmoothing / 100 * last_ / 2;
  bool all_positive = true;
  for (const ChartLine& line : chart.lines) {
    const ThinnedCurve curve = thinned(*line.curve, columns_);
    for (const double value : curve.least.empty() ? curve.values : curve.least)
      all_positive = all_positive && value > 0;
    data += text(data.empty() ? "" : ",", "{\"n\":", json_string(line.name), ",\"c\":", line.clock,
                 ",\"s\":\"", line.kind == ChartLine::Kind::smooth ? "smooth" : "plain",
                 "\",\"x\":", delta_list(curve.iterations), ",\"y\":", number_list(curve.values));
    if (!curve.least.empty())
      data += text(",\"lo\":", number_list(curve.least), ",\"hi\":", number_list(curve.greatest));
    data += "}";
    if (!curve.not_finite.empty()) {
      const size_t n = curve.not_finite.size();
      wrong +=
          text("<p class=\"bad\">", html(line.name), ": ", count_words(static_cast<int64_t>(n)),
               n == 1 ? " value is" : " values are", " not finite, the first at iteration ",
               count_words(curve.not_finite[0]), "</p>");
      marks.push_back({curve.not_finite[0],
                       text(line.name, " is not finite at ", count_words(curve.not_finite[0])),
                       true});
    }
    DrawnLine one{.curve = thinned(*line.curve, std::min(columns_, kDrawnColumns)), .smooth = {}};
    if (line.kind == ChartLine::Kind::smooth)
      one.smooth = smoothed(one.curve.iterations, one.curve.values, reach);
    drawn.push_back(std::move(one));
  }
  const bool is_log = chart.can_be_log && all_positive;
  has_log_ = has_log_ || is_log;
  std::vector<int> mark_places;
  for (const ChartMark& mark : marks) mark_places.push_back(mark.iteration);
  charts_ +=
      text(charts_.empty() ? "" : ",", "{\"id\":", json_string(chart.id),
           ",\"title\":", json_string(chart.title), ",\"unit\":", json_string(chart.unit),
           ",\"log\":", is_log ? "true" : "false", ",\"zero\":", chart.from_zero ? "true" : "false",
           ",\"marks\":[", joined(mark_places, ","), "],\"lines\":[", data, "]}");

  const Scale scale{.last = std::max(last_, 1.0), .range = range_of(chart, drawn)};
  std::string grid, ys, xs, lines, legend, label = chart.title;
  for (const double tick : round_ticks(scale.range.low, scale.range.high, 4)) {
    const double y = scale.y(tick);
    grid += text("M0 ", coordinate(y), "H1000");
    ys += text("<span style=\"top:", coordinate(y / kHeight * 100), "%\">",
               html(in_unit(chart, tick)), "</span>");
  }
  for (const double tick : round_ticks(0, scale.last, 4)) {
    if (tick != std::round(tick)) continue;  // of a few iterations
    xs += text("<span style=\"left:", coordinate(scale.x(tick) / kWidth * 100), "%\">",
               html(short_iteration(tick)), "</span>");
  }
  for (size_t k = 0; k < drawn.size(); ++k) {
    const ChartLine& line = chart.lines[k];
    const std::string kinds = text("k", line.color, line.is_dashed ? " dash" : "",
                                   drawn[k].curve.values.size() == 1 ? " one" : "");
    const std::string words = summary_of(chart, *line.curve);
    lines += text("<g class=\"line ", kinds, "\">", paths_of(line, drawn[k], scale), "</g>");
    legend +=
        text("<li class=\"", kinds, "\"><button type=\"button\" aria-pressed=\"true\"><i></i>",
             html(line.name), "</button> <output>", html(words), "</output></li>");
    label += text("; ", line.name, ": ", words);
  }
  for (const ChartMark& mark : marks) {
    const std::string x = coordinate(scale.x(mark.iteration));
    lines += text("<path class=\"mark", mark.is_wrong ? " wrong" : "", "\" d=\"M", x,
                  " 0V300\"><title>", html(mark.words), "</title></path>");
  }
  return text("<figure class=\"chart\" id=\"", html(chart.id), "\"><figcaption><h3>",
              html(title_words(chart)),
              "</h3><span class=\"at\"></span><button type=\"button\" class=\"csv\" "
              "title=\"The points as a table\">CSV</button><button type=\"button\" class=\"svg\" "
              "title=\"The chart as a drawing\">SVG</button></figcaption>\n<div class=\"plot\" "
              "role=\"img\" tabindex=\"0\" aria-label=\"",
              html(label),
              "\"><svg viewBox=\"0 0 1000 300\" preserveAspectRatio=\"none\" "
              "aria-hidden=\"true\"><path class=\"grid\" d=\"",
              grid, "\" />", lines, "</svg><div class=\"ys\">", ys, "</div><div class=\"xs\">", xs,
              "</div><div class=\"cursor\"></div><div class=\"zoom\"></div></div>\n<ul "
              "class=\"legend\">",
              legend, "</ul>", wrong, "</figure>\n");
}

std::string ChartPage::tools() const {
  return text(
      "<div class=\"tools\"><label>Smoothing <input type=\"range\" id=\"smoothing\" "
      "min=\"0\" max=\"20\" step=\"0.5\" value=\"",
      kSmoothing,
      "\" /></label><span class=\"faint\" id=\"smoothing-value\"></span><label>Axis <select "
      "id=\"axis\"><option value=\"iteration\">iterations</option>",
      has_epochs_ ? "<option value=\"epoch\">epochs</option>" : "",
      has_times_ ? "<option value=\"time\">time</option>" : "", "</select></label>",
      has_log_ ? "<label><input type=\"checkbox\" id=\"log\" /> Logarithmic losses</label>" : "",
      "<button type=\"button\" id=\"reset\" disabled=\"disabled\">Whole run</button><span "
      "class=\"faint\">Drag across a chart to zoom; double click shows all.</span></div>\n");
}

std::string ChartPage::data() const {
  if (charts_.empty()) return "";
  return text("{\"smoothing\":", kSmoothing, ",\"last\":", last_, ",\"clocks\":[", clocks_,
              "],\"charts\":[", charts_, "]}");
}

}  // namespace crema
