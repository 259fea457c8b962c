#include "agreement/request_errors.h"

#include <algorithm>

namespace ronde::agreement {

namespace {

std::string seconds_text(Nanoseconds span) {
  std::string text = std::to_string(static_cast<double>(span) / static_cast<double>(kSecond));
  text.erase(text.find('.') + 2);
  return text + " s";
}

/// "ranks 0, 2 asked for allreduce (sum) of float32 [2]; rank 1 asked for ..."
std::string views_text(const Group& group, const HeldRequest& held) {
  std::string text;
  const std::vector<Descriptor>& descriptors = held.descriptors;
  std::vector<bool> told(descriptors.size());
  const bool tells_tags = std::any_of(descriptors.begin(), descriptors.end(),
                                      [](const Descriptor& each) { return each.tag > kOwnOrder; });
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    if (told[i] || !held.has[i]) {
      continue;
    }
    std::vector<int> same;
    for (std::size_t j = i; j < descriptors.size(); ++j) {
      if (held.has[j] && descriptors[j] == descriptors[i] && held.call_sites[j] == held.call_sites[i] &&
          (!tells_tags || descriptors[j].tag == descriptors[i].tag)) {
        same.push_back(group.ranks[j]);
        told[j] = true;
      }
    }
    text += (text.empty() ? "" : "; ") + ranks_text(same) + " asked for " + descriptor_text(descriptors[i]);
    if (!held.call_sites[i].empty()) {
      text += " at " + held.call_sites[i];
    }
    if (tells_tags && descriptors[i].tag != 0) {
      text += ", " + tag_text(descriptors[i].tag);
    }
  }
  return text;
}

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  }
  return text;
}

std::string disagreement_text(const Group& group, const std::string& name, const HeldRequest& held,
                              std::string_view what) {
  return "the ranks disagree about the " + std::string(what) + " of '" + name + "': " + views_text(group, held) +
         (held.call_number == 0 ? ". Submit the same under one name on every rank"
          : what == kOrder      ? ". Make the same unnamed calls in the same order on every rank: wait for what is "
                                  "behind the end of a call before the next one"
                                : ". Make the same unnamed calls in the same order on every rank");
}

std::string joined_text(const std::string& name, const Descriptor& asked, const std::vector<int>& joined,
                        std::string_view obstacle) {
  return descriptor_text(asked) + " named '" + name + "' cannot be done while " + ranks_text(joined) +
         (joined.size() == 1 ? " has joined: " : " have joined: ") + std::string(obstacle);
}

std::string cancelled_text(const Group& group, const std::string& name, const HeldRequest& held, int member,
                           const std::vector<int>& missing) {
  const auto index = static_cast<std::size_t>(member);
  return "rank " + std::to_string(group.ranks[index]) + " has cancelled " + descriptor_text(held.descriptors[index]) +
         " named '" + name + "' while it waited for " + ranks_text(missing) +
         ": its program was interrupted there, or called ronde_cancel";
}

std::string late_text(const std::string& name, const HeldRequest& held, const std::vector<int>& missing) {
  return "Timed out after " + seconds_text(held.deadline - held.since) + " in " +
         descriptor_text(held.first_descriptor()) + " named '" + name + "': " + ranks_text(missing) +
         " did not submit it. Look at what " + ranks_text(missing) + (missing.size() == 1 ? " was" : " were") +
         " doing, or raise the timeout (RONDE_TIMEOUT_S) if it may take longer";
}

std::string beyond_barrier_text(const Group& group, const std::string& name, const HeldRequest& held, int rank,
                                std::uint64_t made) {
  std::vector<int> makers;
  for (std::size_t i = 0; i < held.has.size(); ++i) {
    if (held.has[i]) {
      makers.push_back(group.ranks[i]);
    }
  }
  return ranks_text(makers) + (makers.size() == 1 ? " has" : " have") + " made more calls without a name than rank " +
         std::to_string(rank) + ", which called a barrier after " + std::to_string(made) + ": '" + name +
         "' has no counterpart there (" + views_text(group, held) +
         "). Make the same unnamed calls on every rank before a barrier";
}

}  // namespace ronde::agreement
