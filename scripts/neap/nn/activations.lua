--- Activations as layers, with PyTorch's names and options.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

--- A layer of an op; `options` are its options by name, with what a layer checks of them.
local function activation(name, op, options)
  local what = "nn." .. name
  M[name] = module.module(name, {
    init = function(self, given) self.options = check.options(what, given, options or {}) end,
    forward = function(self, x) return core[op](x, self.options) end,
  }, true)
end

--- `max(x, 0)`
---@return neap.Module
activation("ReLU", "relu")
--- `tanh(x)`
---@return neap.Module
activation("Tanh", "tanh")
--- `1 / (1 + exp(-x))`
---@return neap.Module
activation("Sigmoid", "sigmoid")
--- `x sigmoid(x)` (Elfwing et al. 2017), also called swish
---@return neap.Module
activation("SiLU", "silu")
--- `x tanh(softplus(x))` (Misra 2019)
---@return neap.Module
activation("Mish", "mish")
--- `log(1 + exp(x))`
---@return neap.Module
activation("Softplus", "softplus")
--- `x min(max(x + 3, 0), 6) / 6` (Howard et al. 2019)
---@return neap.Module
activation("Hardswish", "hardswish")

---@class neap.nn.GELUOptions
---@field approximate? "none"|"tanh" "tanh": the approximation of the paper, which GPT-2 uses (default "none")

--- `x Phi(x)`, where Phi is the distribution function of N(0, 1) (Hendrycks and Gimpel 2016)
---@param options? neap.nn.GELUOptions
---@return neap.Module
activation("GELU", "gelu", {approximate = {kind = "string"}})

---@class neap.nn.LeakyReLUOptions
---@field negative_slope? number (default 0.01)

--- x where positive, else `negative_slope x`
---@param options? neap.nn.LeakyReLUOptions
---@return neap.Module
activation("LeakyReLU", "leaky_relu", {negative_slope = {kind = "number"}})

---@class neap.nn.ELUOptions
---@field alpha? number (default 1)

--- x where positive, else `alpha (exp(x) - 1)` (Clevert et al. 2015)
---@param options? neap.nn.ELUOptions
---@return neap.Module
activation("ELU", "elu", {alpha = {kind = "number"}})

---@class neap.nn.HardtanhOptions
---@field min_val? number (default -1)
---@field max_val? number (default 1)

--- x, but no less than `min_val` and no more than `max_val`
---@param options? neap.nn.HardtanhOptions
---@return neap.Module
activation("Hardtanh", "hardtanh", {min_val = {kind = "number"}, max_val = {kind = "number"}})

--- x, but no less than 0 and no more than 6
---@return neap.Module
M.ReLU6 = module.module("ReLU6", {
  forward = function(_, x) return core.hardtanh(x, {min_val = 0, max_val = 6}) end,
}, true)

---@class neap.nn.PReLUOptions
---@field channels? integer 1: one slope for all; else one for each channel, dimension 2 of the input (default 1)
---@field init? any of the slope, as in `nn.parameter` (default 0.25)

--- x where positive, else times a learned slope (He et al. 2015). Parameter `weight` [channels].
---@param options? neap.nn.PReLUOptions
---@return neap.Module
M.PReLU = module.module("PReLU", {
  init = function(self, options)
    local o = check.options("nn.PReLU", options, {
      channels = {kind = "integer", min = 1, default = 1}, init = {kind = "any", default = 0.25},
    })
    self.weight = module.parameter {shape = {o.channels}, init = o.init}
  end,
  forward = function(self, x)
    local slope, channels = self.weight, self.weight.shape[1]
    if channels > 1 then
      if x.ndim < 2 or x.shape[2] ~= channels then
        check.fail("SHAPE", "nn.PReLU: the input is %s, expected %d channels", check.shape_text(x.shape), channels)
      end
      local shape = {channels}
      for i = 3, x.ndim do shape[i - 1] = 1 end
      slope = slope:reshape(shape)
    end
    return x:relu() - slope * (-x):relu()
  end,
}, true)

local function over_dim(name, op)
  M[name] = module.module(name, {
    init = function(self, dim)
      self.dim = check.value("nn." .. name, "dim", dim or -1, {kind = "integer"})
    end,
    forward = function(self, x) return core[op](x, {dim = self.dim}) end,
  }, true)
end

--- `exp(x) / sum(exp(x))` along a dimension
---@param dim? integer (default -1)
---@return neap.Module
over_dim("Softmax", "softmax")
--- The logarithm of softmax, which does not overflow
---@param dim? integer (default -1)
---@return neap.Module
over_dim("LogSoftmax", "log_softmax")
--- softmax of -x
---@param dim? integer (default -1)
---@return neap.Module
over_dim("Softmin", "softmin")

return M
