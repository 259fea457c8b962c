#include "agreement/launches.h"

#include <string>

#include "agreement/traps.h"

namespace ronde::agreement {

void Launches::on_install(const control::InstallEntry& entry) {
  epoch_ = entry.epoch;
  is_open_ = true;
  filling_.clear();
  add(entry.buckets);
}

void Launches::on_add(const control::AddEntry& entry) { add(entry.buckets); }

void Launches::add(const std::vector<std::uint32_t>& buckets) {
  for (std::uint32_t id : buckets) {
    filling_[id].is_full.resize(members_);
  }
}

Result<Launches::Due> Launches::on_full(int member, const control::FullMessage& message) {
  if (message.epoch == epoch_ && !is_open_ && !broken(Trap::launch_after_break)) {
    return Due::nothing;
  }
  const auto found = filling_.find(message.bucket);
  const auto index = static_cast<std::size_t>(member);
  if (found == filling_.end() || message.epoch != epoch_ || found->second.is_full[index] ||
      message.instance != found->second.launched + 1) {
    return Status::error(Code::internal, "member " + std::to_string(member) + " filled instance " +
                                             std::to_string(message.instance) + " of bucket " +
                                             std::to_string(message.bucket) + " in epoch " +
                                             std::to_string(message.epoch) + ", which cannot be");
  }
  Filling& filling = found->second;
  filling.differs |= filling.full > 0 && message.calls != filling.calls;
  filling.calls = message.calls;
  filling.is_full[index] = true;
  if (++filling.full < members_) {
    return Due::nothing;
  }
  if (filling.differs && !broken(Trap::calls_not_compared)) {
    return Due::stop;
  }
  filling = {filling.launched + 1, std::vector<bool>(members_), 0, 0, false};
  return Due::launch;
}

}  // namespace ronde::agreement
