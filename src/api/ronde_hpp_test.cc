// The C++ interface where it needs no engine: types, views, error texts; and that a job of one rank works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <ronde/ronde.hpp>
#include <type_traits>
#include <vector>

namespace {

struct Half {
  std::uint16_t bits;
};

}  // namespace

template <>
struct ronde::DTypeOf<Half> : ronde::DTypeIs<ronde::DType::float16> {};

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

static_assert(ronde::DTypeOf<float>::value == ronde::DType::float32);
static_assert(ronde::DTypeOf<std::uint8_t>::value == ronde::DType::uint8);
static_assert(ronde::DTypeOf<std::int8_t>::value == ronde::DType::int8);
static_assert(ronde::DTypeOf<std::int16_t>::value == ronde::DType::int16);
static_assert(ronde::DTypeOf<std::int32_t>::value == ronde::DType::int32);
static_assert(ronde::DTypeOf<std::int64_t>::value == ronde::DType::int64);
static_assert(ronde::DTypeOf<long long>::value == ronde::DType::int64);
static_assert(ronde::Element<Half> && ronde::Element<const double>);
static_assert(ronde::DTypeOf<std::uint32_t>::value == ronde::DType::uint32);
static_assert(ronde::DTypeOf<std::uint64_t>::value == ronde::DType::uint64);
static_assert(!ronde::Element<long double> && !ronde::Element<char> && !ronde::Element<void*>);

// What is only readable is never an output.
static_assert(std::is_constructible_v<ronde::ConstTensorView, const std::vector<float>&>);
static_assert(!std::is_constructible_v<ronde::TensorView, const std::vector<float>&>);
static_assert(std::is_convertible_v<ronde::TensorView, ronde::ConstTensorView>);
static_assert(!std::is_convertible_v<ronde::ConstTensorView, ronde::TensorView>);

static_assert(std::is_nothrow_move_constructible_v<ronde::Ticket> && !std::is_copy_constructible_v<ronde::Ticket>);
static_assert(!std::is_copy_constructible_v<ronde::Gathered<float>> && !std::is_copy_constructible_v<ronde::Engine>);

TEST(RondeHpp, view_of_a_vector_has_one_dimension) {
  std::vector<Half> values(5);
  const ronde::TensorView view(values);
  EXPECT_EQ(view.dtype(), ronde::DType::float16);
  EXPECT_THAT(view.shape(), ElementsAre(5));
  EXPECT_EQ(view.to_c().data, values.data());
  EXPECT_EQ(view.to_c().ndim, 1);
}

TEST(RondeHpp, copy_of_a_view_owns_its_extents) {
  std::array<double, 6> values{};
  const ronde::ConstTensorView copy = ronde::ConstTensorView(values, {2, 3});
  EXPECT_THAT(copy.shape(), ElementsAre(2, 3));
  const ronde::ConstTensorView flat = ronde::TensorView(values);
  EXPECT_EQ(flat.to_c().shape, flat.shape().data());
  EXPECT_THAT(flat.shape(), ElementsAre(6));
}

TEST(RondeHpp, view_may_be_a_scalar_or_empty) {
  std::array<float, 1> one{};
  EXPECT_EQ(ronde::TensorView(one, std::vector<std::int64_t>{}).to_c().ndim, 0);
  EXPECT_THAT(ronde::ConstTensorView(std::vector<int>{}).shape(), ElementsAre(0));
}

TEST(RondeHpp, shape_of_another_size_is_refused) {
  std::vector<float> values(5);
  try {
    const ronde::TensorView view(values, {2, 3});
    FAIL() << "accepted";
  } catch (const ronde::Error& error) {
    EXPECT_EQ(error.code(), ronde::Code::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("the shape has 6 elements, the memory 5"));
  }
}

TEST(RondeHpp, error_says_what_the_sentence_leaves_out) {
  const ronde::Error bare(ronde::Code::peer_lost, "a process died", "grad/3", 2);
  EXPECT_THAT(bare.what(), HasSubstr("a process died (tensor 'grad/3') (rank 2)"));
  EXPECT_EQ(bare.tensor(), "grad/3");
  EXPECT_EQ(bare.failed_rank(), 2);
  const ronde::Error full(ronde::Code::peer_lost, "rank 2 died while 'grad/3' waited", "grad/3", 2);
  EXPECT_THAT(full.what(), HasSubstr(": rank 2 died while 'grad/3' waited"));
  EXPECT_THAT(std::string(full.what()), ::testing::EndsWith("waited"));
  EXPECT_EQ(ronde::Error(ronde::Code::internal, "").failed_rank(), -1);
}

TEST(RondeHpp, empty_ticket_is_done) {
  const ronde::Ticket ticket;
  EXPECT_TRUE(ticket.is_done());
  EXPECT_NO_THROW(ticket.wait());
  EXPECT_TRUE(ticket.wait_for(std::chrono::seconds(0)));
}

TEST(RondeHpp, scale_of_zero_is_refused) {
  std::vector<float> values(1);
  EXPECT_THROW(ronde::allreduce(values, {.name = "x", .prescale = 0}), ronde::Error);
  EXPECT_THROW(ronde::allreduce(values, {.name = "x", .postscale = 0}), ronde::Error);
}

