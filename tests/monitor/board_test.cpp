// The pages of crema board: requests and their refusals, without a socket.
#include "monitor/board/board.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "crema/error.hpp"
#include "monitor/board/image_sides.hpp"
#include "support/image_files.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

class BoardTest : public ::testing::Test {
 protected:
  BoardTest() { fs::create_directory(folder_.path("runs")); }

  std::string runs() const { return folder_.path("runs"); }
  /// A run with a display, a test and an end.
  void make_run(const std::string& id, const std::string& more_info = "",
                const std::string& more_lines = "") const {
    const std::string run = "runs/" + id;
    fs::create_directories(folder_.path(run + "/snapshots"));
    folder_.write(run + "/run.json",
                  R"({"name": "n", "net": "tiny", "max_iterations": 100)" + more_info + "}");
    folder_.write(run + "/metrics.jsonl",
                  R"({"kind": "START", "iteration": 0}
{"kind": "TRAIN", "iteration": 50, "loss": 0.5, "rate": 0.1}
{"kind": "TEST", "iteration": 50, "net": 0, "test_loss": 0.25, "outputs": {"accuracy": 0.875}}
)" + more_lines);
    folder_.write(run + "/log.txt", "the log of " + id + "\n");
  }
  void append(const std::string& id, const std::string& line) const {
    std::ofstream(folder_.path("runs/" + id + "/metrics.jsonl"), std::ios::app) << line << "\n";
  }

  BoardRequest get(const std::string& target) const {
    return {.target = target, .host = "127.0.0.1:7007"};
  }
  BoardRequest post(const std::string& target, const std::string& body) const {
    BoardRequest request = get(target);
    request.method = "POST";
    request.origin = "http://127.0.0.1:7007";
    request.fetch_site = "same-origin";
    request.token = "1";
    request.body = body;
    return request;
  }
  /// The hashes of a page's parts, as the page's script sends them.
  static std::string hashes_in(const std::string& json) {
    std::string all;
    for (size_t at = 0; (at = json.find("\"id\":\"", at)) != std::string::npos;) {
      const size_t id = at + 6, id_end = json.find('"', id);
      const size_t hash = json.find("\"hash\":\"", id_end) + 8;
      all +=
          json.substr(id, id_end - id) + ":" + json.substr(hash, json.find('"', hash) - hash) + ",";
      at = hash;
    }
    return all;
  }

  TempFolder folder_;
};

TEST(BoardTargets, AreDecodedInParts) {
  std::string why;
  const auto target = parse_target("/run/a%20b/%3Cc%3E?have=x%3Ay,z&run=a+b&&flag", why);
  ASSERT_TRUE(target) << why;
  EXPECT_EQ(target->path, (std::vector<std::string>{"run", "a b", "<c>"}));
  EXPECT_EQ(target->value("have"), "x:y,z");
  EXPECT_EQ(target->value("run"), "a b");
  EXPECT_EQ(target->value("flag"), "");
  EXPECT_TRUE(parse_target("/", why)->path.empty());
  const std::string name = "a\"<&%\xff\n b";
  const auto back = parse_target("/run/" + encoded_path("x/" + name), why);
  ASSERT_TRUE(back) << why;
  EXPECT_EQ(back->path, (std::vector<std::string>{"run", "x", name}));
}

TEST(BoardTargets, OfOtherPathsAreRefused) {
  for (const std::string target :
       {"",          "run",           "http://x/",   "/..",
        "/run/..",   "/run/../x",     "/run/%2e%2e", "/run/%2E.",
        "/run/.",    "/run/a%2fb",    "/run/a%2Fb",  "/run/..%2f..%2fetc",
        "/run/a%00", "/a?run=%00",    "/run/%",      "/%4",
        "/%zz",      "/run//x",       "/run/a b",    "/run/a\nb",
        "/run/a\\b", "/run/\xc3\xa4", "/#x"}) {
    std::string why;
    EXPECT_FALSE(parse_target(target, why)) << target;
    EXPECT_NE(why, "") << target;
  }
  std::string why;
  EXPECT_FALSE(parse_target("/" + std::string(20000, 'a'), why));
}

