#include "monitor/board/board.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <set>

#include "core/json.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "monitor/board/pages.hpp"
#include "monitor/report/report.hpp"
#include "monitor/run_folder.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t kMostContents = 24, kMostReaders = 24, kMostCompared = 200;
constexpr uintmax_t kLargestFile = 256U << 20U;

const char* words_of_status(int status) {
  switch (status) {
    case 400:
      return "The request is wrong";
    case 403:
      return "Refused";
    case 404:
      return "Not here";
    case 405:
      return "The method is not known here";
    case 413:
      return "Too large";
    case 422:
      return "This does not work";
    default:
      return "An error";
  }
}

BoardResponse refusal(int status, const std::string& why) {
  PageContent content{words_of_status(status),
                      text("<h1>", words_of_status(status), "</h1>\n<p class=\"fail\">", html(why),
                           "</p>\n<p><a href=\"/\">All runs</a></p>\n"),
                      {},
                      ""};
  return {.status = status, .body = page(content, board_frame("", "{}"))};
}

BoardResponse json_response(int status, std::string body) {
  return {.status = status, .type = "application/json", .body = std::move(body)};
}

BoardResponse json_refusal(int status, const std::string& why) {
  return json_response(status, "{\"error\":" + json_string(printable_message(why)) + "}");
}

/// Whether the Host names this machine: a page elsewhere whose name was bound to 127.0.0.1 sends
/// its own name. The port may be another one, as of a tunnel.
bool is_own_host(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    if (port.empty() || port.size() > 5 ||
        !std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }))
      return false;
    host = host.substr(0, colon);
  }
  std::string name(host);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name == "127.0.0.1" || name == "localhost";
}

/// Without the lines behind the first one, which show a place in a text.
std::string first_line_of(const Error& error) {
  const std::string all = error.what();
  return all.substr(0, all.find('\n'));
}

std::string hash_of(const std::string& text_in) {
  return std::to_string(std::hash<std::string>()(text_in));
}

std::string without_first(const std::vector<std::string>& path, size_t count) {
  std::string all;
  for (size_t i = count; i < path.size(); ++i) all += (all.empty() ? "" : "/") + path[i];
  return all;
}

/// Errors of pages, such as of a run that is not there.
struct NotHere {
  int status;
  std::string why;
};

/// Removes the values that nobody has used for the longest time, but for the one of `key`.
template <class Value>
void keep_most(std::map<std::string, std::shared_ptr<Value>>& all, size_t most,
               const std::string& key) {
  while (all.size() > most) {
    auto oldest = all.end();
    for (auto one = all.begin(); one != all.end(); ++one) {
      if (one->first == key) continue;
      if (oldest == all.end() || one->second->used < oldest->second->used) oldest = one;
    }
    all.erase(oldest);
  }
}

const RunPlace& place_of(const std::vector<RunPlace>& places, const std::string& id) {
  const auto found = std::ranges::find(places, id, &RunPlace::id);
  if (found == places.end())
    throw NotHere{404, text("there is no run '", printable(id), "' in the folder of runs")};
  return *found;
}

}  // namespace

/// A page in parts.
struct Board::Content {
  PageContent page;
  std::string above;
  bool is_live = false;
  bool takes_images = false;
  std::vector<PlacedWeights> weights;
  std::string run_id;  // of the page of one run

  /// Name, hash and HTML of each part, in order.
  struct Part {
    std::string id, title, hash, html;
  };
  std::vector<Part> parts() const {
    std::vector<Part> all = {{"head", "", hash_of(page.head), page.head}};
    for (const PageSection& section : page.sections) {
      if (section.body.empty()) continue;
      std::string html = section_of_page(section);
      // Charts are drawn of their data.
      std::string hash = hash_of(section.id == "curves" ? html + page.curves : html);
      all.push_back({section.id, section.title, std::move(hash), std::move(html)});
    }
    return all;
  }
  std::string json(const std::string& url, const std::set<std::string>& have, bool with_html) const;
};

