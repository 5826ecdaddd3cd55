#include "monitor/report/display_line.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace crema {
namespace {

/// What stands at the front of a text of JSON. Each call takes what it reads, and says whether it
/// was there.
class JsonFront {
 public:
  explicit JsonFront(std::string_view text) : text_(text) {}

  bool mark(char c) {
    blanks();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  /// A string without escapes.
  bool plain_string(std::string_view& out) {
    if (!mark('"')) return false;
    const size_t end = text_.find_first_of("\"\\");
    if (end == std::string_view::npos || text_[end] == '\\') return false;
    out = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }

  /// A number, or one of the words in quotes that stand for those that JSON has none of.
  bool number(double& out) {
    blanks();
    if (!text_.empty() && text_[0] == '"') {
      std::string_view word;
      if (!plain_string(word)) return false;
      if (word == "NaN") {
        out = std::numeric_limits<double>::quiet_NaN();
      } else if (word == "Infinity") {
        out = HUGE_VAL;
      } else if (word == "-Infinity") {
        out = -HUGE_VAL;
      } else {
        return false;
      }
      return true;
    }
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    if (error != std::errc() || end == text_.data()) return false;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return true;
  }

  bool at_end() {
    blanks();
    return text_.empty();
  }

 private:
  void blanks() {
    const size_t begin = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(begin == std::string_view::npos ? text_.size() : begin);
  }

  std::string_view text_;
};

bool read_outputs(JsonFront& json, std::vector<std::pair<std::string, double>>& out) {
  if (!json.mark('{')) return false;
  if (json.mark('}')) return true;
  do {
    std::string_view name;
    double value = 0;
    if (!json.plain_string(name) || !json.mark(':') || !json.number(value)) return false;
    out.emplace_back(name, value);
  } while (json.mark(','));
  return json.mark('}');
}

}  // namespace

bool read_display(std::string_view line, DisplayLine& out) {
  out.iteration = -1;
  out.outputs.clear();
  using Field = std::pair<std::string_view, std::optional<double>*>;
  std::array<Field, 11> fields = {Field{"epoch", &out.epoch},
                                  {"time", &out.time},
                                  {"wall", &out.wall},
                                  {"loss", &out.loss},
                                  {"smoothed_loss", &out.smoothed_loss},
                                  {"rate", &out.rate},
                                  {"images_per_second", &out.images_per_second},
                                  {"data_wait", &out.data_wait},
                                  {"gradient_norm", &out.gradient_norm},
                                  {"memory", &out.memory},
                                  {"seconds", &out.seconds}};
  for (const Field& field : fields) field.second->reset();
  JsonFront json(line);
  if (!json.mark('{')) return false;
  bool is_display = false;
  do {
    std::string_view name;
    if (!json.plain_string(name) || !json.mark(':')) return false;
    if (name == "kind") {
      std::string_view kind;
      if (!json.plain_string(kind) || kind != "TRAIN") return false;
      is_display = true;
    } else if (name == "outputs") {
      if (!read_outputs(json, out.outputs)) return false;
    } else {
      double value = 0;
      if (!json.number(value)) return false;
      bool is_known = name == "iteration";
      if (is_known) {
        if (!(value >= 0 && value <= std::numeric_limits<int>::max())) return false;
        out.iteration = static_cast<int>(value);
      }
      for (const Field& field : fields) {
        if (field.first != name) continue;
        *field.second = value;
        is_known = true;
      }
      if (!is_known) return false;
    }
  } while (json.mark(','));
  return json.mark('}') && json.at_end() && is_display && out.iteration >= 0;
}

}  // namespace crema
