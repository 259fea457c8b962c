// Any MPI: blocking calls (--form name), non-blocking ones for sets handed over at once, and the persistent collectives
// of MPI 4 (--form persistent) where the library has them. An error ends the program, as MPI does by default.
#define OMPI_SKIP_MPICXX  // the C++ bindings are long gone, and need a library more
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <cstdio>

#include "peer_program.h"

// Open MPI 5 has them and still calls itself MPI 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAS_PERSISTENT
#endif

namespace {

using ronde::cli::BenchForm;
using ronde::cli::BenchOp;
using ronde::cli::BenchOptions;
using ronde::cli::TensorPlace;

class Mpi final : public ronde::peers::PeerContestant {
 public:
  Mpi() {
    // No threads: the level that serves every library best (MPICH loses its shared-memory collectives with MULTIPLE).
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &place_.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place_.size);
  }
  ~Mpi() override {
    close();
    MPI_Finalize();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  bool open(const BenchOptions& options, const std::string&, const std::vector<TensorPlace>& tensors) override {
    tensors_ = tensors;
    requests_.assign(tensors.size(), MPI_REQUEST_NULL);
    is_persistent_ = options.form == BenchForm::persistent;
    if (options.op != BenchOp::allreduce || options.dtype != "float32" || options.form == BenchForm::slot) {
      failure_ = "only all-reduce of float32, by name or persistent, is compared";
      return false;
    }
    if (is_persistent_) {
#ifdef HAS_PERSISTENT
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        MPI_Allreduce_init(input(i), tensors[i].output, count(i), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                           &requests_[i]);
      }
#else
      failure_ = "persistent collectives came with MPI 4; this library has MPI " + std::to_string(MPI_VERSION);
      return false;
#endif
    }
    return true;
  }

  void close() override {
    if (is_persistent_) {
      for (MPI_Request& request : requests_) {
        if (request != MPI_REQUEST_NULL) {
          MPI_Request_free(&request);
        }
      }
    }
    requests_.clear();
    PeerContestant::close();
  }

  bool run(std::size_t i) override {
    if (is_persistent_) {
      MPI_Start(&requests_[i]);
      MPI_Wait(&requests_[i], MPI_STATUS_IGNORE);
      return true;
    }
    MPI_Allreduce(input(i), tensors_[i].output, count(i), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return true;
  }

  bool submit(std::size_t i) override {
    if (is_persistent_) {
      MPI_Start(&requests_[i]);
    } else {
      MPI_Iallreduce(input(i), tensors_[i].output, count(i), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests_[i]);
    }
    return true;
  }

  bool wait_all() override {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    return true;
  }

 private:
  const void* input(std::size_t i) const {
    return tensors_[i].input == tensors_[i].output ? MPI_IN_PLACE : tensors_[i].input;
  }
  int count(std::size_t i) const { return static_cast<int>(tensors_[i].bytes / sizeof(float)); }

  bool is_persistent_ = false;
  std::vector<MPI_Request> requests_;
};

}  // namespace

int main(int argc, char** argv) {
  return ronde::peers::peer_main(argc, argv, [](const BenchOptions&) { return std::make_unique<Mpi>(); });
}
