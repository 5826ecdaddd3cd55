// Writes text with a trained character model of models/char_lm:
//
//   generate deploy.prototxt weights.caffemodel characters.txt [FLAGS]
//
//   --start TEXT       what the text begins with; default: a new line. It is not printed
//   --length N         characters to write; default 500
//   --temperature X    divides the logarithms of the probabilities; default 1. 0: always the most
//                      probable character
//   --seed N           the same seed gives the same text; default 1
//
// characters.txt is what data/text/make.py wrote: character i of the file has number i. A net with
// an input "cont" is recurrent: it reads the start in one pass, and then one character a pass, for
// its layers keep their states between passes. Other nets read the last characters in each pass,
// as many as their input holds.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "crema/crema.hpp"
#include "crema/random.hpp"

namespace {

constexpr const char* kUsage =
    "usage: generate deploy.prototxt weights.caffemodel characters.txt [--start TEXT] [--length N] "
    "[--temperature X] [--seed N]";

struct Options {
  std::string deploy, weights, characters;
  std::string start = "\n";
  int64_t length = 500;
  double temperature = 1;
  int64_t seed = 1;
};

/// The whole of `text` as a number of at least 0, by std::stod or std::stoll.
template <class Parse>
auto number(const std::string& flag, const std::string& text, const char* kind, Parse parse) {
  size_t used = 0;
  decltype(parse(text, &used)) value = -1;
  try {
    value = parse(text, &used);
  } catch (const std::logic_error&) {  // no number, or too large a one
  }
  if (text.empty() || used != text.size() || !(value >= 0) || !std::isfinite(double(value)))
    throw crema::Error(flag, " is '", text, "'; it has to be a ", kind, " of at least 0");
  return value;
}

int64_t whole_number(const std::string& flag, const std::string& text) {
  return number(flag, text, "whole number",
                [](const std::string& s, size_t* used) { return std::stoll(s, used); });
}

Options parse(const std::vector<std::string>& words) {
  Options options;
  std::vector<std::string> names;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      names.push_back(word);
      continue;
    }
    if (i + 1 == words.size()) throw crema::Error(word, " needs a value; ", kUsage);
    const std::string& value = words[++i];
    if (word == "--start") {
      options.start = value;
    } else if (word == "--length") {
      options.length = whole_number(word, value);
    } else if (word == "--temperature") {
      options.temperature = number(word, value, "number", [](const std::string& s, size_t* used) {
        return std::stod(s, used);
      });
    } else if (word == "--seed") {
      options.seed = whole_number(word, value);
    } else {
      throw crema::Error("there is no flag ", word, "; ", kUsage);
    }
  }
  if (names.size() != 3) throw crema::Error(kUsage);
  if (options.start.empty()) throw crema::Error("--start needs one character at least");
  options.deploy = names[0];
  options.weights = names[1];
  options.characters = names[2];
  return options;
}

std::string read_characters(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream characters;
  characters << file.rdbuf();
  if (characters.str().empty()) throw crema::Error("cannot read characters from '", path, "'");
  return characters.str();
}

/// A trained net that gives the probabilities of the character that follows.
class Model {
 public:
  Model(const Options& options, crema::Context& context)
      : net_(options.deploy, context, {.phase = crema::Phase::test}) {
    const std::vector<std::string> missing = net_.load_weights(options.weights).missing;
    if (!missing.empty())
      throw crema::Error("'", options.weights, "' has no weights of the layer '", missing[0], "'");
    if (net_.inputs().empty())  // as in a train_val.prototxt, which has data layers instead
      throw crema::Error("'", options.deploy, "' has no input; give a deploy.prototxt");
    for (const std::string& name : net_.inputs()) recurrent_ |= name == "cont";
    if (recurrent_) return;
    const crema::Shape& shape = net_.input("data").shape();
    if (shape.rank() != 2)
      throw crema::Error("input 'data' of '", options.deploy, "' is ", shape.str(),
                         "; characters are 1 x N");
    window_ = shape[1];
  }

