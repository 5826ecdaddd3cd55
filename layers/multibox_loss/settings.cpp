#include "layers/multibox_loss/settings.hpp"

#include <cmath>

#include "crema/error.hpp"

namespace crema {
namespace {

Mining::Kind mining_of(const MultiBoxLossParameter& param) {
  using Param = MultiBoxLossParameter;
  if (param.has_do_neg_mining() && param.has_mining_type() &&
      param.do_neg_mining() != (param.mining_type() != Param::NONE))
    throw Error("do_neg_mining ", param.do_neg_mining() ? "true" : "false", " and mining_type ",
                Param::MiningType_Name(param.mining_type()),
                " contradict each other; remove do_neg_mining");
  if (param.has_do_neg_mining() && !param.do_neg_mining()) return Mining::Kind::none;
  switch (param.mining_type()) {
    case Param::NONE:
      return Mining::Kind::none;
    case Param::MAX_NEGATIVE:
      return Mining::Kind::negatives;
    case Param::HARD_EXAMPLE:
      break;
  }
  return Mining::Kind::hard_examples;
}

}  // namespace

MultiBoxSettings::MultiBoxSettings(const MultiBoxLossParameter& param)
    : classes(param.num_classes()),
      agnostic(param.map_object_to_agnostic()),
      softmax(param.conf_loss_type() == MultiBoxLossParameter::SOFTMAX),
      smooth_l1(param.loc_loss_type() == MultiBoxLossParameter::SMOOTH_L1),
      location_weight(static_cast<double>(param.loc_weight())),
      by_priors(param.use_prior_for_matching()),
      inside_only(param.bp_inside()),
      uses_difficult(param.use_difficult_gt()),
      ignores_difficult(param.ignore_difficult_gt()),
      suppresses_priors(param.use_prior_for_nms()) {
  if (classes < 1)
    throw Error("num_classes ", classes,
                " leaves no class; give their number, background included");
  background = std::min<int64_t>(param.background_label_id(), classes);
  if (softmax && background == classes)
    throw Error("background_label_id ", param.background_label_id(), " is no class of ", classes,
                "; SOFTMAX needs one for priors without a box, LOGISTIC does not");
  object_label = background == classes ? 0 : static_cast<int32_t>(background) + 1;
  if (agnostic && object_label >= classes)
    throw Error("map_object_to_agnostic gives all boxes the label ", object_label,
                ", the one behind background_label_id, and the classes are 0 to ", classes - 1,
                "; raise num_classes or lower background_label_id");
  locations = param.share_location() ? 1 : classes;
  if (!std::isfinite(location_weight)) throw Error("loc_weight ", location_weight, " is no number");

  matching.bipartite = param.match_type() == MultiBoxLossParameter::BIPARTITE;
  matching.threshold = static_cast<double>(param.overlap_threshold());
  matching.leaves_out_crossing = param.ignore_cross_boundary_bbox();
  if (!(matching.threshold >= 0 && matching.threshold <= 1))
    throw Error("overlap_threshold ", param.overlap_threshold(),
                " is not in [0, 1]; it is the intersection over the union of two boxes");
  coder.code = static_cast<BoxCode>(param.code_type());
  coder.in_target = param.encode_variance_in_target();

  mining.kind = mining_of(param);
  if (mining.kind == Mining::Kind::none) return;
  if (locations != 1)
    throw Error("share_location: false has several locations a prior, and mining_type ",
                MultiBoxLossParameter::MiningType_Name(param.mining_type()),
                " chooses among priors; set mining_type: NONE");
  mining.negatives_each = param.neg_pos_ratio();
  mining.negative_overlap = static_cast<double>(param.neg_overlap());
  mining.samples = param.sample_size();
  if (!(mining.negatives_each >= 0) || !std::isfinite(mining.negatives_each))
    throw Error(
        "neg_pos_ratio ", param.neg_pos_ratio(),
        " is no finite number of 0 or more; it is the number of negatives for each positive");
  if (!(mining.negative_overlap >= 0))
    throw Error("neg_overlap ", param.neg_overlap(),
                " is below 0; priors that overlap less are negatives");
  if (mining.kind == Mining::Kind::hard_examples && mining.samples < 1)
    throw Error("sample_size ", mining.samples, " keeps no prior; give their number an image");
  if (param.has_nms_param() && param.nms_param().nms_threshold() > 0)
    mining.suppression = suppression_of(param.nms_param());
}

}  // namespace crema
