#include "tools/net_template.hpp"

#include <algorithm>
#include <regex>
#include <sstream>

#include "analysis/layer_graph.hpp"
#include "crema/error.hpp"
#include "data/records/image_list.hpp"
#include "model/text_format.hpp"
#include "tools/model_list.hpp"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

/// Where the message that opens at `open`, a '{', ends: behind its '}'. Braces in comments and in
/// quotes do not count.
size_t end_of_message(const std::string& text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size() - 1);
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c; ++i) i += text[i] == '\\' ? 1 : 0;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  throw Error("a model's net has a brace without its end");
}

/// The next "layer {" that is not in a comment; npos if there is none.
size_t next_layer(const std::string& text, size_t from) {
  static const std::regex pattern(R"((^|\n)layer\s*\{)");
  std::smatch found;
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>(from);
  if (!std::regex_search(begin, text.end(), found, pattern)) return std::string::npos;
  const auto at = static_cast<size_t>(found.position(0)) + from;
  return at + (text[at] == '\n' ? 1 : 0);
}

/// Where a message of the layer begins, at its name; npos if it has none.
size_t find_message(const std::string& layer, const std::string& field) {
  std::smatch found;
  const std::regex pattern("\\b" + field + "\\s*\\{");
  return std::regex_search(layer, found, pattern) ? static_cast<size_t>(found.position(0))
                                                  : std::string::npos;
}

}  // namespace

NetTemplate::NetTemplate(const std::string& model) : folder_(folder_of_model(model)) {
  model_ = folder_.filename().string();
  std::error_code none;
  fs::path file = folder_ / "train_val.prototxt";
  if (!fs::exists(file, none)) file = folder_ / "train_test.prototxt";
  std::string text;
  read_file_bytes(file.string(), text);
  size_t done = 0;
  while (true) {
    const size_t begin = next_layer(text, done);
    if (begin == std::string::npos) break;
    const size_t end = end_of_message(text, text.find('{', begin));
    Block block{text.substr(done, begin - done), text.substr(begin, end - begin), {}};
    parse(block);
    blocks_.push_back(std::move(block));
    done = end;
  }
  after_ = text.substr(done);
}

void NetTemplate::parse(Block& block) const {
  NetParameter net;
  parse_text_proto(block.text, folder_.string(), net);
  block.layer = net.layer(0);
}

Shape NetTemplate::input() const {
  std::error_code none;
  const fs::path file = folder_ / "deploy.prototxt";
  if (!fs::exists(file, none)) return {};
  NetParameter net;
  read_text_proto(file.string(), net);
  for (const LayerParameter& layer : net.layer()) {
    if (layer.type() != "Input") continue;
    const auto& dims = layer.input_param().shape(0).dim();
    return Shape(std::vector<int64_t>(dims.begin(), dims.end()));
  }
  return {};
}

TransformationParameter NetTemplate::transform() const {
  for (const Block& block : blocks_) {
    if (is_source(block.layer) && block.layer.has_transform_param())
      return block.layer.transform_param();
  }
  return {};
}

std::vector<NetTemplate::Scorer> NetTemplate::scorers() const {
  std::map<size_t, Scorer> found;
  for (size_t loss = 0; loss < blocks_.size(); ++loss) {
    if (blocks_[loss].layer.type() == "SoftmaxWithLoss")
      find_scorers(blocks_[loss].layer.bottom(0), loss, found);
  }
  if (found.empty())
    throw Error("'", model_,
                "' cannot get other classes: no SoftmaxWithLoss reads the scores of an inner "
                "product or a convolution; `crema models` says what each model is for");
  std::vector<Scorer> scorers;
  for (const auto& [block, scorer] : found) scorers.push_back(scorer);
  return scorers;
}

