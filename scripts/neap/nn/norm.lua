--- Normalization layers with PyTorch's names, options and first values.
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

local function affine(self, shape, bias)
  self.weight = module.parameter {shape = shape, init = "ones"}
  if bias then self.bias = module.parameter {shape = shape, init = "zeros"} end
end

--- x, then what there is of weight and bias, then the options.
local function apply(op, self, x)
  if self.bias then return core[op](x, self.weight, self.bias, self.options) end
  if self.weight then return core[op](x, self.weight, self.options) end
  return core[op](x, self.options)
end

local function check_dims(what, x, allowed)
  for _, n in ipairs(allowed) do
    if x.ndim == n then return end
  end
  check.fail("SHAPE", "%s: the input is %s, expected %s dimensions", what, check.shape_text(x.shape),
             table.concat(allowed, " or "))
end

-- Over the batch ---------------------------------------------------------------------------------------

local batch_norm_options = {
  eps = {kind = "number", min = 0, default = 1e-5},
  momentum = {kind = "any", default = 0.1},
  affine = {kind = "boolean", default = true},
  track_running_stats = {kind = "boolean", default = true},
}

--- The running statistics move towards the batch's: at once, or when what they are part of has run. Without momentum
--- they are the means over all batches so far.
local function track(self, x)
  local m = self.momentum
  if not m then
    local n = self.num_batches_tracked + 1
    self.num_batches_tracked, m = n, 1 / n
  end
  self.running_mean = self.running_mean * (1 - m) + core.batch_mean(x) * m
  self.running_var = self.running_var * (1 - m) + core.batch_var(x) * m
end

local function by_batch(self, x)
  local options = {training = true, eps = self.eps}
  if self.weight then return core.batch_norm(x, self.weight, self.bias, options) end
  return core.batch_norm(x, options)
end

local function by_running(self, x)
  local mean, var, options = self.running_mean, self.running_var, {eps = self.eps}
  if self.weight then return core.batch_norm(x, mean, var, self.weight, self.bias, options) end
  return core.batch_norm(x, mean, var, options)
end

local function batch_norm(name, dims)
  local what = "nn." .. name
  layer(name, {
    init = function(self, channels, options)
      size(what, "channels", channels)
      local o = check.options(what, options, batch_norm_options)
      if o.momentum then check.value(what, "momentum", o.momentum, {kind = "number", min = 0, max = 1}) end
      if o.affine then affine(self, {channels}, true) end
      if o.track_running_stats then
        self.running_mean = module.buffer(core.zeros {channels})
        self.running_var = module.buffer(core.ones {channels})
        if not o.momentum then self.num_batches_tracked = module.buffer(core.zeros {}) end
      end
      self.eps, self.momentum, self.tracks = o.eps, o.momentum, o.track_running_stats
    end,
    forward = function(self, x)
      check_dims(what, x, dims)
      local training = module.is_training(self)
      if self.tracks and not training then return by_running(self, x) end
      local y = by_batch(self, x)
      if self.tracks then track(self, x) end
      return y
    end,
  })
end

---@class neap.nn.BatchNormOptions
---@field eps? number added to the variance (default 1e-5)
---@field momentum? number|false share of the new in the running statistics; false: their means (default 0.1)
---@field affine? boolean learn `weight` and `bias` (default true)
---@field track_running_stats? boolean else the batch's own statistics serve in evaluation mode too (default true)

--- `(x - mean) / sqrt(var + eps) weight + bias` for each channel (Ioffe and Szegedy 2015): mean and variance of the
--- batch in training, running ones in evaluation mode and where the layer is frozen. x is [N, channels] or
--- [N, channels, L]. Parameters `weight` and `bias`, buffers `running_mean` and `running_var`, all [channels]. Samples
--- of a batch depend on each other, so micro-batches are not exact. With `momentum = false` the running statistics are
--- means over all batches, counted in a buffer `num_batches_tracked`.
---@param channels integer
---@param options? neap.nn.BatchNormOptions
---@return neap.Module
batch_norm("BatchNorm1d", {2, 3})
--- As `BatchNorm1d` for x [N, channels, H, W].
---@param channels integer
---@param options? neap.nn.BatchNormOptions
---@return neap.Module
batch_norm("BatchNorm2d", {4})

-- Within a sample --------------------------------------------------------------------------------------