TEST_F(BoardTest, ServesThisMachineAlone) {
  Board board({.folder = runs()});
  for (const std::string host : {"127.0.0.1:7007", "127.0.0.1", "localhost:9", "LOCALHOST"}) {
    BoardRequest request = get("/");
    request.host = host;
    EXPECT_EQ(board.answer(request).status, 200) << host;
  }
  for (const std::string host :
       {"", "evil.example", "evil.example:7007", "127.0.0.1.evil.example", "localhost.evil.example",
        "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:7007:1", "127.0.0.1@evil", "0.0.0.0:7007"}) {
    BoardRequest request = get("/");
    request.host = host;
    const BoardResponse response = board.answer(request);
    EXPECT_EQ(response.status, 403) << host;
    EXPECT_FALSE(has(response.body, "All runs</h1>")) << host;
  }
}

TEST_F(BoardTest, HeadersAllowNothingOfOthers) {
  std::set<std::string> names;
  for (const auto& [name, value] : board_headers()) {
    names.insert(name);
    EXPECT_FALSE(has(name, "Access-Control")) << name;
    if (name == "Content-Security-Policy") {
      EXPECT_TRUE(has(value, "default-src 'none'")) << value;
      EXPECT_TRUE(has(value, "script-src 'self';")) << value;
      EXPECT_TRUE(has(value, "frame-ancestors 'none'")) << value;
    }
  }
  EXPECT_TRUE(names.contains("X-Content-Type-Options"));
  EXPECT_TRUE(names.contains("Content-Security-Policy"));
}

TEST_F(BoardTest, OtherMethodsAndPagesAreRefused) {
  make_run("a-1");
  Board board({.folder = runs()});
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "get", ""}) {
    BoardRequest request = get("/");
    request.method = method;
    EXPECT_EQ(board.answer(request).status, 405) << method;
  }
  for (const char* target :
       {"/run", "/run/b-1", "/runs", "/file/run.json", "/file/run.json/b-1", "/file/other.txt/a-1",
        "/file/snapshots/a-1", "/parts/run/b-1", "/compare/x", "/see/a-1", "/measure/a-1"})
    EXPECT_EQ(board.answer(get(target)).status, 404) << target;
  EXPECT_EQ(board.answer(get("/run/../x")).status, 400);
  EXPECT_EQ(board.answer(get("/compare")).status, 400);
  EXPECT_EQ(board.answer(get("/compare?run=a-1")).status, 400);
  EXPECT_EQ(board.answer(post("/", "x")).status, 404);
  EXPECT_EQ(board.answer(post("/file/run.json/a-1", "x")).status, 404);
}

TEST_F(BoardTest, ListsRunsOfAllFolders) {
  make_run("lenet-10");
  make_run("lenet-9", R"(, "parent": "s 1")");
  make_run("s/trial-1", R"(, "parent": "s 1")");
  const std::vector<RunPlace> places = find_runs(runs());
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0].id, "lenet-9");
  EXPECT_EQ(places[1].id, "lenet-10");
  EXPECT_EQ(places[2].id, "s/trial-1");
  Board board({.folder = runs()});
  const std::string page = board.answer(get("/")).body;
  for (const char* part :
       {"href=\"/run/lenet-10\"", "href=\"/run/s/trial-1\"", "0.875 accuracy", "50 of 100",
        "href=\"/compare?parent=s%201\">s 1</a>: 2 trials", "3 runs"})
    EXPECT_TRUE(has(page, part)) << part << "\n" << page;
  // The folder of one run is a list of one.
  Board one({.folder = runs() + "/lenet-9"});
  EXPECT_TRUE(has(one.answer(get("/")).body, "href=\"/run/lenet-9\""));
  EXPECT_TRUE(has(one.answer(get("/run/lenet-9")).body, "<h1>n "));
}

TEST_F(BoardTest, AFolderWithoutRunsWaits) {
  Board none({.folder = folder_.path("later")});
  EXPECT_TRUE(has(none.answer(get("/")).body, "There is no run here yet"));
}

