--- Layers with PyTorch's names, options, layouts and first values. Positions come first, then a table of
--- options: nn.Conv2d(3, 16, 3, {padding = 1}).
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

local function layer(name, definition)
  M[name] = module.module(name, definition, true)
end

local function size(what, name, v)
  return check.value(what, name, v, {kind = "integer", min = 1})
end

--- One number for both directions, or {height, width}.
local function pair(what, name, v, min)
  local list = type(v) == "table" and v or {v, v}
  if #list ~= 2 then
    check.fail("INVALID", "%s: %s has %d entries, expected one number or {height, width}", what, name, #list)
  end
  for i = 1, 2 do check.value(what, name, list[i], {kind = "integer", min = min}) end
  return {math.tointeger(list[1]), math.tointeger(list[2])}
end

local function weight_and_bias(self, shape, fan_in, bias, init)
  self.weight = module.parameter {shape = shape, init = init}
  if bias then self.bias = module.parameter {shape = {shape[1]}, fan_in = fan_in} end
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
    weight_and_bias(self, {outputs, inputs}, inputs, o.bias, o.init)
  end,
  forward = function(self, x)
    if self.bias then return core.linear(x, self.weight, self.bias) end
    return core.linear(x, self.weight)
  end,
})

local conv_options = {
  stride = {kind = "any", default = 1},
  padding = {kind = "any", default = 0},
  dilation = {kind = "any", default = 1},
  groups = {kind = "integer", default = 1, min = 1},
  bias = {kind = "boolean", default = true},
  init = any,
}

--- Checks channels and options, which `shape` brings into the form the op takes: `of(v, name, least)` an entry.
local function convolution(what, inputs, outputs, options, specs, of)
  size(what, "inputs", inputs)
  size(what, "outputs", outputs)
  local o = check.options(what, options, specs)
  if inputs % o.groups ~= 0 or outputs % o.groups ~= 0 then
    check.fail("INVALID", "%s: groups is %d, which must divide both %d inputs and %d outputs", what, o.groups, inputs,
               outputs)
  end
  local sent = {
    stride = of(what, "stride", o.stride, 1), padding = of(what, "padding", o.padding, 0),
    dilation = of(what, "dilation", o.dilation, 1), groups = o.groups,
  }
  if o.output_padding then sent.output_padding = of(what, "output_padding", o.output_padding, 0) end
  return o, sent
end

local function one(what, name, v, min)
  return check.value(what, name, v, {kind = "integer", min = min})
end

local function forward_of(op)
  return function(self, x)
    if self.bias then return core[op](x, self.weight, self.bias, self.options) end
    return core[op](x, self.weight, self.options)
  end
end

---@class neap.nn.ConvOptions
---@field stride? integer|integer[] one number, or {height, width} (default 1)
---@field padding? integer|integer[] zeros on both sides (default 0)
---@field dilation? integer|integer[] distance between the kernel's entries (default 1)
---@field groups? integer channels are cut into so many groups, which do not see each other (default 1)
---@field bias? boolean (default true)
---@field init? any of the weight, as in `nn.parameter` (default "kaiming_uniform")

