#include "data/lmdb_source.hpp"

#include <utility>

#include "crema/error.hpp"
#include "data/lmdb_environment.hpp"

namespace crema {
namespace {

class LmdbReader final : public RecordReader {
 public:
  LmdbReader(const std::shared_ptr<LmdbEnvironment>& environment, Access access)
      : environment_(environment),
        index_(access == Access::random ? &environment->index() : nullptr),
        cursor_(environment) {}

  Record read(int64_t index) override {
    if (index < 0 || index >= environment_->count())
      throw Error("LMDB '", environment_->folder(), "' has no record ", index, "; it holds ",
                  environment_->count());
    Record record;
    const bool there = move_to(index, record);
    if (!there)
      throw Error("LMDB '", environment_->folder(), "' has no record ", index, " any more, of ",
                  environment_->count(),
                  " when it was opened; do not write to it while it is read");
    at_ = index;
    return record;
  }

 private:
  bool move_to(int64_t index, Record& record) {
    int64_t at = std::exchange(at_, -1);  // where an error leaves the cursor is not known
    if (at >= 0 && index == at) return cursor_.current(record);
    bool there = true;
    if (index_ && (at < 0 || index < at || index - at > LmdbKeyIndex::kStride)) {
      const int64_t mark = index / LmdbKeyIndex::kStride;
      there = mark < index_->size() && cursor_.find(index_->key(mark), record);
      at = mark * LmdbKeyIndex::kStride;
    } else if (at < 0 || index < at) {
      there = cursor_.first(record);
      at = 0;
    }
    for (; there && at < index; ++at) there = cursor_.next(record);
    return there;
  }

  std::shared_ptr<LmdbEnvironment> environment_;
  const LmdbKeyIndex* index_;
  LmdbCursor cursor_;
  int64_t at_ = -1;  // the record that the cursor is on; -1: none
};

class LmdbSource final : public RecordSource {
 public:
  explicit LmdbSource(std::shared_ptr<LmdbEnvironment> environment)
      : environment_(std::move(environment)) {}

  int64_t count() const override { return environment_->count(); }
  std::string name() const override { return "LMDB '" + environment_->folder() + "'"; }
  std::unique_ptr<RecordReader> reader(Access access) override {
    return std::make_unique<LmdbReader>(environment_, access);
  }

 private:
  std::shared_ptr<LmdbEnvironment> environment_;
};

}  // namespace

std::shared_ptr<RecordSource> open_lmdb(const std::string& folder, LockMode lock,
                                        const Logger& logger) {
  return std::make_shared<LmdbSource>(LmdbEnvironment::open(folder, lock, logger));
}

}  // namespace crema
