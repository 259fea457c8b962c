/* A program that is linked with Open MPI, without its headers: its handles lie in the program's own memory, where the
 * linker has copied them. It begins MPI, joins a job of Ronde's, reduces a number, and ends. */
#include <ronde/ronde.h>
#include <stdio.h>

extern char ompi_mpi_comm_world[]; /* as mpi.h uses it: by its address */
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPI_Comm_rank(void* comm, int* rank);
int MPI_Finalize(void);

int main(void) {
  int provided = 0;
  int rank = -1;
  MPI_Init_thread(NULL, NULL, 3, &provided);
  MPI_Comm_rank(ompi_mpi_comm_world, &rank);
  float value = (float)(rank + 1);
  const ronde_tensor tensor = {.struct_size = sizeof tensor, .data = &value, .dtype = RONDE_FLOAT32};
  const ronde_request request = {.struct_size = sizeof request,
                                 .op = RONDE_ALLREDUCE,
                                 .name = "value",
                                 .name_bytes = 5,
                                 .inputs = &tensor,
                                 .outputs = &tensor,
                                 .count = 1,
                                 .reduce_op = RONDE_SUM};
  const char* backend = NULL;
  int32_t threads = 0;
  if (ronde_init(NULL) != RONDE_OK || ronde_execute(NULL, &request, 60, NULL) != RONDE_OK ||
      ronde_get_backend(NULL, &backend, &threads) != RONDE_OK || ronde_shutdown() != RONDE_OK) {
    fprintf(stderr, "%s\n", ronde_last_error());
    return 1;
  }
  printf("%d: %g by %s, threads %d\n", rank, value, backend, threads);
  return MPI_Finalize();
}
