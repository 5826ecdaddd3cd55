#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <string_view>
#include <tuple>

#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "monitor/report/page.hpp"
#include "monitor/report/parts.hpp"
#include "proto/net.pb.h"

namespace crema {
namespace {

constexpr size_t kRidgeBudget = 700000;  // bytes of all ridges
constexpr size_t kBinBytes = 8;
constexpr size_t kMostOpen = 24;  // parameters that are seen at once
constexpr size_t kMostRidges = 12, kMostBins = 64;
constexpr double kRidgeWidth = 200, kRidgeTop = 34, kRidgeBottom = 104;

using Ridges = std::vector<const ValueHistogram*>;

/// `count` of them, the first and the last among them.
Ridges chosen(const Ridges& all, size_t count) {
  if (all.size() <= count) return all;
  Ridges some;
  for (size_t i = 0; i < count; ++i)
    some.push_back(all[i * (all.size() - 1) / std::max<size_t>(count - 1, 1)]);
  if (count == 1) some = {all.back()};
  return some;
}

/// Counts for each of `bins` equal parts of [low, high], as far as the histogram tells.
std::vector<double> binned(const ValueHistogram& histogram, double low, double high, size_t bins) {
  std::vector<double> out(bins);
  const double width = (high - low) / static_cast<double>(bins);
  for (int i = 0; i < histogram.counts_size(); ++i) {
    const double from = histogram.edges(i), to = histogram.edges(i + 1);
    const double count = histogram.counts(i);
    if (!(count > 0) || !std::isfinite(from) || !std::isfinite(to)) continue;
    const auto place = [&](double x) {
      return std::clamp((x - low) / width, 0.0, static_cast<double>(bins));
    };
    const double a = place(from), b = place(to);
    if (!(to > from) || b - a <= 0) {
      if (from >= low && from <= high)
        out[std::min(bins - 1, static_cast<size_t>(place(from)))] += count;
      continue;
    }
    const double density = count * width / (to - from);
    for (auto bin = static_cast<size_t>(a); bin < bins && static_cast<double>(bin) < b; ++bin) {
      const auto edge = static_cast<double>(bin);
      out[bin] += density * (std::min(b, edge + 1) - std::max(a, edge));
    }
  }
  return out;
}

/// From the base line and back to it.
std::string ridge_path(const std::vector<double>& counts, double base) {
  const double most = *std::ranges::max_element(counts);
  const auto width = kRidgeWidth / static_cast<double>(counts.size());
  std::string path;
  char place[48];
  const auto add = [&](double x, double y) {
    std::snprintf(place, sizeof place, "%s%.0f %.0f", path.empty() ? "M" : "L", x, y);
    path += place;
  };
  add(width / 2, base);
  for (size_t i = 0; i < counts.size(); ++i)
    add((static_cast<double>(i) + 0.5) * width, base - (most > 0 ? counts[i] / most * 30 : 0));
  add(kRidgeWidth - width / 2, base);
  return path;
}

/// The type of each layer, by name.
using LayerTypes = std::map<std::string, std::string>;

LayerTypes types_of_layers(const RunFiles& run) {
  LayerTypes types;
  NetParameter net;
  try {
    parse_text_proto(run.net_text, "net.prototxt", net);
  } catch (const Error&) {
    return types;  // its parameters have numbers
  }
  for (const LayerParameter& layer : net.layer()) types[layer.name()] = layer.type();
  return types;
}

std::string parameter_words(const ValueHistogram& histogram, const LayerTypes& types) {
  const auto type = types.find(histogram.layer());
  constexpr std::array<std::string_view, 8> kBiased = {
      "Convolution", "Deconvolution", "InnerProduct", "Embed", "Scale", "LSTM", "RNN", "LayerNorm"};
  const bool has_bias = type != types.end() && std::ranges::count(kBiased, type->second) > 0;
  if (histogram.parameter() == 0) return histogram.layer() + ", weights";
  if (histogram.parameter() == 1 && has_bias) return histogram.layer() + ", bias";
  return text(histogram.layer(), ", parameter ", histogram.parameter());
}

std::string ridge_figure(const Ridges& ridges, size_t bins, const LayerTypes& types) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const ValueHistogram* one : ridges) {
    // Tails of a few values would leave no room for the others.
    const double reach = 5 * one->deviation();
    const bool has_spread = std::isfinite(reach) && reach > 0 && std::isfinite(one->mean());
    low = std::min(low, has_spread ? std::max(one->least(), one->mean() - reach) : one->least());
    high = std::max(high,
                    has_spread ? std::min(one->greatest(), one->mean() + reach) : one->greatest());
  }
  const ValueHistogram& last = *ridges.back();
  std::string all =
      text("<figure><figcaption>", html(parameter_words(last, types)), "</figcaption>");
  if (!std::isfinite(low) || !std::isfinite(high))
    return all + "<p class=\"bad\">No finite values</p></figure>\n";
  if (!(high > low)) {
    const double pad = std::max(std::abs(low) * 0.1, 1e-6);
    low -= pad;
    high += pad;
  }
  all += text(
      "<svg viewBox=\"0 0 200 108\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"",
      html(text(parameter_words(last, types), " at ", count_words(last.iteration()), ": mean ",
                value_words(last.mean()), ", standard deviation ", value_words(last.deviation()))),
      "\">");
  for (size_t i = 0; i < ridges.size(); ++i) {
    const ValueHistogram& one = *ridges[i];
    const double base = ridges.size() == 1
                            ? kRidgeBottom
                            : kRidgeTop + (kRidgeBottom - kRidgeTop) * static_cast<double>(i) /
                                              static_cast<double>(ridges.size() - 1);
    all += text("<path", i == 0 && ridges.size() > 1 ? " class=\"first\"" : "", " d=\"",
                ridge_path(binned(one, low, high, bins), base), "\"><title>iteration ",
                count_words(one.iteration()), ": mean ", value_words(one.mean()),
                ", standard deviation ", value_words(one.deviation()), ", ",
                value_words(one.least()), " to ", value_words(one.greatest()), "</title></path>");
  }
  all += text("</svg><div class=\"ends\"><span>", value_words(low), "</span><span>",
              value_words(high), "</span></div>");
  if (last.not_finite() > 0)
    all += text("<span class=\"bad\">", count_words(static_cast<int64_t>(last.not_finite())),
                " not finite</span>");
  return all + "</figure>\n";
}

