/* Ronde's C interface, the one seam that C++, Python and every framework adapter use.
 *
 * Rules that hold for every function here:
 *  - It returns a ronde_status (RONDE_OK is 0) unless stated otherwise. On anything else ronde_last_error() gives the
 *    sentence; outputs are then untouched.
 *  - Errors of a call that returns at once are told by that call. Errors of work under way belong to its ticket: they
 *    are returned by ronde_wait() and described by ronde_ticket_error().
 *  - Any function may be called from any thread, at the same time as any other, unless stated otherwise. None prints,
 *    exits, aborts, throws or installs a signal handler.
 *  - Structs begin with struct_size, which the caller sets to sizeof(struct); later versions append fields.
 *  - Strings are pointer + length in bytes, UTF-8, no NUL needed; strings handed out end in NUL as well.
 *  - Times are in seconds; sizes in bytes or in elements as named; ranks count from 0.
 *  - An engine pointer may be NULL: the shared engine of the process, which ronde_init() starts, so that several
 *    frameworks in one process share one engine.
 *  - In a forked child of the process that called init every call returns RONDE_FORKED.
 */
#ifndef RONDE_RONDE_H
#define RONDE_RONDE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RONDE_API __attribute__((visibility("default")))
#else
#define RONDE_API
#endif

/* The version of this interface: major * 1000 + minor. A library serves callers of the same major and an equal or
 * smaller minor. */
#define RONDE_ABI_VERSION 1004u

/* ---- Fixed numbers ------------------------------------------------------------------------------------------- */

typedef int32_t ronde_status;
enum {
  RONDE_OK = 0,
  RONDE_INVALID_ARGUMENT = 1, /* the call itself is wrong; nothing was changed */
  RONDE_NOT_INITIALIZED = 2,
  RONDE_NOT_IMPLEMENTED = 3,
  RONDE_DUPLICATE_NAME = 4, /* a ticket of that name was neither waited for nor released */
  RONDE_MISMATCH = 5,       /* ranks asked for different things under one name; the job stays usable */
  RONDE_PEER_LOST = 6,      /* a rank died; shut down and init again */
  RONDE_PEER_LEFT = 7,      /* a rank shut down or exited while others still needed it */
  RONDE_TIMED_OUT = 8,
  RONDE_INTERRUPTED = 9,     /* a signal interrupted the wait; nothing is lost, wait again */
  RONDE_CANCELLED = 10,      /* this rank shut down while the work was pending, or a rank cancelled it */
  RONDE_WOULD_DEADLOCK = 11, /* a wait inside a completion callback */
  RONDE_FORKED = 12,
  RONDE_AUTH_FAILED = 13,
  RONDE_OUT_OF_MEMORY = 14,
  RONDE_SYSTEM_ERROR = 15,
  RONDE_VERSION_MISMATCH = 16,
  RONDE_INTERNAL = 17 /* a bug in Ronde */
};

typedef int32_t ronde_dtype;
enum {
  RONDE_UINT8 = 0,
  RONDE_INT8 = 1,
  RONDE_UINT16 = 2,
  RONDE_INT16 = 3,
  RONDE_INT32 = 4,
  RONDE_INT64 = 5,
  RONDE_FLOAT16 = 6,
  RONDE_FLOAT32 = 7,
  RONDE_FLOAT64 = 8,
  RONDE_BOOL = 9, /* bytes 0 and 1; SUM, MAX: any, PRODUCT, MIN: all; no AVERAGE, no scales */
  RONDE_BFLOAT16 = 10,
  RONDE_COMPLEX64 = 11, /* no MIN, no MAX; scales are real */
  RONDE_COMPLEX128 = 12,
  RONDE_FLOAT8_E4M3 = 13, /* what is too large becomes 448, the largest; in E5M2 infinity */
  RONDE_FLOAT8_E5M2 = 14,
  RONDE_UINT32 = 15,
  RONDE_UINT64 = 16
};

