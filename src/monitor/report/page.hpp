// What the pages of reports are made of: escaped text, numbers in words, and the frame around
// sections. Pages are HTML that is also well-formed XML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

extern const char* const kReportStyle;
extern const char* const kReportScript;

/// A text of one line as HTML, in elements and in attributes. What XML cannot hold is replaced.
std::string html(std::string_view text);
/// A text of several lines as HTML, for <pre>.
std::string html_lines(std::string_view text);
/// A text of JSON as it can stand in a <script>.
std::string json_in_script(std::string_view json);
/// The bytes in base 64, as in the address "data:image/png;base64,...".
std::string base64(std::string_view bytes);

/// "12,345".
std::string count_words(int64_t number);
/// Four digits: "0.02315", "12,345", "1.2e-05", "NaN".
std::string value_words(double value);
/// "12.3%"; "-" for none.
std::string share_words(const std::optional<double>& share);
/// "1.2 GB".
std::string bytes_words(double bytes);
/// "1h02m", "3m20s", "12s", "0.40s".
std::string time_words(double seconds);
/// "2026-11-27 21:34 UTC".
std::string date_words(double seconds_since_1970);
/// "2026-11-27 21:34:05 UTC".
std::string moment_words(double seconds_since_1970);
/// The name of a class: its own, or its number.
std::string class_words(std::string_view name, int64_t label);
/// One of many colours by its number, "#rrggbb"; classes of neighbouring numbers differ.
std::string class_color(int64_t label);

/// The word as a POSIX shell reads it, with quotes if it needs them.
std::string shell_quoted(const std::string& word);

struct PageSection {
  std::string id, title, body;
};

/// What a page shows.
struct PageContent {
  std::string title, head;            // `head`: the HTML above the sections
  std::vector<PageSection> sections;  // those without a body are left out
  std::string curves;                 // JSON of the charts
};
/// What is around it: as a file of its own, or as the board serves it.
struct PageFrame {
  std::string policy;   // Content-Security-Policy
  std::string above;    // HTML at the top
  std::string footer;   // words
  std::string scripts;  // HTML at the end
};

std::string page(const PageContent& content, const PageFrame& frame);
/// A page that is a file of its own, with its script.
std::string page(const PageContent& content);
/// A section as it stands in a page; "" without a body.
std::string section_of_page(const PageSection& section);
/// The list of links to the sections.
std::string links_to_sections(const std::vector<PageSection>& sections);

/// A table in a frame that scrolls: a cell of the head that begins with '#' is of a column of
/// numbers. The rows are HTML.
std::string table(const std::string& label, const std::vector<std::string>& head,
                  const std::string& rows, const std::string& foot = "");
/// <td> of a number, by which the column sorts; none: an empty cell.
std::string number_cell(const std::optional<double>& value, const std::string& words);
std::string text_cell(std::string_view text);

}  // namespace crema
