#include "monitor/board/pages.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "crema/error.hpp"
#include "monitor/board/target.hpp"
#include "monitor/run_folder.hpp"

namespace crema {
namespace {

constexpr int kLogLines = 300;

std::string state_cell(const ListedRun& run) {
  if (!run.problem.empty())
    return text("<td class=\"wrap\"><span class=\"bad\">cannot be read</span>: ", html(run.problem),
                "</td>");
  const char* kind = run.is_live ? "live" : run.is_bad ? "bad" : "";
  return text("<td class=\"wrap\"><span class=\"", kind, "\">", html(run.state), "</span></td>");
}

std::string iterations_cell(const ListedRun& run) {
  if (!run.problem.empty()) return number_cell(std::nullopt, "");
  const std::string words = run.max_iterations > 0 ? text(count_words(run.iterations), " of ",
                                                          count_words(run.max_iterations))
                                                   : count_words(run.iterations);
  return number_cell(run.iterations, words);
}

std::string row_of_list(const ListedRun& run) {
  const std::string link = "/run/" + encoded_path(run.id);
  const bool can_be_shown = run.problem.empty();
  std::string row =
      text("<tr><td>",
           can_be_shown ? text("<input type=\"checkbox\" name=\"run\" value=\"", html(run.id),
                               "\" aria-label=\"Compare ", html(run.id), "\" />")
                        : "",
           "</td><th scope=\"row\"><a href=\"", html(link), "\">", html(run.id), "</a></th>",
           state_cell(run), iterations_cell(run));
  if (run.main) {
    row += number_cell(run.main->best.value,
                       text(value_words(run.main->best.value), " ", run.main->name));
  } else {
    row += number_cell(std::nullopt, "");
  }
  row += run.loss ? number_cell(*run.loss, value_words(*run.loss)) : number_cell(std::nullopt, "");
  row += run.seconds > 0 ? number_cell(run.seconds, time_words(run.seconds))
                         : number_cell(std::nullopt, "");
  row += run.started > 0 ? number_cell(run.started, date_words(run.started))
                         : number_cell(std::nullopt, "");
  return row + text_cell(run.net) + text_cell(run.device) + "</tr>\n";
}

}  // namespace

std::vector<PageSection> list_sections(std::vector<ListedRun> runs) {
  std::ranges::stable_sort(runs, [](const ListedRun& a, const ListedRun& b) {
    if (a.is_live != b.is_live) return a.is_live;
    return std::max(a.last_wall, a.started) > std::max(b.last_wall, b.started);
  });
  if (runs.empty())
    return {{"runs", "Runs",
             "<p>There is no run here yet. <code>crema train</code> makes a folder for each, and "
             "this page shows it as soon as it is there.</p>\n"}};
  std::string rows;
  std::map<std::string, int> trials;
  for (const ListedRun& run : runs) {
    rows += row_of_list(run);
    if (!run.parent.empty() && run.problem.empty()) ++trials[run.parent];
  }
  std::vector<PageSection> sections = {
      {"runs", "Runs",
       text("<form action=\"/compare\" method=\"get\">\n",
            table("Runs",
                  {"", "run", "state", "#iterations", "#best", "#training loss", "#time",
                   "#started", "net", "device"},
                  rows),
            "<p><button type=\"submit\">Compare the chosen runs</button></p></form>\n")}};
  std::string sweeps;
  for (const auto& [parent, count] : trials)
    sweeps += text("<li><a href=\"/compare?parent=", encoded_segment(parent), "\">", html(parent),
                   "</a>: ", count, count == 1 ? " trial" : " trials", "</li>\n");
  if (!sweeps.empty())
    sections.push_back({"sweeps", "Sweeps", "<ul class=\"links\">" + sweeps + "</ul>\n"});
  return sections;
}

PageSection images_section() {
  return {
      "images", "Images",
      "<p>What the weights see in images of yours. Nothing of them is stored.</p>\n"
      "<div class=\"see\"><label>Weights <select id=\"weights\"></select></label>\n"
      "<label class=\"drop\" id=\"drop\" for=\"see-files\">Drop images here, or choose files"
      "<input type=\"file\" id=\"see-files\" multiple=\"multiple\" accept=\"image/png,image/jpeg,"
      "image/gif,image/bmp,image/webp\" /></label>\n"
      "<label id=\"least\" hidden=\"hidden\">Boxes from confidence <input type=\"range\" "
      "id=\"confidence\" min=\"5\" max=\"95\" step=\"5\" value=\"50\" /> <output "
      "id=\"confidence-value\">0.50</output></label></div>\n"
      "<p id=\"see-state\" class=\"faint\" role=\"status\"></p>\n"
      "<ul class=\"pictures wide\" id=\"seen\"></ul>\n"};
}

PageSection log_section(const RunPlace& place) {
  const std::string lines = last_lines(file_of_run(place.folder, kRunLogFile), kLogLines);
  if (lines.empty()) return {"log-lines", "Log", ""};
  return {"log-lines", "Log",
          text("<details><summary>The last lines of log.txt</summary>\n<pre tabindex=\"0\" "
               "class=\"log\">",
               html_lines(lines), "</pre></details>\n")};
}

PageSection files_section(const RunPlace& place) {
  std::string links;
  for (const std::string& name : readable_files(place))
    links += text("<li><a download=\"", html(name), "\" href=\"/file/", encoded_segment(name), "/",
                  encoded_path(place.id), "\">", html(name), "</a></li>\n");
  return {"run-files", "Files",
          text("<p class=\"faint\">", html(place.folder), "</p>\n",
               links.empty() ? "" : "<ul class=\"links\">" + links + "</ul>\n")};
}

PageFrame board_frame(const std::string& above, const std::string& data) {
  return {
      .policy =
          "default-src 'none'; img-src 'self' data: blob:; style-src 'unsafe-inline'; "
          "script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'",
      .above = text("<style>", kBoardStyle, "</style>\n", above,
                    "<p id=\"board-state\" class=\"faint\" role=\"status\"></p>\n"),
      .footer = "Served by crema board on this machine alone.",
      .scripts = text("<script type=\"application/json\" id=\"board-data\">", json_in_script(data),
                      "</script>\n<script src=\"/report.js\"></script>\n<script "
                      "src=\"/board.js\"></script>\n")};
}

}  // namespace crema