typedef int32_t ronde_op;
enum {
  RONDE_ALLREDUCE = 0,
  RONDE_ALLGATHER = 1,
  RONDE_BROADCAST = 2,
  RONDE_ALLTOALL = 3,
  RONDE_REDUCESCATTER = 4,
  RONDE_REDUCE = 5,
  RONDE_GATHER = 6,
  RONDE_SCATTER = 7,
  RONDE_SEND = 8,
  RONDE_RECV = 9,
  RONDE_BARRIER = 10,
  RONDE_JOIN = 11,
  RONDE_SCAN = 12,
  RONDE_EXSCAN = 13
};

/* As the root of a RECV: from whichever rank sends first under its tag. */
#define RONDE_ANY_SOURCE (-1)

typedef int32_t ronde_reduce_op;
enum {
  RONDE_AVERAGE = 0,
  RONDE_SUM = 1,
  RONDE_ADASUM = 2,
  RONDE_MIN = 3,
  RONDE_MAX = 4,
  RONDE_PRODUCT = 5,
  RONDE_BIT_AND = 6,
  RONDE_BIT_OR = 7,
  RONDE_BIT_XOR = 8
};

typedef int32_t ronde_device_type;
enum { RONDE_HOST = 0, RONDE_CUDA = 1 };

typedef struct ronde_engine ronde_engine; /* one member of one job */
typedef struct ronde_ticket ronde_ticket; /* one request under way, or finished and not yet released */
typedef struct ronde_store ronde_store;   /* a place where the ranks of a job meet, served by this process */

/* ---- Library ------------------------------------------------------------------------------------------------- */

/* RONDE_ABI_VERSION of the library; compare before anything else. Never fails. */
RONDE_API uint32_t ronde_abi_version(void);
/* "0.1.0". Static, never fails. */
RONDE_API const char* ronde_version(void);
/* The sentence of this thread's last failed call, "" if none. Valid until this thread's next call. */
RONDE_API const char* ronde_last_error(void);

typedef struct ronde_error_info {
  size_t struct_size;
  ronde_status status;
  int32_t failed_rank; /* -1: none */
  const char* message; /* "" on success */
  const char* tensor;  /* "" if none */
} ronde_error_info;
/* All about this thread's last failed call; strings live until its next call. RONDE_OK in status if none failed. */
RONDE_API ronde_status ronde_last_error_info(ronde_error_info* info);
/* "peer lost" for RONDE_PEER_LOST, and so on; static. */
RONDE_API const char* ronde_status_name(ronde_status status);
/* Bytes of one element, 0 for a number that names no type. */
RONDE_API size_t ronde_dtype_bytes(ronde_dtype dtype);

typedef void (*ronde_log_fn)(void* user, int32_t level, int32_t rank, const char* message, size_t message_bytes);
/* Sends the process's log lines to `sink` instead of standard error (NULL: back again). Levels: 0 debug, 1 info,
 * 2 warning, 3 error. The sink is called by any thread, one call at a time, and must not call Ronde. */
RONDE_API ronde_status ronde_set_log(ronde_log_fn sink, void* user);

/* ---- Life of an engine --------------------------------------------------------------------------------------- */

typedef struct ronde_options {
  size_t struct_size;
  int32_t rank, size;             /* -1: from RONDE_RANK and RONDE_SIZE; without them a job of one rank */
  int32_t local_rank, local_size; /* -1: from the environment, else rank and size */
  int32_t cross_rank, cross_size; /* -1: from the environment, else 0 and 1 */
  const char* store;              /* "unix:/path"; NULL: RONDE_STORE. Not needed for a job of one rank */
  size_t store_bytes;
  const char* key; /* the job's key, 64 hex digits; NULL: RONDE_KEY */
  size_t key_bytes;
  double init_timeout_s; /* how long init waits for the other ranks; 0: RONDE_INIT_TIMEOUT_S, default 60 */
  double timeout_s;      /* limit of every request without its own; 0: RONDE_TIMEOUT_S, default 1800; < 0 none */
  const char* meeting;   /* ronde_engine_create, ronde_group_make: the name, the same on all their ranks and not in */
  size_t meeting_bytes;  /*   use for another at the store, under which they meet, 1 to 900 bytes; NULL: a count of
                          *   calls of ronde_engine_create */
} ronde_options;

