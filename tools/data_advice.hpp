// Errors about data sets that were not fetched yet.
#pragma once

#include <string>

namespace crema::tools {

/// Advice for an error whose message names a file data/NAME/... that is missing; "" for others.
///
/// - "; crema convert-mnist FOLDER brings it": a database whose files of MNIST or CIFAR-10 are
/// there;
/// - "; data/NAME/get.sh brings it": the working folder has the script get.sh, make.py or make.sh,
/// and
///   it has not run;
/// - the page of the model, if the message is about a file of a model that comes with Crema, and
///   where the scripts are, if they are not here.
std::string advice_on_missing_data(const std::string& message);

}  // namespace crema::tools
