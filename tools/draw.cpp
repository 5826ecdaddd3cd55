// crema draw: a picture of a net.
#include "analysis/draw.hpp"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "model/text_file.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/child_process.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"
#include "tools/terminal.hpp"

DECLARE_string(phase);
DEFINE_string(rankdir, "TB",
              "Direction of the drawing: TB, LR, BT or RL. Pictures of all but TB need Graphviz.");
DEFINE_bool(expand, false, "Draw each of several equal blocks in a row.");

namespace crema::tools {
namespace {

/// Has Graphviz make a picture of the kind that the name of the output says.
void run_graphviz(const std::string& dot, const std::string& output, const std::string& kind) {
  WholeFile source(output + ".dot"), picture(output);  // the source gets no name of its own
  source.append(dot);
  source.sync();
  const ChildResult dot_run =
      run_child({"dot", "-T" + kind, "-o", picture.beside(), source.beside()});
  if (dot_run.reason != 0)
    throw Error("cannot run Graphviz for '", output, "': dot: ", std::strerror(dot_run.reason),
                "; install the package graphviz, or give a name that ends in .dot");
  if (!dot_run.succeeded())
    throw Error("dot, the program of Graphviz, could not write '", output, "'",
                dot_run.said.empty() ? "" : " (" + first_line(dot_run.said) + ")",
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