/* Starts the shared engine. Collective: returns when every rank of the job has come, or with RONDE_TIMED_OUT and a
 * sentence that names the missing. `options` may be NULL. Already initialised: RONDE_OK, nothing is done. */
RONDE_API ronde_status ronde_init(const ronde_options* options);
/* Leaves the job, with the shared engine. Collective with a limit of 10 s: requests that all ranks have submitted are
 * finished, the others fail (RONDE_CANCELLED here, RONDE_PEER_LEFT on ranks that still need this one). Tickets stay
 * valid until released. Always ends the engine; RONDE_TIMED_OUT then only says that some rank had not come. Not
 * initialised: RONDE_OK. */
RONDE_API ronde_status ronde_shutdown(void);
/* 1 between a successful ronde_init and ronde_shutdown, else 0 (in a forked child too). */
RONDE_API int32_t ronde_is_initialized(void);

/* The same for an engine of the caller's own; several may live in one process. Without `meeting` the n-th engine of a
 * process meets the n-th of the others; with it, processes of a job can make engines for some of them. */
RONDE_API ronde_status ronde_engine_create(const ronde_options* options, ronde_engine** engine);
/* Shuts down as ronde_shutdown() and frees. Tickets of the engine stay valid until released. NULL: RONDE_OK. */
RONDE_API ronde_status ronde_engine_destroy(ronde_engine* engine);

/* Where no launcher has made one: opens a store in this process, for one rank to call. It serves until
 * ronde_store_close(), in a fresh folder that only this user can enter. The caller brings `address` ("unix:/path") and
 * `key` (64 hex digits, a secret) to the other ranks for their ronde_options; files put into the folder go with it.
 * Both strings live until the close. SYSTEM_ERROR where no folder or socket can be made. */
RONDE_API ronde_status ronde_store_open(ronde_store** store, const char** address, const char** key);
/* Ends what is under way there and removes the folder. Engines that have met stay as they are. NULL: RONDE_OK. */
RONDE_API ronde_status ronde_store_close(ronde_store* store);

typedef struct ronde_topology {
  size_t struct_size;
  int32_t rank, size;             /* of the job */
  int32_t local_rank, local_size; /* of this host */
  int32_t cross_rank, cross_size; /* among the hosts that have this local rank */
  uint64_t epoch;                 /* how often this process has initialised; 1 the first time */
} ronde_topology;
/* Who this process is. Fills as much as struct_size says. RONDE_NOT_INITIALIZED before init. */
RONDE_API ronde_status ronde_get_topology(ronde_engine* engine, ronde_topology* topology);

typedef struct ronde_counters {
  size_t struct_size;
  uint64_t requests;         /* submitted here */
  uint64_t plans;            /* executed here */
  uint64_t fused_tensors;    /* tensors that shared a plan with others */
  uint64_t bytes_reduced;    /* input bytes of all-reduces executed here */
  uint64_t control_messages; /* agreement messages sent from here */
  uint64_t log_entries;      /* agreement's answers read here */
  uint64_t installs;         /* times that buckets came into force */
  uint64_t breaks;           /* times that replay fell back to agreement by messages */
  uint64_t replayed;         /* buckets reduced without a message */
  uint64_t direct_bytes; /* of bytes_reduced, those reduced in the tensors themselves: all ranks had them in buckets */
  uint64_t strangers;    /* connections to ports of this process that did not prove the job's key and were closed;
                            since the process began */
} ronde_counters;
/* Counts since init. Fills as much as struct_size says. */
RONDE_API ronde_status ronde_get_counters(ronde_engine* engine, ronde_counters* counters);
/* The thresholds by which all-reduces between these ranks are done now, as a line that RONDE_TABLE takes; ranks of one
 * host may measure better ones while they work. The text is valid until this thread's next call of this function. */
