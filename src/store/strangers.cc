#include "store/strangers.h"

#include <atomic>
#include <string>

#include "base/log.h"

namespace ronde::store {

namespace {

std::atomic<std::uint64_t> counted = 0;

bool is_power_of_ten(std::uint64_t number) {
  while (number % 10 == 0) {
    number /= 10;
  }
  return number == 1;
}

}  // namespace

void count_stranger(const TcpAddress& from, std::string_view door, int rank) {
  const std::uint64_t number = counted.fetch_add(1) + 1;
  if (is_power_of_ten(number)) {
    log(LogLevel::warning, rank,
        "a connection from " + text_of(from) + " to " + std::string(door) +
            " was closed, since it did not prove this job's key (number " + std::to_string(number) +
            "; the job goes on unharmed). A port scanner, or a rank of another job?");
  }
}

std::uint64_t strangers() { return counted.load(); }

}  // namespace ronde::store
