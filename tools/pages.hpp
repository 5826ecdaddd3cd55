// The pages of the layers, layers/<name>/README.md. The build puts them into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

/// The texts of all pages.
const std::vector<std::string_view>& page_texts();

/// A row of a table on a page: the cells, without the spaces around them.
using PageRow = std::vector<std::string>;

struct Page {
  std::string type;     // the title
  std::string summary;  // the first sentence
  std::string_view text;

  /// All tables; the first row of each is its header.
  std::vector<std::vector<PageRow>> tables() const;
  /// The page for a terminal: columns of tables are aligned, and marks of the format are left out.
  std::string for_terminal() const;
};

/// All pages, sorted by type.
const std::vector<Page>& pages();
/// Null if there is none.
const Page* find_page(std::string_view type);

}  // namespace crema::tools