RONDE_API ronde_status ronde_get_table(ronde_engine* engine, const char** text, size_t* bytes);
/* By what the job's data moves: "shm", "messages", "mpi" or "oneccl" (RONDE_BACKEND); and 1 where that is MPI, begun so
 * that any thread may call it, else 0. The name lives as long as the process. */
RONDE_API ronde_status ronde_get_backend(ronde_engine* engine, const char** name, int32_t* mpi_threads);

/* ---- Process sets --------------------------------------------------------------------------------------------- */

/* Collective over all ranks of the job, members or not, which make the same groups in the same order: makes a group of
 * `count` ranks, in any order, and gives its id (> 0) to all. No other ranks ever get it in this process; after a new
 * init the same ranks have it again. 0 is the group of all ranks. Requests name it in `group`; each group agrees, works
 * and fails by itself, and names are its own. Blocks; a signal does not
 * end it. INVALID_ARGUMENT, MISMATCH or OUT_OF_MEMORY come on all ranks alike, and nothing has happened. */
RONDE_API ronde_status ronde_group_create(ronde_engine* engine, const int32_t* ranks, size_t count, int32_t* group);
/* The same, but collective over the members alone: others need not know of the group. They meet in the job's store
 * (`store` and `key` of the options, as given to ronde_init()) under the options' `meeting`, the same on all members
 * and not in use for another. The ranks keep the order in which they are given, the same on all members. Of the options
 * also count `init_timeout_s`, how long the members wait for each other, and `timeout_s`, of requests to the group; 0:
 * the engine's. The id is this rank's own: other members may know the group by another. */
RONDE_API ronde_status ronde_group_make(ronde_engine* engine, const ronde_options* options, const int32_t* ranks,
                                        size_t count, int32_t* group);
/* Collective over all ranks of the job; of a group of ronde_group_make() over its members. What is under way in the
 * group and was not submitted by all its members fails with RONDE_NOT_INITIALIZED or RONDE_PEER_LEFT. shutdown ends all
 * groups. */
RONDE_API ronde_status ronde_group_destroy(ronde_engine* engine, int32_t group);

/* ---- Requests ------------------------------------------------------------------------------------------------ */

/* A view of the caller's memory: contiguous, row-major. In arrays the distance of two elements is the first one's
 * struct_size. */
typedef struct ronde_tensor {
  size_t struct_size;
  void* data;           /* may be NULL where there are no elements */
  const int64_t* shape; /* read before the call returns */
  int32_t ndim;         /* 0 to 32; 0 is a scalar */
  ronde_dtype dtype;
  ronde_device_type device;
  int32_t device_index;
} ronde_tensor;

/* Called exactly once per successful submit, when the ticket is done, on the engine's thread and never inside another
 * call of Ronde. May submit and release; a wait inside it, or what waits for other ranks, returns RONDE_WOULD_DEADLOCK.
 * Must not throw: the library has a C++ run time of its own, through which nothing of the program's can pass. The
 * callbacks of <ronde/ronde.hpp> may. */
typedef void (*ronde_done_fn)(void* user, ronde_ticket* ticket, ronde_status status);

