// What clients of the store ask it, and what it answers (store/exchange_frames.h).
#include "fuzz/target.h"
#include "store/exchange_frames.h"

namespace {

namespace store = ronde::store;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::string> ronde::fuzz::seeds() {
  const std::vector<std::byte> value(20, std::byte{7});
  return {
      text_of(store::encode_request({.scope = "job/1", .rank = 2, .size = 5, .limit = 10 * kSecond, .bytes = value})),
      text_of(store::encode_value(3, value)),
      text_of(store::encode_refusal(Status::error(Code::mismatch, "rank 1 has another size"))),
      text_of(store::encode_clock_question()),
      text_of(store::encode_clock_reading({.now = 12345, .boot = "1f0c"})),
  };
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span frame(reinterpret_cast<const std::byte*>(data), size);
  if (const ronde::Result<store::Request> request = store::decode_request(frame)) {
    ronde::fuzz::expect(store::check_request(request.value()).is_ok());
    const std::vector<std::byte> written = store::encode_request(request.value());
    ronde::fuzz::expect(std::equal(written.begin(), written.end(), frame.begin(), frame.end()));
  }
  if (const ronde::Result<store::Answer> answer = store::decode_answer(frame);
      answer && answer.value().refusal.is_ok()) {
    const std::vector<std::byte> written = store::encode_value(answer.value().rank, answer.value().bytes);
    ronde::fuzz::expect(std::equal(written.begin(), written.end(), frame.begin(), frame.end()));
  }
  if (const ronde::Result<store::ClockReading> reading = store::decode_clock_reading(frame)) {
    const std::vector<std::byte> written = store::encode_clock_reading(reading.value());
    ronde::fuzz::expect(std::equal(written.begin(), written.end(), frame.begin(), frame.end()));
  }
  ronde::fuzz::expect(!store::is_clock_question(frame) || size == 1);
  return 0;
}
