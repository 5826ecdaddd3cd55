#include "analysis/trace.hpp"

#include <map>
#include <utility>

#include "core/json.hpp"
#include "net/traffic.hpp"

namespace crema {
namespace {

constexpr int kDeviceRow = 1000;  // behind all threads; its streams follow

/// `"key": value`, with commas between.
class Fields {
 public:
  void add(const char* key, const std::string& json) {
    fields_ += text(fields_.empty() ? "" : ", ", '"', key, "\": ", json);
  }
  void add_text(const char* key, const std::string& value) {
    if (!value.empty()) add(key, json_string(value));
  }
  std::string object() const { return "{" + fields_ + "}"; }

 private:
  std::string fields_;
};

/// The arguments of the spans of each step, by its name and type, forward and backward.
class StepArguments {
 public:
  explicit StepArguments(const Net& net) {
    std::map<std::string, std::vector<std::string>> fused;
    for (const LayerSummary& layer : net.summary()) {
      if (!layer.fused_into.empty()) fused[layer.fused_into].push_back(layer.name);
    }
    const std::vector<NetValue> values = net.values();
    const auto shapes = [&](const std::vector<int>& indices) {
      std::vector<std::string> all;
      for (const int i : indices) {
        const NetValue& value = values[static_cast<size_t>(i)];
        all.push_back(value.name + " " + value.shape.str());
      }
      return joined(all, ", ");
    };
    const std::vector<StepTraffic> traffic = step_traffic(net);
    for (size_t s = 0; s < net.steps().size(); ++s) {
      const NetStep& step = net.steps()[s];
      const auto describe = [&](double flops, size_t bytes) {
        Fields fields;
        fields.add_text("bottoms", shapes(step.bottoms));
        fields.add_text("tops", shapes(step.tops));
        fields.add_text("engine", step.engine);
        fields.add_text("bottom layout", step.bottom_format);
        fields.add_text("top layout", step.top_format);
        fields.add_text("detail", step.detail);
        const auto computes = fused.find(step.name);
        if (computes != fused.end() && step.layer >= 0)
          fields.add_text("computes too", joined(computes->second, ", "));
        fields.add("GFLOP", json_number(flops / 1e9));
        fields.add("MB", json_number(static_cast<double>(bytes) / 1e6));
        return fields.object();
      };
      arguments_[{step.name, step.type}] = {describe(step.flops.forward, traffic[s].forward),
                                            describe(step.flops.backward, traffic[s].backward)};
    }
  }

  /// "" for what is no step.
  const std::string& of(const SpanRecord& span) const {
    static const std::string none;
    const bool backward = span.kind == SpanKind::backward;
    if (!backward && span.kind != SpanKind::forward && span.kind != SpanKind::recompute)
      return none;
    const auto found = arguments_.find({span.text.name, span.text.type});
    if (found == arguments_.end()) return none;
    return backward ? found->second.second : found->second.first;
  }

 private:
  std::map<std::pair<std::string, std::string>, std::pair<std::string, std::string>> arguments_;
};

/// Events, in a process of its own for each trace.
class TraceWriter {
 public:
  TraceWriter(const Net& net, const ProfileRun& run) : start_(run.start), arguments_(net) {
    metadata("process_name", 0, "crema: " + (net.name().empty() ? "net" : net.name()));
  }

  void row(int row, const std::string& name) {
    metadata("thread_name", row, name);
    event(text(R"("ph": "M", "tid": )", row,
               R"(, "name": "thread_sort_index", "args": {"sort_index": )", row, "}"));
  }

  void span(int row, const SpanRecord& span) {
    const bool of_step = !span.text.type.empty() && span.kind != SpanKind::wait;
    const std::string category = of_step ? span.text.type : to_string(span.kind);
    complete(row, shown_name(span.kind, span.text), category, span.begin, span.end,
             arguments_.of(span));
  }

  void activity(int row, const DeviceActivity& activity) {
    const std::string bytes =
        activity.bytes == 0
            ? ""
            : text(R"({"MB": )", json_number(static_cast<double>(activity.bytes) / 1e6), "}");
    complete(row, activity.name, activity.kind, activity.begin, activity.end, bytes);
  }

  void counter(const CounterRecord& counter) {
    event(text(R"("ph": "C", "tid": 0, "ts": )", microseconds(counter.at - start_),
               ", \"name\": ", json_string(counter.name), R"(, "args": {"value": )",
               json_number(counter.value), "}"));
  }

  std::string finish() {
    return "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n" + all_ + "\n]}\n";
  }

 private:
  /// In decimal notation, to the nanosecond.
  static std::string microseconds(int64_t nanoseconds) {
    const bool negative = nanoseconds < 0;
    const int64_t size = negative ? -nanoseconds : nanoseconds;
    const std::string part = std::to_string(size % 1000);
    return text(negative ? "-" : "", size / 1000, ".", std::string(3 - part.size(), '0'), part);
  }

  void event(const std::string& fields) {
    all_ += text(all_.empty() ? "" : ",\n", R"({"pid": 1, )", fields, "}");
  }
  void metadata(const char* what, int row, const std::string& name) {
    event(text(R"("ph": "M", "tid": )", row, R"(, "name": ")", what, R"(", "args": {"name": )",
               json_string(name), "}"));
  }
  void complete(int row, const std::string& name, const std::string& category, int64_t begin,
                int64_t end, const std::string& arguments) {
    event(text(R"("ph": "X", "tid": )", row, ", \"name\": ", json_string(name),
               ", \"cat\": ", json_string(category), ", \"ts\": ", microseconds(begin - start_),
               ", \"dur\": ", microseconds(end - begin),
               arguments.empty() ? "" : ", \"args\": ", arguments));
  }

  int64_t start_;
  StepArguments arguments_;
  std::string all_;
};

}  // namespace

std::string trace_json(const Net& net, const ProfileRun& run) {
  TraceWriter writer(net, run);
  int row = 1;
  for (const ThreadSpans& thread : run.threads) {
    writer.row(row, thread.thread.empty() ? text("thread ", row) : thread.thread);
    for (const SpanRecord& span : thread.spans) writer.span(row, span);
    for (const CounterRecord& counter : thread.counters) writer.counter(counter);
    ++row;
  }
  if (!run.on_device.empty()) writer.row(kDeviceRow, "device: layers");
  for (const SpanRecord& span : run.on_device) writer.span(kDeviceRow, span);
  std::map<uint32_t, int> queues;
  for (const DeviceActivity& activity : run.activities) {
    const auto [queue, is_new] =
        queues.emplace(activity.queue, kDeviceRow + 1 + static_cast<int>(queues.size()));
    if (is_new) writer.row(queue->second, text("device: stream ", activity.queue));
    writer.activity(queue->second, activity);
  }
  return writer.finish();
}

}  // namespace crema
