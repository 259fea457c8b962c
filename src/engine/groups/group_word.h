// GroupWord: what a rank tells the others of a group that is made or ended, and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/groups/group_ids.h"

namespace ronde::engine {

struct GroupWord {
  std::vector<std::int64_t> numbers;    ///< what the rank wants: the ranks of a new group, the id of one to be ended
  std::vector<std::int64_t> part = {};  ///< of a member of a new group: GroupPart::word
  Status problem = {};                  ///< why it cannot go on
  GroupIds::Proposal id = {};           ///< of a new process set
};

std::vector<std::byte> encode(const GroupWord& word);
/// Of `count` words, one after the other. INTERNAL if the bytes are no such.
Result<std::vector<GroupWord>> decode_words(std::span<const std::byte> bytes, std::size_t count);
/// The first problem of any is everyone's error, with the rank that has it. `ranks`: who has said the words.
Status first_problem(const std::vector<GroupWord>& words, const std::vector<int>& ranks);

}  // namespace ronde::engine
