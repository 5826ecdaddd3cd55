// LMDB databases as record sources.
#pragma once

#include <memory>
#include <string>

#include "data/databases/open_database.hpp"

namespace crema {

/// The database in `folder`, which holds a data.mdb. All sources of one database in this process
/// share its environment. Its pages are checked first (lmdb_check.hpp).
std::shared_ptr<RecordSource> open_lmdb(const std::string& folder, LockMode lock,
                                        const Logger& logger);

}  // namespace crema
