#include "net/weight_files.hpp"

#include <set>

namespace crema {

void load_weight_files(Net& net, const std::vector<std::string>& files, bool strict) {
  std::set<std::string> loaded, missing, unused;
  for (const std::string& file : files) {
    const LoadReport report = net.load_weights(file);
    net.context().log(Severity::info, concat(file, ": ", report.str()));
    loaded.insert(report.loaded.begin(), report.loaded.end());
    missing.insert(report.missing.begin(), report.missing.end());
    unused.insert(report.unused.begin(), report.unused.end());
  }
  std::erase_if(missing, [&](const std::string& layer) { return loaded.count(layer) != 0; });
  if (!strict || (missing.empty() && unused.empty())) return;
  const LoadReport all{{loaded.begin(), loaded.end()},
                       {missing.begin(), missing.end()},
                       {unused.begin(), unused.end()}};
  throw Error("the weights do not fit the net exactly (strict): ", all.str());
}

}  // namespace crema
