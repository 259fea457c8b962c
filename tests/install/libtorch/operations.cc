// Each function of <ronde/torch.hpp> beside values computed by hand, on any number of ranks. Prints what is wrong, and
// how much was checked; ends with 1 if anything was.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "checks.h"

namespace {

/// Different on each rank.
at::Tensor rows(std::int64_t count, int of, at::ScalarType type = at::kFloat) {
  return (at::arange(count * 3, at::kFloat).reshape({count, 3}) + 10 * of).to(type);
}

at::Tensor sum_of_rows(std::int64_t count, int ranks, at::ScalarType type = at::kFloat) {
  at::Tensor sum = at::zeros({count, 3}, type);
  for (int of = 0; of < ranks; ++of) {
    sum += rows(count, of, type);
  }
  return sum;
}

void check_reductions() {
  const ronde::AllreduceOptions sum{.op = ronde::Op::sum};
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kByte,
                                    at::kChar, at::kShort, at::kComplexFloat, at::kComplexDouble}) {
    check_equal(ronde::torch::allreduce(rows(2, rank, type), sum), sum_of_rows(2, size, type),
                std::string("a sum of ") + c10::toString(type));
  }
  for (const std::int64_t count : {0, 1, 7, 4097, 100000}) {
    at::Tensor tensor = rows(count, rank);
    const at::Tensor before = tensor.clone();
    check_equal(ronde::torch::allreduce(tensor, {.name = "named", .op = ronde::Op::sum}), sum_of_rows(count, size),
                "a named sum");
    check_equal(tensor, before, "the input of a sum");
    check_equal(ronde::torch::allreduce_(tensor, sum), sum_of_rows(count, size), "the result of a sum in place");
    check_equal(tensor, sum_of_rows(count, size), "a sum in place");
  }
  check_equal(ronde::torch::allreduce(at::scalar_tensor(rank + 1.0)), at::scalar_tensor((size + 1) / 2.0),
              "an average");
  check_equal(ronde::torch::allreduce(at::full({2}, rank), {.op = ronde::Op::max}), at::full({2}, size - 1),
              "a maximum");
  check_equal(ronde::torch::allreduce(at::ones({2}), {.op = ronde::Op::sum, .prescale = 2, .postscale = 3}),
              at::full({2}, 6.0F * static_cast<float>(size)), "a scaled sum");

  at::Tensor wide = at::zeros({4, 6});
  at::Tensor transposed = wide.narrow(1, 1, 3).t();  // of strides 1 and 6
  transposed.copy_(rows(4, rank).t());
  check_equal(ronde::torch::allreduce(transposed, sum), sum_of_rows(4, size).t().contiguous(), "a sum of strides");
  ronde::torch::allreduce_(transposed, sum);
  check_equal(wide.narrow(1, 1, 3), sum_of_rows(4, size), "a sum of strides in place");
  check(wide.select(1, 0).eq(0).all().item<bool>() && wide.select(1, 4).eq(0).all().item<bool>(),
        "what lies beside it");
  check_equal(ronde::torch::allreduce(at::ones({3}).expand({2, 3}), sum), at::full({2, 3}, 1.0F * size),
              "a sum of an expanded tensor");
  const at::Tensor conjugate = at::full({2}, c10::complex<float>(1, 1)).conj();
  check_equal(ronde::torch::allreduce(conjugate, sum).resolve_conj(), at::full({2}, c10::complex<float>(size, -size)),
              "a sum of conjugates");

  const std::vector<at::Tensor> list{rows(2, rank), rows(5, rank, at::kLong), at::empty({0, 3})};
  const std::vector<at::Tensor> sums = ronde::torch::grouped_allreduce(list, {.name = "list", .op = ronde::Op::sum});
  check(sums.size() == 3, "the number of sums of a list");
  check_equal(sums[0], sum_of_rows(2, size), "the first of a list");
  check_equal(sums[1], sum_of_rows(5, size, at::kLong), "the second of a list");
  ronde::torch::grouped_allreduce_(list, {.op = ronde::Op::sum});
  check_equal(list[1], sum_of_rows(5, size, at::kLong), "the second of a list in place");
}

