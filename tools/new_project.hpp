// What `crema new` asks for and makes, for all of its tasks.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crema/error.hpp"
#include "tools/net_template.hpp"
#include "tools/photo_survey.hpp"

namespace crema::tools {

struct NewRequest {
  std::string folder;   // of the new net, without '/' at its end
  std::string name;     // of the net: the last part of the folder
  std::string images;   // the folder of images, with '/' at its end
  std::string from;     // the model; "": chosen
  std::string weights;  // "": none, "auto", or a file
  int64_t size = 0;     // of the input; 0: chosen
  uint64_t seed = 0;    // of the division into training and tests
  std::string command;  // as it was typed, for comments

  std::string path(const std::string& file) const { return folder + "/" + file; }
};

/// How long to train, with comments that say why.
struct Schedule {
  int64_t train = 0, tests = 0;  // records
  int64_t batch = 0, test_batch = 0;
  int64_t iterations = 0, epochs = 0;
  double rate = 0;
  std::string rule, why_rate, metric, more;  // more: further lines of the solver
};

struct NewProject {
  NetTemplate net;
  /// Files beside the nets and the solver, such as lists, by name.
  std::map<std::string, std::string> files;
  std::string header;       // comment of train_val: what it is, without "# "
  std::string train, test;  // the data layers
  Schedule schedule;
  std::string weights;             // the file to start from, or ""
  std::vector<std::string> facts;  // lines to print
  std::string test_flags;          // of `crema test`
};

/// A batch for so many records: `wanted`, or all of them where they are fewer.
int64_t batch_for(int64_t records, int64_t wanted);
/// The largest batch up to `most` that divides the records, so that tests see each once; `most`
/// where there is none of 8 or more.
int64_t test_batch_for(int64_t records, int64_t most);

/// Classes by folders: the default task.
NewProject new_classifier(const NewRequest& request);
/// Boxes of annotations, by an SSD. Writes the databases.
NewProject new_detector(const NewRequest& request, const std::string& annotations);
/// A class for each pixel, by a U-Net.
NewProject new_segmenter(const NewRequest& request, const std::string& masks);

}  // namespace crema::tools
