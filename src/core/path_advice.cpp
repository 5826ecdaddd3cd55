#include "core/path_advice.hpp"

#include <pwd.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "core/utf8.hpp"
#include "crema/error.hpp"

namespace crema {
namespace {

namespace fs = std::filesystem;

bool is_letter(char c) { return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_of_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// The length of the name of a variable that `text` begins with, or 0.
size_t name_length(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return 0;
  return static_cast<size_t>(std::ranges::find_if_not(text, is_of_name) - text.begin());
}

/// A part of a path that a shell would have replaced.
struct Replaced {
  std::string text;                       // as it stands in the path
  std::string lacks;                      // why there is no value, as in "HOME is not set"
  std::optional<std::string> value = {};  // what the shell would write
  bool certain = true;                    // a name of a file would hardly look so by chance
};

Replaced of_variable(std::string_view text, const std::string& name) {
  Replaced part{.text = std::string(text), .lacks = name + " is not set"};
  if (const char* value = std::getenv(name.c_str()); value != nullptr && *value != '\0') {
    part.value = value;
  }
  return part;
}

/// "~" or "~user" at the beginning of a path.
Replaced of_home(const std::string& content) {
  if (content == "~") return of_variable("~", "HOME");
  const std::string user = content.substr(1);
  Replaced part{.text = content, .lacks = text("there is no user '", user, "'")};
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::array<char, 1 << 14> memory{};
  if (::getpwnam_r(user.c_str(), &entry, memory.data(), memory.size(), &found) == 0 &&
      found != nullptr) {
    part.value = found->pw_dir;
  }
  return part;
}

/// What a shell would replace at the beginning of `rest`, which begins with '$' or '%'.
std::optional<Replaced> at_sign(std::string_view rest) {
  if (rest[0] == '%') {
    const size_t length = name_length(rest.substr(1));
    if (length == 0 || rest.size() < length + 2 || rest[length + 1] != '%') return std::nullopt;
    Replaced part = of_variable(rest.substr(0, length + 2), std::string(rest.substr(1, length)));
    // "%d_%s" is no variable, nor is what a URL has.
    const auto is_lower = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
    if (!part.value && std::ranges::any_of(rest.substr(1, length), is_lower)) return std::nullopt;
    part.certain = part.value.has_value();
    return part;
  }
  if (const size_t length = name_length(rest.substr(1)); length > 0) {
    return of_variable(rest.substr(0, length + 1), std::string(rest.substr(1, length)));
  }
  const char closing = rest.starts_with("${") ? '}' : rest.starts_with("$(") ? ')' : '\0';
  const size_t end = closing == '\0' ? std::string_view::npos : rest.find(closing);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = rest.substr(2, end - 2);
  // $(NAME) is a variable of make and of other tools, and a command in a shell.
  if (name_length(inside) == inside.size() && !inside.empty()) {
    Replaced part = of_variable(rest.substr(0, end + 1), std::string(inside));
    if (part.value || closing == '}') return part;
  }
  return Replaced{.text = std::string(rest.substr(0, end + 1)), .lacks = "only a shell knows it"};
}

/// A path as a shell sees it.
struct ShellPath {
  std::vector<Replaced> parts;
  std::string would_be;  // with the values of the parts that have one
};

ShellPath shell_path(const std::string& path) {
  ShellPath all;
  size_t at = 0;
  if (path.starts_with('~')) {
    const size_t end = std::min(path.find('/'), path.size());
    Replaced home = of_home(path.substr(0, end));
    // A file of an editor may be named "~notes".
    const bool is_home = end < path.size() || end == 1 || home.value.has_value();
    if (is_home && std::all_of(path.begin() + 1, path.begin() + static_cast<ptrdiff_t>(end),
                               [](char c) { return is_of_name(c) || c == '-' || c == '.'; })) {
      all.would_be = home.value.value_or(home.text);
      all.parts.push_back(std::move(home));
      at = end;
    }
  }
  while (at < path.size()) {
    const char c = path[at];
    const std::string_view rest = std::string_view(path).substr(at);
    const auto part = c == '$' || c == '%' ? at_sign(rest) : std::nullopt;
    if (!part) {
      all.would_be += path[at++];
      continue;
    }
    all.would_be += part->value.value_or(part->text);
    at += part->text.size();
    if (std::ranges::find(all.parts, part->text, &Replaced::text) == all.parts.end())
      all.parts.push_back(*part);
  }
  return all;
}

/// "~ and $DATA are not replaced here: write '/home/me/data'".
std::string advice_for_shell(const ShellPath& path) {
  std::vector<std::string> texts, lacking;
  for (const Replaced& part : path.parts) {
    texts.push_back(part.text);
    if (!part.value) lacking.push_back(part.lacks);
  }
  return text(joined(texts, " and "), texts.size() == 1 ? " is" : " are", " not replaced here",
              lacking.empty()
                  ? text(": write '", path.would_be, "'")
                  : text(", and ", joined(lacking, " and "), ": write the whole path out"));
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20; }

/// A path with control characters: a text file has them for a backslash and a letter.
std::string advice_for_controls(const std::string& path) {
  std::vector<std::string> found;
  std::string meant;
  bool known = true;
  for (const char c : path) {
    const char letter = escape_letter(c);
    if (is_control(c)) {
      known &= letter != '\0';
      const std::string text = letter != '\0' ? std::string{'\\', letter} : "\\ with digits";
      if (std::ranges::find(found, text) == found.end()) found.push_back(text);
      meant += {'/', letter};
    } else {
      meant += c == '\\' ? '/' : c;
    }
  }
  return text(joined(found, ", "),
              found.size() == 1 ? " is a control character" : " are control characters",
              " in a text: write the path with / or \\\\ in the "
              "place of a backslash",
              known ? text(", as in '", meant, "'") : "");
}

/// A path of Windows, with backslashes or a drive.
std::string advice_for_windows(const std::string& path) {
  const bool drive = path.size() > 2 && std::isalpha(static_cast<unsigned char>(path[0])) != 0 &&
                     path[1] == ':' && (path[2] == '/' || path[2] == '\\');
  const bool backslash = path.find('\\') != std::string::npos;
  if (!drive && !backslash) return "";
  std::string meant = path;
  std::ranges::replace(meant, '\\', '/');
  std::error_code none;
  if (fs::exists(meant, none)) {
    return text("folders are separated by / here, not by a backslash: write '", meant, "'");
  }
  if (!drive) return "folders are separated by / here, not by a backslash";
  return text("'", path.substr(0, 2),
              "' is a drive of Windows, which this system does not have: write where the files "
              "are here, with / between folders");
}

}  // namespace

std::string path_advice(const std::string& path, std::string_view otherwise) {
  const ShellPath shell = shell_path(path);
  std::string advice;
  if (!shell.parts.empty()) {
    advice = advice_for_shell(shell);
  } else if (std::ranges::any_of(path, is_control)) {
    advice = advice_for_controls(path);
  } else {
    advice = advice_for_windows(path);
  }
  if (advice.empty()) advice = otherwise;
  return advice.empty() ? "" : "; " + advice;
}

void check_new_path(const std::string& path) {
  const ShellPath shell = shell_path(path);
  std::error_code none;
  if (std::ranges::none_of(shell.parts, &Replaced::certain) || fs::exists(path, none)) return;
  throw Error("cannot make '", path, "'; ", advice_for_shell(shell)).about(path);
}

}  // namespace crema
