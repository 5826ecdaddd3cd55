#include "data/databases/lmdb_source.hpp"

#include <utility>

#include "data/databases/class_file.hpp"
#include "data/databases/lmdb_check.hpp"
#include "data/databases/lmdb_environment.hpp"

namespace crema {
namespace {

class LmdbSource final : public RecordSource {
 public:
  explicit LmdbSource(std::shared_ptr<LmdbEnvironment> environment)
      : environment_(std::move(environment)),
        class_names_(read_class_file(environment_->folder())) {}

  int64_t count() const override { return environment_->count(); }
  std::string name() const override { return "LMDB '" + environment_->folder() + "'"; }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::unique_ptr<RecordReader> reader(ReadOrder order) override {
    const KeyIndex* const index = order == ReadOrder::random ? &environment_->index() : nullptr;
    return std::make_unique<KeyedReader>(name(), count(), index,
                                         std::make_unique<LmdbCursor>(environment_));
  }

 private:
  std::shared_ptr<LmdbEnvironment> environment_;
  std::vector<std::string> class_names_;
};

}  // namespace

std::shared_ptr<RecordSource> open_lmdb(const std::string& folder, LockMode lock,
                                        const Logger& logger) {
  return std::make_shared<LmdbSource>(
      LmdbEnvironment::open(folder, lock, logger, [&] { check_lmdb_file(folder, logger); }));
}

}  // namespace crema
