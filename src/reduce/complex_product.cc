#include "reduce/complex_product.h"

#include "reduce/elements.h"

namespace ronde::reduce {
namespace {

/// Not std::complex, whose product repairs infinities by a library call and may be fused.
template <typename T>
struct Complex {
  T re;
  T im;
};

template <typename T>
void multiply(const Job& job) {
  const auto first_pre = static_cast<T>(job.first_prescale);
  const auto pre = static_cast<T>(job.prescale);
  const auto post = static_cast<T>(job.postscale);
  for (std::size_t i = 0; i < job.count; ++i) {
    Complex<T> product = load_element<Complex<T>>(job.inputs[0], i);
    product = {product.re * first_pre, product.im * first_pre};
    for (std::size_t r = 1; r < job.ranks; ++r) {
      const Complex<T> factor = load_element<Complex<T>>(job.inputs[r], i);
      const T re = factor.re * pre;
      const T im = factor.im * pre;
      product = {product.re * re - product.im * im, product.re * im + product.im * re};
    }
    product = {product.re * post, product.im * post};
    store_element(product, job.output, i);
    if (job.second_output != nullptr) {
      store_element(product, job.second_output, i);
    }
  }
}

}  // namespace

Kernel complex_product_kernel(DType dtype) {
  switch (dtype) {
    case DType::complex64: return multiply<float>;
    case DType::complex128: return multiply<double>;
    default: return nullptr;
  }
}

}  // namespace ronde::reduce
