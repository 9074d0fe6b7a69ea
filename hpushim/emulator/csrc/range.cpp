// float8_e4m3fn ends earlier on some generations than in torch.
#include "objections.h"

#include <ATen/Functions.h>
#include <ATen/Operators.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cmath>

namespace hpu {

std::atomic<float> e4m3_limit{0.0f};

namespace {
std::string* code = new std::string();  // outlives every thread
}

void set_e4m3_limit(float limit, const std::string& row_code) {
  *code = row_code;
  e4m3_limit.store(limit);
}

void keep_in_range(at::Tensor tensor) {
  const float limit = e4m3_limit.load(std::memory_order_relaxed);
  if (tensor.numel() == 0) return;
  c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset |
                                           c10::DispatchKeySet(c10::DispatchKey::ADInplaceOrView));
  const at::Tensor wide = tensor.to(at::kFloat);
  const float largest = wide.abs().max().item<float>();
  if (std::isnan(largest) || largest <= limit) return;
  remark("range", *code, "float8_e4m3fn holds at most " + std::to_string(static_cast<int>(limit)),
         "larger values do not exist there; scale them first, as torch.ops.hpu.cast_to_fp8_v2 does");
  if (!observing()) tensor.copy_(wide.clamp(-limit, limit));
}

}  // namespace hpu
