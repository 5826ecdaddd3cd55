#include "tools/settings.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "crema/error.hpp"
#include "tools/columns.hpp"

namespace crema::tools {
namespace {

std::string trimmed_line(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
}

/// What stands behind "// ", with the spaces that columns begin with.
std::string comment_of(const std::string& line) {
  return line.starts_with("// ") ? line.substr(3) : line.substr(2);
}

std::string as_sentence(const std::vector<std::string>& lines) { return joined(lines, " "); }

/// Adds what another comment says of the same field.
void add_words(std::string& words, const std::string& more) {
  if (words.empty() || more.empty()) {
    words += more;
  } else {
    words += (words.ends_with('.') ? " " : "; ") + more;
  }
}

/// Reads the lines of one message.
class MessageText {
 public:
  void add(const std::string& line) {
    if (line.empty()) {
      if (!comment_.empty()) open_group();
      after_blank_ = true;
    } else if (line.starts_with("//")) {
      if (comment_.empty()) is_heading_ = after_blank_;
      comment_.push_back(comment_of(line));
      after_blank_ = false;
    } else if (line.starts_with("enum ")) {
      take_comment();
      enum_ = line.substr(5, line.find(' ', 5) - 5);
      enums_[enum_] = {};
    } else if (line.starts_with("}")) {
      comment_.clear();
      enum_.clear();
    } else if (line.find('=') != std::string::npos) {
      enum_.empty() ? add_field(line) : add_value(line);
      after_blank_ = false;
    }
  }

  std::vector<SettingGroup> groups() {
    std::erase_if(groups_, [](const SettingGroup& group) { return group.settings.empty(); });
    return std::move(groups_);
  }

 private:
  /// A comment below an empty line is a heading; one word alone ("Crema."), before a sentence that
  /// begins with a small letter, is one too, and the rest belongs to what follows.
  void take_comment() {
    if (comment_.empty()) {
      if (after_blank_) open_group();
      return;
    }
    const auto is_small = [](const std::string& line) {
      return std::islower(static_cast<unsigned char>(line[0])) != 0;
    };
    const bool has_columns = std::ranges::any_of(
        comment_, [](const std::string& line) { return line.find("  ") != std::string::npos; });
    if (has_columns) {
      open_group();  // as it stands
    } else if (!is_heading_) {
      words_ = std::move(comment_);
    } else if (is_small(comment_[0])) {
      words_ = std::move(comment_);
      comment_.clear();
      open_group();
    } else if (comment_.size() > 1 && comment_[0].find(' ') == std::string::npos &&
               is_small(comment_[1])) {
      words_.assign(comment_.begin() + 1, comment_.end());
      comment_.resize(1);
      open_group();
    } else {
      open_group();
    }
    comment_.clear();
  }

  void open_group() {
    groups_.push_back({std::move(comment_), {}});
    comment_.clear();
    after_blank_ = false;
  }

  void add_field(const std::string& line) {
    take_comment();
    if (groups_.empty()) open_group();
    const std::string declared = line.substr(0, line.find('='));
    const size_t end = declared.find_last_not_of(' ');
    const size_t begin = declared.find_last_of(' ', end) + 1;
    const size_t type = declared.find_last_not_of(' ', begin - 1);
    const std::string name = declared.substr(begin, end + 1 - begin);
    const std::string type_name = declared.substr(declared.find_last_of(' ', type) + 1,
                                                  type - declared.find_last_of(' ', type));
    std::string words = as_sentence(words_);
    words_.clear();
    if (const size_t behind = line.find("// "); behind != std::string::npos)
      add_words(words, line.substr(behind + 3));
    if (const auto values = enums_.find(type_name); values != enums_.end())
      add_words(words, joined(values->second, "; "));
    groups_.back().settings.push_back({name, words});
  }

  /// "NAME: words", where it has some.
  void add_value(const std::string& line) {
    // One word alone ("Crema.") says of whom the values below it are.
    std::string words = comment_.size() == 1 && comment_[0].find(' ') == std::string::npos
                            ? ""
                            : as_sentence(comment_);
    comment_.clear();
    if (const size_t behind = line.find("// "); behind != std::string::npos)
      add_words(words, line.substr(behind + 3));
    if (!words.empty()) enums_[enum_].push_back(line.substr(0, line.find(' ')) + ": " + words);
  }

