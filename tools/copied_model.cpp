#include "tools/copied_model.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <sstream>
#include <vector>

#include "tools/markdown.hpp"
#include "tools/shell_word.hpp"

namespace crema::tools {
namespace {

bool is_path_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.' ||
         c == '/';
}

/// Replaces "models/NAME" and what follows of a path. `command`: a path gets the quotes that a
/// shell needs, unless it is in quotes already.
std::string with_paths(const std::string& text, const MovedModel& moved, bool command) {
  const std::string from = "models/" + moved.name;
  std::string result;
  size_t done = 0;
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;) {
    size_t end = at + from.size();
    const bool begins = at == 0 || !is_path_letter(text[at - 1]);
    const bool ends = end == text.size() || text[end] == '/' || !is_path_letter(text[end]) ||
                      (text[end] == '.' && (end + 1 == text.size() || text[end + 1] == ' '));
    if (!begins || !ends) {
      at = end;
      continue;
    }
    while (end < text.size() && is_path_letter(text[end])) ++end;
    while (text[end - 1] == '.') --end;  // the end of a sentence
    const std::string path = moved.folder + text.substr(at + from.size(), end - at - from.size());
    const bool quoted = at > 0 && (text[at - 1] == '"' || text[at - 1] == '\'');
    result += text.substr(done, at - done) + (command && !quoted ? shell_word(path) : path);
    done = at = end;
  }
  return result + text.substr(done);
}

/// The same in prose, where commands stand between backticks, or flags of one.
std::string with_paths_in_prose(const std::string& text, const MovedModel& moved) {
  std::string result;
  bool code = false;
  for (size_t begin = 0; begin <= text.size(); code = !code) {
    const size_t end = std::min(text.find('`', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool command = code && (part.starts_with("crema ") || part.starts_with("--"));
    result += with_paths(part, moved, command) + (end < text.size() ? "`" : "");
    begin = end + 1;
  }
  return result;
}

/// What only the repository has.
const std::regex& of_repository() {
  static const std::regex pattern(
      R"((^|[^\w/~-])(scripts|tests|tools|benchmarks)/[\w*]|data/[\w-]+/(README\.md|[\w-]+\.(sh|py))|recipe\.sh|)"
      R"(\bbuild/release\b|\brepository\b)");
  return pattern;
}
bool needs_repository(const std::string& text) { return std::regex_search(text, of_repository()); }

/// A sentence ends with a full stop, outside of code and brackets, before a blank and a capital or
/// code; or with the text, where it may be a colon.
std::vector<std::string> sentences(const std::string& text) {
  std::vector<std::string> all;
  bool code = false;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '`') code = !code;
    if (!code && (c == '(' || c == '[')) ++depth;
    if (!code && (c == ')' || c == ']')) --depth;
    const bool stop = c == '.' || (c == ':' && i + 1 == text.size());
    const bool last = i + 1 == text.size() || text[i + 1] == ' ';
    const bool next = i + 2 >= text.size() || text[i + 2] == '`' || text[i + 2] == '*' ||
                      std::isupper(static_cast<unsigned char>(text[i + 2])) != 0;
    if (code || depth > 0 || !stop || !last || !next) continue;
    all.push_back(text.substr(begin, i + 1 - begin));
    begin = std::min(i + 2, text.size());
  }
  if (begin < text.size()) all.push_back(text.substr(begin));
  return all;
}

/// Prose without brackets and sentences that need the repository, and without links out of the
/// folder.
std::string fitting_prose(std::string text) {
  static const std::regex link(R"(\[([^\]]*)\]\(\.\./[^)]*\))");
  static const std::regex brackets(R"( ?\([^()]*\))");
  static const std::regex root(
      R"(((All p|P)aths are relative to )(the root of the repository: run `crema` there|the root of the repository|the folder that crema is run in: the root of the repository)\.)");
  static const std::regex script(R"(`data/[\w-]+/[\w-]+\.(sh|py)[^`]*`)");
  static const std::regex first_script(R"((^|[.:] )`data/[\w-]+/[\w-]+\.(?:sh|py)[^`]*`)");
  text = std::regex_replace(text, link, "$1");
  text = std::regex_replace(text, root, "$1the folder that crema is run in.");
  // What a script makes is worth a sentence.
  text = std::regex_replace(text, first_script, "$1A script that comes with Crema's source");
  text = std::regex_replace(text, script, "a script that comes with Crema's source");
  if (!needs_repository(text)) return text;
  std::string rest;
  for (std::smatch found; std::regex_search(text, found, brackets); text = found.suffix())
    rest += found.prefix().str() + (needs_repository(found.str()) ? "" : found.str());
  text = rest + text;
  std::string fitting;
  for (const std::string& sentence : sentences(text)) {
    if (needs_repository(sentence)) continue;
    fitting += (fitting.empty() || fitting.ends_with(' ') ? "" : " ") + sentence;
  }
  return fitting;
}

