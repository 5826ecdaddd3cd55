// The pages of `crema board`, without a socket: a request in, a response out. Pages show the runs
// of one folder and follow them while they train. Nothing is written.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "monitor/board/image_viewer.hpp"
#include "monitor/board/run_places.hpp"
#include "monitor/board/target.hpp"
#include "monitor/report/page.hpp"
#include "proto/evaluation.pb.h"

namespace crema {

struct ListedRun;  // monitor/board/pages.hpp

struct BoardRequest {
  std::string method = "GET";
  std::string target;                    // as it came, with its query, not decoded
  std::string host, origin, fetch_site;  // headers Host, Origin and Sec-Fetch-Site; "": none
  std::string token;  // header X-Crema-Board, which pages of other origins cannot send
  std::string body;
};

struct BoardResponse {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};  // beside board_headers()
};

/// Of every response: nothing of it is kept, framed, or read by pages of other origins, and pages
/// run no script but the board's own files.
const std::vector<std::pair<std::string, std::string>>& board_headers();

/// The largest body of a request, in bytes.
inline constexpr size_t kLargestImage = 20U << 20U;

struct BoardOptions {
  std::string folder;  // of runs, or of one run
  /// What weights of a run see in an image; called by one thread at a time. None: pages do not
  /// offer it. An Error of it is shown.
  std::function<SeenImage(const RunFiles&, const std::string& weights, std::string_view image)>
      see = {};
  /// Shapes and times of a run's layers, likewise.
  std::function<LayerTable(const RunFiles&)> measure = {};
};

/// Any number of threads.
class Board {
 public:
  explicit Board(BoardOptions options);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  /// GET and HEAD of
  ///   /                      the list of runs
  ///   /run/ID                a run: its report, live
  ///   /compare?run=ID&run=ID runs beside each other, or /compare?parent=NAME, trials of a sweep
  ///   /parts/...             of one of these, as JSON, the parts that are not in ?have=
  ///   /file/NAME/ID          a file of a run
  ///   /report.js, /board.js
  /// and POST of
  ///   /see/ID?weights=NAME   an image: what the weights see in it, as JSON
  ///   /measure/ID            times of the layers
  /// All else is refused: 400 for a bad request, 403 for another host or origin, 404, 405, 413.
  BoardResponse answer(const BoardRequest& request);

 private:
  struct Content;
  struct Row;
  struct Cached;
  struct Reader;

  BoardResponse route(const BoardRequest& request);
  BoardResponse see(const RunPlace& place, const BoardTarget& target, const std::string& image);
  BoardResponse measure(const RunPlace& place);
  BoardResponse file(const RunPlace& place, const std::string& name) const;

  std::shared_ptr<const Content> content_of(const BoardTarget& target);
  std::shared_ptr<const Content> list_content();
  std::shared_ptr<const Content> run_content_of(const RunPlace& place);
  std::shared_ptr<const Content> comparison_of(const BoardTarget& target);
  ListedRun row_of(const RunPlace& place);
  /// Calls body(run) with the files as they are now, one thread at a time for each run.
  void with_run(const RunPlace& place, const std::function<void(const RunFiles&)>& body);
  RunFiles without_curves(const RunPlace& place);
  std::shared_ptr<const Content> cached(const std::string& key, const std::string& state,
                                        const std::function<Content()>& make);

  BoardOptions options_;
  // Of the four maps, for a moment. What is in the first three has a mutex of its own, so that who
  // waits for one run's page holds nobody else. Those are taken in this order.
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Cached>> contents_;
  std::map<std::string, std::shared_ptr<Row>> rows_;        // by run
  std::map<std::string, std::shared_ptr<Reader>> readers_;  // by run
  std::map<std::string, LayerTable> measured_;              // by run
  std::mutex nets_mutex_;                                   // of see and measure
};

}  // namespace crema
