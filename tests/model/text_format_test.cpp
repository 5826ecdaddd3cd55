#include "model/text_format.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "proto/detection.pb.h"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "support/expect_error.hpp"
#include "support/temp_folder.hpp"

namespace crema {
namespace {

// What the reader says about a text that is not right; "" when it has nothing to say.
template <class Message = NetParameter>
std::string complaint(const std::string& text) {
  Message message;
  try {
    parse_text_proto(text, "net.prototxt", message);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

NetParameter parse(const std::string& text) {
  NetParameter net;
  parse_text_proto(text, "net.prototxt", net);
  return net;
}

TEST(TextFormatTest, ReadsANet) {
  const NetParameter net = parse(R"(
    name: "tiny"  # a comment
    layer {
      name: "conv1"
      type: "Convolution"
      param { lr_mult: 1 } param { lr_mult: 2 }
      convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } }
    })");
  EXPECT_EQ(net.name(), "tiny");
  ASSERT_EQ(net.layer_size(), 1);
  EXPECT_EQ(net.layer(0).param(1).lr_mult(), 2);
  EXPECT_EQ(net.layer(0).convolution_param().kernel_size(0), 5u);
}

TEST(TextFormatTest, ReplacesWhatTheMessageHeld) {
  NetParameter net = parse("name: 'first' layer {}");
  parse_text_proto("name: 'second'", "net.prototxt", net);
  EXPECT_EQ(net.name(), "second");
  EXPECT_EQ(net.layer_size(), 0);
}

// Forms that published files use and published tools accept.
TEST(TextFormatTest, AcceptsThePublishedQuirks) {
  EXPECT_EQ(parse("layer: { name: 'x' }").layer(0).name(), "x");      // colon before a brace
  EXPECT_EQ(parse("layer < name: 'x' >").layer(0).name(), "x");       // angle brackets
  EXPECT_EQ(parse("name: 'x';\nforce_backward: true,").name(), "x");  // separators
  EXPECT_EQ(parse("name: \"a\" 'b'").name(), "ab");                   // neighbouring strings
  EXPECT_EQ(parse("name: 'tab\\t\\x41'").name(), "tab\tA");           // escapes
  EXPECT_EQ(parse("name: 'x'\r\nlayer {\r\n}\r\n").layer_size(), 1);  // CRLF
  EXPECT_EQ(parse("\xEF\xBB\xBFname: 'x'").name(), "x");              // byte order mark
  EXPECT_EQ(parse("name: 'na\xC3\xAFve' # \xE5\xB1\x82").name(), "na\xC3\xAFve");  // not ASCII
  EXPECT_EQ(parse("input_dim: [1, 3, 0x10, 020]").input_dim(3), 16);  // lists, hex, octal
  EXPECT_TRUE(parse("force_backward: 1").force_backward());           // truth by number
  EXPECT_EQ(parse("layer { pooling_param { pool: 1 } }").layer(0).pooling_param().pool(),
            PoolingParameter::AVE);  // enums by number
  EXPECT_EQ(parse("layer { power_param { scale: .5f shift: -1e-3 power: inf } }")
                .layer(0)
                .power_param()
                .scale(),
            0.5f);  // numbers as C writes them
  EXPECT_EQ(parse("layer { include: { phase: TEST } }").layer(0).include(0).phase(), TEST);
}

TEST(TextFormatTest, NamesTheNearestField) {
  EXPECT_EQ(complaint("layer {\n"
                      "  name: 'pool1'\n"
                      "  type: 'Pooling'\n"
                      "  pooling_param { kernal_size: 2 }\n"
                      "}\n"),
            "net.prototxt:4:19: layer 'pool1' (Pooling): unknown field 'kernal_size' in "
            "pooling_param (PoolingParameter); did you mean 'kernel_size'?\n"
            "      pooling_param { kernal_size: 2 }\n"
            "                      ^");
  EXPECT_EQ(complaint("nmae: 'x'\n"),
            "net.prototxt:1:1: unknown field 'nmae' in a NetParameter; did you mean 'name'?\n"
            "    nmae: 'x'\n"
            "    ^");
}

TEST(TextFormatTest, SaysWhereAFieldBelongs) {
  EXPECT_EQ(complaint("layer { type: 'Convolution' num_output: 20 }"),
            "net.prototxt:1:29: unknown field 'num_output' in layer (LayerParameter); it belongs "
            "inside convolution_param { }\n"
            "    layer { type: 'Convolution' num_output: 20 }\n"
            "                                ^");
  EXPECT_NE(
      complaint("layer { tile_param { nonsense: 1 } }").find("; it has the fields axis, tiles"),
      std::string::npos);
  EXPECT_NE(complaint("layer { lr_mult: 1 }").find("it belongs inside param { }"),
            std::string::npos);
  EXPECT_NE(complaint("layer { kernel_size: 1 }")
                .find("it belongs inside convolution_param, pooling_param, "),
            std::string::npos);
}

// The first sign of a brace that is missing is a field that is out of place.
TEST(TextFormatTest, SuspectsAMissingBrace) {
  EXPECT_EQ(
      complaint("layer {\n"
                "  name: 'ip'\n"
                "  inner_product_param { num_output: 10\n"
                "}\n"
                "layer { name: 'prob' }\n"),
      "net.prototxt:5:1: layer 'ip': unknown field 'layer' in layer (LayerParameter); it is a "
      "field of NetParameter: is a '}' missing before it?\n"
      "    layer { name: 'prob' }\n"
      "    ^");
  EXPECT_NE(complaint("layer { pooling_param { pool: MAX bottom: 'x' } }")
                .find("it is a field of LayerParameter: is a '}' missing before it?"),
            std::string::npos);
}

TEST(TextFormatTest, SaysWhatReplacedTheOldFields) {
  EXPECT_EQ(
      complaint("layer {\n  name: 'conv1'\n  blobs_lr: 0\n}"),
      "net.prototxt:3:3: layer 'conv1': unknown field 'blobs_lr' in layer (LayerParameter); it "
      "belongs to the old `layers { }`: in `layer { }` write `param { lr_mult: 0 }`, one for "
      "each parameter blob\n"
      "      blobs_lr: 0\n"
      "      ^");
  EXPECT_NE(complaint("layer { weight_decay: 2.5 }").find("write `param { decay_mult: 2.5 }`"),
            std::string::npos);
  EXPECT_NE(complaint("layer { blob_share_mode: STRICT }").find("share_mode: STRICT"),
            std::string::npos);
}

TEST(TextFormatTest, SettingsOfALayerThatIsNotThereAreThePlugIns) {
  const std::string text =
      complaint("layer { type: 'RBMInnerProduct' rbm_inner_product_param {} }");
  EXPECT_NE(text.find("layer type 'RBMInnerProduct' has no settings here"), std::string::npos);
  EXPECT_EQ(text.find("did you mean"), std::string::npos);
}

TEST(TextFormatTest, TellsNetsSolversAndLabelMapsApart) {
  EXPECT_NE(complaint<NetParameter>("base_lr: 0.01").find("it is a field of a solver"),
            std::string::npos);
  EXPECT_NE(complaint<NetParameter>("item { name: 'x' }").find("it is a field of a label map"),
            std::string::npos);
  EXPECT_NE(complaint<SolverParameter>("layer { name: 'x' }").find("it is a field of a net"),
            std::string::npos);
}

TEST(TextFormatTest, ListsTheValuesOfAnEnum) {
  EXPECT_EQ(complaint("layer { pooling_param { pool: AVG } }"),
            "net.prototxt:1:31: 'AVG' is no value of 'pool' in pooling_param; did you mean AVE? it "
            "takes one of MAX, AVE or STOCHASTIC\n"
            "    layer { pooling_param { pool: AVG } }\n"
            "                                  ^");
  EXPECT_NE(complaint("layer { pooling_param { pool: 7 } }").find("'7' is no value of 'pool'"),
            std::string::npos);
  EXPECT_NE(complaint("layer { pooling_param { pool: -1 } }").find("is no value of 'pool'"),
            std::string::npos);
  EXPECT_NE(complaint("layer { data_param { backend: 'LMDB' } }")
                .find("'LMDB' is no value of 'backend' in data_param; did you mean LMDB?"),
            std::string::npos);
}

TEST(TextFormatTest, TellsTheTwoWaysToWriteALayersTypeApart) {
  EXPECT_NE(complaint("layers { type: \"Data\" }")
                .find("the old `layers { }` take a word such as CONVOLUTION; with `layer { }` the "
                      "type is a text such as \"Data\""),
            std::string::npos);
  EXPECT_NE(complaint("layers { type: \"CONVOLUTION\" }")
                .find("with `layer { }` the type is a text such as \"Convolution\""),
            std::string::npos);
  EXPECT_NE(complaint("layer { type: CONVOLUTION }")
                .find("words such as CONVOLUTION belong to the old `layers { }`"),
            std::string::npos);
  EXPECT_NE(complaint("layer { type: ReLU6 }").find("write \"ReLU6\""), std::string::npos);
}

// As in texts that were copied from a page.
TEST(TextFormatTest, NamesCharactersThatOnlyTextsInQuotesMayHave) {
  const std::string quote = complaint("# \u00E4\n\tname: \u201Cfc\u201D");
  EXPECT_NE(quote.find(":2:8: \u201C is a typographic quotation mark; write \""), std::string::npos)
      << quote;
  EXPECT_NE(complaint("name:\u00A0\"fc\"").find("a no-break space stands here; write a space"),
            std::string::npos);
  EXPECT_NE(complaint("name: \"\u00E4\" \u00E9").find("the character \u00E9 can only stand in"),
            std::string::npos);
}

TEST(TextFormatTest, RefusesASecondValue) {
  EXPECT_EQ(
      complaint("layer {\n  pooling_param {\n    stride: 1\n\n    stride: 2\n  }\n}"),
      "net.prototxt:5:5: 'stride' in pooling_param is given twice, first in line 3; it takes one "
      "value, so keep one of them\n"
      "        stride: 2\n"
      "        ^");
  EXPECT_NE(complaint("layer { pooling_param {} pooling_param {} }").find("given twice"),
            std::string::npos);
  EXPECT_EQ(
      complaint<SolverParameter>("device_id: [0, 1]"),
      "net.prototxt:1:12: 'device_id' takes one value, not a list; write it without brackets\n"
      "    device_id: [0, 1]\n"
      "               ^");
}

TEST(TextFormatTest, NamesAMissingRequiredField) {
  EXPECT_EQ(complaint("layer {\n  name: 'clip'\n  type: 'Clip'\n  clip_param { min: 0 }\n}"),
            "net.prototxt:4:3: required field 'max' is missing in layer[0].clip_param");
}

TEST(TextFormatTest, SaysWhatTypeAFieldTakes) {
  const auto said = [](const std::string& field) { return complaint<SolverParameter>(field); };
  EXPECT_NE(said("max_iter: many").find("'max_iter' takes a whole number, found 'many'"),
            std::string::npos);
  EXPECT_NE(said("max_iter: 1.5").find("'max_iter' takes a whole number, found '1.5'"),
            std::string::npos);
  EXPECT_NE(said("max_iter: 3000000000")
                .find("'max_iter' is out of range: 3000000000, at most 2147483647"),
            std::string::npos);
  EXPECT_NE(said("base_lr: '0.1'").find("'base_lr' takes a number, found '0.1'"),
            std::string::npos);
  EXPECT_NE(said("net: 5").find("'net' takes a text in quotes, found '5'; write \"5\""),
            std::string::npos);
  EXPECT_NE(said("test_initialization: yes").find("takes true or false, found 'yes'"),
            std::string::npos);
  EXPECT_NE(said("base_lr 0.1").find("expected ':' after 'base_lr', found '0.1'"),
            std::string::npos);
  EXPECT_NE(said("train_state: 5").find("expected '{' after 'train_state', found '5'"),
            std::string::npos);
  EXPECT_NE(complaint("layer { pooling_param { pad: -1 } }")
                .find("'pad' in pooling_param takes no negative number"),
            std::string::npos);
  // The bounds themselves are fine.
  EXPECT_EQ(said("max_iter: 2147483647 display: -2147483648"), "");
}

TEST(TextFormatTest, FindsBracesThatDoNotMatch) {
  EXPECT_EQ(complaint("layer {\n  name: 'x'\n"),
            "net.prototxt:1:7: layer 'x': 'layer {' is never closed; a '}' is missing below\n"
            "    layer {\n"
            "          ^");
  EXPECT_NE(complaint("layer { name: 'x' }\n}").find("net.prototxt:2:1: this '}' closes nothing"),
            std::string::npos);
  EXPECT_NE(complaint("layer { name: 'x' >").find("'layer {' of line 1 is closed by '>'"),
            std::string::npos);
}

TEST(TextFormatTest, FindsWhatIsNoTokenAtAll) {
  EXPECT_NE(complaint("name: 'x").find("net.prototxt:1:"), std::string::npos);
  EXPECT_EQ(complaint("layer { name: 'a' type: 'b\n}\nlayer { name: 'c' }"),
            "net.prototxt:1:27: layer 'a' (b): String literals cannot cross line boundaries.\n"
            "    layer { name: 'a' type: 'b\n"
            "                              ^");
  EXPECT_NE(complaint("name: \xE2\x80\x9Cx\xE2\x80\x9D").find("net.prototxt:1:7:"),
            std::string::npos);  // quotes from a word processor
  EXPECT_NE(complaint("= 5").find("expected the name of a field of NetParameter, found '='"),
            std::string::npos);
  EXPECT_NE(
      complaint("layer { [ } }").find("1:11: expected the name of an extension and ']', found '}'"),
      std::string::npos);
  EXPECT_NE(complaint("layer { [no.such_param] {} }").find("nothing brings [no.such_param]"),
            std::string::npos);
}

TEST(TextFormatTest, ColumnsCountCharactersAndTheCaretStandsUnderThem) {
  // A tab and a character of two bytes are one column each.
  EXPECT_EQ(complaint("\tname: '\xC3\xA9' nmae: 'x'"),
            "net.prototxt:1:12: unknown field 'nmae' in a NetParameter; did you mean 'name'?\n"
            "     name: '\xC3\xA9' nmae: 'x'\n"
            "               ^");
}

TEST(TextFormatTest, CutsALongLineAroundTheMistake) {
  const std::string text = complaint("name: '" + std::string(500, 'x') + "' nmae: 'x'" +
                                     std::string(200, ' ') + "force_backward: true");
  EXPECT_NE(text.find("net.prototxt:1:510:"), std::string::npos);
  const size_t caret = text.rfind('\n');
  const size_t line = text.rfind('\n', caret - 1);
  EXPECT_LT(caret - line, 120u);
  EXPECT_EQ(text.substr(text.find("nmae", line) - line + caret), "^");
}

TEST(TextFormatTest, RefusesAnEmptyText) {
  EXPECT_EQ(complaint(""), "net.prototxt: this net prototxt is empty: it has no field at all");
  EXPECT_NE(complaint(" \n# nothing but a comment\n\t").find("is empty"), std::string::npos);
  EXPECT_NE(complaint<SolverParameter>("").find("this solver prototxt is empty"),
            std::string::npos);
}

TEST(TextFormatTest, RefusesANetWithBothKindsOfLayers) {
  const std::string text = "layer { name: 'a' }\n\nlayers { name: 'b' }\n";
  NetParameter net;
  SourceMap map;
  parse_text_proto(text, "net.prototxt", net, &map);
  expect_error([&] { check_layer_mix(net, map); },
               {"net.prototxt:3:1: ", "`layer` (line 1)", "`layers` (line 3)", "the old form"});
  EXPECT_NO_THROW(check_layer_mix(parse("layer {} layer {}"), SourceMap()));
  EXPECT_NO_THROW(check_layer_mix(parse("layers {}"), SourceMap()));
}

TEST(TextFormatTest, RefusesANetWithoutLayers) {
  NetParameter net;
  SourceMap map;
  parse_text_proto("name: 'x'", "net.prototxt", net, &map);
  expect_error([&] { check_has_layers(net, map); }, {"net.prototxt: the net has no layers"});
  EXPECT_NO_THROW(check_has_layers(parse("layer {}"), SourceMap()));
  EXPECT_NO_THROW(check_has_layers(parse("layers {}"), SourceMap()));
}

TEST(TextFormatTest, NamesTheLayerThatTheMistakeIsIn) {
  // In a list, by the order in it.
  EXPECT_NE(complaint("layer: [{ name: 'a' }, { name: 'b' nmae: 1 }, { name: 'c' }]")
                .find("layer 'b': unknown field 'nmae'"),
            std::string::npos);
  // The parser reads on behind a character that is no token.
  EXPECT_NE(complaint("layer { name: 'a' \x01 } layer { name: 'b' }")
                .find("net.prototxt:1:19: layer 'a': "),
            std::string::npos);
  EXPECT_EQ(complaint("layer { name: 'a' } nmae: 1").find("layer 'a'"), std::string::npos);
  // Of old nets the type is a word.
  EXPECT_NE(complaint("layers { name: 'a' type: RELU nmae: 1 }").find("layer 'a' (RELU): "),
            std::string::npos);
}

TEST(TextFormatTest, RefusesNumbersAndWordsWithTheirSign) {
  EXPECT_NE(complaint<SolverParameter>("display: -3000000000")
                .find("'display' is out of range: -3000000000, at least -2147483648"),
            std::string::npos);
  EXPECT_NE(complaint("layer { pooling_param { pool: -1 } }").find("1:32: '1' is no value of"),
            std::string::npos);
  EXPECT_NE(
      complaint("layer { include { phase: TEST > }").find("'include {' of line 1 is closed by '>'"),
      std::string::npos);
  EXPECT_NE(complaint("input_dim: [1 2]").find("1:15: expected ',' or ']', found '2'"),
            std::string::npos);
}

// Whatever is done to a text, it is read, or refused at a place in it and in our own words.
TEST(TextFormatTest, EveryRefusalHasAPlace) {
  const std::string whole = R"(name: "net" input_dim: [1, 3]
    layer {
      name: 'conv' type: "Convolution" bottom: "data" top: "conv" loss_weight: -1.5e-3
      param < lr_mult: 31 > include: { phase: TRAIN stage: 'a' 'b' };  # comment
      convolution_param { num_output: 20, bias_term: false weight_filler { std: .1f } pad: 0x1F }
      pooling_param { pool: AVE }
    })";
  ASSERT_EQ(complaint(whole), "");
  const std::string alphabet = "{}<>[]:;,-.\"'#\\ \n\t019aex_\x80\x01";
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = whole;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        default:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
      }
    }
    const std::string said = complaint(text);
    if (said.empty()) continue;
    ++refused;
    ASSERT_EQ(said.find("net.prototxt:"), 0u) << said << "\n" << text;
    for (const char* parsers_words :
         {"Message type", "Unknown enumeration", "Expected", "Invalid value"}) {
      ASSERT_EQ(said.find(parsers_words), std::string::npos) << said << "\n" << text;
    }
  }
  EXPECT_GT(refused, 1000);
}

