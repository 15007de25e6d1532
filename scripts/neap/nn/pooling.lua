--- Pooling, with PyTorch's names and options.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"
local sizes = require "neap.nn.sizes"

local M = {}

--- A pooling layer over `n` dimensions; `extra` are options beside those that all have.
local function pool(name, op, n, extra)
  local specs = {stride = {kind = "any"}, padding = {kind = "any"}, ceil_mode = {kind = "boolean"}}
  for key, spec in pairs(extra) do specs[key] = spec end
  local what = "nn." .. name
  M[name] = module.module(name, {
    init = function(self, kernel, options)
      local o = check.options(what, options, specs)
      o.kernel_size = sizes(what, "the kernel", kernel, n, 1)
      if o.stride then o.stride = sizes(what, "stride", o.stride, n, 1) end
      if o.padding then o.padding = sizes(what, "padding", o.padding, n, 0) end
      if o.dilation then o.dilation = sizes(what, "dilation", o.dilation, n, 1) end
      self.options = o
    end,
    forward = function(self, x) return core[op](x, self.options) end,
  }, true)
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
pool("MaxPool2d", "max_pool2d", 2, {dilation = {kind = "any"}})

---@class neap.nn.AvgPoolOptions
---@field stride? integer|integer[] (default kernel)
---@field padding? integer|integer[] zeros on both sides (default 0)
---@field ceil_mode? boolean round the output's size up (default false)
---@field count_include_pad? boolean does the divisor count the padding (default true)

--- The mean of each window: [N, C, H, W] becomes [N, C, H', W'].
---@param kernel integer|integer[] one number, or {height, width}
---@param options? neap.nn.AvgPoolOptions
---@return neap.Module
pool("AvgPool2d", "avg_pool2d", 2, {count_include_pad = {kind = "boolean"}})

--- The largest of each window: [N, C, L] becomes [N, C, L'].
---@param kernel integer
---@param options? neap.nn.MaxPoolOptions
---@return neap.Module
pool("MaxPool1d", "max_pool1d", 1, {dilation = {kind = "any"}})

--- The mean of each window: [N, C, L] becomes [N, C, L'].
---@param kernel integer
---@param options? neap.nn.AvgPoolOptions
---@return neap.Module
pool("AvgPool1d", "avg_pool1d", 1, {count_include_pad = {kind = "boolean"}})

--- The largest of each window: [N, C, D, H, W] becomes [N, C, D', H', W'].
---@param kernel integer|integer[] one number, or {depth, height, width}
---@param options? neap.nn.MaxPoolOptions without dilation
---@return neap.Module
pool("MaxPool3d", "max_pool3d", 3, {})

--- The mean of each window: [N, C, D, H, W] becomes [N, C, D', H', W'].
---@param kernel integer|integer[] one number, or {depth, height, width}
---@param options? neap.nn.AvgPoolOptions
---@return neap.Module
pool("AvgPool3d", "avg_pool3d", 3, {count_include_pad = {kind = "boolean"}})

local function adaptive(name, op, n)
  local what = "nn." .. name
  M[name] = module.module(name, {
    init = function(self, output) self.options = {output_size = sizes(what, "the size", output, n, 1)} end,
    forward = function(self, x) return core[op](x, self.options) end,
  }, true)
end

--- Means of windows that are chosen so that the output has a given size: [N, C, H, W] becomes [N, C, height, width].
---@param size integer|integer[] one number, or {height, width}
---@return neap.Module
adaptive("AdaptiveAvgPool2d", "adaptive_avg_pool2d", 2)

--- Means of windows that are chosen so that the output has a given size: [N, C, L] becomes [N, C, size].
---@param size integer
---@return neap.Module
adaptive("AdaptiveAvgPool1d", "adaptive_avg_pool1d", 1)

--- The largest of windows that are chosen so that the output has a given size: [N, C, L] becomes [N, C, size].
---@param size integer
---@return neap.Module
adaptive("AdaptiveMaxPool1d", "adaptive_max_pool1d", 1)

--- The largest of windows that are chosen so that the output has a given size: [N, C, H, W] becomes
--- [N, C, height, width].
---@param size integer|integer[] one number, or {height, width}
---@return neap.Module
adaptive("AdaptiveMaxPool2d", "adaptive_max_pool2d", 2)

return M
