// oneCCL. Its operations are cached by a match id, which is its persistent form; it has no other.
//
// PEER_BENCH_KVS: a file in a folder of the run's own, where rank 0 leaves the address at which the others join.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <oneapi/ccl.hpp>
#include <optional>
#include <thread>

#include "peer_program.h"

namespace {

using ronde::cli::BenchOp;
using ronde::cli::BenchOptions;
using ronde::cli::TensorPlace;

std::string kvs_path() {
  const char* const path = std::getenv("PEER_BENCH_KVS");
  return path == nullptr ? "" : path;
}

void leave_address(const ccl::kvs::address_type& address) {
  const std::string part = kvs_path() + ".part";
  std::ofstream(part, std::ios::binary).write(address.data(), static_cast<std::streamsize>(address.size()));
  std::rename(part.c_str(), kvs_path().c_str());
}

ccl::kvs::address_type take_address() {
  ccl::kvs::address_type address{};
  for (;;) {
    std::ifstream file(kvs_path(), std::ios::binary);
    if (file.read(address.data(), static_cast<std::streamsize>(address.size()))) {
      return address;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

class OneCcl final : public ronde::peers::PeerContestant {
 public:
  OneCcl() {
    ccl::init();
    place_ = ronde::peers::place_from_environment();
    ccl::shared_ptr_class<ccl::kvs> kvs;
    if (place_.rank == 0) {
      kvs = ccl::create_main_kvs();
      leave_address(kvs->get_address());
    } else {
      kvs = ccl::create_kvs(take_address());
    }
    communicator_.emplace(ccl::create_communicator(place_.size, place_.rank, kvs));
  }

  bool open(const BenchOptions& options, const std::string& label, const std::vector<TensorPlace>& tensors) override {
    if (options.op != BenchOp::allreduce || options.dtype != "float32") {
      failure_ = "only all-reduce of float32 is compared";
      return false;
    }
    tensors_ = tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      attributes_.push_back(ccl::create_operation_attr<ccl::allreduce_attr>());
      attributes_.back().set<ccl::operation_attr_id::match_id>(ccl::string_class(label + "." + std::to_string(i)));
      attributes_.back().set<ccl::operation_attr_id::to_cache>(true);
    }
    return true;
  }

  void close() override {
    events_.clear();
    attributes_.clear();
    PeerContestant::close();
  }

  bool run(std::size_t i) override {
    start(i).wait();
    return true;
  }
  bool submit(std::size_t i) override {
    events_.push_back(start(i));
    return true;
  }
  bool wait_all() override {
    for (ccl::event& event : events_) {
      event.wait();
    }
    events_.clear();
    return true;
  }

 private:
  ccl::event start(std::size_t i) {
    return ccl::allreduce(tensors_[i].input, tensors_[i].output, tensors_[i].bytes / sizeof(float),
                          ccl::datatype::float32, ccl::reduction::sum, *communicator_, attributes_[i]);
  }

  std::optional<ccl::communicator> communicator_;
  std::vector<ccl::allreduce_attr> attributes_;
  std::vector<ccl::event> events_;
};

}  // namespace

int main(int argc, char** argv) {
  return ronde::peers::peer_main(argc, argv, [](const BenchOptions&) -> std::unique_ptr<ronde::cli::Contestant> {
    try {
      return std::make_unique<OneCcl>();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "oneCCL: %s\n", error.what());
      return nullptr;
    }
  });
}
