// crema draw.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "data/images/image_decoder.hpp"
#include "support/database.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class DrawCliTest : public CliTest {
 protected:
  /// Of an image file.
  static std::vector<uint8_t> gray_pixels(const std::string& file) {
    const std::string bytes = read_file(file);
    ImageDecoder decoder;
    decoder.open(bytes, ColorMode::gray);
    const Image image = decoder.whole();
    return {image.bytes, image.bytes + image.height * image.width};
  }

  std::string drawn() const {
    return write("draw.prototxt", R"(name: "a \"quoted\" net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "relu\\1" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "drop" type: "Dropout" bottom: "conv" top: "drop" include { phase: TRAIN } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: AVE kernel_size: 2 stride: 2 } })");
  }
};

TEST_F(DrawCliTest, DotHasShapesAndPhases) {
  const Output all = run("draw " + drawn());
  EXPECT_EQ(all.status, 0) << all.text;
  for (const char* part :
       {R"(digraph "a \"quoted\" net" {)", "rankdir=TB", R"(node0 -> node1 [label="2x3x8x8"])",
        R"(label="conv\nConvolution 3x3, 4, stride 2, pad 1 + ReLU")", R"(relu\\1: ReLU)",
        R"(label="pool\nPooling AVE 2x2, stride 2")", R"-(label="drop\nDropout (TRAIN)")-",
        R"(node1 -> node3 [label="2x4x4x4"])", R"([shape=plaintext label="2x4x2x2"])"}) {
    EXPECT_TRUE(all.says(part)) << part << " is not in: " << all.text;
  }
  const Output test = run("draw --phase TEST --rankdir LR " + drawn());
  EXPECT_FALSE(test.says("Dropout")) << test.text;
  EXPECT_TRUE(test.says("rankdir=LR")) << test.text;
  expect_refusal("draw --rankdir XY " + drawn(), {"rankdir 'XY'"});
  expect_refusal("draw", {"draw takes NET"});
  expect_refusal("draw " + write("empty.prototxt", "name: 'n'"), {"has no layers to draw"});
  expect_refusal("draw " + drawn() + " " + path("no/net.svg"), {"there is no folder", "make it"});
}

TEST_F(DrawCliTest, EqualBlocksAreDrawnOnceUnlessExpanded) {
  std::string net =
      "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 4 dim: 5 dim: 5 "
      "} } }\n";
  std::string bottom = "x";
  for (const std::string name : {"a", "b", "c"}) {
    net += "layer { name: '" + name + "1' type: 'Convolution' bottom: '" + bottom + "' top: '" +
           name + "1' convolution_param { num_output: 4 kernel_size: 1 } }\n";
    net += "layer { name: '" + name + "2' type: 'ReLU' bottom: '" + name + "1' top: '" + name +
           "1' }\n";
    net += "layer { name: '" + name + "3' type: 'Eltwise' bottom: '" + name + "1' bottom: '" +
           bottom + "' top: '" + name + "3' }\n";
    bottom = name + "3";
  }
  const std::string file = write("blocks.prototxt", net);
  const Output folded = run("draw " + file), all = run("draw --expand " + file);
  EXPECT_TRUE(folded.says("label=\"3 \xC3\x97, up to c3\"")) << folded.text;
  EXPECT_FALSE(folded.says("b1")) << folded.text;
  EXPECT_FALSE(all.says("up to")) << all.text;
  EXPECT_TRUE(all.says("b1") && all.says("c3")) << all.text;
  EXPECT_EQ(run("draw --expand " + file + " " + path("all.svg")).text, "");
  EXPECT_EQ(run("draw " + file + " " + path("folded.svg")).text, "");
  EXPECT_NE(read_file(path("folded.svg")).find("3 \xC3\x97, up to c3"), std::string::npos);
  EXPECT_EQ(read_file(path("all.svg")).find("up to"), std::string::npos);
}

