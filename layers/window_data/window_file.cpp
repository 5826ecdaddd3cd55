#include "layers/window_data/window_file.hpp"

#include <cmath>
#include <utility>

#include "core/parse_number.hpp"
#include "crema/error.hpp"
#include "data/records/image_list.hpp"
#include "data/records/text_list.hpp"

namespace crema {
namespace {

/// Words of a text file, separated by white space, and whole lines.
class Scanner {
 public:
  explicit Scanner(const std::string& path)
      : path_(path), lines_(path, "window file", "images and their windows") {}

  int64_t line() const { return lines_.line(); }
  /// False at the end of the file.
  bool more() {
    if (rest_.empty()) rest_ = lines_.next().value_or(std::string_view());
    return !rest_.empty();
  }
  /// What is left of the line.
  std::string_view rest_of_line(const char* what) {
    need(what);
    return std::exchange(rest_, {});
  }
  std::string_view word(const char* what) {
    need(what);
    const std::string_view word = rest_.substr(0, rest_.find_first_of(" \t\r\v\f"));
    rest_ = trimmed(rest_.substr(word.size()));
    return word;
  }
  template <class T>
  T number(const char* what) {
    const std::string_view text = word(what);
    const auto value = parse_number<T>(text);
    if (!value)
      throw Error("'", text, "' is no ", what, "; see the format of window files on the page of ",
                  "WindowData");
    return *value;
  }
  [[noreturn]] void rethrow_here(Error& error) const {
    throw error.at({path_, static_cast<int>(line()), 0});
  }

 private:
  void need(const char* what) {
    if (!more()) throw Error("the window file ends where a ", what, " is expected");
  }

  std::string path_;
  TextLines lines_;
  std::string_view rest_;
};

int64_t positive(Scanner& scanner, const char* what) {
  const auto value = scanner.number<int64_t>(what);
  if (value < 1 || value > INT32_MAX) throw Error(what, " is ", value, "; it has to be positive");
  return value;
}

void read_window(Scanner& scanner, const WindowRules& rules, WindowFile& windows) {
  Window window{.image = static_cast<int32_t>(windows.images.size()) - 1};
  window.label = scanner.number<int32_t>("class of a window, a whole number");
  window.line = scanner.line();
  const auto overlap = scanner.number<float>("overlap of a window");
  window.x1 = scanner.number<int32_t>("x1 of a window, a whole number");
  window.y1 = scanner.number<int32_t>("y1 of a window, a whole number");
  window.x2 = scanner.number<int32_t>("x2 of a window, a whole number");
  window.y2 = scanner.number<int32_t>("y2 of a window, a whole number");
  const WindowImage& image = windows.images.back();
  const auto reject = [&](const char* why) {
    throw Error("the window ", window.x1, " ", window.y1, " ", window.x2, " ", window.y2, " ", why,
                " its image of ", image.width, " x ", image.height,
                "; a window is x1 y1 x2 y2, from 0, both corners included");
  };
  if (window.x1 > window.x2 || window.y1 > window.y2) reject("has no pixels in");
  if (window.x1 >= image.width || window.y1 >= image.height || window.x2 < 0 || window.y2 < 0)
    reject("lies outside of");
  if (rules.must_be_inside &&
      (window.x1 < 0 || window.y1 < 0 || window.x2 >= image.width || window.y2 >= image.height))
    reject("reaches beyond");
  if (!std::isfinite(overlap)) throw Error("the overlap of a window is ", overlap);
  if (overlap >= rules.fg_threshold) {
    if (window.label < 1)
      throw Error("a window of overlap ", overlap, " is foreground (fg_threshold ",
                  rules.fg_threshold, ") and has class ", window.label,
                  "; classes of foreground are 1 or more");
    windows.foreground.push_back(window);
  } else if (overlap < rules.bg_threshold) {
    window.label = 0;
    windows.background.push_back(window);
  }
}

void read_image(Scanner& scanner, const WindowRules& rules, WindowFile& windows) {
  const std::string_view mark = scanner.word("line '# image_index'");
  if (!mark.starts_with('#'))
    throw Error("'", mark,
                "' stands where a line '# image_index' is expected; compare the number "
                "of windows before it");
  if (mark.size() == 1) scanner.number<int64_t>("index of an image, a whole number");
  WindowImage image;
  const std::string_view file = scanner.rest_of_line("path of an image");
  image.line = scanner.line();
  // As published, the root is text before the path, and most often "".
  image.path = rules.root.empty() ? std::string(file) : image_path(rules.root, std::string(file));
  const int64_t channels = positive(scanner, "number of channels");
  if (channels != 3)
    throw Error("image '", image.path, "' has ", channels,
                " channels; images are decoded to 3, so the window file has to say 3");
  image.height = positive(scanner, "height of an image");
  image.width = positive(scanner, "width of an image");
  windows.images.push_back(image);
  const auto count = scanner.number<int64_t>("number of windows");
  if (count < 0) throw Error("the number of windows is ", count);
  for (int64_t i = 0; i < count; ++i) read_window(scanner, rules, windows);
}

}  // namespace

WindowFile read_window_file(const std::string& path, const WindowRules& rules) {
  Scanner scanner(path);
  WindowFile windows;
  try {
    while (scanner.more()) read_image(scanner, rules, windows);
  } catch (Error& error) {
    scanner.rethrow_here(error);
  }
  if (windows.images.empty())
    throw Error("the window file '", path, "' has no images; it begins with a line '# 0'");
  return windows;
}

}  // namespace crema
