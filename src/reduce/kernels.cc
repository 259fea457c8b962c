// The kernels: out[i] = post(op over r of pre(in[r][i])), the ranks r in index order.
//
// Every kernel is the same loop over i. It takes a few registers' worth of elements at a time ("packs"), loads and
// widens them from rank 0, combines those of rank 1, 2, ... into them while they stay in registers, and finishes,
// narrows and stores once. So each input is read once and each output written once whatever the number of ranks, and
// element i depends on elements i only, which is why the output may be one of the inputs. What is left over at the end
// goes through the same code one pack and at last one element at a time; since no instruction mixes lanes, an element
// gets the same bits wherever in the loop it falls.
//
// This file is compiled once per processor level (CMakeLists.txt) and must leave no symbol behind but table():
// kernel_table.h says why. Vectors are written out with the compiler's vector extension instead of left to
// auto-vectorisation, which gives up on outputs that may alias inputs and does poorly on 16-bit floats.
#include "reduce/kernel_table.h"
#include "reduce/lanes.h"
#include "types/op.h"
#include "types/tensor.h"

// Loops over the packs of a register group must be unrolled altogether, or the packs live on the stack: measured, half
// the speed and less. GCC does not do it by itself at -O2. Under a sanitizer nobody needs it and compiling takes
// minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RONDE_UNROLL
#elif defined(__clang__)
#define RONDE_UNROLL _Pragma("unroll")
#else
#define RONDE_UNROLL _Pragma("GCC unroll 8")
#endif

namespace ronde::reduce::RONDE_LEVEL {
namespace {

// ---- Elements: how a type lies in memory, what it is reduced as, and how many fit in a register --------------------
//
// load<kWidth>() fills kJoint packs of kWidth values from kJoint * kWidth consecutive elements, store<kWidth>() is its
// inverse. kWidth is kLanes, or 1 for what is left over (then one pack).

template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static constexpr int kLanes = lanes_of(sizeof(T));
  static constexpr int kJoint = 1;

  template <int kWidth>
  RONDE_ALWAYS_INLINE static void load(const T* from, Vector<T, kWidth>* pack) {
    *pack = load_as<Vector<T, kWidth>>(from);
  }
  template <int kWidth>
  RONDE_ALWAYS_INLINE static void store(const Vector<T, kWidth>* pack, T* to) {
    __builtin_memcpy(to, pack, sizeof *pack);
  }
};

/// The 16-bit floats are reduced in fp32.
struct Float16 {
  using Stored = std::uint16_t;
  using Value = float;
  static constexpr int kLanes = lanes_of(4);
  static constexpr int kJoint = 1;

  template <int kWidth>
  RONDE_ALWAYS_INLINE static void load(const std::uint16_t* from, Vector<float, kWidth>* pack) {
    if constexpr (kWidth == kLanes) {
      *pack = load_float16(from);
    } else {
      *pack = widen_float16(*from);
    }
  }
  template <int kWidth>
  RONDE_ALWAYS_INLINE static void store(const Vector<float, kWidth>* pack, std::uint16_t* to) {
    if constexpr (kWidth == kLanes) {
      store_float16(*pack, to);
    } else {
      *to = narrow_float16(*pack);
    }
  }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Value = float;
  static constexpr int kLanes = lanes_of(4);
  static constexpr int kJoint = kLanes > 1 ? 2 : 1;

  template <int kWidth>
  RONDE_ALWAYS_INLINE static void load(const std::uint16_t* from, Vector<float, kWidth>* packs) {
#if RONDE_VECTOR_BYTES > 0
    if constexpr (kWidth > 1) {
      return load_bfloat16_pair(from, packs);
    }
#endif
    if constexpr (kWidth == 1) {
      *packs = widen_bfloat16(*from);
    }
  }
  template <int kWidth>
  RONDE_ALWAYS_INLINE static void store(const Vector<float, kWidth>* packs, std::uint16_t* to) {
#if RONDE_VECTOR_BYTES > 0
    if constexpr (kWidth > 1) {
      return store_bfloat16_pair(packs, to);
    }
#endif
    if constexpr (kWidth == 1) {
      *to = narrow_bfloat16(*packs);
    }
  }
};

/// An 8-bit float: reduced in fp32, one at a time on every level.
template <bool kIsE5M2>
struct Float8 {
  using Stored = std::uint8_t;
  using Value = float;
  static constexpr int kLanes = 1;
  static constexpr int kJoint = 1;