// --- Files ----------------------------------------

// What reading a file as a net says; "" when nothing.
std::string file_complaint(const std::string& path) {
  NetParameter net;
  try {
    read_text_proto(path, net);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ReadTextProtoTest, ReadsAFileAndNamesItInErrors) {
  const TempFolder folder;
  NetParameter net;
  SourceMap map;
  read_text_proto(folder.write("good.prototxt", "name: 'x'\nlayer {}"), net, &map);
  EXPECT_EQ(net.name(), "x");
  EXPECT_EQ(map.position("layer[0]").str(), folder.path("good.prototxt") + ":2:1");

  const std::string bad = folder.write("bad.prototxt", "nmae: 'x'");
  EXPECT_EQ(file_complaint(bad).find(bad + ":1:1: unknown field"), 0u);
}

TEST(ReadTextProtoTest, NamesWhatIsMissingAndWhatLiesNearby) {
  const TempFolder folder;
  folder.write("train_val.prototxt", "layer {}");
  expect_error(
      [&] {
        NetParameter net;
        read_text_proto(folder.path("trian_val.prototxt"), net);
      },
      {"cannot open net prototxt", "trian_val.prototxt", "No such file or directory",
       "did you mean '" + folder.path("train_val.prototxt") + "'?"});
  expect_error(
      [&] {
        NetParameter net;
        read_text_proto(folder.path("no/net.prototxt"), net);
      },
      {"there is no folder '" + folder.path("no") + "'"});
  expect_error(
      [&] {
        NetParameter net;
        read_text_proto("", net);
      },
      {"the path is empty"});
}

TEST(ReadTextProtoTest, RefusesAFolderAndNamesAFileInIt) {
  const TempFolder folder;
  expect_error(
      [&] {
        NetParameter net;
        read_text_proto(folder.path(""), net);
      },
      {"it is a folder", "has none that ends in .prototxt"});
  folder.write("lenet.prototxt", "layer {}");
  expect_error(
      [&] {
        NetParameter net;
        read_text_proto(folder.path(""), net);
      },
      {"it is a folder", "such as '" + folder.path("lenet.prototxt") + "'"});
}

TEST(ReadTextProtoTest, NamesFilesOfOtherKinds) {
  const TempFolder folder;
  const auto said = [&](const std::string& content) {
    return file_complaint(folder.write("file", content));
  };
  const std::string zeros(64, '\0');
  EXPECT_NE(said("").find("is empty"), std::string::npos);
  EXPECT_NE(said("\x89HDF\r\n\x1A\n" + zeros).find("is not a net prototxt but an HDF5 file"),
            std::string::npos);
  EXPECT_NE(said("\xFF\xD8\xFF\xE0" + zeros).find("but an image"), std::string::npos);
  EXPECT_NE(said("\x89PNG\r\n\x1A\n" + zeros).find("but an image"), std::string::npos);
  EXPECT_NE(said("\x1F\x8B\x08" + zeros).find("but a compressed file; unpack it first"),
            std::string::npos);
  EXPECT_NE(said(zeros.substr(0, 16) + "\xDE\xC0\xEF\xBE" + zeros).find("of an LMDB"),
            std::string::npos);
  EXPECT_NE(said(std::string("\xFF\xFEn\0a\0", 6)).find("UTF-16; save it as UTF-8"),
            std::string::npos);
  EXPECT_NE(said("\x01\x02" + zeros).find("but a binary file"), std::string::npos);

  NetParameter weights;
  weights.add_layer()->add_blobs()->add_data(1.5f);
  EXPECT_NE(said(weights.SerializeAsString()).find("is not a net prototxt but a weights file"),
            std::string::npos);
  SolverState state;
  state.set_iter(1000);
  EXPECT_NE(said(state.SerializeAsString()).find("but a solver's state"), std::string::npos);
  BlobProto mean;
  mean.set_channels(3);
  mean.add_data(104);
  EXPECT_NE(said(mean.SerializeAsString()).find("but a mean file"), std::string::npos);
}

}  // namespace
}  // namespace crema
