#include "failures/failures.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace ronde::bindings {

namespace {

/// A rank that leaves ends all that is under way, each with a sentence of its own: as many as a program may have at
/// once.
constexpr std::size_t kMostFailures = 4096;

void copy(const std::string& from, char* to, std::size_t bytes) {
  const std::size_t count = std::min(from.size(), bytes - 1);
  std::memcpy(to, from.data(), count);
  to[count] = '\0';
}

}  // namespace

Failure failure_of(const ronde_error_info& info) {
  return {info.status, info.message == nullptr ? "" : info.message, info.tensor == nullptr ? "" : info.tensor,
          info.failed_rank};
}

Failure last_failure(ronde_status status) {
  ronde_error_info info{};
  info.struct_size = sizeof(info);
  if (ronde_last_error_info(&info) != RONDE_OK || info.status != status) {
    return {status, std::string("Ronde's library answers '") + ronde_status_name(status) + "'", "", -1};
  }
  return failure_of(info);
}

Failures& Failures::instance() {
  static Failures* const made = new Failures;
  return *made;
}

void Failures::keep(Failure failure) {
  std::lock_guard lock(mutex_);
  if (failures_.size() == kMostFailures) {
    failures_.pop_front();
  }
  failures_.push_back(std::move(failure));
}

bool Failures::find(const std::string& text, Failure* failure) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(failures_.rbegin(), failures_.rend(), [&](const Failure& each) {
    return !each.message.empty() && text.find(each.message) != std::string::npos;
  });
  if (found == failures_.rend()) {
    return false;
  }
  *failure = *found;
  return true;
}

ronde_status Failures::tell(const char* text, char* message, std::size_t message_bytes, std::int32_t* rank,
                            char* tensor, std::size_t tensor_bytes) noexcept {
  try {
    Failure failure;
    if (text == nullptr || message_bytes == 0 || tensor_bytes == 0 || !find(text, &failure)) {
      return RONDE_OK;
    }
    copy(failure.message, message, message_bytes);
    copy(failure.tensor, tensor, tensor_bytes);
    *rank = failure.rank;
    return failure.status;
  } catch (const std::exception&) {
    return RONDE_OK;
  }
}

}  // namespace ronde::bindings
