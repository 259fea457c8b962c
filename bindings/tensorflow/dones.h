// The operations that wait for requests and give their results.
#pragma once

#include "run.h"

namespace ronde::tf {

/// RondeDone: waits for the requests of its tokens in this thread.
void compute_done(Run& run);
/// RondeDoneRows: the same for one request whose results have shapes that are known at its end only.
void compute_done_rows(Run& run);

/// The same without holding the thread: they return, and run the callback once the requests have ended, in this thread
/// or another. They wait here for a moment first, which drives the work and saves the way over other threads.
void compute_done_async(void* kernel, OpKernelContext* context, AsyncDone* callback);
void compute_done_rows_async(void* kernel, OpKernelContext* context, AsyncDone* callback);

}  // namespace ronde::tf
