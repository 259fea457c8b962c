#include "failures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

namespace ronde::jax {

namespace {

/// A rank that leaves ends all that is under way, each with a sentence of its own: as many as a program may have at
/// once.
constexpr std::size_t kMostFailures = 4096;

struct Kept {
  std::mutex mutex;
  std::deque<Failure> failures;  ///< oldest first; guarded by mutex
};

/// Never destroyed: programs may be under way while the process exits.
Kept& kept() {
  static Kept* const made = new Kept;
  return *made;
}

void copy(const std::string& from, char* to, std::size_t bytes) {
  const std::size_t count = std::min(from.size(), bytes - 1);
  std::memcpy(to, from.data(), count);
  to[count] = '\0';
}

}  // namespace

void keep_failure(Failure failure) {
  Kept& all = kept();
  std::lock_guard lock(all.mutex);
  if (all.failures.size() == kMostFailures) {
    all.failures.pop_front();
  }
  all.failures.push_back(std::move(failure));
}

bool find_failure(const std::string& text, Failure* failure) {
  Kept& all = kept();
  std::lock_guard lock(all.mutex);
  const auto found = std::find_if(all.failures.rbegin(), all.failures.rend(), [&](const Failure& each) {
    return !each.message.empty() && text.find(each.message) != std::string::npos;
  });
  if (found == all.failures.rend()) {
    return false;
  }
  *failure = *found;
  return true;
}

}  // namespace ronde::jax

/// Finds the newest failure of a request whose sentence is part of `text`, and copies its sentence: at most
/// message_bytes of it, with a NUL. Returns its ronde_status, RONDE_OK if there is none.
extern "C" RONDE_API ronde_status ronde_jax_failure(const char* text, char* message, size_t message_bytes,
                                                    std::int32_t* rank, char* tensor, size_t tensor_bytes) {
  try {
    ronde::jax::Failure failure;
    if (text == nullptr || message_bytes == 0 || tensor_bytes == 0 || !ronde::jax::find_failure(text, &failure)) {
      return RONDE_OK;
    }
    ronde::jax::copy(failure.message, message, message_bytes);
    ronde::jax::copy(failure.tensor, tensor, tensor_bytes);
    *rank = failure.rank;
    return failure.status;
  } catch (const std::exception&) {
    return RONDE_OK;
  }
}
