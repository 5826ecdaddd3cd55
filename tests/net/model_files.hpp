// The nets of models/ for tests: which files there are, and what trains with one record of made-up
// data in place of a database.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "crema/net.hpp"
#include "proto/net.pb.h"

namespace crema::test {

/// "lenet/deploy.prototxt" and the like: the nets for inference, or for training, of all folders of
/// models/ but the plug-in's, sorted.
std::vector<std::string> deploy_files();
std::vector<std::string> training_files();

/// The file for inference that has the weights of a file for training.
std::string deploy_file_of(const std::string& training_file);

/// A file of deploy_files() or training_files().
NetParameter read_model(const std::string& file);

/// Puts an Input layer of these shapes in place of the data layer of the TRAIN phase, and removes
/// that of the TEST phase.
void replace_data(NetParameter& net, const std::vector<Shape>& shapes);

/// The net of a file of training_files() with Input layers of one record, and no databases.
NetParameter training_net(const std::string& file);
/// The same with a small image where the net takes one, to run it quickly. Its weights may have
/// other shapes.
NetParameter small_training_net(const std::string& file);

/// Fills the inputs of such a net: random images, labels of zeros, weights of ones, and for
/// detectors boxes from small to large, so that each of their outputs has a loss.
void fill_training_inputs(Net& net);

/// Sets the statistics of BatchNorm layers to those of values with mean 0 and variance 1: at first
/// the variance is 0, and nets that use it as it is, such as detectors, would overflow.
void standardize(Net& net);

/// Fills the weights of convolutions and inner products that begin with zeros, as the scores of
/// fcn8s do, with random values: no gradient reaches the layers below zeros.
void fill_zero_weights(Net& net);

/// Layer, index and shape of each parameter, and whether it learns. A parameter that several layers
/// share counts for the first one.
using Weights = std::map<std::string, std::pair<Shape, bool>>;
Weights weights_of(const Net& net);
/// The number of values that learn.
int64_t learned_in(const Weights& weights);

}  // namespace crema::test
