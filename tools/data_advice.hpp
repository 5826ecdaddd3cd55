// Errors about data sets that were not fetched yet.
#pragma once

#include <string>

namespace crema::tools {

/// If an error's message names a file data/NAME/... that is missing, and the working directory has
/// the scripts data/NAME/get.sh, make.py or make.sh: "; data/NAME/get.sh brings this data set", and
/// the page of the model of the message, which has all commands. If the files of MNIST or CIFAR-10
/// are there and their databases are not: the command that converts them. If the message is about
/// a model that comes with Crema, and the scripts are not there: where they are. Otherwise "".
std::string advice_on_missing_data(const std::string& message);

}  // namespace crema::tools
