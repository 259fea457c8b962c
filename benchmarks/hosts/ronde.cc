// Ronde between hosts in the loop of `ronde bench`, whose own start line between hosts is a call: here the ranks meet, as
// those of its peers do, at a file that all hosts of the bed see (peer_program.h).
//
// Besides what the loop prints each rank tells, for each size or set, how often it was called and how many messages of
// agreement it sent during the second half of the calls, in which steps replay:
//
//     {"counters":"ronde","rank":0,"bytes":8,"all_calls":2003,"control_messages":0}
#include <cstdio>
#include <numeric>
#include <vector>

#include "cli/bench/ronde_contestant.h"
#include "peer_program.h"

namespace {

using ronde::cli::BenchOptions;
using ronde::cli::RondeContestant;
using ronde::cli::TensorPlace;

class BetweenHosts final : public RondeContestant {
 public:
  explicit BetweenHosts(const BenchOptions& options) : RondeContestant(options) {}
  ~BetweenHosts() override { tell(); }

  bool open(const BenchOptions& options, const std::string& label, const std::vector<TensorPlace>& tensors) override {
    bytes_ = std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0},
                             [](std::uint64_t sum, const TensorPlace& each) { return sum + each.bytes; });
    return RondeContestant::open(options, label, tensors);
  }
  void prepare() override {
    ronde_counters counters{};
    counters.struct_size = sizeof counters;
    if (ronde_get_counters(nullptr, &counters) == RONDE_OK) {
      control_messages_.push_back(counters.control_messages);  // before each call
    }
    RondeContestant::prepare();
  }
  void close() override {
    tell();
    RondeContestant::close();
  }

 private:
  void tell() {
    if (control_messages_.empty()) {
      return;
    }
    const std::uint64_t sent = control_messages_.back() - control_messages_[control_messages_.size() / 2];
    std::printf("{\"counters\":\"ronde\",\"rank\":%d,\"bytes\":%llu,\"all_calls\":%zu,\"control_messages\":%llu}\n",
                rank(), static_cast<unsigned long long>(bytes_), control_messages_.size(),
                static_cast<unsigned long long>(sent));
    std::fflush(stdout);
    control_messages_.clear();
  }

  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> control_messages_;
};

}  // namespace

int main(int argc, char** argv) {
  return ronde::peers::peer_main(argc, argv,
                                 [](const BenchOptions& options) -> std::unique_ptr<ronde::cli::Contestant> {
                                   auto ronde = std::make_unique<BetweenHosts>(options);
                                   if (!ronde->init()) {
                                     std::fprintf(stderr, "ronde: %s\n", ronde->failure().c_str());
                                     return nullptr;
                                   }
                                   return ronde;
                                 });
}
