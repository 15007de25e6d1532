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
--- `x min(max(x + 3, 0), 6) / 6` (Howard et al. 2019)
---@return neap.Module
activation("Hardswish", "hardswish")
--- `min(max(x + 3, 0), 6) / 6`
---@return neap.Module
activation("Hardsigmoid", "hardsigmoid")
--- `log(sigmoid(x))`, which does not overflow
---@return neap.Module
activation("LogSigmoid", "logsigmoid")
--- `x / (1 + |x|)`
---@return neap.Module
activation("Softsign", "softsign")
--- `x - tanh(x)`
---@return neap.Module
activation("Tanhshrink", "tanhshrink")
--- ELU with the slope and alpha that keep mean 0 and variance 1 (Klambauer et al. 2017)
---@return neap.Module
activation("SELU", "selu")
--- x, but no less than 0 and no more than 6
---@return neap.Module
activation("ReLU6", "relu6")

---@class neap.nn.SoftplusOptions
---@field beta? number (default 1)
---@field threshold? number of `beta x`, above which the layer is linear (default 20)

--- `log(1 + exp(beta x)) / beta`
---@param options? neap.nn.SoftplusOptions
---@return neap.Module
activation("Softplus", "softplus", {beta = {kind = "number"}, threshold = {kind = "number"}})

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

---@class neap.nn.CELUOptions
---@field alpha? number (default 1)

--- x where positive, else `alpha (exp(x / alpha) - 1)` (Barron 2017)
---@param options? neap.nn.CELUOptions
---@return neap.Module
activation("CELU", "celu", {alpha = {kind = "number"}})

---@class neap.nn.ShrinkOptions
---@field lambd? number (default 0.5)

--- x where it is further from 0 than `lambd`, else 0
---@param options? neap.nn.ShrinkOptions
---@return neap.Module
activation("Hardshrink", "hardshrink", {lambd = {kind = "number"}})
--- x brought nearer to 0 by `lambd`, and 0 where it is no further
---@param options? neap.nn.ShrinkOptions
---@return neap.Module
activation("Softshrink", "softshrink", {lambd = {kind = "number", min = 0}})

---@class neap.nn.HardtanhOptions
---@field min_val? number (default -1)
---@field max_val? number (default 1)

--- x, but no less than `min_val` and no more than `max_val`
---@param options? neap.nn.HardtanhOptions
---@return neap.Module
activation("Hardtanh", "hardtanh", {min_val = {kind = "number"}, max_val = {kind = "number"}})

--- x where it is above `threshold`, else `value`
---@param threshold number
---@param value number
---@return neap.Module
M.Threshold = module.module("Threshold", {
  init = function(self, threshold, value)
    self.threshold = check.value("nn.Threshold", "threshold", threshold, {kind = "number"})
    self.value = check.value("nn.Threshold", "value", value, {kind = "number"})
  end,
  forward = function(self, x) return core.threshold(x, self.threshold, self.value) end,
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
  forward = function(self, x) return core.prelu(x, self.weight) end,
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
--- The first half along a dimension, gated by the sigmoid of the second (Dauphin et al. 2016)
---@param dim? integer (default -1)
---@return neap.Module
over_dim("GLU", "glu")

return M