/// What the script needs; `have`: parts as "id:hash" that the page has.
std::string Board::Content::json(const std::string& url, const std::set<std::string>& have,
                                 bool with_html) const {
  std::string all = text("{\"url\":", json_string(url), ",\"title\":", json_string(page.title),
                         ",\"live\":", is_live ? "true" : "false",
                         ",\"run\":", json_string(encoded_path(run_id)), ",\"weights\":[");
  for (size_t i = 0; i < weights.size(); ++i)
    all += text(i == 0 ? "" : ",", "{\"name\":", json_string(encoded_segment(weights[i].name)),
                ",\"words\":", json_string(drawable(weights[i].words)), "}");
  all += "],\"parts\":[";
  bool is_first = true, sends_curves = false;
  for (const Part& part : parts()) {
    all += text(is_first ? "" : ",", "{\"id\":", json_string(part.id),
                ",\"hash\":", json_string(part.hash));
    if (with_html && !have.contains(part.id + ":" + part.hash)) {
      all += ",\"html\":" + json_string(part.html);
      sends_curves = sends_curves || part.id == "curves";
    }
    all += "}";
    is_first = false;
  }
  all += "]";
  if (with_html) all += ",\"links\":" + json_string(links_to_sections(page.sections));
  if (sends_curves) all += ",\"curves\":" + json_string(page.curves);
  return all + "}";
}

struct Board::Row {
  std::mutex mutex;
  std::string state;
  Clock::time_point next;  // not read again before
  ListedRun listed;
};

struct Board::Cached {
  std::mutex mutex;
  std::string state;
  Clock::time_point next;
  std::shared_ptr<const Content> content;
  Clock::time_point used;  // of Board::mutex_
};

struct Board::Reader {
  explicit Reader(const std::string& folder) : files(folder) {}

  std::mutex mutex;
  RunReader files;
  Clock::time_point used;  // of Board::mutex_
};

const std::vector<std::pair<std::string, std::string>>& board_headers() {
  static const std::vector<std::pair<std::string, std::string>> headers = {
      {"Content-Security-Policy",
       "default-src 'none'; img-src 'self' data: blob:; style-src 'unsafe-inline'; script-src "
       "'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-store"}};
  return headers;
}

Board::Board(BoardOptions options) : options_(std::move(options)) {}
Board::~Board() = default;

BoardResponse Board::answer(const BoardRequest& request) {
  if (!is_own_host(request.host))
    return refusal(403, text("the request is for the host '", printable(request.host),
                             "', and this page is served to 127.0.0.1 and localhost alone"));
  try {
    return route(request);
  } catch (const NotHere& error) {
    return request.method == "POST" ? json_refusal(error.status, error.why)
                                    : refusal(error.status, error.why);
  } catch (const std::exception& error) {
    return request.method == "POST" ? json_refusal(500, error.what()) : refusal(500, error.what());
  }
}

