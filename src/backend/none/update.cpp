// By loops over memory that the host can read: for the device of the tests alone.
#include "backend/update.hpp"

#include <algorithm>

#include "core/dispatch.hpp"

namespace crema {
namespace {

template <class T, class Rule>
struct HostUpdate {
  DeviceUpdate job;
  UpdateNumbers chosen;  // as in the block, by which kernels are chosen

  UpdateBlock<Rule>& block() const { return *static_cast<UpdateBlock<Rule>*>(job.block); }
  const T* gradients() const { return static_cast<const T*>(job.arrays.gradients); }
  T* parameters() const { return static_cast<T*>(job.arrays.parameters); }

  template <class Body>
  void for_each_value(const UpdateRun& run, const Body& body) const {
    for (int64_t i = run.offset; i < run.offset + run.count; ++i) body(i);
  }
  template <class Body>
  void with_arrays(const Body& body) const {
    with_regularization(chosen.settings.regularization, [&](auto regularization) {
      with_histories<Rule>(
          [&](size_t number) { return static_cast<T*>(job.arrays.histories[number]); },
          [&](auto*... history) { body(regularization, history...); });
    });
  }

  void check_gradients() const {
    double squares = 0;
    for (int64_t r = 0; r < job.runs.count; ++r) {
      for_each_value(job.runs.runs[r], [&](int64_t i) {
        squares += static_cast<double>(gradients()[i]) * static_cast<double>(gradients()[i]);
      });
    }
    if (chosen.most_norm > 0) return limit_norm(*job.run, block().numbers, job.loss_scale, squares);
    if (!(squares - squares == 0)) job.run->fail(DeviceFailure::gradient);
  }

  Squares squares_of(const UpdateRun& run) const {
    Squares sums;
    const UpdateNumbers& numbers = block().numbers;
    with_arrays([&](auto regularization, auto*... history) {
      constexpr Regularization kBy = decltype(regularization)::value;
      UpdateSettings settings = numbers.settings;
      if (Rule::kLocalRate != LocalRate::trust) settings.weight_decay = 0;
      const UpdateStep step = scaled_step(numbers, job.loss_scale);
      const ValueUpdate<T, kBy, Rule> by_rule(block().rule, settings, step, run, 1);
      const ValueUpdate<T, kBy, GradientAsStep> gradient({}, settings, step, run, 1);
      for_each_value(run, [&](int64_t i) {
        const T w = parameters()[i], g = gradients()[i];
        const T by = Rule::kLocalRate == LocalRate::trust ? step_of(by_rule, g, w, history[i]...)
                                                          : step_of(gradient, g, w);
        sums.values += static_cast<double>(w) * static_cast<double>(w);
        sums.steps += static_cast<double>(by) * static_cast<double>(by);
      });
    });
    return sums;
  }

  void update(const UpdateRun& run) const {
    const UpdateNumbers& numbers = block().numbers;
    const bool is_local = numbers.settings.local_rate != LocalRate::none;
    const double rate =
        rate_of(numbers.settings, numbers.step.rate, run, is_local ? squares_of(run) : Squares());
    T* const average = static_cast<T*>(job.arrays.average);
    const T rest = 1 - static_cast<T>(numbers.step.average_decay);
    with_arrays([&](auto regularization, auto*... history) {
      const ValueUpdate<T, decltype(regularization)::value, Rule> by(
          block().rule, numbers.settings, scaled_step(numbers, job.loss_scale), run, rate);
      T check = 0;
      for_each_value(run, [&](int64_t i) {
        check += by(gradients()[i], parameters()[i], history[i]...);
        if (average != nullptr) average[i] += rest * (parameters()[i] - average[i]);
      });
      job.copies.write(&run - job.runs.runs, parameters() + run.offset, 0, run.count, 0, 1);
      if (!(check == T{0})) job.run->report.bad_step = 1;
    });
  }

  void operator()() const {
    check_gradients();
    if (!job.run->failed()) {
      for (int64_t r = 0; r < job.runs.count; ++r) update(job.runs.runs[r]);
    }
    finish_update(*job.run, job.loss_scale);
  }
};

}  // namespace

void device_update(DeviceBackend& backend, const DeviceUpdate& update, const AnyUpdateRule& any,
                   const UpdateNumbers& numbers) {
  if (!backend.host_can_read()) throw Error("this build of Crema has no device to update on");
  std::visit(
      [&]<class Rule>(const Rule&) {
        dispatch_float(update.arrays.dtype, [&](auto zero) {
          backend.queue_loop(HostUpdate<decltype(zero), Rule>{update, numbers});
        });
      },
      any);
}

}  // namespace crema
