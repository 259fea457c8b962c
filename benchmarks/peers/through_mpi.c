/* What Ronde adds to an MPI that it goes through (RONDE_BACKEND=mpi): all-reduces of float32 by MPI_Allreduce, by
 * MPI_Iallreduce (which Ronde calls, since a rank that has died must not hold the others) and by Ronde in turn, in one
 * process. Of each round the slowest rank counts, of the rounds the median and the quartiles.
 *
 *   mpicc -O2 -Iinclude benchmarks/peers/through_mpi.c -o through_mpi PATH/libronde.so -Wl,-rpath,PATH
 *   RONDE_BACKEND=mpi mpirun -n 2 ./through_mpi
 */
#include <mpi.h>
#include <ronde/ronde.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kRounds = 41 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int by_size(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

static void check(ronde_status status) {
  if (status != RONDE_OK) {
    fprintf(stderr, "%s\n", ronde_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

enum Way { kBlocking, kNonBlocking, kRonde, kWays };

/* Microseconds a call of the slowest rank. */
static double round_of(enum Way way, int64_t slot, const float* in, float* out, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = now();
  for (int i = 0; i < calls; ++i) {
    if (way == kBlocking) {
      MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    } else if (way == kNonBlocking) {
      MPI_Request request;
      int is_done = 0;
      MPI_Iallreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
      while (!is_done) {
        MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
      }
    } else {
      check(ronde_submit_slot(slot));
      check(ronde_wait_slot(slot, 60));
    }
  }
  double mine = (now() - begun) / calls;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static void measure(size_t bytes, int rank) {
  const int count = (int)(bytes / sizeof(float));
  const int calls = bytes <= 65536 ? 200 : bytes <= (1 << 20) ? 20 : 3;
  float* const in = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  float* const out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  for (int i = 0; i < count; ++i) {
    in[i] = (float)(rank + 1);
    out[i] = 0;
  }
  char name[32];
  snprintf(name, sizeof name, "bytes %zu", bytes);
  const int64_t shape = count;
  const ronde_tensor input = {
      .struct_size = sizeof input, .data = in, .shape = &shape, .ndim = 1, .dtype = RONDE_FLOAT32};
  const ronde_tensor output = {
      .struct_size = sizeof output, .data = out, .shape = &shape, .ndim = 1, .dtype = RONDE_FLOAT32};
  ronde_request request = {.struct_size = sizeof request,
                           .op = RONDE_ALLREDUCE,
                           .name = name,
                           .name_bytes = strlen(name),
                           .inputs = &input,
                           .outputs = &output,
                           .count = 1,
                           .reduce_op = RONDE_SUM};
  int64_t slot = -1;
  check(ronde_register_slot(NULL, &request, &slot));
  double times[kWays][kRounds];
  for (int i = -3; i < kRounds; ++i) {
    for (int way = 0; way < kWays; ++way) {
      const double time = round_of((enum Way)way, slot, in, out, count, calls);
      if (i >= 0) {
        times[way][i] = time;
      }
    }
  }
  if (rank == 0) {
    static const char* const names[] = {"MPI_Allreduce", "MPI_Iallreduce", "Ronde"};
    printf("%10zu B", bytes);
    for (int way = 0; way < kWays; ++way) {
      double* const of = times[way];
      qsort(of, kRounds, sizeof(double), by_size);
      printf("  %s %.1f (%.1f to %.1f)", names[way], of[kRounds / 2], of[kRounds / 4], of[3 * kRounds / 4]);
    }
    printf(" us\n");
    fflush(stdout);
  }
  check(ronde_unregister_slot(slot));
  free(in);
  free(out);
}

int main(void) {
  int provided = 0;
  int rank = 0;
  MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(ronde_init(NULL));
  const char* backend = NULL;
  int32_t threads = 0;
  check(ronde_get_backend(NULL, &backend, &threads));
  if (rank == 0) {
    double load[3] = {0};
    getloadavg(load, 3);
    printf("backend %s, load %.1f\n", backend, load[0]);
  }
  for (size_t bytes = 8; bytes <= ((size_t)64 << 20); bytes *= bytes < 32768 ? 32 : 4) {
    measure(bytes, rank);
  }
  check(ronde_shutdown());
  MPI_Finalize();
  return 0;
}
