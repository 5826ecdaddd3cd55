#include "model/field_path.hpp"

#include "core/parse_number.hpp"
#include "crema/error.hpp"

namespace crema {

FieldStep take_step(std::string_view& path) {
  const size_t dot = path.find('.');
  std::string_view word = path.substr(0, dot);
  path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
  FieldStep step;
  const size_t bracket = word.find('[');
  step.name = std::string(word.substr(0, bracket));
  if (bracket == std::string_view::npos) return step;
  const std::string_view inside = word.substr(bracket + 1);
  if (inside.ends_with(']')) step.index = parse_number<int>(inside.substr(0, inside.size() - 1));
  if (!step.index || *step.index < 0)
    throw Error("'", word, "' has no index from 0 on in its brackets; write it as ", step.name,
                "[0]");
  return step;
}

}  // namespace crema
