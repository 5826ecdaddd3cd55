// What a drawing of a net shows, and where its parts are.
#include "analysis/draw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <sstream>

#include "analysis/layered_layout.hpp"
#include "analysis/net_drawing.hpp"
#include "crema/random.hpp"
#include "model/source_map.hpp"
#include "model/text_format.hpp"
#include "support/paths.hpp"

namespace crema::test {
namespace {

NetParameter net_of(const std::string& text) {
  NetParameter net;
  parse_text_proto(text, "net", net);
  return net;
}

/// The names of the nodes.
std::vector<std::string> names(const NetDrawing& drawing) {
  std::vector<std::string> all;
  for (const DrawnNode& node : drawing.nodes) all.push_back(node.name);
  return all;
}

std::string layer(const std::string& name, const std::string& type, const std::string& bottoms,
                  const std::string& top, const std::string& more = "") {
  std::string content = "layer { name: '" + name + "' type: '" + type + "' top: '" + top + "'";
  std::istringstream words(bottoms);
  for (std::string bottom; words >> bottom;) content += " bottom: '" + bottom + "'";
  return content + " " + more + " }\n";
}

/// Three blocks, each a convolution with a ReLU in place, and a sum with what the block reads.
std::string residual_blocks() {
  std::string net, bottom = "x";
  for (const std::string name : {"a", "b", "c"}) {
    net += layer(name, "Convolution", bottom, name, "convolution_param { num_output: 4 }") +
           layer(name + "_relu", "ReLU", name, name) +
           layer(name + "_sum", "Eltwise", name + " " + bottom, name + "_sum");
    bottom = name + "_sum";
  }
  return net;
}

TEST(NetDrawing, FoldsEqualBlocksInARow) {
  const NetDrawing drawing =
      drawing_of(net_of(residual_blocks() + layer("end", "Softmax", "c_sum", "end")), {});
  EXPECT_EQ(names(drawing), (std::vector<std::string>{"x", "a", "a_sum", "end"}));
  ASSERT_EQ(drawing.blocks.size(), 1);
  EXPECT_EQ(drawing.blocks[0].first, 1);
  EXPECT_EQ(drawing.blocks[0].size, 2);
  EXPECT_EQ(drawing.blocks[0].copies, 3);
  EXPECT_EQ(drawing.nodes[1].what, "Convolution , 4 + ReLU");
  // What is behind the last block reads what the drawn one makes.
  const DrawnValue& sum = drawing.values[static_cast<size_t>(drawing.nodes[2].tops[0])];
  EXPECT_EQ(sum.readers, std::vector<int>{3});
  const NetDrawing all = drawing_of(net_of(residual_blocks()), {.expand = true});
  EXPECT_EQ(all.nodes.size(), 7);
  EXPECT_TRUE(all.blocks.empty());
}

TEST(NetDrawing, ABlockThatIsReadFromAfarIsNotFolded) {
  const NetDrawing drawing =
      drawing_of(net_of(residual_blocks() + layer("far", "Eltwise", "a_sum c_sum", "far")), {});
  EXPECT_EQ(drawing.nodes.size(), 8) << "the two others would save two nodes";
}

TEST(NetDrawing, OtherSettingsAreAnotherBlock) {
  std::string net = residual_blocks();
  net.replace(net.rfind("num_output: 4"), 13, "num_output: 5");
  EXPECT_EQ(drawing_of(net_of(net), {}).nodes.size(), 7);
}

TEST(NetDrawing, ALayerInPlaceStaysAloneWhereOthersReadWhatItChanges) {
  const NetDrawing drawing =
      drawing_of(net_of(layer("a", "Convolution", "x", "a") + layer("b", "Softmax", "a", "b") +
                        layer("c", "ReLU", "a", "a") + layer("d", "Softmax", "a", "d")),
                 {});
  EXPECT_EQ(names(drawing), (std::vector<std::string>{"x", "a", "b", "c", "d"}));
  const DrawnValue& changed = drawing.values[static_cast<size_t>(drawing.nodes[3].tops[0])];
  EXPECT_EQ(changed.readers, std::vector<int>{4});
}

TEST(NetDrawing, LayersOfTwoPhasesThatMakeOneBlobAreOneNode) {
  const NetDrawing drawing =
      drawing_of(net_of(layer("train", "Data", "", "x", "include { phase: TRAIN }") +
                        layer("test", "Data", "", "x", "include { phase: TEST }") +
                        layer("drop", "Dropout", "x", "d", "include { phase: TRAIN }")),
                 {});
  EXPECT_EQ(names(drawing), (std::vector<std::string>{"train / test", "drop"}));
  EXPECT_EQ(drawing.nodes[0].what, "Data");
  EXPECT_EQ(drawing.nodes[1].what, "Dropout (TRAIN)");
}

TEST(LayeredLayout, NodesLieApartAndEdgesGoDown) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed, 1, 1);
    const auto below = [&](uint64_t n) { return static_cast<int>(random.below(n)); };
    LayeredGraph graph;
    const int nodes = 2 + below(30);
    for (int i = 0; i < nodes; ++i) {
      const double half = 5 + below(50);
      graph.nodes.push_back({.left = half, .right = half, .height = 10.0 + below(20), .below = 12});
    }
    for (int i = 0; i + 1 < nodes; ++i) {
      LayeredEdge edge{.from = i, .to = {}};
      for (int to = i + 1; to < nodes; ++to) {
        if (below(6) == 0) edge.to.push_back({to, std::nullopt});
      }
      if (!edge.to.empty()) graph.edges.push_back(edge);
    }
    const LayeredLayout layout = layered_layout(graph);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const LayeredNode& a = graph.nodes[i];
      const LayeredPoint& at = layout.nodes[i];
      EXPECT_GE(at.x - a.left, -1e-6);
      EXPECT_LE(at.x + a.right, layout.width + 1e-6);
      EXPECT_LE(at.y + a.height, layout.height + 1e-6);
      for (size_t j = 0; j < i; ++j) {
        const LayeredNode& b = graph.nodes[j];
        const LayeredPoint& other = layout.nodes[j];
        const bool apart = at.x - a.left >= other.x + b.right ||
                           other.x - b.left >= at.x + a.right || at.y >= other.y + b.height ||
                           other.y >= at.y + a.height;
        EXPECT_TRUE(apart) << "seed " << seed << ": nodes " << i << " and " << j;
      }
    }
    for (size_t e = 0; e < graph.edges.size(); ++e) {
      for (size_t k = 0; k < graph.edges[e].to.size(); ++k) {
        const auto& line = layout.lines[e][k];
        ASSERT_GE(line.size(), 2);
        for (size_t p = 1; p < line.size(); ++p) EXPECT_GT(line[p].y, line[p - 1].y);
        const auto to = static_cast<size_t>(graph.edges[e].to[k].node);
        EXPECT_DOUBLE_EQ(line.back().y, layout.nodes[to].y);
        EXPECT_LE(std::abs(line.back().x - layout.nodes[to].x), graph.nodes[to].left);
      }
    }
  }
}

