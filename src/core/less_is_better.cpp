#include "core/less_is_better.hpp"

#include <cctype>
#include <string>

namespace crema {

bool less_is_better(std::string_view output, float loss_weight) {
  if (loss_weight != 0) return true;
  std::string word;
  for (size_t i = 0; i <= output.size(); ++i) {
    const auto sign = static_cast<unsigned char>(i < output.size() ? output[i] : ' ');
    if (std::isalpha(sign) != 0) {
      word += static_cast<char>(std::tolower(sign));
      continue;
    }
    for (const char* of_loss : {"loss", "losses", "err", "error", "errors"}) {
      if (word == of_loss) return true;
    }
    word.clear();
  }
  return false;
}

}  // namespace crema
