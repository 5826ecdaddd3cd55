// Errors about data sets that were not fetched yet.
#pragma once

#include <string>

#include "crema/error.hpp"

namespace crema::tools {

/// Advice for an error about a file data/NAME/... (Error::path()) that is missing; "" for others.
///
/// - "; crema convert-mnist FOLDER makes it": a database that convert-mnist or convert-cifar makes,
///   whose files of MNIST or CIFAR-10 are there. With --backend leveldb for a LevelDB.
/// - "; data/NAME/get.sh brings the data set": a file in data/NAME/full. The script get.sh, make.py
///   or make.sh is in the working folder and has not run.
/// - The page of the model, if the error is at a place in a file of a model that comes with Crema.
///   It also says where the scripts are, if they are not here.
///
/// Weights, states and nets belong to models, so there is no advice on those.
std::string advice_on_missing_data(const Error& error);

}  // namespace crema::tools