  std::vector<SettingGroup> groups_;
  std::vector<std::string> comment_, words_;
  bool after_blank_ = true, is_heading_ = false;
  std::string enum_;                                       // that the lines are in
  std::map<std::string, std::vector<std::string>> enums_;  // the words of their values
};

/// "float [0.999]", "text, repeated", "LMDB | LEVELDB [LEVELDB]".
std::string type_of(const google::protobuf::FieldDescriptor& field) {
  using Field = google::protobuf::FieldDescriptor;
  std::string type = field.cpp_type_name(), preset;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_STRING:
      type = "text";
      preset = field.default_value_string();
      break;
    case Field::CPPTYPE_BOOL:
      preset = field.default_value_bool() ? "true" : "false";
      break;
    case Field::CPPTYPE_INT32:
      preset = text(field.default_value_int32());
      break;
    case Field::CPPTYPE_INT64:
      preset = text(field.default_value_int64());
      break;
    case Field::CPPTYPE_UINT32:
      preset = text(field.default_value_uint32());
      break;
    case Field::CPPTYPE_UINT64:
      preset = text(field.default_value_uint64());
      break;
    case Field::CPPTYPE_FLOAT:
      preset = text(field.default_value_float());
      break;
    case Field::CPPTYPE_DOUBLE:
      preset = text(field.default_value_double());
      break;
    case Field::CPPTYPE_MESSAGE:
      type = "{ ... }";
      break;
    case Field::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 0; i < field.enum_type()->value_count(); ++i)
        names.push_back(field.enum_type()->value(i)->name());
      type = joined(names, " | ");
      preset = field.default_value_enum()->name();
      break;
    }
  }
  if (field.is_repeated()) return type + ", repeated";
  return field.has_default_value() ? type + " [" + preset + "]" : type;
}

/// Of a layer's message: the settings of a single layer type, whose page has them.
bool is_of_one_type(const google::protobuf::FieldDescriptor& field, const std::string& words) {
  return field.containing_type()->name() == "LayerParameter" && words.empty() &&
         field.message_type() != nullptr && field.name().ends_with("_param") &&
         field.name() != "transform_param" && field.name() != "loss_param";
}

/// Sentences are wrapped; a comment with columns, such as formulas, stays as it is.
void print_heading(const std::vector<std::string>& lines, std::ostream& out, size_t width) {
  if (lines.empty()) return;
  const bool has_columns = std::ranges::any_of(
      lines, [](const std::string& line) { return line.find("  ") != std::string::npos; });
  for (const std::string& line : has_columns ? lines : wrapped(as_sentence(lines), width))
    out << line << "\n";
}

}  // namespace

std::vector<SettingGroup> settings_of_message(std::string_view message) {
  const std::string begin = text("message ", message, " {");
  for (const std::string_view file : proto_texts()) {
    MessageText read;
    bool inside = false;
    int depth = 0;
    for (const std::string& raw : lines_of(file)) {
      if (!inside) {
        inside = raw == begin;
        continue;
      }
      const std::string line = trimmed_line(raw);
      if (line == "}" && depth == 0) return read.groups();
      if (line.starts_with("enum ")) ++depth;
      if (line == "}") --depth;
      read.add(line);
    }
  }
  return {};
}

void print_settings(const google::protobuf::Descriptor& message, std::ostream& out, size_t width) {
  bool first = true;
  for (const SettingGroup& group : settings_of_message(message.name())) {
    Table rows;
    for (const Setting& setting : group.settings) {
      const auto* const field = message.FindFieldByName(setting.name);
      if (field != nullptr && !is_of_one_type(*field, setting.words))
        rows.push_back({setting.name, type_of(*field), setting.words});
    }
    if (rows.empty()) continue;
    if (!first) out << "\n";
    first = false;
    print_heading(group.heading, out, width);
    print_table(rows, out, width);
  }
}

}  // namespace crema::tools
