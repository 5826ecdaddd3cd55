// The pages of the layers, layers/*/README.md, against the layers: every type has one, and its
// table of parameters is that of the message.
#include "tools/pages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "core/published_types.hpp"
#include "crema/registry.hpp"
#include "proto/layer.pb.h"
#include "support/paths.hpp"
#include "tools/cli.hpp"

namespace crema::test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::Contains;
using tools::Page;

std::string letters(const std::string& name) {
  std::string text;
  for (const char c : name) {
    if (c != '_') text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The fields of LayerParameter with the settings of a type, without transform_param of data layers
/// and, unless asked for, loss_param of losses: their tables have the fields that they read.
std::vector<const FieldDescriptor*> settings_of(const std::string& type, bool with_loss = false) {
  const std::string* others = published_type(type);
  std::istringstream words(others ? *others : "");
  const std::set<std::string> named{std::istream_iterator<std::string>(words), {}};
  std::vector<const FieldDescriptor*> found;
  const Descriptor* layer = LayerParameter::descriptor();
  for (int i = 0; i < layer->field_count(); ++i) {
    const FieldDescriptor* field = layer->field(i);
    if (field->message_type() == nullptr) continue;
    if (field->name() == "loss_param" && !with_loss) continue;
    if (letters(field->name()) == letters(type) + "param" || named.count(field->name()) > 0)
      found.push_back(field);
  }
  return found;
}

/// Names between backticks.
std::vector<std::string> names_in(const std::string& cell) {
  std::vector<std::string> names;
  for (size_t begin = cell.find('`'); begin != std::string::npos;) {
    const size_t end = cell.find('`', begin + 1);
    if (end == std::string::npos) break;
    names.push_back(cell.substr(begin + 1, end - begin - 1));
    begin = cell.find('`', end + 1);
  }
  return names;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  bool quoted = false;
  std::string part;
  for (const char c : text + ",") {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      part.erase(0, part.find_first_not_of(' '));
      parts.push_back(part);
      part.clear();
    } else if (c != '`') {
      part += c;
    }
  }
  return parts;
}

/// What a page, or one that it links to, says of the defaults of its parameters: name -> default.
std::map<std::string, std::string> parameters_of(const Page& page, bool with_links = true) {
  std::map<std::string, std::string> found;
  for (const Page& other : tools::pages()) {
    for (size_t at = 0; with_links && (at = page.text.find("](../", at)) != std::string::npos;) {
      at += 5;
      const std::string room(page.text.substr(at, page.text.find('/', at) - at));
      if (letters(room) == letters(other.type)) found.merge(parameters_of(other, false));
    }
  }
  for (const auto& table : page.tables()) {
    if (table[0].size() < 2 || table[0][1] != "default") continue;
    for (size_t i = 1; i < table.size(); ++i) {
      const std::vector<std::string> names = names_in(table[i][0]), defaults = split(table[i][1]);
      for (size_t k = 0; k < names.size(); ++k) {
        const std::string name = names[k].substr(names[k].rfind('.') + 1);
        found[name] = defaults[defaults.size() == names.size() ? k : 0];
      }
    }
  }
  return found;
}

/// The default of a field as a prototxt writes it; "" if the message has none.
std::string default_of(const FieldDescriptor& field) {
  if (!field.has_default_value()) return {};
  const auto number = [](auto value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return field.default_value_bool() ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return number(field.default_value_int32());
    case FieldDescriptor::CPPTYPE_UINT32:
      return number(field.default_value_uint32());
    case FieldDescriptor::CPPTYPE_INT64:
      return number(field.default_value_int64());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return number(field.default_value_float());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(field.default_value_double());
    case FieldDescriptor::CPPTYPE_ENUM:
      return field.default_value_enum()->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return field.default_value_string();
    default:
      return "of a type that this test does not know";
  }
}

bool same_default(const std::string& shown, const std::string& real) {
  if (shown == real || shown == '"' + real + '"') return true;
  std::istringstream a(shown), b(real);
  double x = 0, y = 0;
  return a >> x && b >> y && a.eof() && b.eof() && static_cast<float>(x) == static_cast<float>(y);
}

class LayerPages : public ::testing::TestWithParam<std::string> {};

TEST_P(LayerPages, ExplainTheType) {
  const Page* page = tools::find_page(GetParam());
  ASSERT_NE(page, nullptr) << "there is no page with the title '# " << GetParam() << "'";
  EXPECT_GT(page->summary.size(), 10U);
  EXPECT_LT(page->summary.size(), 160U) << page->summary;
  const std::string text(page->text);
  EXPECT_NE(text.find("type: \"" + GetParam() + '"'), std::string::npos) << "no sample";
}

TEST_P(LayerPages, NameEveryParameterWithItsDefault) {
  const Page* page = tools::find_page(GetParam());
  ASSERT_NE(page, nullptr);
  const std::map<std::string, std::string> shown = parameters_of(*page);
  for (const FieldDescriptor* settings : settings_of(GetParam())) {
    const Descriptor& message = *settings->message_type();
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor& field = *message.field(i);
      const auto found = shown.find(field.name());
      if (found == shown.end()) {
        ADD_FAILURE() << field.name() << " is not in the table of parameters";
      } else if (const std::string real = default_of(field); !real.empty()) {
        EXPECT_TRUE(same_default(found->second, real))
            << field.name() << ": the page says " << found->second << ", the message " << real;
      }
    }
  }
}

