// Ronde's C++ interface: header-only C++20 over <ronde/ronde.h>.
//
//   ronde::Session session;                                        // joins the job, leaves it at the end of the scope
//   ronde::allreduce(gradients, {.name = "gradients"});            // in place: the average over all ranks
//   ronde::Ticket sum = ronde::allreduce_async(input, output, {.name = "loss", .op = ronde::Op::sum});
//   sum.wait();
//
// What holds for everything here:
//  - Failures are thrown as ronde::Error; after RONDE_MISMATCH and the like the job stays usable (docs/failure.md).
//  - Ranks meet by name, in any order: the n-th request of a name on one rank meets the n-th on every other. A name
//    is taken until its ticket is waited for or destroyed. Calls without a name meet by their order: the n-th such call
//    of a rank meets the n-th of every other, whatever each has waited for; a barrier begins a new count.
//  - Any function may be called from any thread. A wait that a signal interrupts goes on.
//  - Views own nothing. The memory they show must live, and inputs stay as they are, until the request is done.
//  - A program started without a launcher is a job of one rank, and everything works.
#pragma once

#if __cplusplus < 202002L
#error "<ronde/ronde.hpp> needs C++20 (-std=c++20)"
#endif

#include <ronde/error.hpp>
#include <ronde/group.hpp>
#include <ronde/job.hpp>
#include <ronde/request.hpp>
#include <ronde/scan.hpp>
#include <ronde/shared_buffer.hpp>
#include <ronde/tensor.hpp>
#include <ronde/ticket.hpp>