// A blob of two makers, one of which makes others beside it, began at one place below both.
TEST(DrawSvg, AnEdgeBeginsBelowItsMaker) {
  const std::string beside = " top: 'another_long_name_of_a_blob' top: 'and_one_more_of_its_kind'";
  const std::string svg =
      draw_net_as_svg(net_of(layer("train", "Data", "", "x", beside + " include { phase: TRAIN }") +
                             layer("t", "Data", "", "x", "include { phase: TEST }") +
                             layer("relu", "ReLU", "x", "relu")),
                      {});
  struct Box {
    double left, right, bottom;
  };
  std::vector<Box> boxes;
  const std::regex box(
      "<rect[^>]* x=\"([0-9.]+)\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" "
      "height=\"([0-9.]+)\"");
  for (std::sregex_iterator at(svg.begin(), svg.end(), box), end; at != end; ++at) {
    const auto number = [&](size_t k) { return std::stod((*at)[k]); };
    boxes.push_back({number(1), number(1) + number(3), number(2) + number(4)});
  }
  ASSERT_EQ(boxes.size(), 3) << svg;
  std::vector<int> edges(boxes.size());  // that begin below each box
  const std::regex edge("<path class=\"e\" d=\"M([0-9.]+) ([0-9.]+)");
  for (std::sregex_iterator at(svg.begin(), svg.end(), edge), end; at != end; ++at) {
    const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
    for (size_t i = 0; i < boxes.size(); ++i) {
      const Box& b = boxes[i];
      edges[i] += b.left <= x && x <= b.right && std::abs(b.bottom - y) < 1 ? 1 : 0;
    }
  }
  EXPECT_EQ(edges, (std::vector<int>{1, 1, 0})) << svg;
}

TEST(DrawSvg, ResNet50IsOnePageThatCanBeRead) {
  NetParameter net;
  SourceMap source;
  read_text_proto(source_path("models/resnet50/deploy.prototxt").string(), net, &source);
  Context context({.tune = false});
  const Net plan(net, source, context, {.phase = Phase::test});
  const std::string svg = draw_net_as_svg(net, {.net = &plan});
  std::smatch size;
  ASSERT_TRUE(std::regex_search(svg, size, std::regex("width=\"([0-9]+)\" height=\"([0-9]+)\"")));
  // A4 without 10 mm at each side, in pixels of 1/96 inch; texts have 11 of them, and 3/4 point
  // each.
  const double scale = std::min(718 / std::stod(size[1]), 1047 / std::stod(size[2]));
  EXPECT_GT(11 * scale * 3 / 4, 5.5) << "points; the drawing has " << size[0];
  EXPECT_EQ(draw_net_as_svg(net, {.net = &plan}), svg);
}

}  // namespace
}  // namespace crema::test
