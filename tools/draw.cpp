// crema draw: a picture of a net.
#include "analysis/draw.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "model/text_file.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"
#include "tools/terminal.hpp"

DECLARE_string(phase);
DEFINE_string(rankdir, "TB",
              "Direction of the drawing: TB, LR, BT or RL. Pictures of all but TB need Graphviz.");
DEFINE_bool(expand, false, "Draw each of several equal blocks in a row.");

extern char** environ;

namespace crema::tools {
namespace {

/// Runs Graphviz and waits for it. Returns its status, as waitpid() gives it; what it says, which
/// may be of fonts or of labels that it cuts, goes to `said` and not to the terminal.
int run_dot(std::vector<std::string> words, const std::string& output, std::string& said) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error("cannot run Graphviz for '", output, "': ", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int reason = ::posix_spawnp(&child, "dot", &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::array<char, 4096> block{};
  for (ssize_t got = 1; reason == 0 && got != 0;) {
    got = ::read(ends[0], block.data(), block.size());
    if (got > 0) said.append(block.data(), static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  ::close(ends[0]);
  if (reason != 0)
    throw Error("cannot run Graphviz for '", output, "': dot: ", std::strerror(reason),
                "; install the package graphviz, or give a name that ends in .dot");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// The beginning of the first line of a text, which says most.
std::string first_line(const std::string& text) {
  constexpr size_t kMost = 160;
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() > kMost ? line.substr(0, kMost) + "..." : line;
}

/// Has Graphviz make a picture of the kind that the name of the output says.
void run_graphviz(const std::string& dot, const std::string& output, const std::string& kind) {
  WholeFile source(output + ".dot"), picture(output);  // the source gets no name of its own
  source.append(dot);
  source.sync();
  std::string said;
  const int status =
      run_dot({"dot", "-T" + kind, "-o", picture.beside(), source.beside()}, output, said);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error("dot, the program of Graphviz, could not write '", output, "'",
                said.empty() ? "" : " (" + first_line(said) + ")",
                "; names that end in .svg, .png, .pdf and .dot are known");
  picture.finish();
}

/// The net as it is planned; null, with a warning, if it cannot be built here.
std::unique_ptr<Net> plan_of(const NetParameter& net, const SourceMap& source, Context& context) {
  try {
    return std::make_unique<Net>(net, source, context, net_options(Phase::test));
  } catch (const Error& error) {
    say(Severity::warning, text("drawn without shapes: ", error.what()));
    return nullptr;
  }
}

/// The kind of picture that the name of the output says: "svg". Error for what cannot be written.
std::string kind_of_output(const std::vector<std::string>& arguments) {
  const std::string& output = arguments[1];
  std::string kind = std::filesystem::path(output).extension().string();
  if (kind.size() < 2)
    throw Error("'", output, "' says no kind of picture; give a name such as net.svg");
  kind.erase(0, 1);
  for (char& c : kind) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (is_same_file(arguments[0], output))
    throw Error("'", output, "' is the net; give another output");
  check_output_file(output, "the drawing");
  return kind;
}

int draw(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2)
    throw Error(
        "draw takes NET and, unless DOT on standard output is wanted, OUTPUT.svg, .png or "
        ".dot; got ",
        arguments.size(), " arguments");
  const std::string kind = arguments.size() > 1 ? kind_of_output(arguments) : "";
  check_direction(FLAGS_rankdir);
  NetParameter net;
  SourceMap source;
  read_net(arguments[0], net, &source);
  if (net.layer_size() == 0 && net.layers_size() == 0)
    throw Error("'", arguments[0], "' has no layers to draw; is it the file of a net?");
  DrawOptions options{.rankdir = FLAGS_rankdir, .expand = FLAGS_expand};
  if (FLAGS_phase == "ALL") FLAGS_phase = "";
  if (!FLAGS_phase.empty()) options.state = net_options(Phase::test);
  ContextOptions quiet = context_options();
  quiet.logger = {};
  // Which engines are the fastest is nothing that a drawing shows.
  if (!is_given("tune")) quiet.tune = false;
  Context context(quiet);
  const std::unique_ptr<Net> plan = plan_of(net, source, context);
  options.net = plan.get();
  const std::string dot = draw_net(net, options);
  if (arguments.size() == 1) {
    std::fputs(dot.c_str(), stdout);
    return 0;
  }
  if (kind == "dot" || kind == "gv") {
    write_text_atomically(arguments[1], dot);
  } else if (kind == "svg" && options.rankdir == "TB") {
    write_text_atomically(arguments[1], draw_net_as_svg(net, options));
  } else {
    run_graphviz(dot, arguments[1], kind);
  }
  return 0;
}

}  // namespace

extern const Command kDraw = {
    "draw",
    "draws a net",
    "  crema draw train_val.prototxt net.svg\n"
    "  crema draw --phase TEST --rankdir LR deploy.prototxt net.dot\n"
    "\n"
    "Boxes are layers with their type and settings, and the layers behind them that work in "
    "place.\n"
    "Shapes stand at the edges, with the name of the blob where it is not that of its layer. "
    "Equal\n"
    "blocks in a row are drawn once, in a frame that says how many they are; --expand draws each.\n"
    "A dashed box is a layer that another one computes, too. Without --phase, layers of all "
    "phases\n"
    "are drawn; shapes and fusion are those of phase TEST.\n"
    "\n"
    "A picture .svg needs no other program; it follows the light or dark scheme of its reader, "
    "and\n"
    "fills one A4 page when it is printed. Others (.png, .pdf) need the program dot of Graphviz.\n"
    "Without an output, the language of Graphviz (.dot) is printed.",
    {"expand", "rankdir", "phase", "level", "stage", "plugin", "fuse", "tune", "tuning_file",
     "threads"},
    draw,
    1,
    NetUse::builds};

}  // namespace crema::tools
