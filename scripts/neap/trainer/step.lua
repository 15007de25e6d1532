--- A trainer's step function as what is traced: a function of tensors, which sees them as a batch.
local check = require "neap.check"

-- Of the loader's batch, but not of what a trace sees.
local untraced = {indices = true, epoch = true, position = true}

local Batch = {}

function Batch.__index(batch, name)
  if name == "size" then
    local _, t = next(batch)
    return t and t.ndim > 0 and t.shape[1] or nil
  end
  if untraced[name] then
    check.fail("INVALID", "a trainer's step: batch.%s is not there: a step is traced, and sees the tensors of a batch "
               .. "and its size; what it is to know of a batch must be a tensor, which `transform` can add", name)
  end
end

--- The loss of the tensors of these names.
---@param step fun(model: neap.Module, batch: table): neap.Tensor
---@param model neap.Module
---@param names string[]
---@return neap.Tensor ...
return function(step, model, names, ...)
  local batch = {}
  for i, name in ipairs(names) do batch[name] = (select(i, ...)) end
  return step(model, setmetatable(batch, Batch))
end