TEST_F(BoardTest, ARunIsItsReportInParts) {
  make_run("a-1", "",
           R"({"kind": "END", "iteration": 50, "reason": "FINISHED"})"
           "\n");
  Board board({.folder = runs()});
  const BoardResponse page = board.answer(get("/run/a-1"));
  EXPECT_EQ(page.status, 200);
  for (const char* part :
       {"finished", "chart-loss", "the log of a-1", "href=\"/file/metrics.jsonl/a-1\"",
        "<script src=\"/report.js\">", "<script src=\"/board.js\">", "/parts/run/a-1?"})
    EXPECT_TRUE(has(page.body, part)) << part;
  // No script but these and data: the policy lets no other one run.
  for (size_t at = 0; (at = page.body.find("<script", at)) != std::string::npos; ++at) {
    const std::string tag = page.body.substr(at, page.body.find('>', at) - at);
    EXPECT_TRUE(has(tag, "src=\"/") || has(tag, "application/json")) << tag;
  }
  EXPECT_EQ(board.answer(get("/report.js")).type, "text/javascript; charset=utf-8");
  EXPECT_EQ(board.answer(get("/board.js")).status, 200);
}

TEST_F(BoardTest, SendsOnlyPartsThatChanged) {
  make_run("a-1");
  Board board({.folder = runs()});
  const std::string all = board.answer(get("/parts/run/a-1")).body;
  EXPECT_TRUE(has(all, "\"curves\":\"{"));
  EXPECT_TRUE(has(all, "<section id=\\\"log-lines\\\"")) << all;
  const std::string have = "/parts/run/a-1?have=" + hashes_in(all);
  const BoardResponse same = board.answer(get(have));
  EXPECT_EQ(same.type, "application/json");
  EXPECT_FALSE(has(same.body, "\"html\"")) << same.body;
  EXPECT_FALSE(has(same.body, "\"curves\":\"")) << same.body;
  // The pages of a run that is read quickly follow at once.
  append("a-1", R"({"kind": "TRAIN", "iteration": 60, "loss": 0.125, "rate": 0.1})");
  std::string changed;
  for (int k = 0; k < 200 && !has(changed, "\"html\""); ++k) {
    changed = board.answer(get(have)).body;
    ::usleep(10000);
  }
  EXPECT_TRUE(has(changed, "\"curves\":\"{")) << changed;
  EXPECT_TRUE(has(changed, "0.125")) << changed;
  EXPECT_FALSE(has(changed, "the log of a-1")) << changed;
}

TEST_F(BoardTest, SaysWhichRunsAreInTraining) {
  make_run("a-1");
  Board board({.folder = runs()});
  EXPECT_TRUE(has(board.answer(get("/parts/run/a-1")).body, "\"live\":false"));
  EXPECT_TRUE(has(board.answer(get("/")).body, "0 in training"));
  // As the recorder of a process that trains holds it.
  const int held = ::open((runs() + "/a-1/metrics.jsonl").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  std::string parts;
  for (int k = 0; k < 200 && !has(parts, "\"live\":true"); ++k) {
    parts = board.answer(get("/parts/run/a-1")).body;
    ::usleep(10000);
  }
  EXPECT_TRUE(has(parts, "\"live\":true")) << parts;
  std::string list;
  for (int k = 0; k < 200 && !has(list, "1 in training"); ++k) {
    list = board.answer(get("/")).body;
    ::usleep(10000);
  }
  EXPECT_TRUE(has(list, ">running<")) << list;
  ::close(held);
}

TEST_F(BoardTest, ADamagedRunIsShownWithItsReason) {
  make_run("good-1");
  fs::create_directory(runs() + "/bad-1");
  folder_.write("runs/bad-1/run.json", "{\"name\": ");
  make_run("half-1", "", "{\"kind\": \"TRAIN\", \"iter");
  Board board({.folder = runs()});
  const std::string list = board.answer(get("/")).body;
  EXPECT_TRUE(has(list, "cannot be read")) << list;
  EXPECT_TRUE(has(list, "run.json is damaged")) << list;
  const BoardResponse bad = board.answer(get("/run/bad-1"));
  EXPECT_EQ(bad.status, 200);
  EXPECT_TRUE(has(bad.body, "run.json is damaged")) << bad.body;
  EXPECT_TRUE(has(board.answer(get("/run/half-1")).body, "chart-loss"));
  const std::string both = board.answer(get("/compare?run=good-1&run=bad-1&run=half-1")).body;
  EXPECT_TRUE(has(both, "Comparison of 2 runs")) << both;
  EXPECT_TRUE(has(both, "bad-1: ")) << both;
}

TEST_F(BoardTest, HostileNamesAreText) {
  const std::string name = "<img src=x onerror=alert(1)>\"'&-1";
  make_run(name, R"(, "name": "</script><script>alert(2)</script>", "parent": "<b>\"")",
           R"({"kind": "TEST", "iteration": 60, "net": 0, "outputs": {"</script><b>": 1}})"
           "\n");
  make_run("b-1");
  Board board({.folder = runs()});
  std::string why;
  for (const std::string& target :
       {std::string("/"), "/run/" + encoded_path(name),
        "/compare?run=b-1&run=" + encoded_segment(name), "/run/" + encoded_segment("<b>gone")}) {
    const std::string body = board.answer(get(target)).body;
    EXPECT_FALSE(has(body, "<img")) << target;
    EXPECT_FALSE(has(body, "</script><")) << target;
    EXPECT_FALSE(has(body, "<b>gone")) << target;
    EXPECT_FALSE(has(body, "<script>alert")) << target;
  }
  EXPECT_EQ(board.answer(get("/run/" + encoded_path(name))).status, 200);
}

