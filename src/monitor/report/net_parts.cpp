#include <algorithm>
#include <filesystem>

#include "analysis/draw.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "model/text_format.hpp"
#include "monitor/report/page.hpp"
#include "monitor/report/parts.hpp"

namespace crema {
namespace {

/// The drawing as a part of a page: its rules hold within it alone.
std::string within_page(std::string svg) {
  const size_t begin = svg.find("<style>");
  const size_t end = svg.find("</style>", begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return svg;
  svg.insert(end, "}");
  svg.insert(begin + 7, ".net svg{");
  return svg;
}

std::string drawing_of_run(const RunFiles& run, std::string& note) {
  if (run.layers && run.layers->has_drawing()) return run.layers->drawing();
  if (run.net_text.empty()) return "";
  try {
    NetParameter net;
    read_text_proto((std::filesystem::path(run.folder) / "net.prototxt").string(), net);
    note = "Without shapes: `crema report` without --evaluate=false finds them.";
    return draw_net_as_svg(net, {});
  } catch (const Error& error) {
    note = text("The net cannot be drawn: ", printable(error.what()));
    return "";
  }
}

std::string shape_words(const LayerTable::Layer& layer) {
  std::string all;
  for (const int64_t size : layer.shape()) all += text(all.empty() ? "" : " × ", size);
  return all;
}

std::string milliseconds(double ms) { return value_words(ms); }

}  // namespace

std::string net_part(const RunFiles& run) {
  std::string note;
  const std::string svg = drawing_of_run(run, note);
  std::string all = note.empty() ? "" : "<p class=\"faint\">" + html(note) + "</p>\n";
  if (svg.empty()) return all;
  return all +
         "<input type=\"checkbox\" id=\"whole-size\" /> <label for=\"whole-size\">Full "
         "size</label>\n"
         "<div class=\"net\" role=\"region\" tabindex=\"0\" aria-label=\"The net as a drawing\">" +
         within_page(svg) + "</div>\n";
}

std::string layers_part(const RunFiles& run) {
  if (!run.layers || run.layers->layers_size() == 0) return "";
  const LayerTable& layers = *run.layers;
  double most = 0, parameters = 0, memory = 0;
  for (const auto& layer : layers.layers()) {
    most = std::max(most, layer.forward_ms() + layer.backward_ms());
    parameters += layer.parameters();
    memory += layer.memory();
  }
  std::string rows;
  int number = 0;
  for (const auto& layer : layers.layers()) {
    rows += text("<tr><td class=\"number\" data-v=\"", ++number, "\">", number, "</td>",
                 "<th scope=\"row\">", html(layer.name()), "</th>", text_cell(layer.type()),
                 text_cell(shape_words(layer)));
    rows += number_cell(layer.parameters(), count_words(static_cast<int64_t>(layer.parameters())));
    if (layer.has_fused_into()) {
      rows += text("<td></td><td></td><td></td><td></td><td class=\"wrap faint\">computed by ",
                   html(layer.fused_into()), "</td></tr>\n");
      continue;
    }
    rows += number_cell(layer.memory(), bytes_words(layer.memory()));
    const bool is_timed = layer.has_forward_ms();
    const auto time = [&](bool has, double ms) {
      return has ? number_cell(ms, milliseconds(ms)) : number_cell(std::nullopt, "");
    };
    rows += time(is_timed, layer.forward_ms());
    rows += time(layer.has_backward_ms(), layer.backward_ms());
    const double both = layer.forward_ms() + layer.backward_ms();
    if (is_timed && most > 0) {
      rows += text("<td data-v=\"", both, "\" title=\"", html(milliseconds(both)),
                   " ms\"><span class=\"bar\" style=\"width:", std::max(1.0, both / most * 90),
                   "px\"></span></td>");
    } else {
      rows += "<td data-v=\"\"></td>";
    }
    rows += text(
        "<td class=\"wrap long\">", html(layer.engine()),
        layer.detail().empty() ? "" : " <span class=\"faint\">" + html(layer.detail()) + "</span>",
        "</td></tr>\n");
  }
  std::string foot =
      text("<tr><td></td><th scope=\"row\">all</th><td></td><td></td><td class=\"number\">",
           count_words(static_cast<int64_t>(parameters)), "</td><td class=\"number\">",
           bytes_words(memory), "</td>");
  foot += layers.has_forward_ms()
              ? text("<td class=\"number\">", milliseconds(layers.forward_ms()),
                     "</td><td class=\"number\">",
                     layers.has_backward_ms() ? milliseconds(layers.backward_ms()) : "", "</td>")
              : "<td></td><td></td>";
  foot += "<td></td><td></td></tr>";
  std::string head;
  if (layers.has_passes()) {
    head = text("<p class=\"faint\">Medians of ", layers.passes(), " passes on ",
                html(layers.device()),
                layers.threads() > 0
                    ? text(", ", layers.threads(), layers.threads() == 1 ? " thread" : " threads")
                    : "",
                "; a layer that another one computes has no time of its own.</p>\n");
  }
  if (layers.planned_bytes() > 0)
    head += text("<p class=\"faint\">The net plans ", bytes_words(layers.planned_bytes()),
                 " in all; tops share memory, so that their sum may be more.</p>\n");
  return head + table("Layers",
                      {"#", "layer", "type", "first top", "#parameters", "#memory", "#forward ms",
                       "#backward ms", "time", "engine"},
                      rows, foot);
}

}  // namespace crema
