#include "core/access_log.hpp"

#include <algorithm>

namespace crema {

void AccessLog::note(Memory& memory, Access how, const void* contents) {
  const auto known = std::ranges::find(entries_, &memory, &Entry::place);
  if (known != entries_.end()) {
    known->writes = known->writes || how != Access::read;
    return;
  }
  entries_.push_back({memory.weak_from_this(), &memory, how, how != Access::read, contents});
}

void AccessLog::note_derived(Memory& memory, uint64_t version) {
  derived_.push_back({memory.weak_from_this(), version});
}

void AccessLog::note_follower(const std::weak_ptr<Follower>& follower, bool writes) {
  for (Followed& known : followers_) {
    if (known.follower.owner_before(follower) || follower.owner_before(known.follower)) continue;
    known.writes = known.writes || writes;
    return;
  }
  followers_.push_back({follower, writes});
}

void AccessLog::refuse_host(const Memory& memory) {
  throw Error("the host reads or writes ", memory.bytes(), " bytes in each pass");
}

}  // namespace crema
