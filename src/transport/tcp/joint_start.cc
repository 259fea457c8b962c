#include "transport/tcp/joint_start.h"

#include <cstddef>
#include <utility>

namespace ronde::transport {

Status agree_on_start(store::Store& store, const std::string& scope, int rank, int size, const Status& mine,
                      Nanoseconds limit) {
  store::Value value;
  const auto* text = reinterpret_cast<const std::byte*>(mine.message().data());
  value.bytes.assign(text, text + mine.message().size());
  RONDE_ASSIGN_OR_RETURN(const auto all, store.exchange(scope, rank, size, std::move(value), limit));
  // One that waited in vain may have waited for another that has failed: that one is the cause.
  Status consequence;
  for (std::size_t each = 0; each < all.size(); ++each) {
    const std::string why(reinterpret_cast<const char*>(all[each].bytes.data()), all[each].bytes.size());
    if (why.empty()) {
      continue;
    }
    const Status status =
        Status::error(Code::system_error, "rank " + std::to_string(each) + " cannot be connected: " + why)
            .with_rank(static_cast<int>(each));
    if (!why.starts_with(kStartTimedOut)) {
      return status;
    }
    consequence = consequence ? status : consequence;
  }
  return consequence;
}

}  // namespace ronde::transport
