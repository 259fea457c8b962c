#include "engine/groups/group_word.h"

#include <string>

#include "base/bytes.h"

namespace ronde::engine {

std::vector<std::byte> encode(const GroupWord& word) {
  ByteWriter writer;
  write_numbers(writer, word.numbers);
  write_numbers(writer, word.part);
  writer.put(static_cast<std::int32_t>(word.problem.code()));
  writer.put_string(word.problem.message());
  writer.put(word.id.known);
  writer.put(word.id.free);
  return writer.take();
}

Result<std::vector<GroupWord>> decode_words(std::span<const std::byte> bytes, std::size_t count) {
  ByteReader reader(bytes);
  std::vector<GroupWord> words(count);
  for (GroupWord& word : words) {
    word.numbers = read_numbers<std::int64_t>(reader);
    word.part = read_numbers<std::int64_t>(reader);
    const auto code = reader.get<std::int32_t>();
    const std::string problem = reader.get_string();
    word.id.known = reader.get<std::int64_t>();
    word.id.free = reader.get<std::int64_t>();
    word.problem = code == 0 ? Status() : Status::error(static_cast<Code>(code), problem);
  }
  if (!reader.at_end()) {
    return Status::error(Code::internal, "what the ranks told each other about a process set cannot be read");
  }
  return words;
}

Status first_problem(const std::vector<GroupWord>& words, const std::vector<int>& ranks) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].problem) {
      return words[i].problem.with_context("rank " + std::to_string(ranks[i])).with_rank(ranks[i]);
    }
  }
  return {};
}

}  // namespace ronde::engine
