// Several processes that train together (tools/parallel.md).
//
// Each has the whole net, and its own part of each batch. What decides how the run goes on, such as
// losses, tests and requests to stop, is agreed, so that all of them do the same.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/data_source.hpp"
#include "core/dispatch.hpp"
#include "core/over_processes.hpp"
#include "crema/debug_info.hpp"
#include "crema/parameter_arena.hpp"
#include "model/source_map.hpp"
#include "net/not_finite.hpp"
#include "parallel/communicator.hpp"
#include "proto/net.pb.h"
#include "proto/solver.pb.h"
#include "solver/alike.hpp"
#include "solver/batch_halving.hpp"
#include "solver/gradient_exchange.hpp"
#include "solver/settings.hpp"
#include "solver/snapshot.hpp"
#include "solver/snapshot_keeper.hpp"
#include "solver/test_sums.hpp"
#include "solver/trainer.hpp"
#include "solver/update_rule.hpp"
#include "solver/weight_average.hpp"

namespace crema {
namespace {

/// In sums over the processes: one asks for a stop. Less: so many ask for a snapshot.
constexpr double kStop = 1e9;

/// All elements become means over the processes.
void take_mean(Communicator& processes, Tensor& tensor) {
  if (!tensor.has_memory()) tensor.read_bytes();
  dispatch_float(tensor.dtype(), [&]<class T>(T) {
    const auto values = tensor.changing<T>();
    processes.all_reduce({.values = values.data(),
                          .count = tensor.count(),
                          .dtype = tensor.dtype(),
                          .factor = 1.0 / processes.size()});
  });
}

void share(Communicator& processes, Tensor& tensor) {
  if (!tensor.has_memory()) tensor.read_bytes();
  dispatch_float(tensor.dtype(), [&]<class T>(T) {
    const auto values = tensor.changing<T>();
    processes.broadcast(values.data(), tensor.bytes(), 0);
  });
}

/// The same of parameters that no update changes, such as statistics of batches.
void take_mean_of_statistics(Communicator& processes, ParameterArena& arena) {
  dispatch_float(arena.dtype(), [&]<class T>(T) {
    std::vector<T> all;
    for (const auto& segment : arena.segments()) {
      if (segment.parameter->learnable) continue;
      const T* const values = segment.parameter->data.template read<T>();
      all.insert(all.end(), values, values + segment.count);
    }
    if (all.empty()) return;
    processes.all_reduce({.values = all.data(),
                          .count = static_cast<int64_t>(all.size()),
                          .dtype = arena.dtype(),
                          .factor = 1.0 / processes.size()});
    const T* from = all.data();
    for (const auto& segment : arena.segments()) {
      if (segment.parameter->learnable) continue;
      const auto values = segment.parameter->data.template changing<T>();
      std::copy_n(from, segment.count, values.data());
      from += segment.count;
    }
  });
}

/// The means of a test: name, number and values of each output.
std::string packed(double loss, const std::map<std::string, std::vector<double>>& means) {
  std::string text(reinterpret_cast<const char*>(&loss), sizeof loss);
  for (const auto& [name, values] : means) {
    const uint64_t sizes[] = {name.size(), values.size()};
    text.append(reinterpret_cast<const char*>(sizes), sizeof sizes);
    text += name;
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
  }
  return text;
}

std::map<std::string, std::vector<double>> unpacked(const std::string& text, double& loss) {
  const char* at = text.data();
  const auto take = [&](void* to, size_t bytes) {
    if (bytes > 0) std::memcpy(to, at, bytes);
    at += bytes;
  };
  take(&loss, sizeof loss);
  std::map<std::string, std::vector<double>> means;
  while (at < text.data() + text.size()) {
    uint64_t sizes[2];
    take(sizes, sizeof sizes);
    std::string name(at, static_cast<size_t>(sizes[0]));
    at += sizes[0];
    std::vector<double>& values = means[name];
    values.resize(static_cast<size_t>(sizes[1]));
    take(values.data(), values.size() * sizeof(double));
  }
  return means;
}

/// With whom a process exchanges its weights; -1: with none this time.
int partner_of(int rank, int size, int step, SolverParameter::GossipPartners partners) {
  if (partners == SolverParameter::HYPERCUBE) {
    int axes = 0;
    while ((1 << axes) < size) ++axes;
    return rank ^ (1 << (step % axes));
  }
  // The edges of the ring in two sets, none of which has a process twice. In a ring of an odd
  // number one process is left out each time.
  const bool is_lower = (rank + step) % 2 == 0;
  const int partner = is_lower ? rank + 1 : rank - 1;
  if (partner >= 0 && partner < size) return partner;
  return size % 2 == 0 ? (partner + size) % size : -1;
}

}  // namespace

void Trainer::take_processes(const SolverOptions& options, const SourceMap& source) {
  processes_ = options.processes;
  if (processes_ && processes_->size() == 1) processes_.reset();
  if (!processes_) return;
  const int size = processes_->size();
  run_.rank = processes_->rank();
  run_.world_size = size;
  if (context_.on_gpu())
    throw Error("the ", size,
                " processes of this run train on the CPU alone; leave out --gpu, or "
                "start one process");
  if (tries_memory_)
    throw Error("on_oom: HALVE_BATCH is possible in one process alone, and these are ", size,
                "; remove it")
        .at(source.position("on_oom"));
  const bool is_power = (size & (size - 1)) == 0;
  if (param_->parallel_mode() == SolverParameter::GOSSIP &&
      param_->gossip_partners() == SolverParameter::HYPERCUBE && !is_power)
    throw Error("gossip_partners: HYPERCUBE needs 2, 4, 8, ... processes, and these are ", size,
                "; start another number, or take RING")
        .at(source.position("gossip_partners"));
  if (!is_first()) keeper_->leave_files();
}

void Trainer::divide_batches(NetSource& train, const SourceMap& source) {
  if (!processes_ || param_->batch_semantics() != SolverParameter::DIVIDED) return;
  const std::shared_ptr<NetParameter> message = message_of(train, source);
  try {
    const std::string divided = crema::divide_batches(*message, train.options, processes_->size());
    context_.log(Severity::info,
                 text("batch_semantics: DIVIDED: batches of one process: ", divided));
  } catch (Error& error) {
    error.at(source.position("batch_semantics"));
    throw;
  }
  train.changed = message;
}

void Trainer::divide_tests() {
  if (!processes_) return;
  const int size = processes_->size();
  for (int& batches : test_iterations_) {
    const int each = batches / size + (batches % size != 0 ? 1 : 0);
    if (each * size != batches)
      context_.log(Severity::warning, text("test_iter ", batches, " does not divide by ", size,
                                           " processes: each of "
                                           "them takes ",
                                           each, " batches, which are ", each * size, " in all"));
    batches = each;
  }
}

void Trainer::check_records() const {
  const int size = processes_->size();
  const auto check = [&](const Net& net) {
    for (const Layer* layer : net.layers()) {
      const DataSource* const source = layer->data_source();
      if (source == nullptr || source->records() == 0 || source->records() >= size) continue;
      throw Error("layer '", layer->name(), "' has ", source->records(),
                  " records, fewer than the ", size, " processes, each of which needs one; start ",
                  source->records(), " at most");
    }
  };
  check(*net_);
  for (const auto& net : test_nets_) check(*net);
}

void Trainer::meet() {
  if (!processes_) return;
  Communicator& all = *processes_;
  check_alike(all, description_of(*param_, run_.seed, *net_));
  check_records();
  set_processes_of_layers(&all);
  share_state();
  if (param_->parallel_mode() == SolverParameter::GRADIENTS) {
    exchange_ = std::make_unique<GradientExchange>(
        *net_, all, param_->gradient_type() == SolverParameter::BF16);
  }
  int64_t records = 0;
  for (const DataSource* source : sources_)
    records = std::max(records, source->records_per_batch());
  std::vector<std::string> names;
  for (int rank = 0; rank < all.size(); ++rank) names.push_back(all.name_of(rank));
  const bool is_divided = param_->batch_semantics() == SolverParameter::DIVIDED;
  const std::string batches =
      records == 0
          ? ""
          : text(" Each takes batches of ", records, " records, all of them ", records * all.size(),
                 " (batch_semantics: ", is_divided ? "DIVIDED" : "PER_PROCESS", ").");
  context_.log(Severity::info,
               text(all.size(), " processes train together: ", joined(names), ".", batches));
}

void Trainer::set_processes_of_layers(Communicator* processes) {
  for (Layer* layer : net_->layers()) {
    if (auto* const over = dynamic_cast<OverProcesses*>(layer)) over->set_processes(processes);
  }
}

int Trainer::agree(int value) const { return processes_ ? processes_->greatest(value) : value; }

void Trainer::in_first(const std::function<void()>& write) const {
  if (!processes_) return write();
  std::string failure;
  std::exception_ptr thrown;
  if (is_first()) {
    try {
      write();
    } catch (const Error& error) {
      failure = error.what();
      thrown = std::current_exception();
    }
  }
  processes_->broadcast(failure, 0);
  if (thrown) std::rethrow_exception(thrown);
  if (!failure.empty()) throw Error("in ", processes_->name_of(0), ": ", failure);
}

SolverAction Trainer::asked() {
  const auto own = [&] { return hooks_.poll ? hooks_.poll() : SolverAction::none; };
  if (!processes_) return own();
  // The last iteration has agreed with its loss, so that none waits for that alone.
  if (const auto agreed = std::exchange(agreed_, {})) return *agreed;
  return static_cast<SolverAction>(agree(static_cast<int>(own())));
}

void Trainer::abandon_exchange() {
  try {
    processes_->wait(loss_ticket_);
    if (exchange_) exchange_->finish();
  } catch (const Error&) {
    // The others have ended; the error of the pass says why.
  }
}

void Trainer::begin_exchange(double loss) {
  // In front of the gradients, so that it is known when the first of them come.
  const SolverAction asks = hooks_.poll ? hooks_.poll() : SolverAction::none;
  loss_and_action_ = {loss, asks == SolverAction::stop       ? kStop
                            : asks == SolverAction::snapshot ? 1
                                                             : 0};
  loss_ticket_ = processes_->start_all_reduce(
      {.values = loss_and_action_.data(), .count = 2, .dtype = DType::f64});
  if (exchange_) exchange_->begin();
}

double Trainer::loss_of_all(double own) {
  Communicator& all = *processes_;
  if (exchange_) exchange_->end_backward();
  all.wait(loss_ticket_);
  const double mean = loss_and_action_[0] / all.size();
  agreed_ = loss_and_action_[1] >= kStop ? SolverAction::stop
            : loss_and_action_[1] >= 1   ? SolverAction::snapshot
                                         : SolverAction::none;
  if (std::isfinite(mean)) return mean;
  if (exchange_) exchange_->finish();
  const std::vector<std::string> failed = all.all_gather(std::isfinite(own) ? "" : "failed");
  if (!failed[static_cast<size_t>(run_.rank)].empty()) {
    // To find the first blob, the net runs again, in this process alone.
    set_processes_of_layers(nullptr);
    try {
      throw_not_finite(*net_, iteration_, own);
    } catch (...) {
      set_processes_of_layers(&all);
      throw;
    }
  }
  for (int rank = 0; rank < all.size(); ++rank) {
    if (!failed[static_cast<size_t>(rank)].empty())
      throw NotFiniteError("iteration ", iteration_, ": the loss of ", all.name_of(rank),
                           " is not finite");
  }
  throw NotFiniteError("iteration ", iteration_, ": the sum of the losses of all processes is ",
                       mean);
}

bool Trainer::update_by_buckets() {
  const bool looks_at_all =
      scaler_ || param_->clip_gradients() > 0 || hooks_.before_update || has_debug_info(*net_);
  if (looks_at_all) {
    exchange_->finish();
    return false;
  }
  ParameterArena& arena = net_->params();
  UpdateStep step = update_step();
  step.gradient_scale /= loss_scale_;
  Tensor* const average = average_values();
  bool is_finite = true;
  const auto update = [&](const std::vector<size_t>& segments) {
    is_finite &= rule_->update_part(segments, arena, history_, step, average);
  };
  exchange_->finish(update);
  arena.settle_gradients();
  update(exchange_->others());
  if (!is_finite) throw_not_finite_gradient(*net_, iteration_);
  return true;
}

void Trainer::average_weights() {
  const auto mode = param_->parallel_mode();
  if (mode == SolverParameter::GRADIENTS || iteration_ % param_->average_every() != 0) return;
  mode == SolverParameter::GOSSIP ? gossip() : take_mean(*processes_, net_->params().data());
}

void Trainer::gossip() {
  const int step = iteration_ / param_->average_every();
  const int partner =
      partner_of(processes_->rank(), processes_->size(), step, param_->gossip_partners());
  if (partner < 0) return;
  Tensor& own = net_->params().data();
  Tensor other(own.shape(), own.dtype());
  dispatch_float(own.dtype(), [&]<class T>(T) {
    T* const to = other.overwrite<T>();
    const auto values = own.changing<T>();
    processes_->wait(processes_->start_exchange(partner, values.data(), to, own.bytes()));
    // The same bits in both: the order of two summands does not matter.
    for (int64_t i = 0; i < own.count(); ++i)
      values.data()[i] = (values.data()[i] + to[i]) * static_cast<T>(0.5);
  });
}

void Trainer::bring_together() {
  if (!processes_ || together_at_ == iteration_) return;
  ParameterArena& arena = net_->params();
  if (param_->parallel_mode() == SolverParameter::GRADIENTS) {
    take_mean_of_statistics(*processes_, arena);
  } else {
    take_mean(*processes_, arena.data());
    for (Tensor& history : history_) take_mean(*processes_, history);
    if (average_) take_mean(*processes_, average_->values());
  }
  together_at_ = iteration_;
}

void Trainer::share_state() {
  if (!processes_) return;
  share(*processes_, net_->params().data());
  for (Tensor& history : history_) share(*processes_, history);
  together_at_ = iteration_;
}

void Trainer::merge_tests(TestReport& report, TestSums& sums) const {
  if (!processes_) return;
  const std::vector<std::string> all = processes_->all_gather(packed(report.loss, sums.means));
  double loss = 0;
  report.loss = 0;
  std::map<std::string, std::vector<double>> total;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    auto means = unpacked(all[rank], loss);
    report.loss += loss / static_cast<double>(all.size());
    if (rank == 0) total = means;
    // What has no mean in one of them has none at all.
    std::erase_if(total, [&](const auto& entry) {
      const auto found = means.find(entry.first);
      return found == means.end() || found->second.size() != entry.second.size();
    });
    if (rank == 0) continue;
    for (auto& [name, values] : total) {
      const std::vector<double>& more = means[name];
      for (size_t i = 0; i < values.size(); ++i) values[i] += more[i];
    }
  }
  for (auto& [name, values] : total) {
    for (double& value : values) value /= static_cast<double>(all.size());
  }
  sums.means = std::move(total);
}