/* What this rank wants done to one named tensor, or to a named group of tensors (count > 1: one ticket, all or
 * nothing). Ranks meet by name, in any order: the n-th request of a name on one rank meets the n-th on every other.
 *
 *  op              inputs                      outputs                            root
 *  ALLREDUCE       same shape on all ranks     same shape; may be the input       -
 *  ALLGATHER       >= 1 dimension; dimension   none: made by the ticket, the      -
 *                  0 may differ per rank       ranks' rows in rank order
 *  BROADCAST       root's data; others' data   same shape; may be the input       yes
 *                  is not read
 *  BARRIER         none (count 0)              none                               -
 *  ALLTOALL        one; splits: rows for each  made by the ticket: the rows from  -
 *                  rank, none: equally many    rank 0, then from rank 1, ...
 *  REDUCESCATTER   same shape on all ranks     made by the ticket: this rank's    -
 *                                              rows; first ranks get one more
 *  REDUCE          same shape on all ranks     same shape, written at the root    yes
 *                                              only; may be the input
 *  GATHER          as ALLGATHER                made by the ticket: at the root    yes
 *                                              the ranks' rows in rank order,
 *                                              elsewhere no rows
 *  SCATTER         the root's: as ALLTOALL;    made by the ticket: this rank's    yes
 *                  the others' rows are not    rows
 *                  read, dimension 0 and
 *                  splits are the root's
 *  SCAN            same shape on all ranks     same shape; may be the input:      -
 *                                              the reduction of the ranks up to
 *                                              and including this one
 *  EXSCAN          same shape on all ranks     the same of the ranks below this   -
 *                                              one; at rank 0 the neutral value
 *                                              (0 for sum, bit_or and bit_xor, 1
 *                                              for product, all bits for bit_and,
 *                                              an extreme for min and max)
 *  SEND            one                         none                               receiver
 *  RECV            one: the memory to fill     none                               sender, or
 *                                                                                 ANY_SOURCE
 *  JOIN            none (count 0)              made by the ticket: [1] of int32,  -
 *                                              the rank that was the last to join
 *
 * SEND and RECV concern two ranks only and meet by rank and tag, not by name: the recvs of a tag take what a rank sends
 * under it in the order of its submits. Type and number of elements must be the same, else both are RONDE_MISMATCH. A
 * send is done when the receiver has the data: two ranks that both wait for their send before they recv wait until the
 * time limit. Names are local, for reports, and without one they do not count among the unnamed calls; a rank does not
 * send to itself (RONDE_INVALID_ARGUMENT).
 *
 * JOIN says that this rank has no more data: it submits nothing until the ticket is done, which is when every rank of
 * the group has joined. Meanwhile the others' ALLREDUCEs go on as if it had neutral values: 0 for sum, average and
 * adasum (the average is still over all ranks), 1 for product, the type's limits for min and max; BARRIERs go on
 * without it. What every rank has a part in (ALLGATHER, BROADCAST, ALLTOALL, REDUCESCATTER, REDUCE, GATHER, SCATTER,
 * SCAN, EXSCAN) fails with MISMATCH on all that have not joined; the sentence names who has. JOIN has no time limit. */
typedef struct ronde_request {
  size_t struct_size;
  ronde_op op;
  int32_t group;    /* 0: all ranks; else the id of a group of which this rank is a member */
  const char* name; /* 1 to 4096 bytes, read before the call returns; NULL: an unnamed call, see ronde_call_number */
  size_t name_bytes;
  const ronde_tensor* inputs;  /* `count` of them */
  const ronde_tensor* outputs; /* `count` of them, or NULL: in place where that is possible */
  size_t count;
  ronde_reduce_op reduce_op;
  int32_t root;          /* global rank, also inside a group; the peer of SEND and RECV */
  double prescale;       /* each value is multiplied by it as it is read; 0 means 1 */
  double postscale;      /* the result is multiplied by it, last; 0 means 1 */
  double timeout_s;      /* how long the ranks may take to submit and finish; 0: the engine's; < 0: no limit */
  const int64_t* splits; /* ALLTOALL, SCATTER: rows for each rank of the group; NULL: equally many */
  size_t splits_count;
  int64_t reserved;      /* nothing reads it */
  /* SEND, RECV: see above. A call without a name: how it came about, for callers that run parts of the program when an
   * earlier call has ended (a future's callback), which ranks may see at different places among their calls. 1: by the
   * program itself; 1 + n: behind the end of the call n before this one; 2^29 + n: behind another end, where n, the
   * same on all ranks and below 2^29, says which; 2^30 + n: behind what ran behind the end of such a call, where n says
   * behind what, and the same each time; 0: not known. Ranks that give different ones get RONDE_MISMATCH in place of
   * each other's sums. Of other requests nothing reads it. */
  int32_t tag;
  int32_t call_site;     /* of ronde_call_site: where the program asks, for errors; 0: unknown */
  ronde_done_fn on_done; /* may be NULL */
  void* user;
  /* Since version 1001. Without a name: of ronde_call_number; 0: the engine takes the next one. With a name: the
   * unnamed call that this request belongs to, as one of a backward pass does, so that it is replayed as that call is;
   * 0: none. */
  uint64_t call_number;
  uint64_t* taken; /* where the number is written that the engine takes, 0 if it takes none; NULL: nowhere */
} ronde_request;