TEST(RondeHpp, call_before_init_says_so) {
  std::vector<float> values(1);
  try {
    ronde::allreduce(values, {.name = "x"});
    FAIL() << "accepted";
  } catch (const ronde::Error& error) {
    EXPECT_EQ(error.code(), ronde::Code::not_initialized);
  }
}

TEST(RondeHppOneRank, operations) {
  const ronde::Session session;
  EXPECT_TRUE(ronde::is_initialized());
  EXPECT_EQ(ronde::rank(), 0);
  EXPECT_EQ(ronde::size(), 1);

  std::vector<float> values{1, 2, 3};
  ronde::allreduce(values, {.name = "in place", .op = ronde::Op::sum, .prescale = 2});
  EXPECT_THAT(values, ElementsAre(2, 4, 6));

  std::vector<double> output(2);
  ronde::allreduce(std::vector<double>{1, 2}, output, {.name = "out of place", .postscale = 0.5});
  EXPECT_THAT(output, ElementsAre(0.5, 1));

  std::vector<std::int64_t> counts{7};
  ronde::grouped_allreduce({values, counts}, {.name = "group"});
  EXPECT_THAT(counts, ElementsAre(7));

  ronde::broadcast(values, {.name = "values", .root = 0});
  ronde::barrier();
  EXPECT_THAT(values, ElementsAre(2, 4, 6));
}

TEST(RondeHppOneRank, gathered_rows_have_a_shape) {
  const ronde::Session session;
  const std::vector<int> values{1, 2, 3, 4, 5, 6};
  const ronde::Gathered<int> flat = ronde::allgather(values, {.name = "flat"});
  EXPECT_THAT(flat.shape(), ElementsAre(6));
  EXPECT_THAT(flat.view(), ElementsAre(1, 2, 3, 4, 5, 6));
  const auto rows = ronde::allgather<int>(ronde::ConstTensorView(values, {3, 2}), {.name = "rows"});
  EXPECT_THAT(rows.shape(), ElementsAre(3, 2));
  ronde::GatherTicket<int> pending = ronde::allgather_async(values, {.name = "pending"});
  EXPECT_THAT(pending.take().shape(), ElementsAre(6));
  EXPECT_THROW(ronde::allgather<float>(ronde::ConstTensorView(values), {.name = "other type"}), ronde::Error);
}

