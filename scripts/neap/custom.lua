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

local function check_inputs(...)
  for i = 1, select("#", ...) do
    local x = (select(i, ...))
    if not check.is_tensor(x) then
      check.fail("INVALID", "neap.custom: input %d is %s, expected a tensor", i, check.describe(x))
    end
  end
end

--- What forward gave, which is to be one tensor.
local function one_tensor(...)
  local n, y = select("#", ...), ...
  if n ~= 1 or not check.is_tensor(y) then
    check.fail("INVALID", "neap.custom: forward gave %s, expected one tensor",
               n == 1 and check.describe(y) or n .. " values")
  end
  return y
end

local function traced(forward, backward, ...)
  local inputs, inner = table.pack(...), {}
  for i = 1, inputs.n do inner[i] = core.stop(inputs[i]) end
  local value = one_tensor(forward(table.unpack(inner, 1, inputs.n)))
  local y, slope = core.custom_begin(value, ...)
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
    check_inputs(...)
    if core.tracing() then return traced(forward, backward, ...) end
    return one_tensor(forward(...))
  end
end