/* A number for a place in the program, "train.py:12", that requests then carry: where ranks disagree about a tensor,
 * the error says for each where it asked. The same text gives the same number, for as long as the process lives. Longer
 * texts are cut to their last 256 bytes; after 65,535 different ones *call_site is 0. */
RONDE_API ronde_status ronde_call_site(const char* text, size_t bytes, int32_t* call_site);

/* Calls without a name. Ranks pair such calls of a group by their order alone: the n-th of one rank meets the n-th of
 * every other, whatever the ranks have waited for; a barrier or a join, which is none of them, with a name or without,
 * begins a new count, so that ranks of which one has made a call too many are in step again after it. *number (> 0) is
 * the next call's, for a request that is then submitted with it, once, by any thread; who takes numbers in one order
 * and submits in another loses time only. A number that is taken and never submitted is a call that the others make in
 * vain; one whose request is refused fails on them (but for a request of which not even the name can be read, and a
 * barrier or join). RONDE_INVALID_ARGUMENT if this rank belongs to no such group. Not for slots and plans, which have
 * names. */
RONDE_API ronde_status ronde_call_number(ronde_engine* engine, int32_t group, uint64_t* number);
/* The call of this number is not made, since the program's arguments were refused before it could be submitted: it
 * fails on the ranks that make it, with RONDE_MISMATCH and this reason. ronde_submit and ronde_execute say so by
 * themselves of what they refuse. */
RONDE_API ronde_status ronde_refuse_call(ronde_engine* engine, int32_t group, uint64_t number, const char* why,
                                         size_t bytes);

/* Hands the request in and returns at once. Tensor memory must stay valid and, for inputs, unchanged until the ticket
 * is done; the structs and strings only during the call. RONDE_DUPLICATE_NAME: the name is taken from submit until its
 * ticket is waited for or released. */
RONDE_API ronde_status ronde_submit(ronde_engine* engine, const ronde_request* request, ronde_ticket** ticket);
/* ronde_submit, ronde_wait, in one call: what a blocking operation should use, since the calling thread then drives
 * the work itself from the start. The ticket (not NULL only on RONDE_OK or an error of the work itself, then in
 * *ticket) is the caller's to release; `ticket` may be NULL if no output is wanted. RONDE_INTERRUPTED and
 * RONDE_TIMED_OUT by `limit_s` (as in ronde_wait): *ticket is set and still under way; if `ticket` is NULL the call
 * does not return before the work has ended. */
RONDE_API ronde_status ronde_execute(ronde_engine* engine, const ronde_request* request, double limit_s,
                                     ronde_ticket** ticket);

/* Sets *done to 1 if the ticket is done, else 0; never drives the work, never blocks; frees no name. */
RONDE_API ronde_status ronde_test(ronde_ticket* ticket, int32_t* done);
/* Waits until the ticket is done and returns its status; its name is then free. limit_s < 0: as long as it takes
 * (the request's own limit still ends it); 0: what can be done now is done, nobody is waited for. RONDE_TIMED_OUT with
 * the ticket still under way once limit_s has passed, or 2 ms later if its work is moving;
 * RONDE_INTERRUPTED when a signal came. As with read(2), a signal handled in the moment before the thread sleeps does
 * not end the sleep: who must answer a flag that a handler sets waits in slices. The waiting thread drives the work. */
RONDE_API ronde_status ronde_wait(ronde_ticket* ticket, double limit_s);
/* The same, for callers that would rather leave the work to the engine's thread than wait for a late rank:
 * RONDE_TIMED_OUT also once nothing has moved for `idle_s`. Since version 1004. */