BoardResponse Board::route(const BoardRequest& request) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool posts = request.method == "POST";
  if (!reads && !posts) {
    BoardResponse response = refusal(405, "the board answers GET, HEAD and POST");
    response.headers.emplace_back("Allow", "GET, HEAD, POST");
    return response;
  }
  std::string why;
  const std::optional<BoardTarget> target = parse_target(request.target, why);
  if (!target) return refusal(400, why);
  const std::vector<std::string>& path = target->path;
  const std::string first = path.empty() ? "" : path[0];
  if (posts) {
    if (first != "see" && first != "measure") throw NotHere{404, "nothing is posted to this page"};
    const bool is_own_page =
        request.token == "1" &&
        (request.origin.empty() || request.origin == "http://" + request.host) &&
        (request.fetch_site.empty() || request.fetch_site == "same-origin");
    if (!is_own_page) return json_refusal(403, "the request is not of a page of this board");
    if (request.body.size() > kLargestImage)
      return json_refusal(413, text("the file is larger than ", kLargestImage >> 20U, " MiB"));
    const std::vector<RunPlace> places = find_runs(options_.folder);
    const RunPlace& place = place_of(places, without_first(path, 1));
    return first == "see" ? see(place, *target, request.body) : measure(place);
  }
  if (path.size() == 1 && first == "report.js")
    return {.type = "text/javascript; charset=utf-8", .body = kReportScript};
  if (path.size() == 1 && first == "board.js")
    return {.type = "text/javascript; charset=utf-8", .body = kBoardScript};
  if (path.size() == 1 && first == "favicon.ico")
    return {.type = "image/svg+xml", .body = kBoardIcon};
  if (first == "file" && path.size() >= 3) {
    const std::vector<RunPlace> places = find_runs(options_.folder);
    return file(place_of(places, without_first(path, 2)), path[1]);
  }
  BoardTarget shown = *target;
  const bool in_parts = first == "parts";
  if (in_parts) shown.path.erase(shown.path.begin());
  const std::shared_ptr<const Content> content = content_of(shown);
  if (in_parts) {
    std::set<std::string> have;
    const std::string list = target->value("have");
    for (size_t begin = 0; begin < list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      have.insert(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return json_response(200, content->json("", have, true));
  }
  std::string url = "/parts";
  for (const std::string& segment : path) url += "/" + encoded_segment(segment);
  url += '?';
  for (const auto& [name, value] : target->query)
    url += encoded_segment(name) + "=" + encoded_segment(value) + "&";
  return {.body = page(content->page, board_frame(content->above, content->json(url, {}, false)))};
}

BoardResponse Board::see(const RunPlace& place, const BoardTarget& target,
                         const std::string& image) {
  if (!options_.see) return json_refusal(404, "this board takes no images");
  if (!place.problem.empty()) return json_refusal(404, place.problem);
  try {
    const RunFiles run = without_curves(place);
    const std::vector<PlacedWeights> all = weights_in_run(place, run);
    const auto weights = std::ranges::find(all, target.value("weights"), &PlacedWeights::name);
    if (weights == all.end())
      return json_refusal(404, text("the run has no weights '", printable(target.value("weights")),
                                    "' any more; choose others"));
    const std::lock_guard lock(nets_mutex_);
    return json_response(200, json_of(options_.see(run, weights->file, image)));
  } catch (const Error& error) {
    return json_refusal(422, error.what());
  }
}

BoardResponse Board::measure(const RunPlace& place) {
  if (!options_.measure) return json_refusal(404, "this board measures nothing");
  if (!place.problem.empty()) return json_refusal(404, place.problem);
  try {
    const RunFiles run = without_curves(place);
    const std::lock_guard nets_lock(nets_mutex_);
    LayerTable table = options_.measure(run);
    const std::lock_guard lock(mutex_);
    measured_[place.id] = std::move(table);
    contents_.erase("run " + place.id);
    return json_response(200, "{}");
  } catch (const Error& error) {
    return json_refusal(422, error.what());
  }
}

BoardResponse Board::file(const RunPlace& place, const std::string& name) const {
  const std::vector<std::string> names = readable_files(place);
  if (std::ranges::count(names, name) == 0)
    throw NotHere{404,
                  text("the run has no file '", printable(name), "' that this page gives out")};
  const std::string path = file_of_run(place.folder, name);
  std::error_code failed;
  if (fs::file_size(path, failed) > kLargestFile && !failed)
    throw NotHere{413, text(printable(name), " is larger than ", kLargestFile >> 20U,
                            " MiB; it is in ", printable(place.folder))};
  std::optional<std::string> content = text_of_file(path);
  if (!content) throw NotHere{404, text(printable(name), " cannot be read")};
  return {.type = "text/plain; charset=utf-8",
          .body = std::move(*content),
          .headers = {{"Content-Disposition", "attachment; filename=\"" + name + "\""}}};
}

std::shared_ptr<const Board::Content> Board::content_of(const BoardTarget& target) {
  const std::string first = target.path.empty() ? "" : target.path[0];
  if (target.path.empty()) return list_content();
  if (first == "run" && target.path.size() > 1) {
    const std::vector<RunPlace> places = find_runs(options_.folder);
    return run_content_of(place_of(places, without_first(target.path, 1)));
  }
  if (first == "compare" && target.path.size() == 1) return comparison_of(target);
  throw NotHere{404, "there is no such page"};
}

/// A page whose run goes on is made anew when its files have changed, but takes no more than a
/// fifth of the time of a core.
std::shared_ptr<const Board::Content> Board::cached(const std::string& key,
                                                    const std::string& state,
                                                    const std::function<Content()>& make) {
  std::shared_ptr<Cached> entry;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Cached>& place = contents_[key];
    if (!place) place = std::make_shared<Cached>();
    place->used = Clock::now();
    entry = place;
    keep_most(contents_, kMostContents, key);
  }
  const std::lock_guard lock(entry->mutex);
  const auto now = Clock::now();
  if (entry->content && (entry->state == state || now < entry->next)) return entry->content;
  entry->content = std::make_shared<const Content>(make());
  const auto end = Clock::now();
  entry->state = state;
  entry->next = end + 4 * (end - now);
  return entry->content;
}