local function over_last(name, op, with_bias)
  local what = "nn." .. name
  local specs = {
    eps = {kind = "number", min = 0, default = with_bias and 1e-5 or nil},
    elementwise_affine = {kind = "boolean", default = true},
  }
  if with_bias then specs.bias = {kind = "boolean", default = true} end
  layer(name, {
    init = function(self, shape, options)
      local list = type(shape) == "table" and shape or {shape}
      if #list == 0 then check.fail("INVALID", "%s: the normalized shape is empty", what) end
      for i, n in ipairs(list) do size(what, ("the normalized shape's entry %d"):format(i), n) end
      local o = check.options(what, options, specs)
      if o.elementwise_affine then affine(self, list, with_bias and o.bias) end
      self.options = {normalized_shape = {table.unpack(list)}, eps = o.eps}
    end,
    forward = function(self, x) return apply(op, self, x) end,
  })
end

---@class neap.nn.LayerNormOptions
---@field eps? number (default 1e-5)
---@field elementwise_affine? boolean learn `weight` and `bias` (default true)
---@field bias? boolean (default true)

--- `(x - mean) / sqrt(var + eps) weight + bias` over the last dimensions of each sample (Ba et al. 2016). Parameters
--- `weight` and `bias` of the normalized shape.
---@param shape integer|integer[] of the last dimensions
---@param options? neap.nn.LayerNormOptions
---@return neap.Module
over_last("LayerNorm", "layer_norm", true)
---@class neap.nn.RMSNormOptions
---@field eps? number (default the dtype's epsilon)
---@field elementwise_affine? boolean learn `weight` (default true)

--- `x / sqrt(mean(x^2) + eps) weight` over the last dimensions (Zhang and Sennrich 2019).
---@param shape integer|integer[] of the last dimensions
---@param options? neap.nn.RMSNormOptions
---@return neap.Module
over_last("RMSNorm", "rms_norm", false)

---@class neap.nn.GroupNormOptions
---@field eps? number (default 1e-5)
---@field affine? boolean learn `weight` and `bias` [channels] (default true)

--- Normalizes groups of channels within each sample (Wu and He 2018): x is [N, channels, ...].
---@param groups integer a divisor of the channels
---@param channels integer
---@param options? neap.nn.GroupNormOptions
---@return neap.Module
layer("GroupNorm", {
  init = function(self, groups, channels, options)
    size("nn.GroupNorm", "groups", groups)
    size("nn.GroupNorm", "channels", channels)
    if channels % groups ~= 0 then
      check.fail("INVALID", "nn.GroupNorm: groups is %d, which does not divide %d channels", groups, channels)
    end
    local o = check.options("nn.GroupNorm", options, {
      eps = {kind = "number", min = 0, default = 1e-5}, affine = {kind = "boolean", default = true},
    })
    if o.affine then affine(self, {channels}, true) end
    self.options = {groups = groups, eps = o.eps}
  end,
  forward = function(self, x) return apply("group_norm", self, x) end,
})

local function instance_norm(name, dims)
  local what = "nn." .. name
  layer(name, {
    init = function(self, channels, options)
      size(what, "channels", channels)
      local o = check.options(what, options, {
        eps = {kind = "number", min = 0, default = 1e-5}, affine = {kind = "boolean", default = false},
      })
      if o.affine then affine(self, {channels}, true) end
      self.channels, self.options = channels, {eps = o.eps}
    end,
    forward = function(self, x)
      check_dims(what, x, dims)
      if x.shape[2] ~= self.channels then
        check.fail("SHAPE", "%s: the input is %s, expected %d channels", what, check.shape_text(x.shape), self.channels)
      end
      return apply("instance_norm", self, x)
    end,
  })
end

---@class neap.nn.InstanceNormOptions
---@field eps? number (default 1e-5)
---@field affine? boolean learn `weight` and `bias` [channels] (default false)

--- Normalizes each channel of each sample (Ulyanov et al. 2016): x is [N, channels, L].
---@param channels integer
---@param options? neap.nn.InstanceNormOptions
---@return neap.Module
instance_norm("InstanceNorm1d", {3})
--- As `InstanceNorm1d` for x [N, channels, H, W].
---@param channels integer
---@param options? neap.nn.InstanceNormOptions
---@return neap.Module
instance_norm("InstanceNorm2d", {4})

return M