TEST_F(BoardTest, LinksOutOfTheFolderAreNotFollowed) {
  folder_.write("secret.txt", "the secret\n");
  make_run("a-1");
  make_run("file-1");
  fs::remove(runs() + "/file-1/log.txt");
  fs::create_symlink(folder_.path("secret.txt"), runs() + "/file-1/log.txt");
  fs::create_directories(folder_.path("elsewhere"));
  folder_.write("elsewhere/run.json", R"({"name": "elsewhere"})");
  fs::create_directory_symlink(folder_.path("elsewhere"), runs() + "/link-1");
  fs::create_directory_symlink(folder_.path(""), runs() + "/up");
  fs::create_directory_symlink(runs() + "/a-1", runs() + "/inside-1");
  Board board({.folder = runs()});
  std::set<std::string> ids;
  for (const RunPlace& place : find_runs(runs())) ids.insert(place.id);
  EXPECT_EQ(ids, (std::set<std::string>{"a-1", "file-1", "inside-1", "link-1"}));
  for (const char* target : {"/", "/run/file-1", "/file/log.txt/file-1", "/run/link-1",
                             "/file/run.json/link-1", "/parts/run/file-1"}) {
    const std::string body = board.answer(get(target)).body;
    EXPECT_FALSE(has(body, "the secret")) << target;
    EXPECT_FALSE(has(body, "\"elsewhere\"")) << target;
  }
  EXPECT_TRUE(has(board.answer(get("/run/file-1")).body, "log.txt is a link that leads out"));
  EXPECT_TRUE(has(board.answer(get("/run/inside-1")).body, "chart-loss"));
}

TEST_F(BoardTest, GivesFilesToKeep) {
  make_run("a-1");
  Board board({.folder = runs()});
  folder_.write("runs/a-1/test_net_0.prototxt", "");
  folder_.write("runs/a-1/test_net_\r\nX: y.prototxt", "");
  EXPECT_EQ(board.answer(get("/file/test_net_0.prototxt/a-1")).status, 200);
  EXPECT_EQ(board.answer(get("/file/test_net_%0D%0AX:%20y.prototxt/a-1")).status, 404)
      << "names go into headers";
  const BoardResponse file = board.answer(get("/file/log.txt/a-1"));
  EXPECT_EQ(file.status, 200);
  EXPECT_EQ(file.body, "the log of a-1\n");
  EXPECT_EQ(file.type, "text/plain; charset=utf-8");
  ASSERT_EQ(file.headers.size(), 1U);
  EXPECT_EQ(file.headers[0].second, "attachment; filename=\"log.txt\"");
}