  template <int kWidth>
  RONDE_ALWAYS_INLINE static void load(const std::uint8_t* from, float* value) {
    *value = kIsE5M2 ? widen_float8_e5m2(*from) : widen_float8_e4m3(*from);
  }
  template <int kWidth>
  RONDE_ALWAYS_INLINE static void store(const float* value, std::uint8_t* to) {
    *to = kIsE5M2 ? narrow_float8_e5m2(*value) : narrow_float8_e4m3(*value);
  }
};

// ---- Operations on two values or two registers of them -------------------------------------------------------------

template <typename V>
constexpr bool kIsOneInteger = __is_same(V, std::uint8_t) || __is_same(V, std::uint16_t) ||
                               __is_same(V, std::uint32_t) || __is_same(V, std::uint64_t);

/// Integers come here unsigned, whatever their type: the sum and product of two's complement numbers have the same
/// bits, and unsigned ones wrap without being undefined.
struct Sum {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Product {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    if constexpr (kIsOneInteger<V>) {
      // Small types are promoted to int, in which 65535 * 65535 overflows.
      return static_cast<V>(static_cast<std::uint64_t>(a) * b);
    } else {
      return a * b;
    }
  }
};
/// The first of two equal values (so of +0 and -0) and the first NaN are kept.
struct Min {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return ((a <= b) | (a != a)) ? a : b;  // NOLINT(misc-redundant-expression): a NaN is not equal to itself
  }
};
struct Max {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return ((a >= b) | (a != a)) ? a : b;  // NOLINT(misc-redundant-expression)
  }
};
struct BitAnd {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return static_cast<V>(a & b);
  }
};
struct BitOr {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return static_cast<V>(a | b);
  }
};
struct BitXor {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return static_cast<V>(a ^ b);
  }
};
/// Of truth values; a byte that is not 0 is true.
struct Differs {
  template <typename V>
  RONDE_ALWAYS_INLINE static V combine(V a, V b) {
    return (V)((a != V{}) ^ (b != V{})) & static_cast<V>(V{} + 1);
  }
};

// ---- What is done to a value before and after ----------------------------------------------------------------------

/// Nothing.
template <typename T>
struct AsIs {
  explicit AsIs(const Job&) {}
  template <typename V>
  RONDE_ALWAYS_INLINE V before_first(V value) const {
    return value;
  }
  template <typename V>
  RONDE_ALWAYS_INLINE V before(V value) const {
    return value;
  }
  template <typename V>
  RONDE_ALWAYS_INLINE V after(V value) const {
    return value;
  }
};

/// Divides the sum by the number of ranks. For a power of two that is a multiplication by its exact reciprocal: both
/// round the same real number.
template <typename T>
class Average {
 public:
  explicit Average(const Job& job) : Average(job.divisor != 0 ? job.divisor : job.ranks) {}
  template <typename V>
  RONDE_ALWAYS_INLINE V before_first(V value) const {
    return value;
  }
  template <typename V>
  RONDE_ALWAYS_INLINE V before(V value) const {
    return value;
  }
  template <typename V>
  RONDE_ALWAYS_INLINE V after(V value) const {
    return is_exact_ ? value * reciprocal_ : value / ranks_;
  }

 private:
  explicit Average(std::size_t divisor)
      : ranks_(static_cast<T>(divisor)), reciprocal_(T{1} / ranks_), is_exact_((divisor & (divisor - 1)) == 0) {}

