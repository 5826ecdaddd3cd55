#include "layers/ctc_loss/ctc_labels.hpp"

#include <algorithm>

#include "core/dispatch.hpp"
#include "crema/error.hpp"

namespace crema {

CtcShape CtcShape::of(const Blob& scores) {
  const Shape& shape = scores.shape();
  if (shape.rank() < 3 || shape.count(3) != 1 || shape[2] == 0)
    throw Error("the scores '", scores.name, "' (", shape.str(),
                ") have to be (steps, sequences, classes)");
  return {shape[0], shape[1], shape[2]};
}

int32_t blank_class(int blank, int64_t classes) {
  if (blank >= classes || blank < -1)
    throw Error("the blank is class ", blank, ", but there are ", classes,
                " classes; give one in [0, ", classes, "), or -1 for the last one");
  return static_cast<int32_t>(blank < 0 ? classes - 1 : blank);
}

void CtcSequences::use_steps(int64_t steps) { std::fill(steps_.begin(), steps_.end(), steps); }

void CtcSequences::read_indicators(const Tensor& indicators) {
  use_steps(shape_.steps);
  dispatch_float(indicators.dtype(), [&]<class T>(T) {
    const T* values = indicators.read<T>();
    for (int64_t t = 0; t < shape_.steps; ++t) {
      for (int64_t n = 0; n < shape_.batch; ++n) {
        const T value = values[t * shape_.batch + n];
        if (!(value >= 0 && value <= 1))
          throw Error("the indicator ", value, " of step ", t, ", sequence ", n,
                      " is outside [0, 1]; give 0 where a sequence begins, and 1 elsewhere")
              .of_sample(n);
        int64_t& steps = steps_[static_cast<size_t>(n)];
        if (t > 0 && value < T(0.5)) steps = std::min(steps, t);
      }
    }
  });
}

void CtcSequences::read_lengths(const Tensor& lengths) {
  for (int64_t n = 0; n < shape_.batch; ++n) {
    const double length = lengths.at(n);
    if (!(length >= 0 && length <= static_cast<double>(shape_.steps)) ||
        length != static_cast<double>(static_cast<int64_t>(length)))
      throw Error("sequence ", n, " has the length ", length, ", which is no whole number in [0, ",
                  shape_.steps, "]")
          .of_sample(n);
    steps_[static_cast<size_t>(n)] = static_cast<int64_t>(length);
  }
}

void CtcSequences::begin_labels() {
  labels_.clear();
  begins_.assign(1, 0);
}

bool CtcSequences::take(double label, int64_t i, int64_t n, int32_t blank, bool skips_blanks) {
  if (label < 0) return false;
  const bool known = label < static_cast<double>(shape_.classes);  // false for NaN
  if (!known || label != static_cast<double>(static_cast<int32_t>(label)))
    throw Error("label ", label, " at position ", i, " of sequence ", n,
                " is no whole number in [0, ", shape_.classes,
                "): raise num_output of the layer before or fix the labels")
        .of_sample(n);
  const auto taken = static_cast<int32_t>(label);
  if (taken == blank && !skips_blanks)
    throw Error("label ", label, " at position ", i, " of sequence ", n,
                " is the blank; set blank_index to the class that no label has, or end the ",
                "sequence with -1")
        .of_sample(n);
  if (taken != blank) labels_.push_back(taken);
  return true;
}

void CtcSequences::read_columns(const Tensor& labels, int32_t blank) {
  begin_labels();
  const int64_t count = labels.shape()[0];
  for (int64_t n = 0; n < shape_.batch; ++n) {
    for (int64_t i = 0; i < count; ++i) {
      if (!take(labels.at(i * shape_.batch + n), i, n, blank, false)) break;
    }
    end_label();
  }
}

void CtcSequences::read_columns(const Tensor& labels, int32_t blank, const Tensor& lengths) {
  begin_labels();
  const int64_t count = labels.shape()[0];
  for (int64_t n = 0; n < shape_.batch; ++n) {
    const double length = lengths.at(n);
    if (!(length >= 0 && length <= static_cast<double>(count)) ||
        length != static_cast<double>(static_cast<int64_t>(length)))
      throw Error("the label of sequence ", n, " has the length ", length,
                  ", which is no whole number in [0, ", count, "]")
          .of_sample(n);
    for (int64_t i = 0; i < static_cast<int64_t>(length); ++i) {
      const double label = labels.at(i * shape_.batch + n);
      if (!take(label, i, n, blank, false))
        throw Error("label ", label, " at position ", i, " of sequence ", n,
                    " is negative, but the label has the length ", length)
            .of_sample(n);
    }
    end_label();
  }
}

void CtcSequences::read_rows(const Tensor& labels, int32_t blank) {
  begin_labels();
  const int64_t count = labels.shape().count(1);
  for (int64_t n = 0; n < shape_.batch; ++n) {
    for (int64_t i = 0; i < count; ++i) {
      if (!take(labels.at(n * count + i), i, n, blank, true)) break;
    }
    end_label();
  }
}

}  // namespace crema