/// Whether the page or, with `links`, one that it links to has the name in a piece of code: `name`,
/// `part.name` or `name.part`.
bool names_field(const std::string& page, const std::string& name, bool links = true) {
  for (const char* before : {"`", "."})
    if (page.find(before + name + '`') != std::string::npos) return true;
  if (page.find('`' + name + '.') != std::string::npos) return true;
  for (size_t at = 0; links && (at = page.find("](../", at)) != std::string::npos;) {
    at += 5;
    const std::string file = page.substr(at, page.find(')', at) - at);
    if (names_field(text_of(source_path("layers/" + file)), name, false)) return true;
  }
  return false;
}

/// Its fields are those of the published format, which our pages do not repeat.
bool is_of_onnx(const Descriptor& message) { return message.file()->package() == "crema.onnx"; }

void check_fields(const std::string& page, const Descriptor& message) {
  // What fillers and shapes are is said once.
  const std::set<std::string> elsewhere = {"FillerParameter", "BlobShape"};
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    EXPECT_TRUE(names_field(page, std::string(field.name()))) << field.full_name();
    if (field.message_type() != nullptr && !is_of_onnx(*field.message_type()) &&
        elsewhere.count(std::string(field.message_type()->name())) == 0)
      check_fields(page, *field.message_type());
  }
}

TEST_P(LayerPages, NameEveryFieldOfTheMessagesInside) {
  const Page* page = tools::find_page(GetParam());
  ASSERT_NE(page, nullptr);
  for (const FieldDescriptor* settings : settings_of(GetParam(), true))
    check_fields(std::string(page->text), *settings->message_type());
}

INSTANTIATE_TEST_SUITE_P(Layers, LayerPages, ::testing::ValuesIn(Registry::instance().types()),
                         [](const auto& type) { return type.param; });

/// Names of the fields of a message, those of messages in it behind a dot, with their defaults.
void add_fields(const Descriptor& message, const std::string& prefix,
                std::map<std::string, std::string>& fields) {
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    // What a ResizeParameter in another message does is said of that message.
    const bool whole = field.message_type() == nullptr || is_of_onnx(*field.message_type()) ||
                       (!prefix.empty() && field.message_type()->name() == "ResizeParameter");
    if (whole) fields[prefix + field.name()] = default_of(field);
    if (!whole) add_fields(*field.message_type(), prefix + field.name() + '.', fields);
  }
}

TEST(DataPage, HasEveryFieldOfTransformParam) {
  std::map<std::string, std::string> fields, shown;
  add_fields(*TransformationParameter::descriptor(), "", fields);
  const Page& page = *tools::find_page("Data");
  for (const auto& table : page.tables()) {
    if (table[0].size() < 2 || table[0][1] != "default") continue;
    for (size_t i = 1; i < table.size(); ++i) {
      const std::vector<std::string> names = names_in(table[i][0]), defaults = split(table[i][1]);
      for (size_t k = 0; k < names.size(); ++k)
        shown[names[k]] = defaults[defaults.size() == names.size() ? k : 0];
    }
  }
  for (const auto& [name, real] : fields) {
    const auto found = shown.find(name);
    if (found == shown.end()) {
      const std::string quoted = '`' + name.substr(0, name.find('.')) + '`';
      EXPECT_NE(page.text.find(quoted), std::string::npos) << name << " is not on the page";
    } else if (!real.empty()) {
      EXPECT_TRUE(same_default(found->second, real)) << name << ": the message says " << real;
    }
  }
}

/// All texts of a folder of the repository with one extension.
std::vector<std::string> texts_in(const std::string& folder, const std::string& extension) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(source_path(folder))) {
    if (entry.path().extension() == extension) texts.push_back(text_of(entry.path()));
  }
  return texts;
}

