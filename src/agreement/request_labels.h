// RequestLabels: which requests crossed an entry of the log that concerns them. ERROR, INSTALL and ADD entries are
// counted; a request carries a label, the number of those that its rank had read. A request with a smaller label than
// the last such entry about its name was sent before its rank read that entry, which moves or fails it there.
//
// What all members have read concerns no request that is still to come, and is forgotten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/messages.h"

namespace ronde::agreement {

class RequestLabels {
 public:
  explicit RequestLabels(int members) : read_(static_cast<std::size_t>(members)) {}

  /// The next ERROR, INSTALL or ADD entry is logged.
  void begin_entry() { ++entries_; }
  /// That entry concerns this name.
  void concerns(const std::string& name);
  /// A request of the member has this label.
  void on_label(int member, std::uint64_t label);
  /// An entry that concerns the request was logged, which its rank had not read.
  bool is_late(const control::RequestMessage& request) const;
  /// Names that a late request may still be about.
  std::size_t names() const { return last_.size(); }

 private:
  bool is_late(const std::string& name, std::uint64_t label) const;

  std::uint64_t entries_ = 0;
  std::unordered_map<std::string, std::uint64_t> last_;           ///< by name: the last entry about it
  std::deque<std::pair<std::uint64_t, std::string>> in_order_{};  ///< what last_ holds, and held before
  std::vector<std::uint64_t> read_;                               ///< by member: the label of its last request
};

}  // namespace ronde::agreement
