#include "transport/tcp/message_head.h"

namespace ronde::transport {

void MessageHead::describe(Pipe::Channel channel, Parts message, MessageTags& tags) {
  std::size_t bytes = 0;
  for (const std::span<const std::byte> part : message) {
    bytes += part.size();
    tags.add(part);
  }
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(bytes_.data(), &length, sizeof length);
  std::memcpy(bytes_.data() + sizeof length, &channel, sizeof channel);
  std::memcpy(bytes_.data() + kPlain, tags.of_message().data(), MessageTags::message_bytes(integrity_));
  const auto own = tags.of_head(std::span(bytes_).first(tagged()));
  std::memcpy(bytes_.data() + tagged(), own.data(), MessageTags::head_bytes(integrity_));
}

bool MessageHead::is_intact(const MessageTags& tags) const {
  const std::size_t count = MessageTags::head_bytes(integrity_);
  const auto own = tags.of_head(std::span(bytes_).first(tagged()));
  return MessageTags::are_equal(std::span(own).first(count), std::span(bytes_).subspan(tagged(), count));
}

bool MessageHead::matches(const MessageTags& tags) const {
  const std::size_t count = MessageTags::message_bytes(integrity_);
  const auto found = tags.of_message();
  return MessageTags::are_equal(std::span(found).first(count), std::span(bytes_).subspan(kPlain, count));
}

}  // namespace ronde::transport
