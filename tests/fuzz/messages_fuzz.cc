// What ranks say to each other to agree (control/messages.h). Its sender is authenticated; memory may be broken.
#include "control/messages.h"
#include "fuzz/target.h"

namespace {

using ronde::control::Envelope;

std::string text_of(const Envelope& envelope) {
  const std::vector<std::byte> bytes = encode(envelope);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <std::size_t... kIndex>
std::vector<std::string> one_of_each(std::index_sequence<kIndex...>) {
  using Message = ronde::control::Message;
  return {text_of({static_cast<std::int32_t>(kIndex), Message(std::in_place_index<kIndex>)})...};
}

}  // namespace

std::vector<std::string> ronde::fuzz::seeds() {
  std::vector<std::string> made = one_of_each(std::make_index_sequence<std::variant_size_v<ronde::control::Message>>());
  control::RequestMessage request;
  request.name = "gradient.0";
  request.descriptor.tensors = {{DType::float32, {3, 5}}, {DType::bfloat16, {}}};
  request.descriptor.splits = {1, 2};
  request.call_site = "train.py:12";
  made.push_back(text_of({0, request}));
  Bucket bucket;
  bucket.id = 3;
  bucket.layout = "somewhere";
  bucket.members = {{"a", request.descriptor, {MemoryPlace(64), MemoryPlace(128)}}, {"b", request.descriptor}};
  made.push_back(text_of({7, control::PrepareEntry{bucket}}));
  made.push_back(text_of({7, control::EndMessage{.epoch = 2, .instances = 9, .missing = {"x"}, .unused = {1, 2}}}));
  return made;
}

/// What is a message is the same message once it has been written and read again.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ronde::Result<Envelope> read = ronde::control::decode({reinterpret_cast<const std::byte*>(data), size});
  if (read) {
    const std::vector<std::byte> written = encode(read.value());
    const ronde::Result<Envelope> again = ronde::control::decode(written);
    ronde::fuzz::expect(again && encode(again.value()) == written);
  }
  return 0;
}
