// Ronde for libtorch, PyTorch's C++ interface: header-only C++20 over <ronde/ronde.hpp> and <torch/torch.h>, compiled
// by its user against any libtorch from 2.0 on. Link ronde::ronde and ${TORCH_LIBRARIES}.
//
//   ronde::Session session;
//   ronde::torch::broadcast_parameters(*model);
//   ::torch::optim::SGD sgd(model->parameters(), 0.01 * ronde::size());
//   ronde::torch::DistributedOptimizer optimizer(sgd, {.named_parameters = model->named_parameters()});
//   for (...) {
//     optimizer.zero_grad();
//     loss(model->forward(input), target).backward();  // gradients are averaged while others are computed
//     optimizer.step();
//   }
//   at::Tensor mean = ronde::torch::allreduce(loss, {.name = "loss"});
//
// What <ronde/ronde.hpp> says holds here too: failures are thrown as ronde::Error, ranks meet by name. Besides:
//  - Tensors are dense and lie in host memory; others are refused (Code::invalid_argument).
//  - Results are new tensors, or the caller's own with a trailing underscore in the name. Autograd does not see the
//    operations: results have no history, as if made under a NoGradGuard.
//  - Tensors of any strides are right. Contiguous ones are reduced where they lie, others through a contiguous copy.
//  - Any function may be called from any thread.
#pragma once

#include <ronde/torch_evaluations.hpp>
#include <ronde/torch_gradients.hpp>
#include <ronde/torch_names.hpp>
#include <ronde/torch_operations.hpp>
#include <ronde/torch_optimizer.hpp>
#include <ronde/torch_tensor.hpp>