/// All of weights, or of gradients.
std::string ridges_of(const RunFiles& run, bool gradient, const LayerTypes& types) {
  std::map<std::pair<std::string, int>, Ridges> by_parameter;
  std::vector<std::pair<std::string, int>> order;
  for (const ValueHistogram& one : run.histograms) {
    if (one.gradient() != gradient || (one.counts_size() == 0 && one.not_finite() == 0)) continue;
    const std::pair key(one.layer(), one.parameter());
    Ridges& ridges = by_parameter[key];
    if (ridges.empty()) order.push_back(key);
    ridges.push_back(&one);
  }
  if (order.empty()) return "";
  const size_t each = kRidgeBudget / order.size() / kBinBytes;  // bins of all lines
  const size_t bins = std::clamp<size_t>(each / 2, 16, kMostBins);
  const size_t lines = std::clamp<size_t>(each / bins, 2, kMostRidges);
  const size_t shown = std::min(order.size(), kRidgeBudget / (bins * 2 * kBinBytes));
  const Ridges& first = by_parameter[order[0]];
  std::string all =
      text("<p class=\"faint\">", gradient ? "Gradients" : "Values",
           " of each parameter; the front line is the last one, at iteration ",
           count_words(first.back()->iteration()),
           first.size() > 1 ? text(", and the one at the back the first, at ",
                                   count_words(first.front()->iteration()))
                            : "",
           ". Each line has its own scale.",
           shown < order.size()
               ? text(" Of ", order.size(), " parameters, the first ", shown, " are drawn.")
               : "",
           "</p>\n<div class=\"ridges\">");
  std::string rest;
  for (size_t i = 0; i < shown; ++i)
    (i < kMostOpen ? all : rest) +=
        ridge_figure(chosen(by_parameter[order[i]], lines), bins, types);
  all += "</div>\n";
  if (rest.empty()) return all;
  return all + text("<details><summary>", shown - kMostOpen,
                    " more parameters</summary>\n<div class=\"ridges\">", rest,
                    "</div></details>\n");
}

}  // namespace

std::string histograms_part(const RunFiles& run) {
  const LayerTypes types = types_of_layers(run);
  std::string all = ridges_of(run, false, types);
  const std::string gradients = ridges_of(run, true, types);
  if (!gradients.empty())
    all += "<details><summary>Gradients</summary>\n" + gradients + "</details>\n";
  return all;
}

}  // namespace crema
