--- Layers without parameters that move elements about: shuffles, windows, borders; dropout of channels; distances.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

--- A layer of an op whose one option is a whole number of at least 1.
local function shuffle(name, op, option)
  local what = "nn." .. name
  M[name] = module.module(name, {
    init = function(self, n) self.options = {[option] = check.value(what, option, n, {kind = "integer", min = 1})} end,
    forward = function(self, x) return core[op](x, self.options) end,
  }, true)
end

--- Pixels out of channels: [N, C r r, H, W] becomes [N, C, H r, W r] (Shi et al. 2016).
---@param upscale_factor integer r
---@return neap.Module
shuffle("PixelShuffle", "pixel_shuffle", "upscale_factor")

--- Channels out of pixels: [N, C, H r, W r] becomes [N, C r r, H, W].
---@param downscale_factor integer r
---@return neap.Module
shuffle("PixelUnshuffle", "pixel_unshuffle", "downscale_factor")

--- Channels of all groups in turn (Zhang et al. 2018).
---@param groups integer
---@return neap.Module
shuffle("ChannelShuffle", "channel_shuffle", "groups")

local any = {kind = "any"}

--- Windows as columns: [N, C, H, W] becomes [N, C kh kw, places].
---@param kernel integer|integer[] one number, or {height, width}
---@param options? {dilation?: integer|integer[], padding?: integer|integer[], stride?: integer|integer[]}
---@return neap.Module
M.Unfold = module.module("Unfold", {
  init = function(self, kernel, options)
    self.options = check.options("nn.Unfold", options, {dilation = any, padding = any, stride = any})
    self.options.kernel_size = check.value("nn.Unfold", "the kernel", kernel, any)
  end,
  forward = function(self, x) return core.unfold(x, self.options) end,
}, true)

--- Columns added up to images: [N, C kh kw, places] becomes [N, C, height, width].
---@param size integer|integer[] of the output: one number, or {height, width}
---@param kernel integer|integer[] one number, or {height, width}
---@param options? {dilation?: integer|integer[], padding?: integer|integer[], stride?: integer|integer[]}
---@return neap.Module
M.Fold = module.module("Fold", {
  init = function(self, output, kernel, options)
    self.options = check.options("nn.Fold", options, {dilation = any, padding = any, stride = any})
    self.options.output_size = check.value("nn.Fold", "the size", output, any)
    self.options.kernel_size = check.value("nn.Fold", "the kernel", kernel, any)
  end,
  forward = function(self, x) return core.fold(x, self.options) end,
}, true)

--- One dimension split into several.
---@param dim integer
---@param sizes integer[] of which one may be -1
---@return neap.Module
M.Unflatten = module.module("Unflatten", {
  init = function(self, dim, sizes)
    self.dim = check.value("nn.Unflatten", "dim", dim, {kind = "integer"})
    self.sizes = check.value("nn.Unflatten", "the sizes", sizes, {kind = "table"})
  end,
  forward = function(self, x) return core.unflatten(x, self.dim, self.sizes) end,
}, true)

-- Borders ----------------------------------------------------------------------------------------------