  T ranks_;
  T reciprocal_;
  bool is_exact_;
};

/// Multiplies before and after by the two scales, of which one may be 1 (which changes no value).
template <typename T, template <typename> typename Inner>
class Scaled {
 public:
  explicit Scaled(const Job& job)
      : inner_(job),
        first_prescale_(static_cast<T>(job.first_prescale)),
        prescale_(static_cast<T>(job.prescale)),
        postscale_(static_cast<T>(job.postscale)) {}
  template <typename V>
  RONDE_ALWAYS_INLINE V before_first(V value) const {
    return value * first_prescale_;
  }
  template <typename V>
  RONDE_ALWAYS_INLINE V before(V value) const {
    return value * prescale_;
  }
  template <typename V>
  RONDE_ALWAYS_INLINE V after(V value) const {
    return inner_.after(value) * postscale_;
  }

 private:
  Inner<T> inner_;
  T first_prescale_;
  T prescale_;
  T postscale_;
};

// ---- The loop ------------------------------------------------------------------------------------------------------

/// The inputs' pointers. For a known number of ranks a copy that the compiler keeps in registers.
template <typename Stored, int kRanks>
struct Inputs {
  explicit Inputs(const Job& job) {
    for (int r = 0; r < kRanks; ++r) {
      at[r] = static_cast<const Stored*>(job.inputs[r]);
    }
  }
  static constexpr int kKnownSize = kRanks;
  RONDE_ALWAYS_INLINE const Stored* operator[](int r) const { return at[r]; }

  const Stored* at[kRanks];
};
template <typename Stored>
struct Inputs<Stored, 0> {
  explicit Inputs(const Job& job) : at(job.inputs), ranks(job.ranks) {}
  static constexpr int kKnownSize = 0;
  std::size_t size() const { return ranks; }
  RONDE_ALWAYS_INLINE const Stored* operator[](std::size_t r) const { return static_cast<const Stored*>(at[r]); }

  const void* const* at;
  std::size_t ranks;
};

template <typename Element, int kWidth>
constexpr int kJointPacks = kWidth == 1 ? 1 : Element::kJoint;

template <typename Element, int kWidth, int kPacks, typename V>
RONDE_ALWAYS_INLINE void load_packs(const typename Element::Stored* from, V* packs) {
  RONDE_UNROLL
  for (int k = 0; k < kPacks; k += kJointPacks<Element, kWidth>) {
    Element::template load<kWidth>(from + k * kWidth, packs + k);
  }
}
template <typename Element, int kWidth, int kPacks, typename V>
RONDE_ALWAYS_INLINE void store_packs(const V* packs, typename Element::Stored* to) {
  RONDE_UNROLL
  for (int k = 0; k < kPacks; k += kJointPacks<Element, kWidth>) {
    Element::template store<kWidth>(packs + k, to + k * kWidth);
  }
}

/// Elements i to i + kPacks * kWidth.
template <typename Element, typename Op, int kWidth, int kPacks, typename Scaling, typename InputsType>
RONDE_ALWAYS_INLINE void reduce_packs(const InputsType& inputs, const Scaling& scaling, std::size_t i,
                                      typename Element::Stored* output, typename Element::Stored* second_output) {
  using V = Vector<typename Element::Value, kWidth>;
  V packs[kPacks];
  load_packs<Element, kWidth, kPacks>(inputs[0] + i, packs);
  RONDE_UNROLL
  for (int k = 0; k < kPacks; ++k) {
    packs[k] = scaling.before_first(packs[k]);
  }
  const auto add = [&](const typename Element::Stored* from) {
    V next[kPacks];
    load_packs<Element, kWidth, kPacks>(from, next);
    RONDE_UNROLL
    for (int k = 0; k < kPacks; ++k) {
      packs[k] = Op::combine(packs[k], scaling.before(next[k]));
    }
  };
  if constexpr (InputsType::kKnownSize > 0) {
    RONDE_UNROLL
    for (int r = 1; r < InputsType::kKnownSize; ++r) {
      add(inputs[r] + i);
    }
  } else {
    for (std::size_t r = 1; r < inputs.size(); ++r) {
      add(inputs[r] + i);
    }
  }
  RONDE_UNROLL
  for (int k = 0; k < kPacks; ++k) {
    packs[k] = scaling.after(packs[k]);
  }
  store_packs<Element, kWidth, kPacks>(packs, output + i);
  if (second_output != nullptr) {
    store_packs<Element, kWidth, kPacks>(packs, second_output + i);
  }
}