RONDE_API ronde_status ronde_wait_while_moving(ronde_ticket* ticket, double idle_s, double limit_s);
/* All of them. The status of the first, in array order, that failed; all are done then. */
RONDE_API ronde_status ronde_wait_all(ronde_ticket* const* tickets, size_t count, double limit_s);
/* At least one of them; *index is the first, in array order, that is done. Returns that one's status. */
RONDE_API ronde_status ronde_wait_any(ronde_ticket* const* tickets, size_t count, double limit_s, size_t* index);
/* The caller does not want the end of what is under way, since its program was interrupted, say: unless all ranks have
 * submitted it, or do so before they hear of this, it fails on every rank with RONDE_CANCELLED and this rank's number.
 * What has begun is finished. A send or recv that has not met its other side ends alone, as with MPI_Cancel: the other
 * rank's waits for a later one. Returns at once; the ticket is done soon after, and its tensors are the caller's again
 * then. Nothing for a ticket that is done, or that of a join. */
RONDE_API ronde_status ronde_cancel(ronde_ticket* ticket);
/* Frees the ticket, blocking until the engine touches its memory no more; does not cancel. A slot's ticket stays. */
RONDE_API ronde_status ronde_release(ronde_ticket* ticket);

/* For callbacks in a language with exceptions, whose wrapper has caught one: logged as an error, with the ticket's
 * name. `what`: a text that says what it was. */
RONDE_API void ronde_callback_threw(ronde_ticket* ticket, const char* what);

/* How the ticket ended; RONDE_INVALID_ARGUMENT while it is under way. Strings live until its release. */
RONDE_API ronde_status ronde_ticket_error(ronde_ticket* ticket, ronde_error_info* info);

/* The i-th output after success: of ALLGATHER and the like memory that the ticket owns, else the caller's own. The
 * shape has *ndim extents. Valid until the ticket's release. NULL pointers are skipped. */
RONDE_API ronde_status ronde_ticket_output(ronde_ticket* ticket, size_t i, void** data, const int64_t** shape,
                                           int32_t* ndim, ronde_dtype* dtype);
/* ALLTOALL: the rows received from each rank of the group, after success. Valid until the ticket's release. */
RONDE_API ronde_status ronde_ticket_splits(ronde_ticket* ticket, const int64_t** splits, size_t* count);
/* RECV: the rank that sent, after success. */
RONDE_API ronde_status ronde_ticket_source(ronde_ticket* ticket, int32_t* rank);

/* ---- Slots: a request that comes back each step ------------------------------------------------------------------ */

/* Keeps the request for good (pointers, shapes, name) and gives it a number >= 0. Local: no other rank is asked. */
RONDE_API ronde_status ronde_register_slot(ronde_engine* engine, const ronde_request* request, int64_t* slot);
/* Submits the kept request again. RONDE_DUPLICATE_NAME before the last one was waited for or released. */
RONDE_API ronde_status ronde_submit_slot(int64_t slot);
/* Submits `count` of them, in the order of the array, in one call. The first that fails ends it with its status;
 * *submitted (never NULL) is how many were before it. */
RONDE_API ronde_status ronde_submit_slots(const int64_t* slots, size_t count, size_t* submitted);
/* As ronde_wait and ronde_test for the slot's current request. Of several threads that wait for one slot all return
 * when a request of it is done; which of two in a row is the caller's to arrange. */
RONDE_API ronde_status ronde_wait_slot(int64_t slot, double limit_s);
RONDE_API ronde_status ronde_test_slot(int64_t slot, int32_t* done);
/* The slot's ticket, valid until ronde_unregister_slot; NULL before the first submit. */
RONDE_API ronde_status ronde_slot_ticket(int64_t slot, ronde_ticket** ticket);
/* Waits for what is under way, then forgets the slot. */
RONDE_API ronde_status ronde_unregister_slot(int64_t slot);

