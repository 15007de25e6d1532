--- Convolutions and their transposes, with PyTorch's names, options, layouts and first values.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"
local sizes = require "neap.nn.sizes"

local M = {}

local conv_options = {
  stride = {kind = "any", default = 1},
  padding = {kind = "any", default = 0},
  dilation = {kind = "any", default = 1},
  groups = {kind = "integer", default = 1, min = 1},
  bias = {kind = "boolean", default = true},
  init = {kind = "any"},
}
local transpose_options = {output_padding = {kind = "any", default = 0}}
for name, spec in pairs(conv_options) do transpose_options[name] = spec end

local function check_channels(what, inputs, outputs, groups)
  if inputs % groups ~= 0 or outputs % groups ~= 0 then
    check.fail("INVALID", "%s: groups is %d, which must divide both %d inputs and %d outputs", what, groups, inputs,
               outputs)
  end
end

--- A layer over `n` dimensions around `op`. What the weight of a transpose has in front are the inputs.
local function layer(name, op, n, transpose)
  local what, specs = "nn." .. name, transpose and transpose_options or conv_options
  local function of(key, v, least) return sizes(what, key, v, n, least) end
  M[name] = module.module(name, {
    init = function(self, inputs, outputs, kernel, options)
      local k = of("the kernel", kernel, 1)
      check.value(what, "inputs", inputs, {kind = "integer", min = 1})
      check.value(what, "outputs", outputs, {kind = "integer", min = 1})
      local o = check.options(what, options, specs)
      check_channels(what, inputs, outputs, o.groups)
      self.options = {
        stride = of("stride", o.stride, 1), padding = of("padding", o.padding, 0),
        dilation = of("dilation", o.dilation, 1), groups = o.groups,
        output_padding = transpose and of("output_padding", o.output_padding, 0) or nil,
      }
      local shape = transpose and {inputs, outputs // o.groups} or {outputs, inputs // o.groups}
      local fan_in = shape[2]
      for i = 1, n do
        local size = n == 1 and k or k[i]
        shape[2 + i], fan_in = size, fan_in * size
      end
      self.weight = module.parameter {shape = shape, init = o.init}
      if o.bias then self.bias = module.parameter {shape = {outputs}, fan_in = fan_in} end
    end,
    forward = function(self, x)
      if self.bias then return core[op](x, self.weight, self.bias, self.options) end
      return core[op](x, self.weight, self.options)
    end,
  }, true)
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
layer("Conv1d", "conv1d", 1)

--- Cross-correlation in two dimensions: [N, inputs, H, W] becomes [N, outputs, H', W'], where H' and W' are as for
--- `Conv1d`. Parameters `weight` [outputs, inputs / groups, kernel height, kernel width] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer|integer[] one number, or {height, width}
---@param options? neap.nn.ConvOptions
---@return neap.Module
layer("Conv2d", "conv2d", 2)

--- Cross-correlation of volumes: [N, inputs, D, H, W] becomes [N, outputs, D', H', W'], sizes as in `Conv2d`.
--- Parameters `weight` [outputs, inputs / groups, kernel depth, height, width] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer|integer[] one number, or {depth, height, width}
---@param options? neap.nn.ConvOptions
---@return neap.Module
layer("Conv3d", "conv3d", 3)

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
layer("ConvTranspose2d", "conv_transpose2d", 2, true)

--- The gradient of `Conv1d` as a layer, which enlarges: [N, inputs, L] becomes [N, outputs, L'] with
--- `L' = (L - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`. Parameters `weight`
--- [inputs, outputs / groups, kernel] and `bias` [outputs].
---@param inputs integer channels
---@param outputs integer channels
---@param kernel integer
---@param options? neap.nn.ConvTransposeOptions
---@return neap.Module
layer("ConvTranspose1d", "conv_transpose1d", 1, true)

return M