constexpr int kPacksAtOnce = 4;

/// The elements from i on, any number of ranks, in smaller and smaller steps. One instance serves what every loop below
/// leaves over.
template <typename Element, typename Op, typename Scaling>
[[gnu::noinline]] void reduce_rest(const Job& job, const Scaling& scaling, std::size_t i) {
  using Stored = typename Element::Stored;
  const Inputs<Stored, 0> inputs(job);
  auto* const output = static_cast<Stored*>(job.output);
  auto* const second = static_cast<Stored*>(job.second_output);
  if constexpr (Element::kLanes > 1) {
    constexpr std::size_t kStep = Element::kLanes * Element::kJoint;
    for (; job.count - i >= kStep; i += kStep) {
      reduce_packs<Element, Op, Element::kLanes, Element::kJoint>(inputs, scaling, i, output, second);
    }
  }
  for (; i < job.count; ++i) {
    reduce_packs<Element, Op, 1, 1>(inputs, scaling, i, output, second);
  }
}

/// Asks for the lines that each input will be read from soon, maybe beyond its end. Converting types need so many
/// instructions for a line that the processor does not look far enough ahead by itself to keep several lines of another
/// core's cache on their way: measured, 16-bit floats gain a third from 64 KiB on, float32 nothing.
template <std::size_t kBytes, typename InputsType>
RONDE_ALWAYS_INLINE void prefetch(const InputsType& inputs, std::size_t i) {
  constexpr std::size_t kAhead = 1024;
  constexpr std::size_t kCacheLine = 64;
  RONDE_UNROLL
  for (int r = 0; r < InputsType::kKnownSize; ++r) {
    for (std::size_t at = 0; at < kBytes; at += kCacheLine) {
      __builtin_prefetch(reinterpret_cast<const char*>(inputs[r] + i) + kAhead + at);
    }
  }
}

/// kRanks = 0: any number of ranks.
template <typename Element, typename Op, typename Scaling, int kRanks>
void reduce_all(const Job& job) {
  using Stored = typename Element::Stored;
  const Scaling scaling(job);
  std::size_t i = 0;
  if constexpr (Element::kLanes > 1) {
    constexpr std::size_t kGroup = static_cast<std::size_t>(Element::kLanes) * kPacksAtOnce;
    const Inputs<Stored, kRanks> inputs(job);
    const std::size_t count = job.count;
    auto* const output = static_cast<Stored*>(job.output);
    auto* const second = static_cast<Stored*>(job.second_output);
    for (; count - i >= kGroup; i += kGroup) {
      if constexpr (sizeof(typename Element::Value) > sizeof(Stored) && kRanks > 0) {
        prefetch<kGroup * sizeof(Stored)>(inputs, i);
      }
      reduce_packs<Element, Op, Element::kLanes, kPacksAtOnce>(inputs, scaling, i, output, second);
    }
  }
  if (i < job.count) {
    reduce_rest<Element, Op>(job, scaling, i);
  }
}

// ---- Which instance serves a job -----------------------------------------------------------------------------------

