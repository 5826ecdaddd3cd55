// What `crema new` asks for and makes, for all of its tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "crema/context.hpp"
#include "crema/error.hpp"
#include "crema/shape.hpp"
#include "tools/net_template.hpp"
#include "tools/photo_survey.hpp"

namespace crema::tools {

struct NewRequest {
  std::string folder;   // of the new net, without '/' at its end
  std::string made;     // the folder within it in which files are made
  std::string name;     // of the net: the last part of the folder
  std::string images;   // the folder of images, with '/' at its end
  std::string from;     // the model; "": chosen
  std::string weights;  // "": none, "auto", or a file
  int64_t size = 0;     // of the input; 0: chosen
  uint64_t seed = 0;    // of the division into training and tests
  std::string command;  // as it was typed, for comments

  /// A file as the net and the solver name it.
  std::string path(const std::string& file) const { return folder + "/" + file; }
  /// Where it is until the whole project is made and checked.
  std::string made_path(const std::string& file) const { return made + "/" + file; }
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
  std::function<void()> make_databases;  // of these files, once they are at made_path(); or empty
  std::string header;                    // comment of train_val: what it is, without "# "
  std::string train, test;               // the data layers
  Schedule schedule;
  std::string weights;                    // the file to start from, or ""
  std::vector<std::string> facts, notes;  // lines to print
  std::string test_flags;                 // of `crema test`
};

/// A context for nets that are built and never run.
ContextOptions quiet_context();

/// Of training and test records. A batch has `batch` records, or all of them where they are fewer;
/// one of tests the greatest number up to `most` that divides the records, so that tests see each
/// once, and `most` where there is none of 8 or more. The training goes over the records `epochs`
/// times, and for `least` iterations or more.
Schedule schedule_of(int64_t train, int64_t tests, int64_t batch, int64_t most, int64_t epochs,
                     int64_t least);

/// The tops of the template's data, images and labels, which its layers read. Error for a model
/// that is for other data, or that changes the images before its first layer with weights.
std::pair<std::string, std::string> tops_of(const NetTemplate& net);

/// What becomes of pixels.
struct Pixels {
  std::string settings, why;  // of transform_param, and a reason for a comment
  bool is_gray = false;
};
/// As the weights, or else the model, say that they were trained; without weights, as these images
/// are.
Pixels pixels_for(const NetTemplate& net, const PhotoSurvey& survey, const std::string& weights);

/// Gives a layer of weights another name, so that none of a file are taken for it. Returns the
/// name.
std::string rename_layer(NetTemplate& net, size_t block, const std::string& ending);
/// The same, and ten times the rate of the others.
std::string renew(NetTemplate& net, size_t block, const std::string& ending);
/// Makes the net score so many classes. With weights, renews the layers of scores and returns their
/// names.
std::vector<std::string> set_classes(NetTemplate& net, int64_t classes, const std::string& ending,
                                     bool has_weights);

/// A net of the template, built for one image of this size.
struct Trial {
  std::string why_not;  // "": it can be built
  int64_t weights = 0;
};
/// `of_pixels`: each pixel has a label; else the image has one.
Trial try_net(const NetTemplate& net, int64_t channels, int64_t size, bool of_pixels);
/// Error if the net is for the other kind of labels, or cannot be built for images of this size; it
/// then proposes the `other` size, if that can. Returns the number of weights.
int64_t check_net(const NetTemplate& net, int64_t channels, int64_t size, bool of_pixels,
                  int64_t other);

/// Classes by folders: the default task.
NewProject new_classifier(const NewRequest& request);
/// Boxes of annotations, by an SSD.
NewProject new_detector(const NewRequest& request, const std::string& annotations);
/// A class for each pixel, by a U-Net or another net of models/.
NewProject new_segmenter(const NewRequest& request, const std::string& masks);

}  // namespace crema::tools