--- Cross-correlation along a length: [N, inputs, L] becomes [N, outputs, L'] with
--- `L' = (L + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down. Parameters `weight`
--- [outputs, inputs / groups, kernel] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer
---@param options? neap.nn.ConvOptions
---@return neap.Module
layer("Conv1d", {
  init = function(self, inputs, outputs, kernel, options)
    local k = one("nn.Conv1d", "the kernel", kernel, 1)
    local o, sent = convolution("nn.Conv1d", inputs, outputs, options, conv_options, one)
    self.options = sent
    local per_group = inputs // o.groups
    weight_and_bias(self, {outputs, per_group, k}, per_group * k, o.bias, o.init)
  end,
  forward = forward_of "conv1d",
})

--- Cross-correlation in two dimensions: [N, inputs, H, W] becomes [N, outputs, H', W'], where H' and W' are as for
--- `Conv1d`. Parameters `weight` [outputs, inputs / groups, kernel height, kernel width] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer|integer[] one number, or {height, width}
---@param options? neap.nn.ConvOptions
---@return neap.Module
layer("Conv2d", {
  init = function(self, inputs, outputs, kernel, options)
    local k = pair("nn.Conv2d", "the kernel", kernel, 1)
    local o, sent = convolution("nn.Conv2d", inputs, outputs, options, conv_options, pair)
    self.options = sent
    local per_group = inputs // o.groups
    weight_and_bias(self, {outputs, per_group, k[1], k[2]}, per_group * k[1] * k[2], o.bias, o.init)
  end,
  forward = forward_of "conv2d",
})

local transpose_options = {output_padding = {kind = "any", default = 0}}
for name, spec in pairs(conv_options) do transpose_options[name] = spec end

---@class neap.nn.ConvTransposeOptions
---@field stride? integer|integer[] (default 1)
---@field padding? integer|integer[] rows and columns cut off on both sides (default 0)
---@field output_padding? integer|integer[] rows and columns more at the end, less than the stride (default 0)
---@field dilation? integer|integer[] (default 1)
---@field groups? integer (default 1)
---@field bias? boolean (default true)
---@field init? any of the weight, as in `nn.parameter` (default "kaiming_uniform")

--- The gradient of `Conv2d` as a layer, which enlarges: [N, inputs, H, W] becomes [N, outputs, H', W'] with
--- `H' = (H - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`. Parameters `weight`
--- [inputs, outputs / groups, kernel height, kernel width] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer|integer[] one number, or {height, width}
---@param options? neap.nn.ConvTransposeOptions
---@return neap.Module
layer("ConvTranspose2d", {
  init = function(self, inputs, outputs, kernel, options)
    local k = pair("nn.ConvTranspose2d", "the kernel", kernel, 1)
    local o, sent = convolution("nn.ConvTranspose2d", inputs, outputs, options, transpose_options, pair)
    self.options = sent
    local per_group = outputs // o.groups
    self.weight = module.parameter {shape = {inputs, per_group, k[1], k[2]}, init = o.init}
    if o.bias then self.bias = module.parameter {shape = {outputs}, fan_in = per_group * k[1] * k[2]} end
  end,
  forward = forward_of "conv_transpose2d",
})

--- The gradient of `Conv1d` as a layer, which enlarges: [N, inputs, L] becomes [N, outputs, L'] with
--- `L' = (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`. Parameters `weight`
--- [inputs, outputs / groups, kernel] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer
---@param options? neap.nn.ConvTransposeOptions
---@return neap.Module
layer("ConvTranspose1d", {
  init = function(self, inputs, outputs, kernel, options)
    local k = one("nn.ConvTranspose1d", "the kernel", kernel, 1)
    local o, sent = convolution("nn.ConvTranspose1d", inputs, outputs, options, transpose_options, one)
    self.options = sent
    local per_group = outputs // o.groups
    self.weight = module.parameter {shape = {inputs, per_group, k}, init = o.init}
    if o.bias then self.bias = module.parameter {shape = {outputs}, fan_in = per_group * k} end
  end,
  forward = forward_of "conv_transpose1d",
})

--- One number for all three directions, or {depth, height, width}.
local function triple(what, name, v, min)
  local list = type(v) == "table" and v or {v, v, v}
  if #list ~= 3 then
    check.fail("INVALID", "%s: %s has %d entries, expected one number or {depth, height, width}", what, name, #list)
  end
  for i = 1, 3 do list[i] = check.value(what, name, list[i], {kind = "integer", min = min}) end
  return list
end

--- Cross-correlation of volumes: [N, inputs, D, H, W] becomes [N, outputs, D', H', W'], sizes as in `Conv2d`.
--- Parameters `weight` [outputs, inputs / groups, kernel depth, height, width] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer|integer[] one number, or {depth, height, width}
---@param options? neap.nn.ConvOptions
---@return neap.Module
layer("Conv3d", {
  init = function(self, inputs, outputs, kernel, options)
    local k = triple("nn.Conv3d", "the kernel", kernel, 1)
    local o, sent = convolution("nn.Conv3d", inputs, outputs, options, conv_options, triple)
    self.options = sent
    local per_group = inputs // o.groups
    weight_and_bias(self, {outputs, per_group, k[1], k[2], k[3]}, per_group * k[1] * k[2] * k[3], o.bias, o.init)
  end,
  forward = forward_of "conv3d",
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

local function pool(name, op, extra)
  local specs = {stride = {kind = "any"}, padding = {kind = "any"}, ceil_mode = {kind = "boolean"}}
  for key, spec in pairs(extra) do specs[key] = spec end
  local what = "nn." .. name
  layer(name, {
    init = function(self, kernel, options)
      local o = check.options(what, options, specs)
      o.kernel_size = pair(what, "the kernel", kernel, 1)
      if o.stride then o.stride = pair(what, "stride", o.stride, 1) end
      if o.padding then o.padding = pair(what, "padding", o.padding, 0) end
      if o.dilation then o.dilation = pair(what, "dilation", o.dilation, 1) end
      self.options = o
    end,
    forward = function(self, x) return core[op](x, self.options) end,
  })
end

---@class neap.nn.MaxPoolOptions
---@field stride? integer|integer[] (default kernel)
---@field padding? integer|integer[] on both sides, never the largest; at most half the kernel (default 0)
---@field dilation? integer|integer[] (default 1)
---@field ceil_mode? boolean round the output's size up (default false)

--- The largest of each window: [N, C, H, W] becomes [N, C, H', W'].
---@param kernel integer|integer[] one number, or {height, width}
---@param options? neap.nn.MaxPoolOptions
---@return neap.Module
pool("MaxPool2d", "max_pool2d", {dilation = {kind = "any"}})
---@class neap.nn.AvgPoolOptions
---@field stride? integer|integer[] (default kernel)
---@field padding? integer|integer[] zeros on both sides (default 0)
---@field ceil_mode? boolean round the output's size up (default false)
---@field count_include_pad? boolean does the divisor count the padding (default true)

--- The mean of each window: [N, C, H, W] becomes [N, C, H', W'].
---@param kernel integer|integer[] one number, or {height, width}
---@param options? neap.nn.AvgPoolOptions
---@return neap.Module
pool("AvgPool2d", "avg_pool2d", {count_include_pad = {kind = "boolean"}})

--- Means of windows that are chosen so that the output has a given size: [N, C, H, W] becomes [N, C, height, width].
---@param size integer|integer[] one number, or {height, width}
---@return neap.Module
layer("AdaptiveAvgPool2d", {
  init = function(self, output)
    self.options = {output_size = pair("nn.AdaptiveAvgPool2d", "the size", output, 1)}
  end,
  forward = function(self, x) return core.adaptive_avg_pool2d(x, self.options) end,
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
      size = o.size and pair("nn.Upsample", "size", o.size, 1), scale_factor = o.scale_factor,
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
