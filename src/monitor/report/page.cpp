#include "monitor/report/page.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "core/xml.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

std::string formatted(const char* format, double value) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  std::string all = buffer.data();
  std::ranges::replace(all, ',', '.');  // of the user's language
  return all;
}

}  // namespace

std::string html(std::string_view text) { return xml_escaped(drawable(text)); }

std::string html_lines(std::string_view text) {
  std::string all;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (line.ends_with('\r')) line.pop_back();
    for (size_t at = 0; (at = line.find('\t', at)) != std::string::npos;) line.replace(at, 1, "  ");
    all += html(line);
    all += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

std::string json_in_script(std::string_view json) {
  std::string all;
  all.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      all += "\\u003c";
    } else if (c == '>') {
      all += "\\u003e";
    } else if (c == '&') {
      all += "\\u0026";
    } else {
      all += c;
    }
  }
  return all;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string all;
  all.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k)
      three = three << 8U | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) all += k <= n ? kDigits[three >> (18 - 6 * k) & 63U] : '=';
  }
  return all;
}

std::string count_words(int64_t number) {
  std::string digits = std::to_string(std::abs(number));
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return number < 0 ? "-" + digits : digits;
}

std::string value_words(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e15) return count_words(std::llround(value));
  if (size == 0) return "0";
  std::string all = formatted(size < 1e-3 || size >= 1e15 ? "%.2e" : "%.4g", value);
  return all;
}

std::string share_words(const std::optional<double>& share) {
  if (!share) return "-";
  if (!std::isfinite(*share)) return value_words(*share);
  return formatted("%.2f%%", 100 * *share);
}

std::string bytes_words(double bytes) {
  if (!std::isfinite(bytes)) return value_words(bytes);
  if (bytes >= 1e9) return formatted("%.2f GB", bytes / 1e9);
  if (bytes >= 1e6) return formatted("%.1f MB", bytes / 1e6);
  if (bytes >= 1e3) return formatted("%.1f kB", bytes / 1e3);
  return formatted("%.0f B", bytes);
}

std::string time_words(double seconds) {
  if (!std::isfinite(seconds)) return value_words(seconds);
  if (std::abs(seconds) < 10) return formatted("%.2fs", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const auto two = [](int64_t number) { return text(number < 10 ? "0" : "", number); };
  if (whole >= 3600) return text(whole / 3600, "h", two(whole % 3600 / 60), "m");
  if (whole >= 60) return text(whole / 60, "m", two(whole % 60), "s");
  return text(whole, "s");
}

namespace {

std::string time_as(const char* format, double seconds_since_1970) {
  constexpr double kLast = 253402300799.0;  // of the year 9999
  if (!(seconds_since_1970 > 0 && seconds_since_1970 <= kLast)) return "";
  const auto time = static_cast<std::time_t>(seconds_since_1970);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> words{};
  std::strftime(words.data(), words.size(), format, &parts);
  return words.data();
}

}  // namespace

std::string date_words(double seconds_since_1970) {
  return time_as("%Y-%m-%d %H:%M UTC", seconds_since_1970);
}

std::string moment_words(double seconds_since_1970) {
  return time_as("%Y-%m-%d %H:%M:%S UTC", seconds_since_1970);
}

std::string class_words(std::string_view name, int64_t label) {
  return name.empty() ? std::to_string(label) : std::string(name);
}

std::string class_color(int64_t label) {
  // The golden angle keeps neighbours apart; lightness alternates for those beyond a turn.
  const double hue = std::fmod(static_cast<double>(label) * 137.508 + 20, 360) / 60;
  const double light = label % 3 == 2 ? 0.5 : label % 3 == 1 ? 0.66 : 0.58;
  const double chroma = (1 - std::abs(2 * light - 1)) * 0.85;
  const double x = chroma * (1 - std::abs(std::fmod(hue, 2) - 1)), m = light - chroma / 2;
  const std::array<std::array<double, 3>, 6> parts = {{{chroma, x, 0},
                                                       {x, chroma, 0},
                                                       {0, chroma, x},
                                                       {0, x, chroma},
                                                       {x, 0, chroma},
                                                       {chroma, 0, x}}};
  const auto& rgb = parts[static_cast<size_t>(hue) % 6];
  std::array<char, 8> words{};
  std::snprintf(words.data(), words.size(), "#%02x%02x%02x",
                static_cast<unsigned>(std::lround(255 * (rgb[0] + m))) & 255U,
                static_cast<unsigned>(std::lround(255 * (rgb[1] + m))) & 255U,
                static_cast<unsigned>(std::lround(255 * (rgb[2] + m))) & 255U);
  return words.data();
}

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "_-./+:@%,=";
  const bool plain = !word.empty() && std::ranges::all_of(word, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kPlain.find(c) != kPlain.npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string section_of_page(const PageSection& section) {
  if (section.body.empty()) return "";
  return text("<section id=\"", section.id, "\" aria-labelledby=\"", section.id,
              "-title\">\n<h2 id=\"", section.id, "-title\">", html(section.title), "</h2>\n",
              section.body, "</section>\n");
}

std::string links_to_sections(const std::vector<PageSection>& sections) {
  std::string all = "<ul>";
  for (const PageSection& section : sections) {
    if (!section.body.empty())
      all += text("<li><a href=\"#", section.id, "\">", html(section.title), "</a></li>");
  }
  return all + "</ul>";
}

std::string page(const PageContent& content, const PageFrame& frame) {
  std::string all = text(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"",
      frame.policy, "\" />\n<title>", html(content.title), "</title>\n<style>", kReportStyle,
      "</style>\n</head>\n<body>\n<header>\n", frame.above, "<div id=\"head\">", content.head,
      "</div>\n<nav id=\"parts\" aria-label=\"Parts of this page\">",
      links_to_sections(content.sections), "</nav>\n</header>\n<main>\n");
  for (const PageSection& section : content.sections) all += section_of_page(section);
  all += text("</main>\n<footer>", html(frame.footer), "</footer>\n");
  if (!content.curves.empty())
    all += text("<script type=\"application/json\" id=\"curves-data\">",
                json_in_script(content.curves), "</script>\n");
  return all + frame.scripts + "</body>\n</html>\n";
}

std::string page(const PageContent& content) {
  return page(content, {.policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
                                  "script-src 'unsafe-inline'",
                        .above = "",
                        .footer = "Written by Crema. The page needs neither network nor script.",
                        .scripts = text("<script>//<![CDATA[", kReportScript, "//]]></script>\n")});
}

std::string table(const std::string& label, const std::vector<std::string>& head,
                  const std::string& rows, const std::string& foot) {
  std::string all = text("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"",
                         html(label), "\"><table class=\"sorts\"><thead><tr>");
  for (const std::string& cell : head) {
    const bool is_number = cell.starts_with('#');
    all += text("<th scope=\"col\"", is_number ? " class=\"number\"" : "", ">",
                html(is_number ? cell.substr(1) : cell), "</th>");
  }
  all += "</tr></thead><tbody>\n";
  all += rows;
  all += "</tbody>";
  if (!foot.empty()) all += "<tfoot>" + foot + "</tfoot>";
  return all + "</table></div>\n";
}

std::string number_cell(const std::optional<double>& value, const std::string& words) {
  if (!value) return "<td class=\"number\" data-v=\"\"></td>";
  return text("<td class=\"number\" data-v=\"", std::isfinite(*value) ? json_number(*value) : "",
              "\">", html(words), "</td>");
}

std::string text_cell(std::string_view text_in) { return "<td>" + html(text_in) + "</td>"; }

}  // namespace crema
