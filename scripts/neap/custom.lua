--- neap.custom: an op of one's own with a gradient of its own, both out of other ops.
---
---   local round = neap.custom {                       -- rounds, and lets gradients through as if it did not
---     forward = function(x) return x:round() end,
---     backward = function(d, y, x) return d end,
---   }
---   local y = round(x)
local core = require "neap.core"
local check = require "neap.check"

--- backward's results, with nil where it gave fewer.
local function gradients(n, ...)
  local got = select("#", ...)
  if got > n then check.fail("INVALID", "neap.custom: backward gave %d gradients for %d inputs", got, n) end
  local list = table.pack(...)
  return table.unpack(list, 1, n)
end

local function traced(forward, backward, ...)
  local inputs, inner = table.pack(...), {}
  for i = 1, inputs.n do
    local x = inputs[i]
    if not check.is_tensor(x) then
      check.fail("INVALID", "neap.custom: input %d is %s, expected a tensor", i, check.describe(x))
    end
    inner[i] = core.stop(x)
  end
  local results = table.pack(forward(table.unpack(inner, 1, inputs.n)))
  if results.n ~= 1 or not check.is_tensor(results[1]) then
    check.fail("INVALID", "neap.custom: forward gave %s, expected one tensor",
               results.n == 1 and check.describe(results[1]) or results.n .. " values")
  end
  local y, slope = core.custom_begin(results[1], ...)
  core.custom_end(y, slope, gradients(inputs.n, backward(slope, y, ...)))
  return y
end

---@class neap.CustomOptions
---@field forward fun(...: neap.Tensor): neap.Tensor computes the value out of other ops
---@field backward fun(d: neap.Tensor, y: neap.Tensor, ...: neap.Tensor): neap.Tensor?, ... the gradient of each input

--- An op of one's own with a gradient of its own: a function of tensors that returns one tensor. `backward` gets
--- the gradient d of the value, the value y and the inputs, and may give nil for none. Gradients flow to the
--- inputs alone: what the functions refer to otherwise is constant. A value that sums over the samples of a batch
--- cannot be cut into micro-batches; return what is to be summed, and sum outside.
---@param options neap.CustomOptions
---@return fun(...: neap.Tensor): neap.Tensor
return function(options)
  local callable = {kind = "callable", required = true}
  local o = check.options("neap.custom", options, {forward = callable, backward = callable})
  local forward, backward = o.forward, o.backward
  return function(...)
    if core.tracing() then return traced(forward, backward, ...) end
    return forward(...)
  end
end
