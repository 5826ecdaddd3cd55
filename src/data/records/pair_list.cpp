#include "data/records/pair_list.hpp"

#include "crema/error.hpp"
#include "data/images/image_name.hpp"
#include "data/records/text_list.hpp"

namespace crema {

std::vector<ListedPair> read_pair_list(const std::string& path, const std::string& entries,
                                       bool may_miss) {
  std::vector<ListedPair> pairs;
  read_text_list(path, entries, [&](std::string_view text, int64_t line) {
    const size_t blank = text.find_last_of(" \t\r\v\f");
    // A blank in the name of a lone image is no separator.
    const bool lone =
        blank == std::string_view::npos || (may_miss && is_image_name(text.substr(blank + 1)));
    if (lone && !may_miss)
      throw Error("'", text, "' names one file; a list has ", entries,
                  ", with white space between the two");
    ListedPair pair{.image = std::string(lone ? text : trimmed(text.substr(0, blank))),
                    .line = line};
    if (!lone) pair.beside = text.substr(blank + 1);
    pairs.push_back(std::move(pair));
  });
  return pairs;
}

}  // namespace crema
