// Ronde as what is measured: the C interface, ready to be called again and again.
#pragma once

#include <ronde/ronde.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cli/measuring/timing/contestant.h"

namespace ronde::cli {

/// A member of the job between init() and its end. Rank 0 is the root of a broadcast.
class RondeContestant : public Contestant {
 public:
  explicit RondeContestant(const BenchOptions& options)
      : op_(options.op), form_(options.form), shared_(options.shared) {}
  ~RondeContestant() override;
  RondeContestant(const RondeContestant&) = delete;
  RondeContestant& operator=(const RondeContestant&) = delete;

  /// Joins the job. Before all else.
  bool init();

  int rank() const final { return topology_.rank; }
  int size() const final { return topology_.size; }
  /// Not all ranks are on this host.
  bool spans_hosts() const { return topology_.local_size != topology_.size; }
  std::string failure() const final { return failure_; }
  /// With --shared a bucket for them all, each on a cache line of its own.
  bool allocate(const std::vector<std::uint64_t>& bytes, std::vector<void*>* places) override;
  bool open(const BenchOptions& options, const std::string& label, const std::vector<TensorPlace>& tensors) override;
  void close() override;
  void prepare() override;
  bool run(std::size_t i) override;
  bool submit(std::size_t i) override;
  bool wait_all() override;
  const void* result(std::size_t i) const override;

 private:
  ronde_op op() const;
  void make_requests(const BenchOptions& options, const std::string& label, const std::vector<TensorPlace>& tensors);
  void set_splits(ronde_request& request, std::int64_t elements);
  /// Slots or plans for the requests; nothing by name.
  bool register_requests(const BenchOptions& options);
  /// Notes the sentence where `status` is none of success.
  bool is_good(ronde_status status, const char* what);

  BenchOp op_;
  BenchForm form_;
  bool shared_;
  ronde_topology topology_ = {};
  std::string failure_;
  std::vector<void*> buckets_;
  std::uint64_t buckets_made_ = 0;  ///< for their names, equal on all ranks

  std::vector<std::string> names_;
  std::vector<std::int64_t> elements_;
  std::vector<std::vector<std::int64_t>> splits_;
  std::vector<ronde_tensor> inputs_;
  std::vector<ronde_tensor> outputs_;
  std::vector<ronde_request> requests_;
  std::vector<ronde_ticket*> tickets_;  ///< by name: of what was submitted since prepare()
  std::vector<std::int64_t> slots_;
  /// One for each tensor, or one for all where all are submitted at once.
  std::vector<ronde_plan*> plans_;
};

}  // namespace ronde::cli