TEST_F(BoardTest, ComparesChosenRunsAndTrials) {
  make_run("a-1");
  make_run("s/1", R"(, "parent": "s")");
  make_run("s/2", R"(, "parent": "s")");
  Board board({.folder = runs()});
  const std::string chosen = board.answer(get("/compare?run=a-1&run=s%2F1&run=a-1")).body;
  EXPECT_TRUE(has(chosen, "Comparison of 2 runs")) << chosen;
  EXPECT_TRUE(has(chosen, "href=\"/run/s/1\"")) << chosen;
  // Above the table the names are links alone.
  const std::string head = chosen.substr(0, chosen.find("What was reached"));
  size_t count = 0;
  for (size_t at = 0; (at = head.find(">s/1<", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 1U) << head;
  EXPECT_FALSE(has(head, "a-1, s/1")) << head;
  const std::string trials = board.answer(get("/compare?parent=s")).body;
  EXPECT_TRUE(has(trials, "Sweep s: 2 trials")) << trials;
  EXPECT_FALSE(has(trials, "href=\"/run/a-1\"")) << trials;
}

// --- Images
// ----------------------------------------------------------------------------------------

class BoardImagesTest : public BoardTest {
 protected:
  BoardImagesTest() {
    make_run("a-1", "",
             R"({"kind": "SNAPSHOT", "iteration": 50, "weights": "x/w_iter_50.caffemodel"}
{"kind": "SNAPSHOT", "iteration": 60, "weights": "x/w_iter_60.caffemodel"}
{"kind": "SNAPSHOT", "iteration": 70, "weights": "x/gone.caffemodel"}
)");
    make_run("none-1");
    fs::create_directory(folder_.path("weights"));
    folder_.write("weights/w_iter_50.caffemodel", "");
    folder_.write("weights/w_iter_60.caffemodel", "");
    folder_.write("weights/other.caffemodel", "");
    fs::create_symlink(folder_.path("weights/w_iter_60.caffemodel"),
                       runs() + "/a-1/snapshots/last.caffemodel");
    fs::create_symlink(folder_.path("missing"), runs() + "/a-1/snapshots/best.caffemodel");
    options_.folder = runs();
    options_.see = [this](const RunFiles& run, const std::string& weights, std::string_view image) {
      if (image == "bad") throw Error("this is no image");
      seen_ = run.info.net() + " " + weights + " " + std::string(image);
      SeenImage seen;
      seen.found.push_back({.label = 3, .name = "a \"cat\"", .score = 0.5});
      return seen;
    };
  }

  BoardOptions options_;
  std::string seen_;
};

TEST_F(BoardImagesTest, OffersTheWeightsOfTheRun) {
  Board board(options_);
  const std::string parts = board.answer(get("/parts/run/a-1")).body;
  EXPECT_TRUE(has(parts,
                  "\"weights\":[{\"name\":\"last.caffemodel\",\"words\":\"last, iteration "
                  "60\"},{\"name\":\"w_iter_60.caffemodel\",\"words\":\"w_iter_60, "
                  "iteration 60\"},{\"name\":\"w_iter_50.caffemodel\",\"words\":\"w_iter_50, "
                  "iteration 50\"}]"))
      << parts;
  EXPECT_TRUE(has(parts, "<section id=\\\"images\\\""));
  EXPECT_FALSE(has(board.answer(get("/parts/run/none-1")).body, "<section id=\\\"images\\\""));
  Board without({.folder = runs()});
  EXPECT_FALSE(has(without.answer(get("/parts/run/a-1")).body, "<section id=\\\"images\\\""));
}

TEST_F(BoardImagesTest, ShowsThemToTheChosenWeights) {
  Board board(options_);
  const BoardResponse response = board.answer(post("/see/a-1?weights=w_iter_50.caffemodel", "abc"));
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.type, "application/json");
  EXPECT_TRUE(has(response.body, R"("name":"a \"cat\"","score":0.5)")) << response.body;
  EXPECT_EQ(seen_, "tiny " + fs::canonical(folder_.path("weights/w_iter_50.caffemodel")).string() +
                       " abc");
  for (const char* target :
       {"/see/a-1", "/see/a-1?weights=other.caffemodel", "/see/a-1?weights=best.caffemodel",
        "/see/a-1?weights=..%2F..%2Fsecret", "/see/none-1?weights=last.caffemodel",
        "/see/gone-1?weights=last.caffemodel"}) {
    const BoardResponse refused = board.answer(post(target, "abc"));
    EXPECT_EQ(refused.status, 404) << target;
    EXPECT_TRUE(has(refused.body, "\"error\":")) << refused.body;
  }
  const BoardResponse bad = board.answer(post("/see/a-1?weights=last.caffemodel", "bad"));
  EXPECT_EQ(bad.status, 422);
  EXPECT_EQ(bad.body, "{\"error\":\"this is no image\"}");
}

TEST_F(BoardImagesTest, AreTakenFromItsOwnPagesAlone) {
  Board board(options_);
  const std::string target = "/see/a-1?weights=last.caffemodel";
  const auto status_with = [&](const auto& change) {
    BoardRequest request = post(target, "abc");
    change(request);
    return board.answer(request).status;
  };
  EXPECT_EQ(status_with([](BoardRequest&) {}), 200);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.origin = r.fetch_site = ""; }), 200);  // as curl
  EXPECT_EQ(status_with([](BoardRequest& r) { r.token = ""; }), 403);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.origin = "http://evil.example"; }), 403);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.origin = "null"; }), 403);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.origin = "http://127.0.0.1:8000"; }), 403);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.fetch_site = "cross-site"; }), 403);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.fetch_site = "same-site"; }), 403);
  EXPECT_EQ(status_with([](BoardRequest& r) { r.body.assign(kLargestImage + 1, 'x'); }), 413);
}