void Trainer::add_detections(const Tensor& rows, DetectionScores& scores) const {
  if (!processes_) return scores.add(rows);
  SolverState message;
  save_layer_states({{"rows", {rows.to(DType::f64, Format::contiguous)}}}, message);
  for (const std::string& part : processes_->all_gather(message.SerializeAsString())) {
    SolverState read;
    read.ParseFromString(part);
    scores.add(layer_states(read).at("rows").front());
  }
}

RecordCursors Trainer::cursors_of_all(const TrainingState& state) const {
  RecordCursors cursors = state.cursors != nullptr ? *state.cursors : data_cursors(state);
  if (!processes_) return cursors;
  SolverState own;
  save_layer_states(cursors.states, own);
  const std::vector<std::string> all = processes_->all_gather(own.SerializeAsString());
  for (size_t rank = 1; rank < all.size(); ++rank) {
    SolverState read;
    read.ParseFromString(all[rank]);
    for (auto& [name, tensors] : layer_states(read))
      cursors.states[text("rank", rank, "/", name)] = std::move(tensors);
  }
  return cursors;
}

void Trainer::compare_processes(const SolverState& saved) const {
  const int before = std::max(1, saved.processes());
  if (before == run_.world_size) return;
  const bool is_divided = param_->batch_semantics() == SolverParameter::DIVIDED;
  context_.log(Severity::info,
               text("the run of the snapshot had ", before, before == 1 ? " process" : " processes",
                    ", and this one has ", run_.world_size,
                    is_divided ? "; an iteration takes as many records as before"
                               : "; with batch_semantics: PER_PROCESS, an iteration takes another "
                                 "number of records"));
}

}  // namespace crema