void check_works() {
  std::vector<ronde::torch::Work> works;
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 20; ++i) {
    const int number = rank % 2 == 0 ? i : 19 - i;  // ranks make them in different orders
    works.push_back(ronde::torch::allreduce_async(at::full({1000}, 1.0F * static_cast<float>(number * (rank + 1))),
                                                  {.name = "work " + std::to_string(number), .op = ronde::Op::sum}));
    expected.push_back(at::full({1000}, static_cast<float>(number * size * (size + 1) / 2)));
  }
  for (std::size_t i = works.size(); i-- > 0;) {
    check_equal(works[i].wait(), expected[i], "a work that is waited for late");
  }
  check(works[0].is_done(), "whether a work is done");
  check_equal(works[0].wait(), expected[0], "a work that is waited for again");
  at::Tensor kept;
  {
    ronde::torch::Work dropped = ronde::torch::allreduce_async_(kept = at::ones({100000}), {.op = ronde::Op::sum});
    dropped = ronde::torch::allreduce_async(at::ones({1}), {.op = ronde::Op::sum});
  }
  check_equal(kept, at::full({100000}, static_cast<float>(size)), "a work whose handle got another");
  at::Tensor transposed = at::ones({300, 200}).t();  // the result comes by a copy
  { ronde::torch::Work dropped = ronde::torch::allreduce_async_(transposed, {.op = ronde::Op::sum}); }
  check_equal(transposed.contiguous(), at::full({200, 300}, 1.0F * size), "a strided tensor whose work was dropped");
  ronde::torch::Work polled = ronde::torch::allreduce_async_(transposed, {.op = ronde::Op::sum});
  while (!polled.is_done()) {
  }
  check_equal(transposed.contiguous(), at::full({200, 300}, 1.0F * size * size),
              "a strided tensor that was polled for");
  const at::Tensor saved = at::ones({3}).requires_grad_();
  at::Tensor used = saved * 2;
  const at::Tensor loss = (used * used).sum();
  ronde::torch::allreduce_(used.detach(), {.op = ronde::Op::sum});
  bool is_noticed = false;
  try {
    loss.backward();
  } catch (const c10::Error&) {
    is_noticed = true;
  }
  check(is_noticed, "that autograd notices what was changed in place");
}

void check_rows() {
  std::vector<at::Tensor> all;
  for (int of = 0; of < size; ++of) {
    all.push_back(rows(of, of));
  }
  const at::Tensor together = at::cat(all);
  check_equal(ronde::torch::allgather(rows(rank, rank)), together, "an all-gather");
  check_equal(ronde::torch::allgather(rows(rank, rank).t().contiguous().t(), {.name = "rows"}), together,
              "an all-gather of strides");
  const at::Tensor gathered = ronde::torch::gather(rows(rank, rank), {.root = size - 1});
  check_equal(gathered, rank == size - 1 ? together : together.narrow(0, 0, 0), "a gather");
  check_equal(ronde::torch::scatter(rows(2 * size, 5), {.root = 0}), rows(2 * size, 5).narrow(0, 2 * rank, 2),
              "a scatter");
  std::vector<std::int64_t> splits;
  std::int64_t before = 0;
  for (int to = 0; to < size; ++to) {
    splits.push_back(to);  // rank r gets r rows of each
    before += to < rank ? to : 0;
  }
  const std::int64_t count = std::int64_t{size} * (size - 1) / 2;
  ronde::torch::Work exchange = ronde::torch::alltoall_async(rows(count, rank), {.name = "exchange", .splits = splits});
  std::vector<at::Tensor> expected;
  for (int of = 0; of < size; ++of) {
    expected.push_back(rows(count, of).narrow(0, before, rank));
  }
  check_equal(exchange.wait(), at::cat(expected), "an all-to-all");
  check(ronde::torch::received_splits(exchange) == std::vector<std::int64_t>(static_cast<std::size_t>(size), rank),
        "the splits of an all-to-all");
  const std::int64_t odd = 2 * size + 1;  // the first rank gets one row more
  check_equal(ronde::torch::reducescatter(rows(odd, rank), {.op = ronde::Op::sum}),
              sum_of_rows(odd, size).narrow(0, rank == 0 ? 0 : 2 * rank + 1, rank == 0 ? 3 : 2), "a reduce-scatter");
  at::Tensor outlives;
  { outlives = ronde::torch::allgather(at::full({1}, rank)); }
  check_equal(outlives, at::arange(size), "a result that outlives its work");
  check_equal(ronde::torch::allgather(at::full({2}, rank == 0), {.name = "flags"}).sum(),
              at::scalar_tensor(2, at::kLong), "an all-gather of flags");
}

