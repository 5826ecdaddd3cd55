// crema merge-bn: a net for inference, with its batch normalization in the weights.
#include <glog/logging.h>

#include <cstdio>

#include "analysis/merge_batch_norm.hpp"
#include "core/utf8.hpp"
#include "model/origin.hpp"
#include "model/snapshot_file.hpp"
#include "model/text_format.hpp"
#include "model/upgrade/written_defaults.hpp"
#include "model/whole_file.hpp"
#include "onnx/importing/net_file.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/output_file.hpp"

namespace crema::tools {
namespace {

/// Error if an output is an input or the other output, is there already, or cannot be written.
void check_output(const std::vector<std::string>& paths, size_t index) {
  const std::string& path = paths[index];
  check_replaced(path, {paths.begin(), paths.begin() + static_cast<std::ptrdiff_t>(index)});
  check_output_file(path, index == 2 ? "the net to write" : "the file of weights");
}

/// Says by which program and from which net the weights are. Their classes, and what becomes of
/// images, are those of the weights that were read.
void save_origin(const std::vector<std::string>& arguments, NetParameter& weights) {
  Origin& origin = *weights.mutable_origin();
  origin = origin_of_net(arguments[1]);
  origin.clear_solver();
  origin.set_program(program_version());
  origin.set_net(arguments[0]);
}

int merge_bn(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4)
    throw Error("merge-bn takes NET WEIGHTS OUT_NET OUT_WEIGHTS; got ", arguments.size(),
                " arguments");
  for (const size_t out : {2, 3}) check_output(arguments, out);
  NetParameter net;
  SourceMap source;
  read_net(arguments[0], net, &source);
  // The weights are those of the other file.
  for (LayerParameter& layer : *net.mutable_layer()) layer.clear_blobs();
  Context context(context_options());
  MergedNet merged = merge_batch_norm(net, source, arguments[1], context, net_options(Phase::test));
  for (const MergedNet::Entry& entry : merged.entries) {
    std::printf("%s (%s): ", printable(entry.layer).c_str(), entry.type.c_str());
    if (entry.into.empty()) {
      std::printf("not folded: %s\n", printable(entry.why).c_str());
    } else {
      std::printf("folded into '%s'%s%s\n", printable(entry.into).c_str(),
                  entry.why.empty() ? "" : "; ", printable(entry.why).c_str());
    }
  }
  if (merged.entries.empty()) throw Error("the net has no BatchNorm, Scale or Bias layer to fold");
  write_out_defaults(merged.net);
  // Neither output appears without the other.
  WholeFile text(arguments[2]);
  text.append(prototxt_of(merged.net));
  text.sync();
  save_origin(arguments, merged.weights);
  write_weights(arguments[3], merged.weights);
  text.finish();
  std::printf("%d of %zu layers folded; outputs agree to %.2g of their greatest value\n",
              merged.merged(), merged.entries.size(), merged.difference);
  return 0;
}

}  // namespace

extern const Command kMergeBn = {
    "merge-bn",
    "folds BatchNorm, Scale and Bias into the weights beside them",
    "  crema merge-bn NET WEIGHTS OUT_NET OUT_WEIGHTS\n"
    "  crema merge-bn deploy.prototxt net.caffemodel merged.prototxt merged.caffemodel\n"
    "\n"
    "Writes the net of phase TEST in which BatchNorm, Scale and Bias are part of the Convolution,\n"
    "Deconvolution or InnerProduct before them, or after them where that is exact. Says of each\n"
    "layer where it went, or why it is still there. Both nets run once on random inputs; if their\n"
    "outputs differ by more than 1e-4 of the greatest value, nothing is written. Weights are read\n"
    "in each format, and written as HDF5 where their name ends in .h5. A model of ONNX is NET and\n"
    "WEIGHTS: crema merge-bn net.onnx net.onnx merged.prototxt merged.caffemodel.",
    {"overwrite", "gpu", "threads", "engine", "tune", "tuning_file", "seed", "plugin", "fuse",
     "level", "stage"},
    merge_bn,
    1,
    NetUse::builds};

}  // namespace crema::tools