/// Instances for a known number of ranks keep their pointers in registers. Sums have four of them; an operation that is
/// never a training step's hot one has fewer, for the sake of build time and code size.
template <typename Element, typename Op, typename Scaling>
void reduce_by_ranks(const Job& job) {
  constexpr bool kIsSum = __is_same(Op, Sum);
  if constexpr (Element::kLanes > 1 && (kIsSum || __is_same(Op, Min) || __is_same(Op, Max))) {
    if (job.ranks == 2) {
      return reduce_all<Element, Op, Scaling, 2>(job);
    }
  }
  if constexpr (Element::kLanes > 1 && kIsSum) {
    switch (job.ranks) {
      case 3: return reduce_all<Element, Op, Scaling, 3>(job);
      case 4: return reduce_all<Element, Op, Scaling, 4>(job);
      case 8: return reduce_all<Element, Op, Scaling, 8>(job);
      default: break;
    }
  }
  reduce_all<Element, Op, Scaling, 0>(job);
}

template <typename Element, typename Op>
void integer_kernel(const Job& job) {
  reduce_by_ranks<Element, Op, AsIs<typename Element::Value>>(job);
}

template <typename Element, typename Op, template <typename> typename Inner>
void float_kernel(const Job& job) {
  using T = typename Element::Value;
  if (job.is_scaled()) {
    reduce_all<Element, Op, Scaled<T, Inner>, 0>(job);
  } else {
    reduce_by_ranks<Element, Op, Inner<T>>(job);
  }
}

constexpr Kernel& entry(KernelTable& table, DType dtype, ReduceOp op) {
  return table.kernels[static_cast<int>(dtype)][static_cast<int>(op)];
}

template <typename Element>
constexpr void add_float(KernelTable& table, DType dtype) {
  entry(table, dtype, ReduceOp::sum) = float_kernel<Element, Sum, AsIs>;
  entry(table, dtype, ReduceOp::average) = float_kernel<Element, Sum, Average>;
  entry(table, dtype, ReduceOp::product) = float_kernel<Element, Product, AsIs>;
  entry(table, dtype, ReduceOp::min) = float_kernel<Element, Min, AsIs>;
  entry(table, dtype, ReduceOp::max) = float_kernel<Element, Max, AsIs>;
}

template <typename T, typename Unsigned>
constexpr void add_integer(KernelTable& table, DType dtype) {
  static_assert(sizeof(T) == sizeof(Unsigned));
  entry(table, dtype, ReduceOp::sum) = integer_kernel<Plain<Unsigned>, Sum>;
  entry(table, dtype, ReduceOp::product) = integer_kernel<Plain<Unsigned>, Product>;
  entry(table, dtype, ReduceOp::min) = integer_kernel<Plain<T>, Min>;
  entry(table, dtype, ReduceOp::max) = integer_kernel<Plain<T>, Max>;
  // Bits know no element size: the byte kernel would serve all, were `count` not in elements.
  entry(table, dtype, ReduceOp::bit_and) = integer_kernel<Plain<Unsigned>, BitAnd>;
  entry(table, dtype, ReduceOp::bit_or) = integer_kernel<Plain<Unsigned>, BitOr>;
  entry(table, dtype, ReduceOp::bit_xor) = integer_kernel<Plain<Unsigned>, BitXor>;
}

/// Truth values are the bytes 0 and 1, of which the largest is true if any is, the smallest if all are. So it is with
/// other bytes, which programs bring along that take memory of numbers for truth values.
constexpr void add_bool(KernelTable& table) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or}) {
    entry(table, DType::boolean, op) = integer_kernel<Plain<std::uint8_t>, Max>;
  }
  for (ReduceOp op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and}) {
    entry(table, DType::boolean, op) = integer_kernel<Plain<std::uint8_t>, Min>;
  }
  entry(table, DType::boolean, ReduceOp::bit_xor) = integer_kernel<Plain<std::uint8_t>, Differs>;
}

/// Complex numbers are added, divided and scaled (by real numbers) part by part. complex_product.h has the product.
template <typename Part, template <typename> typename Inner>
void part_by_part(const Job& job) {
  Job parts = job;
  parts.count = 2 * job.count;
  float_kernel<Plain<Part>, Sum, Inner>(parts);
}

