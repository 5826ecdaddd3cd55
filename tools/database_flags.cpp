#include "tools/database_flags.hpp"

#include <glog/logging.h>
#include <omp.h>

#include "crema/error.hpp"
#include "data/database_writer.hpp"
#include "tools/flags.hpp"

DECLARE_int32(threads);
DEFINE_string(backend, "lmdb", "Kind of the database: lmdb or leveldb.");
DEFINE_bool(force_color, false, "Decode compressed images to three channels.");
DEFINE_bool(force_gray, false, "Decode compressed images to one channel.");

namespace crema::tools {

std::shared_ptr<RecordSource> open_database_argument(const std::string& path) {
  if (FLAGS_threads < 0)
    throw Error("--threads=", FLAGS_threads, " is negative; give 0 for all cores, or a number");
  if (FLAGS_threads > 0) omp_set_num_threads(FLAGS_threads);
  return open_database({.path = path,
                        .kind = database_kind(FLAGS_backend),
                        .logger = [](Severity severity, const std::string& text) {
                          if (severity >= Severity::warning) {
                            LOG(WARNING) << text;
                          } else {
                            LOG(INFO) << text;
                          }
                        }});
}

ColorMode color_flag() {
  exclusive_flags("force_color", FLAGS_force_color, "force_gray", FLAGS_force_gray);
  if (FLAGS_force_color) return ColorMode::color;
  return FLAGS_force_gray ? ColorMode::gray : ColorMode::as_stored;
}

}  // namespace crema::tools
