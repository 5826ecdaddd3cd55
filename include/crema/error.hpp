// Error: the only exception type of the library.
//
// Every failure that a user or an embedding program can act on throws an Error. The library never
// aborts, exits or prints. While an Error unwinds, the functions it passes add the layer that
// failed and its position in the prototxt. The first value set, closest to the cause, is kept.
// Example of what():
//
//   train_val.prototxt:12: layer 'conv1' (Convolution): kernel 7 exceeds the padded input 5; reduce
//   kernel_size or add pad
#pragma once

#include <cstdint>
#include <exception>
#include <locale>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

/// A position in a text file. Lines and columns count from 1; 0 means unknown.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;

  /// "file:line:col", leaving out what is unknown.
  std::string str() const;
  bool known() const { return !file.empty(); }
};

/// The text of all arguments, one after the other, as operator<< writes them.
template <class... Args>
std::string text(const Args&... args) {
  std::ostringstream out;
  out.imbue(std::locale::classic());  // numbers without the separators of the user's language
  (out << ... << args);
  return out.str();
}

/// The elements of `range` as operator<< writes them, with `separator` between them.
template <class Range>
std::string joined(const Range& range, std::string_view separator = ", ") {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  std::string_view between;
  for (const auto& element : range) {
    out << between << element;
    between = separator;
  }
  return out.str();
}

class Error : public std::exception {
 public:
  /// The message starts with the operation, holds the offending value and ends with the way out.
  template <class... Args>
  explicit Error(const Args&... args) : message_(text(args...)) {
    compose();
  }

  /// Adds the place in the user's file, unless a closer one is known already.
  Error& at(const Position& position);
  /// Adds the layer, unless one was added before.
  Error& in_layer(std::string_view name, std::string_view type);

  /// Adds the name of one of several nets, such as "TEST net #1", unless one was added before.
  Error& in_net(std::string_view which);

  /// Adds the index of the sample of the batch that caused the error, from 0.
  Error& of_sample(int64_t index);
  /// Adds the key of that sample in the data source, unless one was added before.
  Error& in_record(std::string_view key);

  /// Adds the file or folder that the error is about, as it was named, unless one was added before.
  /// It is in the message already.
  Error& about(std::string_view path);

  const char* what() const noexcept override { return full_.c_str(); }
  /// The message without position, net and layer.
  const std::string& message() const { return message_; }
  const Position& position() const { return position_; }
  const std::string& layer() const { return layer_; }
  /// "" if the error is about no file, or none was added.
  const std::string& path() const { return path_; }
  /// -1 if the error is not about one sample.
  int64_t sample() const { return sample_; }

 private:
  /// Sets a part of the message that is empty.
  Error& add(std::string& part, std::string_view content);
  void compose();

  std::string message_;
  Position position_;
  std::string layer_;
  std::string layer_type_;
  std::string net_;
  std::string record_;
  std::string path_;
  int64_t sample_ = -1;
  std::string full_;
};

/// The name nearest to `word` among `known` by edit distance, or "" when none is near enough to be
/// what was meant.
std::string nearest_name(std::string_view word, const std::vector<std::string>& known);
/// "; did you mean 'NAME'?" with that name, or "": the end of a message. If `are` is given, it and
/// all known names follow, as in "; did you mean 'NAME'? types are A, B", or in "; types are A, B"
/// when no name is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view are = {});

}  // namespace crema
