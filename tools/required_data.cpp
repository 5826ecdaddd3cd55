#include "tools/required_data.hpp"

#include <string_view>

#include "core/data_source.hpp"
#include "core/utf8.hpp"
#include "crema/error.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {

void require_data(const Net& net) {
  if (net.inputs().empty()) return;
  throw Error(
      "input '", net.inputs()[0],
      "' of the net has no values here, and would be zeros; put a data layer in its place "
      "(`crema layers Data`). `crema classify` and `crema detect` give images to an input, and "
      "the C++ API anything else");
}

void warn_of_inputs(const Net& net) {
  if (net.inputs().empty()) return;
  say(Severity::warning,
      text("the net trains on zeros: input '", printable(net.inputs()[0]),
           "' has no values here; put a data layer in its place (`crema layers Data`), or fill it "
           "with a program of your own that steps the solver"));
}

void warn_of_repeats(const Net& net, int64_t batches, const char* setting) {
  const bool is_flag = std::string_view(setting).starts_with("--");
  for (const Layer* layer : net.layers()) {
    const DataSource* source = layer->data_source();
    if (source == nullptr || !source->takes_each_once()) continue;
    const int64_t records = source->records(), batch = source->records_per_batch();
    const int64_t taken = batches * batch;
    if (records == 0 || taken <= records || taken % records == 0) continue;
    say(Severity::warning,
        text("layer '", printable(layer->name()), "' has ", records, " records, and ", setting, "=",
             batches, " takes ", taken, ": some count more often than others; ",
             records % batch == 0 ? text(setting, "=", records / batch, " takes each once")
             : is_flag            ? text("without ", setting, " each counts once")
                                  : text("give a batch_size that divides ", records)));
  }
}

}  // namespace crema::tools
