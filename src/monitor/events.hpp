// What a run says, as events of TensorBoard.
#pragma once

#include <string>
#include <vector>

#include "crema/net.hpp"
#include "proto/run.pb.h"
#include "proto/tensorboard/tensorboard.pb.h"

namespace crema {

/// The values of a TRAIN or TEST: "train/loss", "train/gradient_norm" and so on,
/// "train/output/NAME"; "test/NAME" of the first test net, "test1/NAME" of the second, "test_loss".
tensorboard::Event scalar_event(const RunRecord& record);
/// "weights/LAYER/0" or "gradients/LAYER/0".
tensorboard::Event histogram_of_run(const std::vector<ValueHistogram>& histograms);
/// The net's layers, with the shapes of their tops and their settings.
tensorboard::Event graph_event(const Net& net);
/// What earlier events say of the step and later ones is void.
tensorboard::Event start_event();
/// Of the plug-in hparams: the settings of the solver and the batch sizes, and which values a run
/// is judged by; then the run's own.
tensorboard::Event experiment_event(const RunInfo& info, const std::vector<std::string>& outputs);
tensorboard::Event session_event(const RunInfo& info);
tensorboard::Event session_end_event(bool succeeded);
/// A text in Markdown, for the plug-in text.
void add_text_value(const std::string& tag, const std::string& text, tensorboard::Event& event);

/// The beginning of the tags of a test net.
std::string test_tag(int net);

}  // namespace crema