TEST_F(DrawCliTest, ANetWithoutItsDataIsDrawnWithoutShapes) {
  const std::string model = write("data.prototxt", R"(
layer { name: "data" type: "Data" top: "data" data_param { source: "nowhere" backend: LMDB batch_size: 2 } }
layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" })");
  const Output output = run("draw " + model);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(output.says("drawn without shapes")) << output.text;
  EXPECT_TRUE(output.says("node0 -> node1;")) << output.text;
}

TEST_F(DrawCliTest, AnSvgNeedsNoOtherProgram) {
  const std::string nowhere = "PATH=/nowhere " CREMA_TOOL;
  const Output output = run("draw " + drawn() + " " + path("net.svg"), nowhere);
  EXPECT_EQ(output.status, 0) << output.text;
  const std::string svg = read_file(path("net.svg"));
  for (const char* part :
       {"<svg ", "</svg>", "prefers-color-scheme:dark", "a &quot;quoted&quot; net", ">2x4x4x4<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part << " is not in: " << svg;
  EXPECT_EQ(run("draw " + drawn() + " " + path("again.svg"), nowhere).status, 0);
  EXPECT_EQ(svg, read_file(path("again.svg")));
  EXPECT_EQ(run("draw " + drawn() + " " + path("large.SVG"), nowhere).status, 0);
  EXPECT_EQ(svg, read_file(path("large.SVG")));
}

TEST_F(DrawCliTest, TheNetIsNoOutput) {
  const std::string net = path("net.svg");
  fs::copy_file(drawn(), net);
  fs::create_symlink(net, path("link.dot"));
  const std::string before = read_file(net);
  for (const std::string& output : {net, path("link.dot")})
    expect_refusal("draw " + net + " " + output, {"is the net", "give another output"});
  EXPECT_EQ(read_file(net), before);
}

TEST_F(DrawCliTest, ACircleOfLayersIsSeen) {
  const Output output = run("draw " + write("circle.prototxt", R"(
layer { name: "a" type: "ReLU" bottom: "y" top: "x" }
layer { name: "b" type: "ReLU" bottom: "x" top: "y" })"));
  EXPECT_TRUE(output.says("drawn without shapes")) << output.text;
  EXPECT_TRUE(output.says(R"(label="y\nmade later")")) << output.text;
  EXPECT_TRUE(output.says(R"([shape=plaintext label="y"])")) << output.text;
}

// PNG and PDF are our own picture, drawn by librsvg.
TEST_F(DrawCliTest, ImagesNeedNoGraphviz) {
  const std::string nowhere = "PATH=/nowhere " CREMA_TOOL;
  const Output output = run("draw " + drawn() + " " + path("net.png"), nowhere);
  if (output.says("or librsvg2-2")) GTEST_SKIP() << "needs librsvg: install the package librsvg2-2";
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_EQ(output.text, "");
  const std::string png = read_file(path("net.png"));
  ASSERT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  const auto big_endian = [&](size_t at) {
    int value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(png[i]);
    return value;
  };
  // Two pixels for each of the SVG, whose boxes may be narrower: letters here may be wide.
  EXPECT_EQ(run("draw " + drawn() + " " + path("net.svg"), nowhere).status, 0);
  const std::string svg = read_file(path("net.svg"));
  const auto side = [&](const std::string& name) {
    return std::stoi(svg.substr(svg.find(' ' + name + "=\"") + name.size() + 3));
  };
  EXPECT_GE(big_endian(16), 2 * side("width"));
  EXPECT_LT(big_endian(16), 3 * side("width"));
  EXPECT_EQ(big_endian(20), 2 * side("height"));
  ASSERT_EQ(run("draw --format pdf " + drawn() + " " + path("net.of"), nowhere).status, 0);
  const std::string pdf = read_file(path("net.of"));
  EXPECT_EQ(pdf.substr(0, 5), "%PDF-");
  EXPECT_NE(pdf.find("%%EOF"), std::string::npos);
#if CREMA_BUILT_WITH_LIBPNG || CREMA_BUILT_WITH_OPENCV
  const std::vector<uint8_t> pixels = gray_pixels(path("net.png"));
  ASSERT_EQ(pixels.size(),
            static_cast<size_t>(big_endian(16)) * static_cast<size_t>(big_endian(20)));
  const auto paper = std::count(pixels.begin(), pixels.end(), 255);
  const auto dark = std::count_if(pixels.begin(), pixels.end(), [](uint8_t p) { return p < 96; });
  const auto all = static_cast<double>(pixels.size());
  EXPECT_GT(static_cast<double>(paper), 0.3 * all);
  EXPECT_LT(static_cast<double>(paper), 0.95 * all) << "boxes have colours";
  EXPECT_GT(static_cast<double>(dark), 0.005 * all) << "letters are dark";
  EXPECT_LT(static_cast<double>(dark), 0.2 * all);
#endif
}

TEST_F(DrawCliTest, FormatIsSaidInPlaceOfTheEnding) {
  const Output svg = run("draw --format svg " + drawn());
  EXPECT_EQ(svg.status, 0) << svg.text;
  EXPECT_TRUE(svg.text.starts_with("<svg ")) << svg.text;
  EXPECT_EQ(run("draw --format SVG " + drawn() + " " + path("net.png")).status, 0);
  EXPECT_EQ(read_file(path("net.png")), svg.text);
  EXPECT_EQ(run("draw --format dot " + drawn()).text, run("draw " + drawn()).text);
  EXPECT_EQ(run("draw --format dot " + drawn() + " " + path("net")).status, 0);
  EXPECT_TRUE(read_file(path("net")).starts_with("digraph"));
  expect_refusal("draw --format bmp " + drawn(), {"--format bmp", "give an output"});
  expect_refusal("draw --format svg --rankdir LR " + drawn(), {"direction LR", "Graphviz"});
  expect_refusal("draw --format png " + drawn() + " " + path("no/net.png"), {"there is no folder"});
}

TEST_F(DrawCliTest, OtherPicturesAreMadeByGraphviz) {
  EXPECT_EQ(run("draw " + drawn() + " " + path("net.dot")).status, 0);
  EXPECT_TRUE(read_file(path("net.dot")).starts_with("digraph"));
  for (const std::string& output : {path("net"), path(".svg"), path("")})
    expect_refusal("draw " + drawn() + " " + output, {"says no kind of picture", "net.svg"});
  // A library that cannot be loaded stands in for none.
  fs::create_directory(path("lib"));
  std::ofstream(path("lib/librsvg-2.so.2")) << "none";
  const std::string bare = "PATH=/nowhere LD_LIBRARY_PATH=" + path("lib") + " " CREMA_TOOL;
  for (const std::string& words : {path("net.png"), path("net.pdf")}) {
    const Output without = run("draw " + drawn() + " " + words, bare);
    EXPECT_EQ(without.status, 1) << without.text;
    EXPECT_TRUE(without.says("install the package graphviz or librsvg2-2")) << without.text;
  }
  const Output printed = run("draw --format png " + drawn(), bare);
  EXPECT_EQ(printed.status, 1);
  EXPECT_TRUE(printed.says("without librsvg (")) << printed.text;
  EXPECT_TRUE(printed.says("install the package librsvg2-2")) << printed.text;
  const Output sideways =
      run("draw --rankdir LR " + drawn() + " " + path("net.svg"), "PATH=/nowhere " CREMA_TOOL);
  EXPECT_EQ(sideways.status, 1) << sideways.text;
  EXPECT_TRUE(sideways.says("install the package graphviz, or")) << sideways.text;
  fs::remove_all(path("lib"));
  if (std::system("dot -V > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "needs dot: install the package graphviz";
  const Output output = run("draw --rankdir LR " + drawn() + " " + path("net.svg"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NE(read_file(path("net.svg")).find("</svg>"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(path("")), fs::directory_iterator()), 3)
      << "the net, the DOT and the SVG, and nothing else";
  expect_refusal("draw " + drawn() + " " + path("net.nokind"), {"could not write"});
}

}  // namespace
}  // namespace crema::test