template <typename Part>
constexpr void add_complex(KernelTable& table, DType dtype) {
  entry(table, dtype, ReduceOp::sum) = part_by_part<Part, AsIs>;
  entry(table, dtype, ReduceOp::average) = part_by_part<Part, Average>;
}

// The conversions alone. Element i of a step lies in lane i / kJoint of pack i % kJoint.

template <typename Element, int kWidth>
void widen_step(const std::uint16_t* from, float* to) {
  constexpr int kJoint = kJointPacks<Element, kWidth>;
  Vector<float, kWidth> packs[kJoint];
  Element::template load<kWidth>(from, packs);
  float lanes[kJoint * kWidth];
  __builtin_memcpy(lanes, packs, sizeof lanes);
  for (int i = 0; i < kJoint * kWidth; ++i) {
    to[i] = lanes[i % kJoint * kWidth + i / kJoint];
  }
}

template <typename Element, int kWidth>
void narrow_step(const float* from, std::uint16_t* to) {
  constexpr int kJoint = kJointPacks<Element, kWidth>;
  float lanes[kJoint * kWidth];
  for (int i = 0; i < kJoint * kWidth; ++i) {
    lanes[i % kJoint * kWidth + i / kJoint] = from[i];
  }
  Vector<float, kWidth> packs[kJoint];
  __builtin_memcpy(packs, lanes, sizeof lanes);
  Element::template store<kWidth>(packs, to);
}

template <typename Element>
void widen_array(const std::uint16_t* from, float* to, std::size_t count) {
  constexpr std::size_t kStep = Element::kLanes * Element::kJoint;
  std::size_t i = 0;
  for (; count - i >= kStep; i += kStep) {
    widen_step<Element, Element::kLanes>(from + i, to + i);
  }
  for (; i < count; ++i) {
    widen_step<Element, 1>(from + i, to + i);
  }
}

template <typename Element>
void narrow_array(const float* from, std::uint16_t* to, std::size_t count) {
  constexpr std::size_t kStep = Element::kLanes * Element::kJoint;
  std::size_t i = 0;
  for (; count - i >= kStep; i += kStep) {
    narrow_step<Element, Element::kLanes>(from + i, to + i);
  }
  for (; i < count; ++i) {
    narrow_step<Element, 1>(from + i, to + i);
  }
}

constexpr KernelTable make_table() {
  KernelTable table;
  add_float<Plain<float>>(table, DType::float32);
  add_float<Plain<double>>(table, DType::float64);
  add_float<Float16>(table, DType::float16);
  add_float<Bfloat16>(table, DType::bfloat16);
#if RONDE_VECTOR_BYTES == 0
  add_float<Float8<false>>(table, DType::float8_e4m3);
  add_float<Float8<true>>(table, DType::float8_e5m2);
#endif
  add_integer<std::uint8_t, std::uint8_t>(table, DType::uint8);
  add_integer<std::int8_t, std::uint8_t>(table, DType::int8);
  add_integer<std::uint16_t, std::uint16_t>(table, DType::uint16);
  add_integer<std::int16_t, std::uint16_t>(table, DType::int16);
  add_integer<std::int32_t, std::uint32_t>(table, DType::int32);
  add_integer<std::int64_t, std::uint64_t>(table, DType::int64);
  add_integer<std::uint32_t, std::uint32_t>(table, DType::uint32);
  add_integer<std::uint64_t, std::uint64_t>(table, DType::uint64);
  add_bool(table);
  add_complex<float>(table, DType::complex64);
  add_complex<double>(table, DType::complex128);
  table.widen_float16 = widen_array<Float16>;
  table.narrow_float16 = narrow_array<Float16>;
  table.widen_bfloat16 = widen_array<Bfloat16>;
  table.narrow_bfloat16 = narrow_array<Bfloat16>;
  return table;
}

constexpr KernelTable kTable = make_table();

}  // namespace

const KernelTable& table() { return kTable; }

}  // namespace ronde::reduce::RONDE_LEVEL
