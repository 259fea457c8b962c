// What members have acknowledged of planned buckets: that they are ready for one (PREPARED), and that they use it no
// more (FREE). What follows from that is Epochs' affair.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace ronde::agreement {

class BucketAcknowledgements {
 public:
  enum class Outcome {
    invalid,  ///< no such bucket awaits that, or the member has said so before
    pending,  ///< others have yet to say so
    refused,  ///< all have answered PREPARE, and at least one has refused
    all,      ///< all have said so
  };

  explicit BucketAcknowledgements(int members) : members_(static_cast<std::size_t>(members)) {}

  /// The bucket has a layout, and PREPARE is to be logged: each member answers that once, and frees the bucket once.
  void expect(std::uint32_t bucket);
  /// The member's answer to PREPARE.
  Outcome on_prepared(int member, std::uint32_t bucket, bool refused);
  /// Never `refused`. After `all` the bucket is forgotten.
  Outcome on_free(int member, std::uint32_t bucket);

 private:
  struct Preparing {
    std::set<int> answered;
    bool refused = false;
  };

  const std::size_t members_;
  std::map<std::uint32_t, Preparing> preparing_;  ///< by bucket, until all have answered
  /// By bucket: the members that have freed it, by member, once one has.
  std::map<std::uint32_t, std::vector<bool>> freed_;
};

}  // namespace ronde::agreement
