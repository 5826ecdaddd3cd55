#include "tools/record_pass.hpp"

#include <algorithm>
#include <numeric>

#include "core/carried_state.hpp"
#include "crema/error.hpp"
#include "proto/layer.pb.h"
#include "tools/required_data.hpp"
#include "tools/terminal.hpp"

namespace crema::tools {
namespace {

constexpr int kPublishedBatches = 50;

bool carries(const Layer* layer) {
  const CarriesState* state = layer->carries_state();
  return state != nullptr && state->carries();
}

/// What the layers carry, in their order.
std::vector<std::vector<Tensor>> carried(const Net& net) {
  std::vector<std::vector<Tensor>> states;
  for (const Layer* layer : net.layers()) {
    const CarriesState* state = layer->carries_state();
    if (state != nullptr && state->carries()) states.push_back(state->carried());
  }
  return states;
}

void carry(const Net& net, const std::vector<std::vector<Tensor>>& states) {
  size_t at = 0;
  for (Layer* layer : net.layers()) {
    CarriesState* state = layer->carries_state();
    if (state != nullptr && state->carries()) state->carry(states[at++]);
  }
}

/// The layers that lost what they carried, since the batch has another size than the one before.
std::vector<Layer*> layers_without_state(const Net& net,
                                         const std::vector<std::vector<Tensor>>& before) {
  std::vector<Layer*> found;
  size_t at = 0;
  for (Layer* layer : net.layers()) {
    const CarriesState* state = layer->carries_state();
    if (state == nullptr || !state->carries()) continue;
    const std::vector<Tensor>& old = before[at++];
    if (state->is_of_batch() && !old.empty() &&
        !std::ranges::equal(old, state->carried(), {}, &Tensor::shape, &Tensor::shape))
      found.push_back(layer);
  }
  return found;
}

/// The values of all outputs.
std::vector<std::vector<double>> outputs_of(Net& net) {
  std::vector<std::vector<double>> all;
  for (const std::string& name : net.outputs()) {
    const Tensor output = net.output(name);
    std::vector<double>& values = all.emplace_back();
    for (int64_t i = 0; i < output.count(); ++i) values.push_back(output.at(i));
  }
  return all;
}

}  // namespace

RecordPass::RecordPass(Net& net, bool warns_of_steps)
    : net_(net),
      in_step_(net.layers(), "",
               [warns_of_steps](Severity severity, const std::string& message) {
                 if (warns_of_steps || severity != Severity::info) say(severity, message);
               }),
      counted_once_(net.layers()) {
  for (const Layer* layer : net.layers()) {
    const int tops = layer->param().top_size();
    if (tops == 0) makers_.push_back({"(automatic)" + layer->name(), {layer, 0}});
    for (int t = 0; t < tops; ++t) makers_.push_back({layer->param().top(t), {layer, t}});
  }
}

RecordPass::RecordPass(Net& net, std::optional<int> iterations) : RecordPass(net, true) {
  if (iterations) {
    batches_ = *iterations;
  } else if (count_records()) {
    begin_epoch();
  } else {
    batches_ = kPublishedBatches;
  }
  say(text("Running for ", batches_, " iterations."));
  if (records_ > 0) {
    const int64_t batch = sources_[0].data->records_per_batch(), rest = records_ % batch;
    say(text(records_, " records in ", batches_, batches_ == 1 ? " batch" : " batches", " of ",
             batch, rest != 0 ? text(", the last one of ", rest) : "", ": each counts once"));
  } else if (iterations) {
    warn_of_repeats(net, batches_, "--iterations");
  } else {
    say(text("The net has no data layer whose records could be counted: ", kPublishedBatches,
             " iterations are the published default, and --iterations gives another number"));
  }
}

RecordPass::RecordPass(Net& net, const Sample& sample) : RecordPass(net, false) {
  const auto batches_within = [&](int64_t batch) {
    return static_cast<int>(
        std::clamp<int64_t>(sample.most / std::max<int64_t>(batch, 1), 1, INT32_MAX));
  };
  if (!count_records()) {
    int64_t batch = 1;
    for (Layer* layer : net.layers()) {
      if (DataSource* data = layer->data_source())
        batch = std::max(batch, data->records_per_batch());
    }
    batches_ = std::min(kPublishedBatches, batches_within(batch));
  } else if (records_ <= sample.most) {
    begin_epoch();
  } else {
    const int64_t batch = sources_[0].data->records_per_batch();
    const int64_t whole = records_ / batch;
    for (const Source& source : sources_) source.data->set_cursor({});
    go_on_behind_records();
    batches_ = std::min(batches_, batches_within(batch));
    is_part_ = true;
    if (whole >= batches_ && std::ranges::none_of(net.layers(), carries)) spread_ = whole;
  }
}

void RecordPass::go_to_batch(int64_t index) {
  for (const Source& source : sources_) {
    const auto first = static_cast<uint64_t>(index * source.data->records_per_batch());
    if (source.data->cursor() != RecordCursor{.epoch = 0, .position = first})
      source.data->set_cursor({.epoch = 0, .position = first});
  }
}

bool RecordPass::count_records() {
  const auto batches_of = [](const Source& source) {
    const int64_t batch = source.data->records_per_batch();
    return (source.data->records() + batch - 1) / batch;
  };
  for (Layer* layer : net_.layers()) {
    DataSource* data = layer->data_source();
    if (data != nullptr && data->takes_each_once()) sources_.push_back({layer->name(), data});
  }
  if (sources_.empty()) return false;
  const auto fewest = [&](const Source& a, const Source& b) {
    return std::pair(batches_of(a), a.data->records()) <
           std::pair(batches_of(b), b.data->records());
  };
  std::iter_swap(sources_.begin(), std::ranges::min_element(sources_, fewest));
  const Source& first = sources_[0];
  records_ = first.data->records();
  const int64_t batches = batches_of(first);
  if (batches > INT32_MAX) throw Error("layer '", first.name, "' has ", records_, " records");
  batches_ = static_cast<int>(batches);
  for (Source& source : sources_) {
    // In proportion to the sizes of batches.
    source.records = records_ * source.data->records_per_batch() / first.data->records_per_batch();
    if (source.data->records() > source.records)
      say(Severity::warning, text("layer '", source.name, "' has ", source.data->records(),
                                  " records, of which ", source.records, " are tested: layer '",
                                  first.name, "' has no more (", records_, ")"));
  }
  return true;
}

bool RecordPass::end_with_records() {
  const int64_t batch = sources_[0].data->records_per_batch();
  // Samples of several sources belong together, so each has to keep its place. So has a record
  // where a layer counts the images, or goes on with sequences of the batch before.
  leaves_out_ = sources_.size() == 1 && std::ranges::none_of(net_.layers(), carries);
  return std::ranges::all_of(sources_, [&](Source& source) {
    const bool is_whole = records_ * source.data->records_per_batch() % batch == 0;
    return is_whole &&
           source.data->end_batches({.records = source.records, .leaves_out = leaves_out_});
  });
}

void RecordPass::go_on_behind_records() {
  for (const Source& source : sources_) source.data->end_batches({});
  leaves_out_ = false;
}

void RecordPass::begin_epoch() {
  // From the first record on, whatever rand_skip says.
  for (const Source& source : sources_) source.data->set_cursor({});
  std::string why = why_whole_batches();
  if (why.empty() && end_with_records()) return;
  go_on_behind_records();
  is_filled_ = records_ % sources_[0].data->records_per_batch() != 0;
  if (!is_filled_) return;
  if (why.empty()) why = "the data layers give whole batches only";
  fill_last(why);
}

std::string RecordPass::why_whole_batches() const {
  for (const Layer* layer : net_.layers()) {
    if (layer->type() != "Reshape") continue;
    const ReshapeParameter& settings = layer->param().reshape_param();
    const auto& dims = settings.shape().dim();
    // The other axes would take up that there are fewer records, and parts of others meet.
    if (settings.axis() == 0 && dims.size() > 0 && dims[0] > 1 && std::ranges::count(dims, -1) > 0)
      return text("layer '", layer->name(), "' makes ", dims[0], " rows of any batch");
  }
  return {};
}

void RecordPass::fill_last(const std::string& why) {
  const int64_t batch = sources_[0].data->records_per_batch(), rest = records_ % batch;
  int64_t divisor = batch;
  while (records_ % divisor != 0) --divisor;
  say(Severity::warning,
      text("the last batch would have ", rest, " of ", batch,
           " records, which the net cannot run on (", why, "): it is filled with ", batch - rest,
           " records that were tested before. They do not count in classes and average "
           "precision, but they do in the other outputs of this batch; a batch_size that "
           "divides ",
           records_, ", such as ", divisor, ", makes all exact"));
}

void RecordPass::run_without_bad() {
  const RecordCursor cursor = sources_[0].data->cursor();
  try {
    loss_ = net_.forward();
    return;
  } catch (const Error&) {
    // It may be that of a batch with fewer records, which a net of whole batches cannot run on.
    const std::exception_ptr first = std::current_exception();
    sources_[0].data->set_cursor(cursor);
    sources_[0].data->end_batches({.records = sources_[0].records, .leaves_out = false});
    leaves_out_ = false;
    run_again(counted_at_most_, first);
  }
}

void RecordPass::run_again(int64_t samples, const std::exception_ptr& first) {
  counted_once_.repeat_batch(samples);
  try {
    loss_ = net_.forward();
  } catch (const Error&) {
    if (first) std::rethrow_exception(first);
    throw;
  }
}

void RecordPass::run_last_short(int64_t rest) {
  std::vector<RecordCursor> cursors;
  for (const Source& source : sources_) cursors.push_back(source.data->cursor());
  const auto states = carried(net_);
  std::string why;
  std::exception_ptr first;
  const auto set_back = [&] {
    carry(net_, states);
    for (size_t i = 0; i < sources_.size(); ++i) sources_[i].data->set_cursor(cursors[i]);
  };
  try {
    loss_ = net_.forward();
    const std::vector<Layer*> lost = layers_without_state(net_, states);
    if (!lost.empty() && reads_state(lost, set_back))
      why = "layer '" + lost[0]->name() + "' carries the state of a whole batch";
  } catch (const Error& error) {
    why = error.what();
    first = std::current_exception();
  }
  if (why.empty()) return;
  set_back();
  go_on_behind_records();
  is_filled_ = true;
  // An error of another kind comes again: only what passes with the whole batch was its size.
  run_again(rest, first);
  fill_last(why);
}

bool RecordPass::reads_state(const std::vector<Layer*>& layers,
                             const std::function<void()>& set_back) {
  const auto zeros = outputs_of(net_);
  std::vector<std::vector<Tensor>> others;
  for (const Layer* layer : layers) {
    others.push_back(layer->carries_state()->carried());
    for (Tensor& tensor : others.back()) tensor.fill(1);
  }
  set_back();
  for (size_t i = 0; i < layers.size(); ++i) layers[i]->carries_state()->carry(others[i]);
  counted_once_.repeat_batch(INT64_MAX);
  loss_ = net_.forward();
  return outputs_of(net_) != zeros;
}

bool RecordPass::next() {
  if (at_ == batches_) return false;
  if (spread_ > 0) go_to_batch(at_ * spread_ / batches_);
  const bool is_last = ++at_ == batches_;
  const int64_t batch = records_ > 0 ? sources_[0].data->records_per_batch() : INT64_MAX;
  const int64_t rest = records_ % batch;
  counted_at_most_ = is_last && is_filled_ ? rest : batch;
  counted_once_.next_batch(counted_at_most_);
  if (is_last && rest != 0 && !is_filled_ && !is_part_) {
    run_last_short(rest);
  } else if (leaves_out_) {
    run_without_bad();
  } else {
    loss_ = net_.forward();
  }
  in_step_.look();
  look_at_samples();
  return true;
}

void RecordPass::look_at_samples() {
  left_out_.clear();
  counted_ = 0;
  if (records_ == 0) {
    ++whole_batches_;
    return;
  }
  const int64_t samples = sources_[0].data->records_in_batch();
  const int64_t batch = sources_[0].data->records_per_batch();
  const int64_t own = at_ == batches_ && is_filled_ ? records_ % batch : samples;
  left_out_.resize(static_cast<size_t>(samples));
  for (int64_t i = 0; i < samples; ++i) {
    const bool replaced = std::ranges::any_of(
        sources_, [i](const Source& source) { return source.data->is_replaced(i); });
    left_out_[static_cast<size_t>(i)] = i >= own || replaced;
    counted_ += i < own && !replaced ? 1 : 0;
  }
  if (counted_ == samples) left_out_.clear();
  counted_in_all_ += counted_;
  whole_batches_ += static_cast<double>(counted_) / static_cast<double>(batch);
}

Share RecordPass::share_of_records() const {
  if (records_ == 0) return {};
  return {static_cast<double>(counted_), static_cast<double>(counted_)};
}

Shares RecordPass::shares(const std::string& output, const Shape& shape) const {
  Shares shares;
  if (records_ == 0) return shares;
  const int64_t samples = sources_[0].data->records_in_batch();
  shares.all_ = share_of_records();
  // A batch that is filled counts for its own records.
  shares.part_ = static_cast<double>(counted_) / static_cast<double>(samples);
  shares.batch_ =
      static_cast<double>(counted_) / static_cast<double>(sources_[0].data->records_per_batch());
  // The last layer that writes the blob.
  for (auto entry = makers_.rbegin(); entry != makers_.rend(); ++entry) {
    if (entry->first != output) continue;
    const auto [layer, top] = entry->second;
    if (shape.count() == 0 || !layer->mean_over(top, 0)) break;
    shares.maker_ = layer;
    shares.top_ = top;
    return shares;
  }
  if (shape.rank() == 0 || shape[0] != samples) return shares;
  shares.each_ = std::max<int64_t>(shape.count(1), 1);
  shares.left_out_ = &left_out_;
  return shares;
}

Share Shares::operator()(int64_t index) const {
  if (maker_ != nullptr) {
    const auto units = maker_->mean_over(top_, index);
    if (!units) return all_;
    if (units->is_sum) return {part_, batch_};
    return {units->factor() * part_, units->count * part_};
  }
  if (each_ == 0) return all_;
  const bool is_left_out = !left_out_->empty() && (*left_out_)[static_cast<size_t>(index / each_)];
  return is_left_out ? Share{0, 0} : Share{};
}

}  // namespace crema::tools