void Board::with_run(const RunPlace& place, const std::function<void(const RunFiles&)>& body) {
  if (!place.problem.empty()) throw Error(place.problem);
  std::shared_ptr<Reader> reader;
  std::optional<LayerTable> measured;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Reader>& known = readers_[place.id];
    if (!known) known = std::make_shared<Reader>(place.folder);
    known->used = Clock::now();
    reader = known;
    keep_most(readers_, kMostReaders, place.id);
    const auto found = measured_.find(place.id);
    if (found != measured_.end()) measured = found->second;
  }
  const std::lock_guard lock(reader->mutex);
  RunFiles& run = reader->files.read();
  if (!run.layers && measured) run.layers = std::move(measured);
  body(run);
}

/// For what runs nets, while pages of the run are made.
RunFiles Board::without_curves(const RunPlace& place) {
  RunFiles part;
  with_run(place, [&](const RunFiles& run) {
    part.folder = run.folder;
    part.info = run.info;
    part.events = run.events;
    part.iterations = run.iterations;
    part.is_alive = run.is_alive;
    part.evaluation = run.evaluation;
    part.layers = run.layers;
    part.solver_text = run.solver_text;
    part.net_text = run.net_text;
    part.test_net_texts = run.test_net_texts;
  });
  return part;
}

ListedRun Board::row_of(const RunPlace& place) {
  std::shared_ptr<Row> row;
  {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Row>& known = rows_[place.id];
    if (!known) known = std::make_shared<Row>();
    row = known;
  }
  const std::lock_guard lock(row->mutex);
  const std::string state = state_of_files(place);
  const auto now = Clock::now();
  if (row->state == state || (!row->state.empty() && now < row->next)) return row->listed;
  row->state = state;
  ListedRun& listed = row->listed = {};
  listed.id = place.id;
  listed.is_live = place.problem.empty() && is_run_alive(place.folder);
  try {
    with_run(place, [&](const RunFiles& run) {
      listed.name = run.info.name();
      listed.net = run.info.net();
      listed.parent = run.info.parent();
      listed.device = run.info.device();
      listed.state = state_words(run);
      listed.is_bad = run.state() == RunOutcome::failed;
      listed.iterations = run.iterations;
      listed.max_iterations = run.info.max_iterations();
      listed.main = main_output(run);
      if (!run.loss.empty())
        listed.loss = (run.smoothed_loss.empty() ? run.loss : run.smoothed_loss).back().value;
      listed.seconds = run.time.empty() ? 0 : run.time.back().value;
      listed.started = run.info.started();
      listed.last_wall = run.last_wall;
    });
  } catch (const Error& error) {
    listed.problem = first_line_of(error);
    listed.is_live = false;
  }
  const auto end = Clock::now();
  row->next = end + 4 * (end - now);
  return row->listed;
}

