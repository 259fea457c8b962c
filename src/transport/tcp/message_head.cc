#include "transport/tcp/message_head.h"

namespace ronde::transport {

void MessageHead::describe(Pipe::Channel channel, Parts message) {
  std::size_t bytes = 0;
  for (const std::span<const std::byte> part : message) {
    bytes += part.size();
  }
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(bytes_.data(), &length, sizeof length);
  std::memcpy(bytes_.data() + sizeof length, &channel, sizeof channel);
  if (integrity_ == Integrity::off) {
    return;
  }
  Checksum of_message;
  for (const std::span<const std::byte> part : message) {
    of_message.add(part);
  }
  const std::uint64_t sum = of_message.value();
  std::memcpy(bytes_.data() + kPlain, &sum, sizeof sum);
  const std::uint32_t own = own_checksum();
  std::memcpy(bytes_.data() + kSummed, &own, sizeof own);
}

bool MessageHead::is_intact() const {
  std::uint32_t own = 0;
  std::memcpy(&own, bytes_.data() + kSummed, sizeof own);
  return integrity_ == Integrity::off || own == own_checksum();
}

bool MessageHead::matches(const Checksum& message) const {
  std::uint64_t sum = 0;
  std::memcpy(&sum, bytes_.data() + kPlain, sizeof sum);
  return integrity_ == Integrity::off || sum == message.value();
}

}  // namespace ronde::transport