/// The row of a table: of a cell what fits; "" where the first cell needs the repository.
std::string fitting_row(const std::string& row) {
  TableRow cells = cells_of(row);
  if (cells.empty() || !needs_repository(row)) return row;
  if (needs_repository(cells[0])) return {};
  for (std::string& cell : cells) cell = fitting_prose(cell);
  return row_of(cells);
}

class Page {
 public:
  explicit Page(const MovedModel& moved) : moved_(moved) {}

  std::string fitting(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) add(line);
    end_paragraph();
    if (text.find("data/") != std::string::npos)
      out_ +=
          "\nData sets are read from `data/`, in the folder that `crema` runs in. The scripts that "
          "make them come with the source of Crema.\n";
    return out_;
  }

 private:
  void add(const std::string& line) {
    if (line.starts_with("```")) {
      end_paragraph();
      if (in_code_) end_code();
      in_code_ = !in_code_;
      if (in_code_) fence_ = line;
    } else if (in_code_) {
      // A command may go on in the next line.
      command_ += (command_.empty() ? "" : "\n") + line;
      if (line.ends_with('\\')) return;
      if (!needs_repository(command_)) code_ += with_paths(command_, moved_, true) + "\n";
      command_.clear();
    } else if (line.empty() || line.starts_with('#')) {
      end_paragraph();
      put(line);
    } else if (is_row(line)) {
      end_paragraph();
      const std::string row = fitting_row(line);
      if (!row.empty()) put(with_paths_in_prose(row, moved_));
    } else {
      if (line.starts_with("- ")) end_paragraph();
      paragraph_.push_back(line);
    }
  }
  /// Lines stay as they are in a paragraph that fits.
  void end_paragraph() {
    std::string all, lines;
    for (const std::string& line : paragraph_) {
      all += (all.empty() ? "" : " ") + line;
      lines += (lines.empty() ? "" : "\n") + line;
    }
    const std::string fitting = fitting_prose(all);
    if (!fitting.empty() && fitting != "-")
      put(with_paths_in_prose(fitting == all ? lines : fitting, moved_));
    paragraph_.clear();
  }
  void end_code() {
    if (!code_.empty()) {
      out_ += fence_ + "\n" + code_ + "```\n";
      blank_ = false;
    }
    code_.clear();
    command_.clear();
  }
  /// No blank line follows another where something was left out.
  void put(const std::string& line) {
    if (line.empty() && (blank_ || out_.empty())) return;
    blank_ = line.empty();
    out_ += line + "\n";
  }

  const MovedModel& moved_;
  std::string out_, fence_, code_, command_;
  std::vector<std::string> paragraph_;
  bool in_code_ = false, blank_ = false;
};

/// Comments behind `mark`, each line of its own; and paths everywhere.
std::string with_fitting_comments(const std::string& text, const std::string& mark,
                                  const MovedModel& moved) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(' ');
    const bool comment = begin != std::string::npos && line.compare(begin, mark.size(), mark) == 0;
    if (comment && needs_repository(line)) {
      const size_t words = begin + mark.size() + (line[begin + mark.size()] == ' ' ? 1 : 0);
      const std::string fitting = fitting_prose(line.substr(words));
      if (fitting.empty()) continue;
      line = line.substr(0, words) + fitting;
    }
    // A comment that is further in is a command.
    const bool command = comment && line.compare(begin + mark.size(), 2, "  ") == 0;
    result += (command ? with_paths(line, moved, true) : with_paths_in_prose(line, moved)) + "\n";
  }
  if (!text.ends_with('\n') && !result.empty()) result.pop_back();
  return result;
}

}  // namespace

std::string text_of_copy(const std::string& text, const std::filesystem::path& file,
                         const MovedModel& moved) {
  const std::string kind = file.extension().string();
  if (kind == ".md") return Page(moved).fitting(text);
  if (kind == ".cpp" || kind == ".hpp" || kind == ".proto")
    return with_fitting_comments(text, "//", moved);
  if (kind == ".png" || kind == ".svg") return text;
  return with_fitting_comments(text, "#", moved);
}

}  // namespace crema::tools