/* ---- Shared buffers: memory that every rank of the host maps ----------------------------------------------------- */

/* An all-reduce of a tensor that lies, with its result, in such memory on every rank is done in the tensor itself:
 * nothing is copied in or out. Ranks may allocate in any order. Where a rank has the tensor in private memory, or not
 * as far from a multiple of 128 bytes as the others, the result is the same and only takes longer; `direct_bytes` of
 * the counters tells.
 *
 * Gives `bytes` of zeroed memory at a multiple of 4096. Local: returns at once, no rank is asked. The memory is the
 * caller's until ronde_free_shared(), also after ronde_shutdown(); it is then ordinary memory. Not inherited by a
 * forked child. In a job of one rank it is private memory. RONDE_OUT_OF_MEMORY where the machine or the container has
 * no room for as much from every rank: use private memory then. `name` is for messages. */
RONDE_API ronde_status ronde_alloc_shared(ronde_engine* engine, const char* name, size_t name_bytes, size_t bytes,
                                          void** data);
/* Requires: every ticket with a tensor in it was waited for or released. Any time, any thread; NULL: RONDE_OK. */
RONDE_API ronde_status ronde_free_shared(void* data);

/* The names until 0.1; they go after 0.2. */
RONDE_API ronde_status ronde_alloc_bucket(ronde_engine* engine, const char* name, size_t name_bytes, size_t bytes,
                                          void** data);
RONDE_API ronde_status ronde_free_bucket(void* data);

/* ---- Persistent plans: requests that come back together ------------------------------------------------------------
 */

typedef struct ronde_plan ronde_plan; /* requests that are started together */
/* Keeps `count` requests of ALLREDUCE for good (pointers, shapes, names), as MPI's persistent collectives do: after the
 * first start they are agreed as one, without messages and names. Local: the ranks meet at the first start, by the
 * names, in any order. All ranks make a plan of the same names; all requests are of one group; on_done must be NULL. */
RONDE_API ronde_status ronde_plan_create(ronde_engine* engine, const ronde_request* requests, size_t count,
                                         ronde_plan** plan);
/* Submits all of them. After an error those before the one it speaks of may be under way: ronde_plan_wait() before
 * their memory is touched. RONDE_DUPLICATE_NAME before the last start was waited for, with nothing submitted, or where
 * another request has one of the names. */
RONDE_API ronde_status ronde_plan_start(ronde_plan* plan);
/* Waits for all, as ronde_wait_all(). RONDE_INVALID_ARGUMENT if it was never started. */
RONDE_API ronde_status ronde_plan_wait(ronde_plan* plan, double limit_s);
/* Waits for what is under way, then frees. NULL: RONDE_OK. */
RONDE_API ronde_status ronde_plan_destroy(ronde_plan* plan);

/* ---- Timeline ------------------------------------------------------------------------------------------------------
 */

/* From now on what happens to every tensor of this rank, in every process set, is written as a Chrome trace (a JSON
 * array) to the file `path` on rank 0 and to `path`.R on any other rank R; a file that exists is emptied. Not
 * collective: a rank that does not call it writes none. Any thread; never waits for the disk afterwards. `path`:
 * path_bytes of UTF-8, copied. mark_cycles: 1 for an event CYCLE_START for each batch of agreed requests, else 0.
 * RONDE_INVALID_ARGUMENT while one is written, or for an empty path; RONDE_SYSTEM_ERROR naming the file if it cannot be
 * written; RONDE_NOT_INITIALIZED. Also ended by shutdown; RONDE_TIMELINE in the environment starts one at init. */
RONDE_API ronde_status ronde_start_timeline(ronde_engine* engine, const char* path, size_t path_bytes,
                                            int32_t mark_cycles);
/* When it returns the file is complete. RONDE_INVALID_ARGUMENT if none is being written. */
RONDE_API ronde_status ronde_stop_timeline(ronde_engine* engine);

#ifdef __cplusplus
}
#endif

#endif /* RONDE_RONDE_H */
