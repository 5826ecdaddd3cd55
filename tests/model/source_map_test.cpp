#include "model/source_map.hpp"

#include <gtest/gtest.h>

#include "model/text_format.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"

namespace crema {
namespace {

template <class Message>
SourceMap map_of(std::string_view text) {
  Message message;
  SourceMap map;
  parse_text_proto(text, "a.prototxt", message, &map);
  return map;
}

constexpr char kNet[] =
    "name: 'net'\n"
    "layer {\n"
    "  name: 'conv1'\n"
    "  convolution_param {\n"
    "    stride: 1 stride: 2\n"
    "  }\n"
    "}\n"
    "\tlayer { name: 'ip' }\n";

TEST(SourceMapTest, FindsLayersAndTheirFields) {
  const SourceMap map = map_of<NetParameter>(kNet);
  EXPECT_EQ(map.file(), "a.prototxt");
  EXPECT_EQ(map.position("layer[0]").str(), "a.prototxt:2:1");
  EXPECT_EQ(map.position("layer[1]").str(), "a.prototxt:8:2");
  EXPECT_EQ(map.position("layer[0].name").str(), "a.prototxt:3:3");
  EXPECT_EQ(map.position("layer.convolution_param").str(), "a.prototxt:4:3");
  EXPECT_EQ(map.position("layer[0].convolution_param.stride").str(), "a.prototxt:5:5");
  EXPECT_EQ(map.position("layer[0].convolution_param.stride[1]").str(), "a.prototxt:5:15");
}

TEST(SourceMapTest, GivesTheNearestPlaceForWhatIsNotInTheText) {
  const SourceMap map = map_of<NetParameter>(kNet);
  EXPECT_EQ(map.position("layer[0].convolution_param.pad").str(), "a.prototxt:4:3");
  EXPECT_EQ(map.position("layer[1].pooling_param.pad").str(), "a.prototxt:8:2");
  EXPECT_EQ(map.position("layer[1].name.no_message").str(), "a.prototxt:8:10");
  EXPECT_EQ(map.position("layer[9].name").str(), "a.prototxt");
  EXPECT_EQ(map.position("layer[9]").str(), "a.prototxt");
  EXPECT_EQ(map.position("no_such_field").str(), "a.prototxt");
  EXPECT_EQ(map.position("").str(), "a.prototxt");
}

TEST(SourceMapTest, FindsTheLayersOfOldNets) {
  const SourceMap map = map_of<NetParameter>("layers {}\nlayers {}\n");
  EXPECT_EQ(map.position("layers[1]").str(), "a.prototxt:2:1");
}

TEST(SourceMapTest, NestedMapsOutliveTheOuterOne) {
  SourceMap net;
  {
    const SourceMap solver = map_of<SolverParameter>(
        "base_lr: 1\n"
        "test_net_param { layer {} }\n"
        "test_net_param {\n"
        "  layer {}\n"
        "}\n");
    net = solver.nested("test_net_param[1]");
    EXPECT_EQ(solver.nested("train_net_param").file(), "");
    EXPECT_EQ(solver.nested("base_lr").file(), "");
  }
  EXPECT_EQ(net.file(), "a.prototxt");
  EXPECT_EQ(net.position("layer[0]").str(), "a.prototxt:4:3");
}

TEST(SourceMapTest, AnEmptyMapKnowsNoPlace) {
  const SourceMap map;
  EXPECT_EQ(map.file(), "");
  EXPECT_FALSE(map.position("layer[0]").known());
  EXPECT_EQ(map.nested("net_param").file(), "");
}

}  // namespace
}  // namespace crema