  /// Probabilities of the character behind `text`, by number; valid until the next call. Each call
  /// gets the text of the one before, with further characters at its end.
  std::span<const float> next(const std::vector<float>& text) {
    return recurrent_ ? step(text) : look_at_the_end(text);
  }

 private:
  std::span<const float> step(const std::vector<float>& text) {
    const auto count = static_cast<int64_t>(text.size() - read_);
    net_.reshape_input("data", {count, 1});  // (T, N): time first
    net_.reshape_input("cont", {count, 1});
    net_.reshape();
    std::copy(text.begin() + static_cast<int64_t>(read_), text.end(),
              net_.input("data").overwrite<float>());
    float* cont = net_.input("cont").overwrite<float>();
    std::fill(cont, cont + count, 1.0F);
    if (read_ == 0) cont[0] = 0;  // a text begins: the states are zeros
    read_ = text.size();
    return probabilities(count, count - 1);
  }

  std::span<const float> look_at_the_end(const std::vector<float>& text) {
    const int64_t size = std::min(window_, static_cast<int64_t>(text.size()));
    net_.reshape_input("data", {1, window_});
    net_.reshape();
    float* data = net_.input("data").overwrite<float>();
    std::copy(text.end() - size, text.end(), data);
    std::fill(data + size, data + window_, 0.0F);  // no place attends to those behind it
    return probabilities(window_, size - 1);
  }

  std::span<const float> probabilities(int64_t places, int64_t place) {
    net_.forward();
    prob_ = net_.output("prob");
    const auto classes = static_cast<size_t>(prob_.count() / places);
    return prob_.values<float>().subspan(static_cast<size_t>(place) * classes, classes);
  }

  crema::Net net_;
  crema::Tensor prob_;
  bool recurrent_ = false;
  int64_t window_ = 0;  // characters that the input of other nets holds
  size_t read_ = 0;     // characters that a recurrent net has read
};

/// A number drawn by the probabilities to the power of 1 / temperature.
size_t draw(std::span<const float> probabilities, double temperature, crema::Random& random) {
  // A net that diverged gives NaN. Comparisons do not find it: there would be a best one all the
  // same.
  for (const float p : probabilities)
    if (!(p >= 0) || !std::isfinite(p))
      throw crema::Error("the net gives a probability of ", p, "; was the training unstable?");
  const auto best = std::max_element(probabilities.begin(), probabilities.end());
  if (!(*best > 0)) throw crema::Error("the net gives no character a probability above 0");
  if (temperature == 0) return static_cast<size_t>(best - probabilities.begin());
  std::vector<double> sums;
  double sum = 0;
  for (const float p : probabilities)
    sums.push_back(sum += std::pow(static_cast<double>(p) / *best, 1 / temperature));
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), random.uniform(0, sum));
  return static_cast<size_t>(std::min(drawn, sums.end() - 1) - sums.begin());
}

void run(const Options& options) {
  const std::string characters = read_characters(options.characters);
  std::vector<float> text;
  for (const char character : options.start) {
    const size_t place = characters.find(character);
    if (place == std::string::npos)
      throw crema::Error("--start has the character '", character, "', which is not in '",
                         options.characters, "'");
    text.push_back(static_cast<float>(place));
  }
  // One thread, no measurements: products of one row are small, and the text has to be the same in
  // each run.
  crema::Context context({.threads = 1, .tune = false});
  Model model(options, context);
  crema::Random random(static_cast<uint64_t>(options.seed), crema::stream_id("generate"));
  for (int64_t i = 0; i < options.length; ++i) {
    const std::span<const float> probabilities = model.next(text);
    if (probabilities.size() != characters.size())
      throw crema::Error("'", options.characters, "' has ", characters.size(),
                         " characters, but the net in '", options.deploy, "' has ",
                         probabilities.size(), " outputs");
    const size_t next = draw(probabilities, options.temperature, random);
    std::putchar(characters[next]);
    text.push_back(static_cast<float>(next));
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw crema::Error("cannot write to standard output; is the disk full?");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse({argv + 1, argv + argc}));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "generate: " << error.what() << "\n";
    return 1;
  }
}