/// Whether a text holds one of `parts` and every one of `also`.
bool any_holds(const std::vector<std::string>& texts, const std::vector<std::string>& parts,
               const std::vector<std::string>& also = {}) {
  return std::ranges::any_of(texts, [&](const std::string& text) {
    const auto has = [&](const std::string& part) { return text.find(part) != std::string::npos; };
    return std::ranges::any_of(parts, has) && std::ranges::all_of(also, has);
  });
}

/// The tests of layers, but for the files that sweep over many types and hold no values.
std::vector<std::string> layer_tests() {
  const std::set<std::string> sweeping = {"empty_batch_test.cpp", "engine_fuzz_test.cpp"};
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/layers"))) {
    if (sweeping.count(entry.path().filename().string()) > 0) continue;
    texts.push_back(text_of(entry.path()));
  }
  return texts;
}

/// Of the layers of Caffe, of the SSD fork and of PyTorch.
std::vector<std::string> golden_cases() {
  std::vector<std::string> all;
  for (const char* kind : {"layers", "ssd", "torch"}) {
    const std::vector<std::string> some =
        texts_in(std::string("tests/golden/") + kind, ".prototxt");
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// How a test or a golden case names a type.
std::vector<std::string> mentions_of(const std::string& type) {
  return {"type: '" + type + "'", "type: \"" + type + '"', "type: \\\"" + type + "\\\"",
          '"' + type + '"'};
}

/// A test with the headers beside it that it includes: several tests of a layer share their cases.
std::string test_with_its_cases(const std::string& file) {
  const std::string test = text_of(source_path(file));
  std::string all = test;
  constexpr std::string_view kInclude = "#include \"layers/";
  for (size_t at = test.find(kInclude); at != std::string::npos; at = test.find(kInclude, at + 1)) {
    const size_t name = at + kInclude.size();
    all += text_of(source_path("tests/layers/" + test.substr(name, test.find('"', name) - name)));
  }
  return all;
}

TEST_P(LayerPages, EndWithTheirTest) {
  const Page* page = tools::find_page(GetParam());
  ASSERT_NE(page, nullptr);
  constexpr std::string_view kMark = "\n**Test.** `";
  const size_t at = page->text.rfind(kMark);
  ASSERT_NE(at, std::string_view::npos) << "the last line is no **Test.** `tests/layers/...`.";
  std::string_view rest = page->text.substr(at + kMark.size());
  std::string_view separator;
  std::vector<std::string> tests;
  do {
    const std::string file(rest.substr(0, rest.find('`')));
    tests.push_back(test_with_its_cases(file));
    ASSERT_FALSE(tests.back().empty()) << file << " is not there";
    rest.remove_prefix(file.size());
    separator = rest.substr(0, 4);
    rest.remove_prefix(separator.size());
  } while (separator == "`, `");
  EXPECT_EQ(std::string(separator) + std::string(rest), "`.\n");
  EXPECT_TRUE(any_holds(tests, mentions_of(GetParam()))) << "they have no such layer";
}

TEST_P(LayerPages, HaveTestsOfValuesAndGradients) {
  const std::string& type = GetParam();
  const std::vector<std::string> names = mentions_of(type);
  static const std::vector<std::string> golden = golden_cases();
  static const std::vector<std::string> tests = layer_tests();
  EXPECT_TRUE(any_holds(golden, names) || any_holds(tests, names, {"EXPECT_THAT(", ".top("}) ||
              any_holds(tests, names, {"EXPECT_THAT(", ".values<float>()"}) ||
              any_holds(tests, names, {"EXPECT_EQ(", ".top(0)"}) ||
              any_holds(tests, names, {"expect_close(", ".top(0)"}))
      << "no test has its values";
  // Sources, measures, and what has no derivative.
  const std::set<std::string> without_gradient = {"Accuracy",
                                                  "AnnotatedData",
                                                  "ArgMax",
                                                  "BoxAnnotatorOHEM",
                                                  "ConfusionMatrix",
                                                  "ContinuationIndicator",
                                                  "Data",
                                                  "DenseImageData",
                                                  "DetectionEvaluate",
                                                  "DetectionOutput",
                                                  "DummyData",
                                                  "HDF5Data",
                                                  "HDF5Output",
                                                  "ImageData",
                                                  "Input",
                                                  "MemoryData",
                                                  "OnnxOperator",
                                                  "PriorBox",
                                                  "PriorBoxClustered",
                                                  "Proposal",
                                                  "Silence",
                                                  "Threshold",
                                                  "WindowData"};
  if (without_gradient.count(type) > 0) return;
  EXPECT_TRUE(any_holds(tests, names, {"check_gradients("})) << "no test checks its gradient";
}

TEST_P(LayerPages, AreInTheTableOfTheLayers) {
  static const std::string table = text_of(source_path("layers/README.md"));
  const size_t link = table.find('[' + GetParam() + "](");
  ASSERT_NE(link, std::string::npos);
  const size_t folder = link + GetParam().size() + 3;
  const std::string name = table.substr(folder, table.find(')', folder) - folder);
  const std::string page = text_of(source_path("layers/" + name + "/README.md"));
  EXPECT_TRUE(page.starts_with("# " + GetParam() + '\n')) << name;
}

TEST(LayersCommand, ListsTheTypes) {
  const Output output = run("layers");
  EXPECT_EQ(output.status, 0) << output.text;
  for (const std::string& type : Registry::instance().types()) {
    // Other names of a type stand behind its first one.
    EXPECT_TRUE(std::regex_search(output.text, std::regex("(^|\n|, )" + type + "(,| |\n)")))
        << type;
  }
}

TEST(LayersCommand, SentencesAreWholeAndOtherNamesStandTogether) {
  const Output output = run("layers", "COLUMNS=200 " CREMA_TOOL);
  EXPECT_FALSE(output.says("et al\n")) << output.text;
  EXPECT_TRUE(output.says("GRU ") && output.says("Gated recurrent units (Cho et al. 2014)"))
      << output.text;
  for (const char* part :
       {"\nCTCLoss, CtcLoss, WarpCTCLoss ", "\nLocallyConnected, Local ",
        "\nConvolutionDepthwise, DepthwiseConvolution ", "\nDiceLoss, DiceCoefLoss "}) {
    EXPECT_TRUE(output.says(part)) << part << output.text;
  }
}

TEST(LayersCommand, PrintsThePage) {
  const Output output = run("layers Deconvolution ReLU");
  EXPECT_EQ(output.status, 0) << output.text;
  for (const char* part : {"num_output", "required", "weight_filler { type: \"bilinear\" }",
                           "negative_slope", "stride * (in - 1)"}) {
    EXPECT_TRUE(output.says(part)) << part;
  }
  EXPECT_FALSE(output.says("|---|")) << "the rule of a table";
  EXPECT_FALSE(output.says("```"));
}

TEST(LayersCommand, FindsTheNearestName) {
  EXPECT_TRUE(run("layers --like Convoluton").says("Convolution  "));
  EXPECT_TRUE(run("layers --like maxpooling").says("Pooling"));
  const Output loss = run("layers --like LOSS");
  EXPECT_TRUE(loss.says("HingeLoss") && loss.says("SoftmaxWithLoss")) << loss.text;
  expect_refusal("layers --like qqqqqqqq", {"qqqqqqqq", "crema layers"});
  expect_refusal("layers Convoluton", {"'Convoluton'", "did you mean 'Convolution'"});
  expect_refusal("layers ReLU --like x", {"--like"});
}

TEST(PageText, LeavesOutTheMarksOfTheFormat) {
  const Page page{.text =
                      "# T\n\nSee [this](there) and `a|b`. **Bold** words.\n\n"
                      "| a | b |\n|---|---|\n| `x | y` | two |\n\n```\ncode\n```\n"};
  EXPECT_EQ(page.for_terminal(),
            "T\n\nSee this and a|b. Bold words.\n\n  a      b\n  x | y  two\n\n    code\n");
  EXPECT_THAT(page.tables(), ::testing::SizeIs(1));
}

TEST(Markdown, TablesOfAPage) {
  using ::testing::ElementsAre;
  const std::vector<tools::Table> tables = tools::tables_of(
      "# T\n| a | b |\r\n| --- |:--|\r\n| `x | y` | |\n|\n| open | end\n\n```\n| no | table "
      "|\n```\n|---|\n\n| c |\n");
  EXPECT_THAT(tables, ElementsAre(ElementsAre(ElementsAre("a", "b"), ElementsAre("`x | y`", ""),
                                              ElementsAre("open", "end")),
                                  ElementsAre(ElementsAre("c"))));
  EXPECT_EQ(tools::row_of(tables[0][1]), "| `x | y` | |");
  EXPECT_EQ(tools::without_marks("`a` is **not** [b](c)"), "a is not b");
}

}  // namespace
}  // namespace crema::test
