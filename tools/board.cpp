// crema board: runs as live pages in the browser.
#include "monitor/board/board.hpp"

#include <gflags/gflags.h>
#include <spawn.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/path_advice.hpp"
#include "core/utf8.hpp"
#include "monitor/board/board_server.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/in_folder.hpp"
#include "tools/run_evaluation.hpp"
#include "tools/terminal.hpp"

DEFINE_int32(port, 7007, "The port of 127.0.0.1 that the pages are served at; 0: any free one.");
DEFINE_bool(open, false, "Open the page in the browser.");

extern char** environ;

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// SIGINT and SIGTERM wait for take() while one lives, in threads that begin then, too.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGINT);
    sigaddset(&held_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  void take() const {
    int signal = 0;
    sigwait(&held_, &signal);
  }

 private:
  sigset_t held_{}, before_{};
};

void open_browser(const std::string& url) {
  std::string program = "xdg-open", address = url;
  char* words[] = {program.data(), address.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawnp(&child, words[0], nullptr, nullptr, words, environ) != 0)
    say(Severity::warning, "--open: there is no xdg-open here; open the address in a browser");
}

/// What pages run nets for, one after another.
struct Nets {
  explicit Nets(ContextOptions options_in) : options(std::move(options_in)) {}

  Context& made() {
    if (!context) context = std::make_unique<Context>(options);
    return *context;
  }

  ContextOptions options;
  std::unique_ptr<Context> context;
  std::unique_ptr<ImageViewer> viewer;
};

int board(const std::vector<std::string>& arguments) {
  if (arguments.size() > 1)
    throw Error("board takes one folder, of runs or of a run, and not ", arguments.size(),
                "; a folder of folders shows them all");
  constexpr int kLastPort = 65535;
  if (FLAGS_port < 0 || FLAGS_port > kLastPort)
    throw Error("--port=", FLAGS_port, " is no port; use 1 to ", kLastPort, ", or 0 for any");
  const std::string folder = arguments.empty() ? "runs" : arguments[0];
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    if (!arguments.empty())
      throw Error("there is no folder '", folder, "'",
                  path_advice(folder, "give that of runs, which `crema train` makes as runs/"));
    say("There is no folder runs here yet: the page shows runs as soon as training makes it.");
  }
  Nets nets(context_options());
  // Another working directory leaves it where it is.
  BoardOptions options{.folder = fs::absolute(folder).lexically_normal().string()};
  options.see = [&nets](const RunFiles& run, const std::string& weights, std::string_view image) {
    const InFolder in_folder(run.info.folder());
    if (!nets.viewer) nets.viewer = std::make_unique<ImageViewer>(nets.made());
    return nets.viewer->see(run, weights, image);
  };
  options.measure = [&nets](const RunFiles& run) {
    const InFolder in_folder(run.info.folder());
    return time_layers(run, weights_of_run(run), nets.made(), {.seconds = 20});
  };
  Board pages(std::move(options));
  const HeldSignals signals;
  BoardServer server(pages, FLAGS_port);
  const std::string url = text("http://127.0.0.1:", server.port(), "/");
  std::printf("The board of %s is at %s (Ctrl-C ends it)\n", printable(folder).c_str(),
              url.c_str());
  std::fflush(stdout);
  std::thread serving([&] { server.run(); });
  if (FLAGS_open) open_browser(url);
  signals.take();
  server.stop();
  serving.join();
  return 0;
}

}  // namespace

extern const Command kBoard = {
    "board",
    "shows runs as live pages in the browser",
    "  crema board\n"
    "  crema board my_runs --port 8000 --open\n"
    "\n"
    "Serves pages about the runs in a folder, runs by default, and in its folders, at\n"
    "http://127.0.0.1:7007/. The list of runs leads to the report of each, which follows a run\n"
    "while it trains, and to comparisons. Images that are dropped on the page of a run are\n"
    "classified, or boxes are found in them, by the weights that are chosen there; nothing of\n"
    "them is stored. Nothing is written to the folder of runs, and nothing outside of it is given\n"
    "out. Weights may lie elsewhere: the links of a run's folder lead to them.\n"
    "\n"
    "The pages are for this machine alone. For a run on another one, take the port there through\n"
    "ssh -L 7007:127.0.0.1:7007 HOST. Ctrl-C ends the board; training goes on without it.",
    {"port", "open", "gpu", "threads", "engine", "tune", "tuning_file", "plugin"},
    board,
    1,
    NetUse::runs};

}  // namespace crema::tools
