/* The C interface compiles as C99 without a warning, links and answers. */
#include <ronde/ronde.h>
#include <stdio.h>

int main(void) {
  ronde_topology topology = {0};
  ronde_status status = ronde_init(NULL);
  if (status == RONDE_OK) {
    topology.struct_size = sizeof(topology);
    status = ronde_get_topology(NULL, &topology);
  }
  if (status != RONDE_OK) {
    fprintf(stderr, "%s: %s\n", ronde_status_name(status), ronde_last_error());
    return 1;
  }
  printf("C: rank %d of %d\n", (int)topology.rank, (int)topology.size);
  return ronde_shutdown() == RONDE_OK ? 0 : 1;
}