/// Of the values that the blob has before block `end`.
void NetTemplate::find_scorers(const std::string& blob, size_t end,
                               std::map<size_t, Scorer>& found) const {
  size_t i = end;
  do {
    if (i-- == 0) return;
  } while (std::ranges::count(blocks_[i].layer.top(), blob) == 0);
  const LayerParameter& layer = blocks_[i].layer;
  const std::string& type = layer.type();
  const ConvolutionParameter& convolution = layer.convolution_param();
  if (type == "InnerProduct") {
    found[i] = {i, layer.name(), layer.inner_product_param().num_output()};
  } else if (type == "Convolution" || type == "Deconvolution") {
    const bool enlarges = type == "Deconvolution" && convolution.group() > 1 &&
                          convolution.group() == convolution.num_output();
    found[i] = {i, layer.name(), convolution.num_output(), enlarges};
    if (enlarges) find_scorers(layer.bottom(0), i, found);
  } else if (type == "Crop") {  // like its second bottom, which has no scores
    find_scorers(layer.bottom(0), i, found);
  } else if (type == "Eltwise" || layer.bottom_size() == 1) {
    for (const std::string& bottom : layer.bottom()) find_scorers(bottom, i, found);
  }
}

void NetTemplate::set_classes(const Scorer& scorer, int64_t classes) {
  const std::string from = std::to_string(scorer.classes), to = std::to_string(classes);
  set(scorer.block, "num_output", from, to);
  if (scorer.enlarges) set(scorer.block, "group", from, to);
}

void NetTemplate::set(size_t block, const std::string& field, const std::string& from,
                      const std::string& to) {
  Block& changed = blocks_[block];
  std::string pattern;
  for (const char c : from)
    pattern += std::string(std::ispunct(static_cast<unsigned char>(c)) != 0 ? "\\" : "") + c;
  const std::regex place("\\b" + field + "\\s*:\\s*" + pattern + "(?![\\w.])");
  const std::string result = std::regex_replace(changed.text, place, field + ": " + to);
  if (result == changed.text && from != to)
    throw Error("layer '", changed.layer.name(), "' of '", model_, "' has no ", field, ": ", from);
  changed.text = result;
  parse(changed);
}

void NetTemplate::remove_message(size_t block, const std::string& field) {
  Block& changed = blocks_[block];
  for (size_t at = 0; (at = find_message(changed.text, field)) != std::string::npos;) {
    size_t end = end_of_message(changed.text, changed.text.find('{', at));
    while (end < changed.text.size() && changed.text[end] == ' ') ++end;
    // A line that is empty without it goes, too.
    const size_t line = changed.text.rfind('\n', at);
    if (line != std::string::npos && changed.text[end] == '\n' &&
        changed.text.find_first_not_of(' ', line + 1) == at)
      at = line;
    changed.text.erase(at, end - at);
  }
  parse(changed);
}

void NetTemplate::add(size_t block, const std::string& settings, const std::string& field) {
  Block& changed = blocks_[block];
  std::string& text = changed.text;
  if (field.empty()) {
    const size_t end = text.rfind('}');
    const bool has_lines = text.find('\n') != std::string::npos;
    text.insert(end, has_lines ? "  " + settings + "\n" : " " + settings + " ");
  } else {
    const size_t at = find_message(text, field);
    if (at == std::string::npos) return add(block, field + " { " + settings + " }");
    text.insert(text.find('{', at) + 1, " " + settings + " ");
  }
  parse(changed);
}

void NetTemplate::remove(size_t block) {
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(block));
}

void NetTemplate::reword(const std::string& from, const std::string& to) {
  for (Block& block : blocks_) {
    const size_t at = block.before.find(from);
    if (at != std::string::npos) block.before.replace(at, from.size(), to);
  }
}

void NetTemplate::append(const std::string& layer) {
  Block block{"\n", layer, {}};
  parse(block);
  blocks_.push_back(std::move(block));
}

std::string NetTemplate::prototxt(const std::string& name, const std::string& comments) const {
  std::string result;
  std::istringstream lines(comments);
  for (std::string line; std::getline(lines, line);)
    result += line.empty() ? "#\n" : "# " + line + "\n";
  result += "name: \"" + name + "\"\n" + data_;
  bool is_first = true;
  for (const Block& block : blocks_) {
    // What stands above data layers is about these.
    if (!is_source(block.layer)) result += (is_first ? "\n" : block.before) + block.text;
    is_first = is_first && is_source(block.layer);
  }
  return result + after_;
}

}  // namespace crema::tools
