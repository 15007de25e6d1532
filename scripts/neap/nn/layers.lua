--- Layers with PyTorch's names, options, layouts and first values. Positions come first, then a table of
--- options: nn.Linear(784, 256, {bias = false}).
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"
local sizes = require "neap.nn.sizes"

local M = {}

local function layer(name, definition)
  M[name] = module.module(name, definition, true)
end

local function size(what, name, v)
  return check.value(what, name, v, {kind = "integer", min = 1})
end

local any = {kind = "any"}

---@class neap.nn.LinearOptions
---@field bias? boolean (default true)
---@field init? any of the weight, as in `nn.parameter` (default "kaiming_uniform")

--- `x weight^T + bias`: [..., inputs] becomes [..., outputs]. Parameters `weight` [outputs, inputs] and `bias`
--- [outputs].
---@param inputs integer
---@param outputs integer
---@param options? neap.nn.LinearOptions
---@return neap.Module
layer("Linear", {
  init = function(self, inputs, outputs, options)
    size("nn.Linear", "inputs", inputs)
    size("nn.Linear", "outputs", outputs)
    local o = check.options("nn.Linear", options, {bias = {kind = "boolean", default = true}, init = any})
    self.weight = module.parameter {shape = {outputs, inputs}, init = o.init}
    if o.bias then self.bias = module.parameter {shape = {outputs}, fan_in = inputs} end
  end,
  forward = function(self, x)
    if self.bias then return core.linear(x, self.weight, self.bias) end
    return core.linear(x, self.weight)
  end,
})

--- Called with x1 [..., first] and x2 [..., second] it gives `x1 weight[o] x2 + bias[o]` for each output o:
--- [..., outputs]. Parameters `weight` [outputs, first, second] and `bias` [outputs].
---@param first integer
---@param second integer
---@param outputs integer
---@param options? neap.nn.LinearOptions
---@return neap.Module
layer("Bilinear", {
  init = function(self, first, second, outputs, options)
    self.first, self.second = size("nn.Bilinear", "first", first), size("nn.Bilinear", "second", second)
    self.outputs = size("nn.Bilinear", "outputs", outputs)
    local o = check.options("nn.Bilinear", options, {bias = {kind = "boolean", default = true}, init = any})
    -- U(-1/sqrt(first), 1/sqrt(first)), both
    self.weight = module.parameter {shape = {outputs, first, second}, fan_in = first, init = o.init}
    if o.bias then self.bias = module.parameter {shape = {outputs}, fan_in = first} end
  end,
  forward = function(self, x1, x2)
    local shape = x1.shape
    if shape[#shape] ~= self.first or x2.shape[x2.ndim] ~= self.second then
      check.fail("SHAPE", "nn.Bilinear: the inputs are %s and %s, expected (..., %d) and (..., %d)",
                 check.shape_text(shape), check.shape_text(x2.shape), self.first, self.second)
    end
    -- x1 by all rows (o, second) of the weight, then the sum of products with x2
    local rows = self.weight:permute {dims = {1, 3, 2}}:reshape(self.outputs * self.second, self.first)
    shape[#shape], shape[#shape + 1] = self.outputs, self.second
    local y = (core.linear(x1, rows):reshape(shape) * x2:unsqueeze(-2)):sum(-1)
    return self.bias and y + self.bias or y
  end,
})

---@class neap.nn.UpsampleOptions
---@field size? integer|integer[] of the output: this or scale_factor
---@field scale_factor? number
---@field mode? "nearest"|"bilinear" (default "nearest")
---@field align_corners? boolean bilinear: corners fall on corners (default false)

--- Enlarges images: [N, C, H, W] becomes [N, C, H', W'].
---@param options neap.nn.UpsampleOptions
---@return neap.Module
layer("Upsample", {
  init = function(self, options)
    local o = check.options("nn.Upsample", options, {
      size = any, scale_factor = {kind = "number", above = 0}, mode = {kind = "string", default = "nearest"},
      align_corners = {kind = "boolean"},
    })
    if (o.size == nil) == (o.scale_factor == nil) then
      check.fail("INVALID", "nn.Upsample: give either size or scale_factor")
    end
    if o.mode ~= "nearest" and o.mode ~= "bilinear" then
      check.fail("INVALID", "nn.Upsample: mode is %q, expected \"nearest\" or \"bilinear\"", o.mode)
    end
    if o.align_corners ~= nil and o.mode == "nearest" then
      check.fail("INVALID", "nn.Upsample: align_corners is for mode \"bilinear\"")
    end
    self.op = "upsample_" .. o.mode .. "2d"
    self.options = {
      size = o.size and sizes("nn.Upsample", "size", o.size, 2, 1), scale_factor = o.scale_factor,
      align_corners = o.align_corners,
    }
  end,
  forward = function(self, x) return core[self.op](x, self.options) end,
})

--- In training each element is 0 with probability p, else `x / (1 - p)`; in evaluation mode x. Keyed by seed, update,
--- path and sample, so that micro-batches and retries drop the same (Srivastava et al. 2014).
---@param p? number from 0 to 1 (default 0.5)
---@return neap.Module
layer("Dropout", {
  init = function(self, p)
    self.p = check.value("nn.Dropout", "p", p or 0.5, {kind = "number", min = 0, max = 1})
  end,
  forward = function(self, x) return core.dropout(x, {p = self.p, training = module.is_training(self)}) end,
})

--- Several dimensions as one; by default all but the batch.
---@param first? integer (default 2)
---@param last? integer (default -1)
---@return neap.Module
layer("Flatten", {
  init = function(self, first, last)
    self.first = check.value("nn.Flatten", "first", first or 2, {kind = "integer"})
    self.last = check.value("nn.Flatten", "last", last or -1, {kind = "integer"})
  end,
  forward = function(self, x) return core.flatten(x, {start_dim = self.first, end_dim = self.last}) end,
})

--- Gives its input.
---@return neap.Module
layer("Identity", {forward = function(_, x) return x end})

return M