TEST(RondeHppOneRank, alltoall_and_reducescatter_of_one) {
  const ronde::Session session;
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const ronde::ConstTensorView view(values, {3, 2});
  const auto all = ronde::alltoall<float>(view, {.name = "all"});
  EXPECT_THAT(all.shape(), ElementsAre(3, 2));
  EXPECT_THAT(all.view(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(all.received_splits(), ElementsAre(3));
  const std::vector<std::int64_t> splits{4};
  EXPECT_THROW(ronde::alltoall<float>(view, {.name = "wrong", .splits = splits}), ronde::Error);
  const auto part = ronde::reducescatter<float>(view, {.name = "part", .op = ronde::Op::sum, .prescale = 2});
  EXPECT_THAT(part.shape(), ElementsAre(3, 2));
  EXPECT_THAT(part.view(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THROW(part.received_splits(), ronde::Error);
  auto pending = ronde::reducescatter_async<float>(view, {.name = "pending"});
  EXPECT_THAT(pending.take().shape(), ElementsAre(3, 2));
}

TEST(RondeHppOneRank, scans_of_one) {
  ronde::Session session;
  std::vector<float> values{1, 2};
  ronde::scan(values, {.name = "in place", .prescale = 2});
  EXPECT_EQ(values, (std::vector<float>{2, 4}));
  std::vector<float> output(2);
  ronde::scan_async(std::vector<float>{3, 4}, output, {.name = "out of place"}).wait();
  EXPECT_EQ(output, (std::vector<float>{3, 4}));
  ronde::exscan(values, output, {.name = "none before", .op = ronde::Op::product});
  EXPECT_EQ(output, (std::vector<float>{1, 1}));
  ronde::exscan_async(values, {.name = "in place"}).wait();
  EXPECT_EQ(values, (std::vector<float>{0, 0}));
  EXPECT_THROW(ronde::scan(values, {.name = "no average", .op = ronde::Op::average}), ronde::Error);
}

TEST(RondeHppOneRank, reduce_gather_and_scatter_of_one) {
  const ronde::Session session;
  std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::vector<float> result(6);
  ronde::reduce(values, result, {.name = "reduced", .op = ronde::Op::sum, .prescale = 2});
  EXPECT_THAT(result, ElementsAre(2, 4, 6, 8, 10, 12));
  ronde::reduce(values, {.name = "in place", .op = ronde::Op::sum, .postscale = 0.5});
  EXPECT_THAT(values, ElementsAre(0.5, 1, 1.5, 2, 2.5, 3));
  ronde::reduce_async(values, {.name = "pending"}).wait();
  const ronde::ConstTensorView view(result, {3, 2});
  EXPECT_THAT(ronde::gather<float>(view, {.name = "gathered"}).view(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(ronde::gather_async<float>(view, {.name = "gathering"}).take().shape(), ElementsAre(3, 2));
  const std::vector<std::int64_t> splits{3};
  EXPECT_THAT(ronde::scatter<float>(view, {.name = "scattered", .splits = splits}).shape(), ElementsAre(3, 2));
  EXPECT_THAT(ronde::scatter_async<float>(view, {.name = "scattering"}).take().view(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THROW(ronde::reduce(values, {.name = "nobody", .root = 1}), ronde::Error);
}

TEST(RondeHppOneRank, nobody_to_send_to) {
  const ronde::Session session;
  std::vector<float> values(3);
  EXPECT_THROW(ronde::send(values, {.name = "s", .peer = 0}), ronde::Error);
  EXPECT_THROW(static_cast<void>(ronde::recv(values, {.name = "r", .peer = ronde::kAnySource})), ronde::Error);
}

TEST(RondeHppOneRank, callback_comes_once) {
  std::atomic<int> calls = 0;
  {
    const ronde::Session session;
    std::vector<float> values(3);
    const ronde::Ticket ticket =
        ronde::allreduce_async(values, {.name = "x", .on_done = [&](const ronde::Error* error) {
                                          EXPECT_EQ(error, nullptr);
                                          ++calls;
                                          calls.notify_all();
                                        }});
    ticket.wait();
    calls.wait(0);
  }
  EXPECT_EQ(calls, 1);
}

TEST(RondeHppOneRank, what_a_callback_throws_is_logged) {
  static std::string line;
  line.clear();
  ASSERT_EQ(ronde_set_log([](void*, std::int32_t, std::int32_t, const char* text,
                             std::size_t bytes) { line.append(text, bytes); },
                          nullptr),
            RONDE_OK);
  {
    const ronde::Session session;
    std::vector<float> values(3);
    ronde::allreduce_async(values,
                           {.name = "x", .on_done = [](const ronde::Error*) { throw std::runtime_error("too bad"); }})
        .wait();
    ronde::allreduce(values, {.name = "y"});
  }
  ASSERT_EQ(ronde_set_log(nullptr, nullptr), RONDE_OK);
  EXPECT_NE(line.find("the completion callback of 'x' has thrown: too bad"), std::string::npos) << line;
}

TEST(RondeHppOneRank, refused_request_calls_nobody_back) {
  const ronde::Session session;
  bool called = false;
  std::vector<float> values(1);
  EXPECT_THROW(static_cast<void>(ronde::allreduce_async(
                   values, {.name = std::string(5000, 'x'), .on_done = [&](const ronde::Error*) { called = true; }})),
               ronde::Error);
  EXPECT_FALSE(called);
}

TEST(RondeHppOneRank, calls_without_a_name_are_numbered) {
  const ronde::Session session;
  std::vector<float> values(1, 2.0F);
  std::vector<ronde::Ticket> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(ronde::allreduce_async(values, {.op = ronde::Op::sum}));  // at once: each has a number of its own
  }
  for (ronde::Ticket& call : calls) {
    call.wait();
  }
  EXPECT_EQ(values.front(), 2.0F);
}

TEST(RondeHppOneRank, calls_without_a_name_that_are_refused_count) {
  const ronde::Session session;
  std::vector<float> values(1, 2.0F);
  std::vector<std::int64_t> too_many(33, 1);
  const auto number = [] {
    std::uint64_t next = 0;
    EXPECT_EQ(ronde_call_number(nullptr, 0, &next), RONDE_OK);
    return next;
  };
  const std::uint64_t before = number();
  EXPECT_THROW(ronde::allreduce({values, too_many}, {}), ronde::Error);         // cannot be read
  EXPECT_THROW(ronde::allreduce(values, {.prescale = 0}), ronde::Error);        // by the header
  EXPECT_THROW(ronde::allreduce(values, {.op = ronde::Op{77}}), ronde::Error);  // by the engine
  EXPECT_THROW(ronde::allreduce({values, too_many}, {.name = "x"}), ronde::Error) << "has a name";
  EXPECT_THROW(ronde::send({values, too_many}, {.peer = 0}), ronde::Error) << "two ranks' alone";
  EXPECT_EQ(number(), before + 4);
}

TEST(RondeHppOneRank, tickets_together) {
  const ronde::Session session;
  std::vector<float> a(3), b(4);
  std::vector<ronde::Ticket> tickets;
  tickets.push_back(ronde::allreduce_async(a, {.name = "a"}));
  tickets.push_back(ronde::allreduce_async(b, {.name = "b"}));
  EXPECT_LT(ronde::wait_any(tickets), tickets.size());
  ronde::wait_all(tickets);
  EXPECT_TRUE(tickets[0].is_done() && tickets[1].is_done());
}

TEST(RondeHppOneRank, engine_of_ones_own) {
  const ronde::Engine engine(ronde::InitOptions{.rank = 0, .size = 1});
  std::vector<float> values{3};
  ronde::allreduce(values, {.name = "x", .engine = &engine});
  EXPECT_EQ(ronde::size(&engine), 1);
}

}  // namespace