void check_others() {
  at::Tensor tensor = rows(3, rank);
  check_equal(ronde::torch::broadcast(tensor, {.root = size - 1}), rows(3, size - 1), "a broadcast");
  check_equal(tensor, rows(3, rank), "the input of a broadcast");
  at::Tensor strided = rows(3, rank).t().contiguous().t();
  ronde::torch::broadcast_(strided, {.name = "b", .root = size - 1});
  check_equal(strided, rows(3, size - 1), "a broadcast in place");
  ronde::torch::reduce_(tensor, {.root = 0, .op = ronde::Op::sum});
  check_equal(tensor, rank == 0 ? sum_of_rows(3, size) : rows(3, rank), "a reduce");
  check_equal(ronde::torch::scan(rows(2, rank)), sum_of_rows(2, rank + 1), "a scan");
  check_equal(ronde::torch::exscan(rows(2, rank)), sum_of_rows(2, rank), "an exclusive scan");
  if (size > 1) {
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;
    ronde::torch::Work sent = ronde::torch::send_async(rows(2, rank).t(), {.peer = next, .tag = 3});
    at::Tensor received = at::zeros({3, 2});
    check(ronde::torch::recv_(received, {.peer = previous, .tag = 3}) == previous, "whose a received tensor is");
    check_equal(received, rows(2, previous).t().contiguous(), "a received tensor");
    sent.wait();
  }
}

void check_refusals() {
  check_refused([] { ronde::torch::allreduce({}); }, "undefined", "an undefined tensor");
  check_refused([] { ronde::torch::allreduce(at::eye(3).to_sparse()); }, "sparse", "a sparse tensor");
  check_refused([] { ronde::torch::allgather(at::empty({2}, at::kMeta)); }, "lies on meta", "a tensor without memory");
  check_refused([] { ronde::torch::broadcast_(at::empty({2}, at::kQInt8), {.name = "q"}); }, "QInt8",
                "a quantised tensor");
  check_refused([] { ronde::torch::allreduce(at::ones({2}), {.name = "zero", .prescale = 0}); }, "prescale",
                "a scale of 0");
  check_refused(
      [] {
        ronde::torch::allreduce_(at::ones({3}).expand({2, 3}));
      },
      "was expanded", "an expanded tensor that is to be written");
  // Calls without a name that were refused count on all ranks alike, so those that follow meet.
  check_equal(ronde::torch::allreduce(at::ones({2})), at::ones({2}), "what follows a refusal");
}

}  // namespace

int main() {
  try {
    ::torch::set_num_threads(1);
    ronde::Session session;
    rank = ronde::rank();
    size = ronde::size();
    check_reductions();
    check_works();
    check_rows();
    check_others();
    check_refusals();
    check_optimizers();
    check_closures();
    ronde::barrier();
    std::printf("rank %d of %d: %d checked, %d wrong\n", rank, size, checks, wrong);
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("rank %d: %s\n", rank, error.what());
    return 1;
  }
}