TEST_F(BoardImagesTest, MeasuresLayersWhereNothingSaysThem) {
  folder_.write("runs/a-1/net.prototxt",
                "name: 'tiny' layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' }");
  options_.measure = [](const RunFiles& run) {
    if (run.info.net() != "tiny") throw Error("another run");
    LayerTable table;
    auto& layer = *table.add_layers();
    layer.set_name("ip");
    layer.set_forward_ms(1.5);
    return table;
  };
  Board board(options_);
  EXPECT_TRUE(has(board.answer(get("/run/a-1")).body, "id=\"measure\""));
  EXPECT_EQ(board.answer(post("/measure/a-1", "")).status, 200);
  const std::string page = board.answer(get("/run/a-1")).body;
  EXPECT_TRUE(has(page, "<section id=\"layers\"")) << page;
  EXPECT_FALSE(has(page, "id=\"measure\""));
  EXPECT_FALSE(fs::exists(runs() + "/a-1/layers.json")) << "the board writes nothing";
}

TEST(ImageSidesTest, AreThoseOfTheHead) {
  const auto sides = [](const std::string& file) {
    const auto found = image_sides(file);
    return found ? std::pair(found->width, found->height) : std::pair<int64_t, int64_t>(0, 0);
  };
  using Sides = std::pair<int64_t, int64_t>;
  EXPECT_EQ(sides(test::png_file(std::vector<uint16_t>(2 * 5 * 3), 2, 5)), Sides(5, 2));
  EXPECT_EQ(sides(test::gif_file(std::vector<uint8_t>(6), 2, 3, {.palette = "abcdef"})),
            Sides(3, 2));
  using std::string_literals::operator""s;
  EXPECT_EQ(sides("BM"s + std::string(16, '\0') + "\x04\0\0\0\xfd\xff\xff\xff"s), Sides(4, 3));
  // Comment, then a progressive frame of 3 x 4.
  EXPECT_EQ(sides("\xFF\xD8\xFF\xFE\0\x04xx\xFF\xC2\0\x11\x08\0\x03\0\x04\x03"s), Sides(4, 3));
  EXPECT_EQ(sides("RIFF....WEBPVP8X\x0a\0\0\0....\x63\0\0\xc7\0\0"s), Sides(100, 200));
  for (const std::string& file :
       {""s, "P6 1 1 255 abc"s, "\x89PNG\r\n\x1a\n"s, "\xFF\xD8\xFF"s, "\xFF\xD8\xFF\xE0\0\0"s,
        "BM"s, "GIF89a\0\0\0\0"s, "RIFF....WEBPVP8 "s, "<svg xmlns=''/>"s})
    EXPECT_FALSE(image_sides(file)) << file;
}

}  // namespace
}  // namespace crema
