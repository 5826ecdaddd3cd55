// crema draw: a picture of a net.
#include "analysis/draw.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "model/text_file.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/child_process.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"
#include "tools/svg_image.hpp"
#include "tools/terminal.hpp"

DECLARE_string(format);
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
                "; install the package graphviz",
                kind == "png" || kind == "pdf" ? " or librsvg2-2" : "",
                ", or give a name that ends in .svg, for a drawing from top to bottom, or .dot");
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

std::string lower(std::string word) {
  for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return word;
}

/// The kind of picture that --format or the name of the output says: "svg". Error for what cannot
/// be written.
std::string kind_of_output(const std::string& net, const std::string& output) {
  std::string kind = lower(FLAGS_format);
  if (kind.empty()) {
    kind = lower(std::filesystem::path(output).extension().string());
    if (kind.size() < 2)
      throw Error("'", output,
                  "' says no kind of picture; give a name such as net.svg, or --format");
    kind.erase(0, 1);
  }
  if (is_same_file(net, output)) throw Error("'", output, "' is the net; give another output");
  check_output_file(output, "the drawing");
  return kind;
}

/// For standard output.
std::string printed_kind() {
  const std::string kind = FLAGS_format.empty() ? "dot" : lower(FLAGS_format);
  if (kind != "dot" && kind != "gv" && kind != "svg" && kind != "png" && kind != "pdf")
    throw Error("--format ", FLAGS_format,
                " is none that is printed: svg, png, pdf and dot are; Graphviz knows others, for "
                "which give an output, such as net.",
                kind);
  if ((kind == "png" || kind == "pdf") && ::isatty(STDOUT_FILENO) != 0)
    throw Error("a terminal shows no ", kind, "; give an output, such as net.", kind,
                ", or redirect it: > net.", kind);
  return kind;
}

/// A picture of our own layout by librsvg, with room for the letters of the fonts that it finds.
std::string image_of(const NetParameter& net, DrawOptions options, SvgImage kind) {
  const std::string probe = "Convolution 3x3, 64, stride 2, pad 1 + BatchNorm + ReLU, 1x64x112x112";
  const double found = svg_text_width(probe, kDrawnFonts);
  options.letters = std::max(1.0, found / drawn_text_width(probe, 100));
  return svg_image(draw_net_as_svg(net, options), kind);
}

/// The drawing as a file of the kind; none where only Graphviz makes it.
std::optional<std::string> own_picture(const NetParameter& net, const DrawOptions& options,
                                       const std::string& kind) {
  if (kind == "dot" || kind == "gv") return draw_net(net, options);
  if (options.rankdir != "TB") return std::nullopt;
  if (kind == "svg") return draw_net_as_svg(net, options);
  const bool is_png = kind == "png";
  if ((!is_png && kind != "pdf") || !why_no_svg_images().empty()) return std::nullopt;
  return image_of(net, options, is_png ? SvgImage::png : SvgImage::pdf);
}

/// To standard output.
void print_picture(const NetParameter& net, const DrawOptions& options, const std::string& kind) {
  const std::optional<std::string> picture = own_picture(net, options, kind);
  if (!picture) {
    if (options.rankdir != "TB")
      throw Error("a picture in direction ", options.rankdir,
                  " is made by Graphviz, and not printed; ", "give an output, such as net.", kind);
    throw Error("no ", kind, " can be made without librsvg (", why_no_svg_images(),
                "); install the package librsvg2-2, or give an output, such as net.", kind,
                ", for which Graphviz is tried");
  }
  std::fwrite(picture->data(), 1, picture->size(), stdout);
}

int draw(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.size() > 2)
    throw Error(
        "draw takes NET and, unless DOT on standard output is wanted, OUTPUT.svg, .png or "
        ".dot; got ",
        arguments.size(), " arguments");
  const std::string kind =
      arguments.size() > 1 ? kind_of_output(arguments[0], arguments[1]) : printed_kind();
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
  if (arguments.size() == 1) {
    print_picture(net, options, kind);
    return 0;
  }
  if (const std::optional<std::string> picture = own_picture(net, options, kind)) {
    write_text_atomically(arguments[1], *picture);
  } else {
    run_graphviz(draw_net(net, options), arguments[1], kind);
  }
  return 0;
}

}  // namespace

extern const Command kDraw = {
    "draw",
    "draws a net",
    "  crema draw train_val.prototxt net.svg\n"
    "  crema draw --phase TEST --rankdir LR deploy.prototxt net.dot\n"
    "  crema draw --format png deploy.prototxt > net.png\n"
    "\n"
    "Boxes are layers with their type and settings, and the layers after them that work in "
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
    "fills one A4 page when it is printed. A .png or .pdf is the same picture, made by librsvg;\n"
    "where that library is not there, and for other kinds and directions, the program dot of\n"
    "Graphviz makes a picture. --format says the kind in place of the output's ending. Without an\n"
    "output, the picture is printed: the language of Graphviz (dot) unless --format says another.",
    {"format", "expand", "rankdir", "phase", "level", "stage", "plugin", "fuse", "tune",
     "tuning_file", "threads"},
    draw,
    1,
    NetUse::builds};

}  // namespace crema::tools
