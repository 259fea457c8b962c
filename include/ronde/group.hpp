// Part of <ronde/ronde.hpp>: groups of ranks (Horovod: process sets), within which operations can be done.
#pragma once

#include <ronde/ronde.h>
#include <ronde/error.hpp>
#include <ronde/job.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>

namespace ronde {
inline namespace v0 {

/// Some ranks of a job, by the id under which its engine knows them. Each group agrees, works and fails by itself;
/// names of requests are its own. It ends with destroy_group() or with the job, not with this object.
struct Group {
  std::int32_t id = 0;  ///< 0: all ranks
};

/// Collective over all ranks of the job, members or not, in the same order of such calls on all. Blocks. Throws on all
/// ranks alike: Code::invalid_argument for ranks that are not of the job or are given twice, Code::mismatch where ranks
/// disagree, Code::out_of_memory.
inline Group make_group(std::span<const std::int32_t> ranks, const Engine* engine = nullptr) {
  Group group;
  detail::check(ronde_group_create(engine ? engine->handle() : nullptr, ranks.data(), ranks.size(), &group.id));
  return group;
}
/// `make_group({0, 2})`
inline Group make_group(std::initializer_list<std::int32_t> ranks, const Engine* engine = nullptr) {
  return make_group(std::span<const std::int32_t>(ranks.begin(), ranks.size()), engine);
}

/// Collective over all ranks of the job. What is under way in the group and was not submitted by all its members fails.
inline void destroy_group(Group group, const Engine* engine = nullptr) {
  detail::check(ronde_group_destroy(engine ? engine->handle() : nullptr, group.id));
}

}  // namespace v0
}  // namespace ronde
