// Databases of Datum records without labels.
#pragma once

#include <cstdint>

#include "data/records/record_source.hpp"

namespace crema {

/// How many records were looked at, if none of them has a label: all, or some thousands at equal
/// distances. 0: one has.
int64_t unlabelled_records(RecordSource& source);

}  // namespace crema
