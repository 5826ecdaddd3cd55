// crema extract-features: values of blobs for all records. The published name and arguments work
// too.
#include "features/extract_features.hpp"

#include <optional>

#include "core/parse_number.hpp"
#include "core/split_list.hpp"
#include "core/utf8.hpp"
#include "model/model_folders.hpp"
#include "tools/command.hpp"
#include "tools/flags.hpp"
#include "tools/interruption.hpp"
#include "tools/net_inputs.hpp"
#include "tools/output_file.hpp"
#include "tools/required_data.hpp"
#include "tools/terminal.hpp"

DEFINE_string(
    format, "",
    "Of extract-features: lmdb, leveldb, hdf5, npy or csv; the same as DB_TYPE. Default: lmdb. "
    "Of draw: svg, png, pdf or dot; others by Graphviz. Default: as the name of the output ends, "
    "or dot.");
DEFINE_string(keys, "record",
              "record: rows have the keys of their records. index: they have their numbers in 10 "
              "digits, as published.");
DECLARE_string(gpu);

namespace crema::tools {
namespace {

int64_t whole_number(const std::string& text, const char* what) {
  const auto number = parse_number<int64_t>(text);
  if (!number || *number < 0)
    throw Error(what, " '", text, "' is no whole number; see `crema help extract-features`");
  return *number;
}

/// What follows NUM_BATCHES and DB_TYPE: CPU, or GPU and perhaps its number.
void read_device(const std::vector<std::string>& arguments) {
  if (arguments.size() < 7) return;
  const std::string& device = arguments[6];
  if (device != "CPU" && device != "GPU")
    throw Error("'", device, "' is no device; give CPU or GPU");
  if (device == "CPU") return;
  std::string number = arguments.size() > 7 ? arguments[7] : "0";
  const std::string published = "DEVICE_ID=";
  if (number.starts_with(published)) number.erase(0, published.size());
  whole_number(number, "DEVICE_ID");
  if (!FLAGS_gpu.empty() && FLAGS_gpu != number)
    throw Error("--gpu=", FLAGS_gpu, " and GPU ", number, " name two devices; give one of them");
  FLAGS_gpu = number;
}

ExtractOptions read_options(const std::vector<std::string>& arguments) {
  ExtractOptions options;
  options.blobs = split_list(arguments[2]);
  options.outputs = split_list(arguments[3]);
  if (arguments.size() > 4) options.batches = whole_number(arguments[4], "NUM_BATCHES");
  std::string format = FLAGS_format;
  if (arguments.size() > 5) {
    if (!format.empty() && feature_format(format) != feature_format(arguments[5]))
      throw Error("--format=", format, " and DB_TYPE ", arguments[5],
                  " contradict each other; give one of them");
    format = arguments[5];
  }
  options.format = feature_format(format.empty() ? "lmdb" : format);
  if (FLAGS_keys != "record" && FLAGS_keys != "index")
    throw Error("--keys=", FLAGS_keys, " is neither record nor index");
  options.number_keys = FLAGS_keys == "index";
  options.overwrite = FLAGS_overwrite;
  return options;
}

/// Error if an output is one of the files that are read, or another output, or exists already.
void check_outputs(const Net& net, const std::string& net_file, const ExtractOptions& options,
                   std::vector<std::string> inputs) {
  for (std::string& weights : inputs) weights = find_model_file(weights);
  inputs.push_back(find_model_file(net_file));
  for (const std::string& output : options.outputs) {
    check_not_read(output, net);
    check_replaced(output, inputs);
    inputs.push_back(output);
    if (options.format != FeatureFormat::npy) continue;
    for (const std::string& beside : files_beside_npy(output)) check_not_read(beside, net);
  }
}

int extract_features(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4 || arguments.size() > 8)
    throw Error(
        "extract-features takes WEIGHTS NET BLOB[,BLOB...] OUTPUT[,OUTPUT...] [NUM_BATCHES "
        "[DB_TYPE [CPU|GPU [DEVICE_ID]]]]; got ",
        arguments.size(), " arguments");
  read_device(arguments);
  ExtractOptions options = read_options(arguments);
  const Interruption interruption;
  options.progress = [&interruption, logged = int64_t{0}](int64_t rows) mutable {
    interruption.check();
    if (rows / 1000 == logged / 1000) return;
    logged = rows;
    say(text("Extracted features of ", rows, " records."));
  };
  Context context(context_options());
  NetOptions net_rules = net_options(Phase::test);
  net_rules.keep = options.blobs;
  const std::vector<std::string> weights = split_list(arguments[0]);
  net_rules.weights = weights;
  Net net(arguments[1], context, std::move(net_rules));
  require_data(net);
  check_outputs(net, arguments[1], options, weights);
  const ExtractReport report = crema::extract_features(net, options);
  if (report.whole_epoch && options.batches > report.batches) {
    say(Severity::warning, text("NUM_BATCHES ", options.batches, ": all records are in the first ",
                                report.batches, " batches; none is written twice"));
  }
  if (report.left_out > 0) {
    say(Severity::warning, text(report.left_out, " records could not be used and have no rows"));
  }
  for (size_t i = 0; i < options.blobs.size(); ++i) {
    say(text("Extracted features of ", report.rows, " records for blob ",
             printable(options.blobs[i]), ", ", report.shapes[i].str(), " each, to ",
             options.outputs[options.outputs.size() == 1 ? 0 : i]));
  }
  if (!report.whole_epoch) {
    say(text("These are the records of ", report.batches, " batches; NUM_BATCHES 0 takes ",
             "all records once"));
  }
  return 0;
}

}  // namespace

extern const Command kExtractFeatures = {
    "extract-features",
    "writes values of blobs for all records of a net's data",
    "  crema extract-features [FLAGS] WEIGHTS NET BLOB[,BLOB...] OUTPUT[,OUTPUT...]\n"
    "                         [NUM_BATCHES [DB_TYPE [CPU|GPU [DEVICE_ID]]]]\n"
    "\n"
    "Runs NET in phase TEST on its data layer. Each record gives one row of each blob, under its\n"
    "key; the last batch is cut where the records end. A record that on_bad_record: SKIP passes\n"
    "over has no row. NUM_BATCHES 0, the default, takes all records; no number takes a record\n"
    "twice. DB_TYPE is one of\n"
    "  lmdb, leveldb  a Datum for each row, with float_data and all labels of the record\n"
    "  hdf5           an array named as the blob, and the array keys; one OUTPUT for all blobs "
    "does\n"
    "  npy            an array of all rows; OUTPUT.keys.txt has a key a line\n"
    "  csv            a line a row: key, values\n"
    "Names of classes that the data have go along: in HDF5 as class_names; for npy in\n"
    "OUTPUT.classes.txt, a line each in the order of the labels; in csv as a last column, class;\n"
    "and in databases, which take none where one is empty, comes twice, or has blanks at its "
    "ends.\n"
    "In the last three, labels are a blob: name the data layer's top among the BLOBs.\n"
    "Outputs appear under their names when all of them are whole. One that exists is replaced "
    "with\n"
    "--overwrite only, and never the weights, NET, what the settings of its layers name, or a\n"
    "file of a list that they name.",
    {"format", "keys", "overwrite", "gpu", "threads", "engine", "tune", "tuning_file", "seed",
     "plugin", "fuse", "phase", "level", "stage", "device_jpeg"},
    extract_features,
    1,
    NetUse::runs};

}  // namespace crema::tools