--- Amounts for `n` dimensions: one number for all sides, or a list {before, after, ...}, the last dimension's first.
local function amounts(what, v, n)
  local list = type(v) == "table" and v or {}
  for i = 1, type(v) == "table" and 0 or 2 * n do list[i] = v end
  if #list ~= 2 * n then
    check.fail("INVALID", "%s: %d amounts are given, expected one number or %d", what, #list, 2 * n)
  end
  for i, amount in ipairs(list) do list[i] = check.value(what, "an amount", amount, {kind = "integer"}) end
  return list
end

local function border(name, n, mode)
  local what = "nn." .. name
  M[name] = module.module(name, {
    init = function(self, amount, value)
      self.options = {pad = amounts(what, amount, n), mode = mode}
      if mode then return end
      self.options.value = check.value(what, "the value", value or 0, {kind = "number"})
    end,
    forward = function(self, x) return core.pad(x, self.options) end,
  }, true)
end

--- Zeros around the last two dimensions.
---@param amount integer|integer[] one number, or {left, right, top, bottom}; negative ones cut
---@return neap.Module
border("ZeroPad2d", 2)
--- A number before and after the last dimension.
---@param amount integer|integer[] one number, or {left, right}; negative ones cut
---@param value number
---@return neap.Module
border("ConstantPad1d", 1)
--- A number around the last two dimensions.
---@param amount integer|integer[] one number, or {left, right, top, bottom}; negative ones cut
---@param value number
---@return neap.Module
border("ConstantPad2d", 2)
--- What lies beside the edge, mirrored, along the last dimension.
---@param amount integer|integer[] one number, or {left, right}
---@return neap.Module
border("ReflectionPad1d", 1, "reflect")
--- What lies beside the edges, mirrored, along the last two dimensions.
---@param amount integer|integer[] one number, or {left, right, top, bottom}
---@return neap.Module
border("ReflectionPad2d", 2, "reflect")
--- The edge repeated along the last dimension.
---@param amount integer|integer[] one number, or {left, right}
---@return neap.Module
border("ReplicationPad1d", 1, "replicate")
--- The edges repeated along the last two dimensions.
---@param amount integer|integer[] one number, or {left, right, top, bottom}
---@return neap.Module
border("ReplicationPad2d", 2, "replicate")
--- What lies at the other end, along the last dimension.
---@param amount integer|integer[] one number, or {left, right}
---@return neap.Module
border("CircularPad1d", 1, "circular")
--- What lies at the other ends, along the last two dimensions.
---@param amount integer|integer[] one number, or {left, right, top, bottom}
---@return neap.Module
border("CircularPad2d", 2, "circular")

-- Dropout ----------------------------------------------------------------------------------------------

local function dropout(name, op)
  M[name] = module.module(name, {
    init = function(self, p)
      self.p = check.value("nn." .. name, "p", p or 0.5, {kind = "number", min = 0, max = 1})
    end,
    forward = function(self, x) return core[op](x, {p = self.p, training = module.is_training(self)}) end,
  }, true)
end

--- In training each channel of [N, C, L] is 0 as a whole with probability p, else `x / (1 - p)`.
---@param p? number from 0 to 1 (default 0.5)
---@return neap.Module
dropout("Dropout1d", "dropout1d")
--- In training each channel of [N, C, H, W] is 0 as a whole with probability p, else `x / (1 - p)`.
---@param p? number from 0 to 1 (default 0.5)
---@return neap.Module
dropout("Dropout2d", "dropout2d")
--- In training each channel of [N, C, D, H, W] is 0 as a whole with probability p, else `x / (1 - p)`.
---@param p? number from 0 to 1 (default 0.5)
---@return neap.Module
dropout("Dropout3d", "dropout3d")
--- Dropout that keeps mean 0 and variance 1, for networks of SELU (Klambauer et al. 2017).
---@param p? number from 0 to 1 (default 0.5)
---@return neap.Module
dropout("AlphaDropout", "alpha_dropout")

-- Distances --------------------------------------------------------------------------------------------

--- The cosine of the angle between vectors of two inputs.
---@param options? {dim?: integer, eps?: number} the vectors' dimension (2) and least length (1e-8)
---@return neap.Module
M.CosineSimilarity = module.module("CosineSimilarity", {
  init = function(self, options)
    self.options = check.options("nn.CosineSimilarity", options, {
      dim = {kind = "integer", default = 2}, eps = {kind = "number"},
    })
  end,
  forward = function(self, a, b) return core.cosine_similarity(a, b, self.options) end,
}, true)

--- The p-norm of the difference of two inputs plus eps, along the last dimension.
---@param options? {p?: number, eps?: number, keepdim?: boolean} 2, 1e-6 and false when left out
---@return neap.Module
M.PairwiseDistance = module.module("PairwiseDistance", {
  init = function(self, options)
    local o = check.options("nn.PairwiseDistance", options, {
      p = {kind = "number", default = 2}, eps = {kind = "number", default = 1e-6},
      keepdim = {kind = "boolean", default = false},
    })
    self.eps, self.options = o.eps, {p = o.p, dim = -1, keepdim = o.keepdim}
  end,
  forward = function(self, a, b) return core.norm(a - b + self.eps, self.options) end,
}, true)

return M
