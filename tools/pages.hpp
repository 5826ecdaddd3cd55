// The pages of the layers, layers/<name>/README.md. The build puts them into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/markdown.hpp"

namespace crema::tools {

/// The texts of all pages.
const std::vector<std::string_view>& page_texts();

struct Page {
  std::string type;     // the title
  std::string summary;  // the first sentence
  std::string same_as;  // another type of which this is a second name, or ""
  std::string_view text;

  std::vector<Table> tables() const;
  /// The page for a terminal: columns of tables are aligned, and marks of the format are left out.
  std::string for_terminal(size_t width = 100) const;
};

/// All pages, sorted by type.
const std::vector<Page>& pages();
/// Null if there is none.
const Page* find_page(std::string_view type);

}  // namespace crema::tools
