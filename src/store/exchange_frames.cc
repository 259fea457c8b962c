#include "store/exchange_frames.h"

#include <algorithm>
#include <string_view>

#include "base/bytes.h"

namespace ronde::store {

namespace {

enum class Kind : std::uint8_t { request = 1, value = 2, refusal = 3, clock_question = 4, clock_reading = 5 };

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> as_bytes(std::string_view text) {
  const auto* raw = reinterpret_cast<const std::byte*>(text.data());
  return {raw, raw + text.size()};
}

Status cannot_be_read() { return Status::error(Code::internal, "the store's answer cannot be read"); }

}  // namespace

Status check_request(const Request& request) {
  if (request.size < 1 || request.size > kMaxRanks || request.rank < 0 || request.rank >= request.size) {
    return Status::error(Code::invalid_argument, "rank " + std::to_string(request.rank) + " of " +
                                                     std::to_string(request.size) +
                                                     " cannot meet in a store: a size is 1 to " +
                                                     std::to_string(kMaxRanks) + ", a rank 0 to size - 1");
  }
  if (request.scope.empty() || request.scope.size() > kMaxScopeBytes) {
    return Status::error(Code::invalid_argument, "a store's scope has 1 to " + std::to_string(kMaxScopeBytes) +
                                                     " bytes; this one has " + std::to_string(request.scope.size()));
  }
  if (request.bytes.size() > kMaxValueBytes) {
    return Status::error(Code::invalid_argument, "a value in a store has at most " + std::to_string(kMaxValueBytes) +
                                                     " bytes; this one has " + std::to_string(request.bytes.size()));
  }
  return {};
}

std::vector<std::byte> encode_request(const Request& request) {
  ByteWriter writer;
  writer.put(Kind::request);
  writer.put(static_cast<std::int32_t>(request.rank));
  writer.put(static_cast<std::int32_t>(request.size));
  writer.put(request.limit);
  writer.put_string(request.scope);
  writer.put_string(as_text(request.bytes));
  return writer.take();
}

Result<Request> decode_request(std::span<const std::byte> frame) {
  ByteReader reader(frame);
  const auto kind = reader.get<Kind>();
  Request request;
  request.rank = reader.get<std::int32_t>();
  request.size = reader.get<std::int32_t>();
  request.limit = reader.get<Nanoseconds>();
  request.scope = reader.get_string();
  request.bytes = as_bytes(reader.get_string());
  if (kind != Kind::request || !reader.at_end()) {
    return Status::error(Code::invalid_argument, "not a request");
  }
  RONDE_RETURN_IF_ERROR(check_request(request));
  return request;
}

std::vector<std::byte> encode_value(int rank, std::span<const std::byte> bytes) {
  ByteWriter writer;
  writer.put(Kind::value);
  writer.put(static_cast<std::int32_t>(rank));
  writer.put_string(as_text(bytes));
  return writer.take();
}

std::vector<std::byte> encode_refusal(const Status& status) {
  // A sentence that names thousands of missing ranks is cut rather than refused by the socket.
  const std::string_view message(status.message());
  ByteWriter writer;
  writer.put(Kind::refusal);
  writer.put(static_cast<std::int32_t>(status.code()));
  writer.put(static_cast<std::int32_t>(status.failed_rank()));
  writer.put_string(message.substr(0, std::min(message.size(), kMaxValueBytes)));
  return writer.take();
}

Result<Answer> decode_answer(std::span<const std::byte> frame) {
  const Status bad = cannot_be_read();
  ByteReader reader(frame);
  Answer answer;
  switch (reader.get<Kind>()) {
    case Kind::value:
      answer.rank = reader.get<std::int32_t>();
      answer.bytes = as_bytes(reader.get_string());
      break;
    case Kind::refusal: {
      const auto code = reader.get<std::int32_t>();
      const auto failed_rank = reader.get<std::int32_t>();
      if (code <= 0 || code > static_cast<std::int32_t>(Code::internal)) {
        return bad;
      }
      answer.refusal = Status::error(static_cast<Code>(code), reader.get_string()).with_rank(failed_rank);
      break;
    }
    default: return bad;
  }
  if (!reader.at_end()) {
    return bad;
  }
  return answer;
}

std::vector<std::byte> encode_clock_question() {
  ByteWriter writer;
  writer.put(Kind::clock_question);
  return writer.take();
}

bool is_clock_question(std::span<const std::byte> frame) {
  ByteReader reader(frame);
  return reader.get<Kind>() == Kind::clock_question && reader.at_end();
}

std::vector<std::byte> encode_clock_reading(const ClockReading& reading) {
  ByteWriter writer;
  writer.put(Kind::clock_reading);
  writer.put(reading.now);
  writer.put_string(reading.boot);
  return writer.take();
}

Result<ClockReading> decode_clock_reading(std::span<const std::byte> frame) {
  ByteReader reader(frame);
  const bool is_reading = reader.get<Kind>() == Kind::clock_reading;
  ClockReading reading;
  reading.now = reader.get<Nanoseconds>();
  reading.boot = reader.get_string();
  if (!is_reading || !reader.at_end()) {
    return cannot_be_read();
  }
  return reading;
}

}  // namespace ronde::store
