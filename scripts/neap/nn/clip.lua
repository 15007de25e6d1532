--- Clipping of gradients that are in a table, as nn.value_and_grad gives them, in place and with PyTorch's arithmetic.
--- An update clips by itself (clip_norm, clip_value), and so does optimizer:step; this is for whoever looks at
--- gradients, or adds some up, before a step.
local check = require "neap.check"

local M = {}

--- The tensors of a table, in order of their names.
local function tensors_of(what, grads)
  check.value(what, "the gradients", grads, {kind = "table"})
  local names, list = {}, {}
  for name, g in pairs(grads) do
    if not check.is_tensor(g) then
      check.fail("INVALID", "%s: the gradient of %s is %s, expected a tensor", what, check.describe(name),
                 check.describe(g))
    end
    names[#names + 1] = name
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for i, name in ipairs(names) do list[i] = grads[name] end
  return list
end

--- Of all elements together: in Lua's fp64, so that many small ones are not lost.
local function total_norm(list, p)
  local sum = 0.0
  for _, g in ipairs(list) do
    local n = g:numel() > 0 and g:norm {p = p}:item() or 0
    if p == math.huge then sum = n ~= n and n or math.max(sum, n) else sum = sum + n ^ p end
    if sum ~= sum then return sum end
  end
  return p == math.huge and sum or sum ^ (1 / p)
end

---@class neap.nn.ClipOptions
---@field norm_type? number 2 is the Euclidean norm, `math.huge` the greatest element (default 2)
---@field error_if_nonfinite? boolean raise where the norm is infinite or not a number (default false)

--- Multiplies gradients by one number, in place, so that the norm of all of them together is max_norm at most.
---@param grads table<any, neap.Tensor> as `nn.value_and_grad` gives them
---@param max_norm number
---@param options? neap.nn.ClipOptions
---@return number norm before that
function M.clip_grad_norm_(grads, max_norm, options)
  local what = "nn.clip_grad_norm_"
  local list = tensors_of(what, grads)
  check.value(what, "max_norm", max_norm, {kind = "number", min = 0})
  local o = check.options(what, options, {
    norm_type = {kind = "number", above = 0, default = 2}, error_if_nonfinite = {kind = "boolean", default = false},
  })
  local norm = total_norm(list, o.norm_type)
  if o.error_if_nonfinite and (norm ~= norm or norm == math.huge) then
    check.fail("INVALID", "%s: the norm of the gradients is %s", what, tostring(norm))
  end
  local scale = max_norm / (norm + 1e-6)
  if scale < 1 or scale ~= scale then
    for _, g in ipairs(list) do g:copy_(g * scale) end
  end
  return norm
end

--- Holds every element of gradients within plus or minus a value, in place.
---@param grads table<any, neap.Tensor> as `nn.value_and_grad` gives them
---@param value number
function M.clip_grad_value_(grads, value)
  local what = "nn.clip_grad_value_"
  local list = tensors_of(what, grads)
  check.value(what, "the value", value, {kind = "number", min = 0})
  for _, g in ipairs(list) do g:copy_(g:clamp {min = -value, max = value}) end
end

return M
