// Looks through the pages of an LMDB file before LMDB does, which trusts them: a wrong number in a
// page would make it read outside of its memory, or divide by zero.
#pragma once

#include <string>

#include "crema/context.hpp"

namespace crema {

/// Checks the header of `folder`/data.mdb, and the pages through which its records are found, in
/// the newest state that the file has: their keys ascend, and no page belongs to two of them. Of
/// the pages of large records only the headers are read. Another process may write to the file
/// meanwhile. Error, naming the file and the page, for what cannot be.
/// A warning is logged if it is changed so often that the check cannot end.
void check_lmdb_file(const std::string& folder, const Logger& logger);

}  // namespace crema