std::shared_ptr<const Board::Content> Board::list_content() {
  const std::vector<RunPlace> places = find_runs(options_.folder);
  std::vector<ListedRun> listed;
  for (const RunPlace& place : places) listed.push_back(row_of(place));
  {
    const std::lock_guard lock(mutex_);
    std::set<std::string> there;
    for (const RunPlace& place : places) there.insert(place.id);
    std::erase_if(rows_, [&](const auto& row) { return !there.contains(row.first); });
  }
  const auto live = std::ranges::count(listed, true, &ListedRun::is_live);
  Content content;
  content.page.title = "Runs";
  std::error_code unknown;
  content.page.head =
      text("<h1>Runs</h1>\n<p class=\"faint\">",
           html(fs::absolute(options_.folder, unknown).lexically_normal().string()), ": ",
           listed.size(), listed.size() == 1 ? " run" : " runs", ", ", live, " in training</p>\n");
  content.page.sections = list_sections(std::move(listed));
  content.is_live = true;  // runs come
  return std::make_shared<const Content>(std::move(content));
}

std::shared_ptr<const Board::Content> Board::run_content_of(const RunPlace& place) {
  return cached("run " + place.id, state_of_files(place), [&] {
    Content content;
    content.run_id = place.id;
    content.above = "<p class=\"board\"><a href=\"/\">All runs</a></p>\n";
    content.page.title = place.id;
    content.is_live = place.problem.empty() && is_run_alive(place.folder);
    try {
      with_run(place, [&](const RunFiles& run) {
        content.page = run_content(run);
        content.weights = weights_in_run(place, run);
        std::vector<PageSection>& sections = content.page.sections;
        if (options_.see && !content.weights.empty())
          sections.insert(sections.begin() + std::min<std::ptrdiff_t>(1, std::ssize(sections)),
                          images_section());
        if (options_.measure && !run.layers && !run.net_text.empty()) {
          const auto net = std::ranges::find(sections, "net", &PageSection::id);
          if (net != sections.end())
            net->body +=
                "<p><button type=\"button\" id=\"measure\">Find shapes and times of the "
                "layers</button> <span id=\"measure-state\" class=\"faint\" "
                "role=\"status\"></span></p>\n";
        }
      });
    } catch (const Error& error) {
      content.page.head = text("<h1>", html(place.id), "</h1>\n<p class=\"fail\" role=\"alert\">",
                               html(first_line_of(error)), "</p>\n");
      content.page.sections.clear();
    }
    if (place.problem.empty()) {
      content.page.sections.push_back(log_section(place));
      content.page.sections.push_back(files_section(place));
    }
    return content;
  });
}

std::shared_ptr<const Board::Content> Board::comparison_of(const BoardTarget& target) {
  const std::vector<RunPlace> places = find_runs(options_.folder);
  std::vector<RunPlace> chosen;
  const std::string parent = target.value("parent");
  if (!parent.empty()) {
    for (const RunPlace& place : places) {
      if (row_of(place).parent == parent) chosen.push_back(place);
    }
  }
  for (const auto& [name, id] : target.query) {
    if (name != "run") continue;
    const RunPlace& place = place_of(places, id);
    if (std::ranges::count(chosen, place.id, &RunPlace::id) == 0) chosen.push_back(place);
  }
  if (chosen.size() < 2)
    throw NotHere{400, "a comparison needs two runs or more; choose them in the list of runs"};
  if (chosen.size() > kMostCompared)
    throw NotHere{400, text("a comparison is of at most ", kMostCompared, " runs")};
  std::string key = "compare", state;
  for (const RunPlace& place : chosen) {
    key += "\n" + place.id;
    state += state_of_files(place);
  }
  return cached(key, state, [&] {
    Content content;
    std::vector<RunFiles> runs;
    std::string problems, links;
    for (const RunPlace& place : chosen) {
      try {
        with_run(place, [&](const RunFiles& run) {
          runs.push_back(run);
          runs.back().info.set_name(place.id);
        });
        content.is_live = content.is_live || is_run_alive(place.folder);
        links += text("<a href=\"/run/", encoded_path(place.id), "\">", html(place.id), "</a> ");
      } catch (const Error& error) {
        problems +=
            text("<p class=\"note\">", html(place.id), ": ", html(first_line_of(error)), "</p>\n");
      }
    }
    if (!runs.empty()) content.page = comparison_content(runs);
    content.page.head += "<p class=\"links\">" + links + "</p>\n" + problems;
    content.above = "<p class=\"board\"><a href=\"/\">All runs</a></p>\n";
    return content;
  });
}

}  // namespace crema
