// PersistentPlans: which names belong to which persistent plan of the program, and of which plans all names have been
// agreed. A persistent plan says itself what belongs together: one agreement is enough.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "agreement/name_histories.h"

namespace ronde::agreement {

class PersistentPlans {
 public:
  /// The name was answered with EXEC for the first time in a row. Without a plan's mark this does nothing. With one the
  /// plan refers to the history from now on, which must outlive this.
  void on_first_answer(NameHistory& history);
  /// The plans of which every name has come, since the last call.
  std::vector<std::uint64_t> take_complete();
  /// The plan's names that are to be planned, if each has had one answer with the plan's mark for each of the others.
  /// None if not: a first start that failed for some leaves them to the ordinary rules.
  std::vector<NameHistory*> names_to_plan(std::uint64_t plan) const;

 private:
  struct Plan {
    std::uint32_t size = 0;
    std::vector<NameHistory*> names;
  };

  std::unordered_map<std::uint64_t, Plan> plans_;
  std::vector<std::uint64_t> complete_;
};

}  // namespace ronde::agreement
