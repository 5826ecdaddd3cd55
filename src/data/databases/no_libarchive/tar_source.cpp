// For builds without libarchive.
#include "data/databases/tar_source.hpp"

#include "crema/error.hpp"

namespace crema {

std::shared_ptr<RecordSource> open_tar(const std::string& source, const ClassRule&, const Logger&) {
  throw Error("cannot read tar files ('", source,
              "'): this build of Crema has no libarchive; build with CREMA_LIBARCHIVE=ON (package "
              "libarchive-dev), or unpack them and set backend: FOLDER");
}

}  // namespace crema
