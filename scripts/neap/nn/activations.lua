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

activation("ReLU", "relu")
activation("Tanh", "tanh")
activation("Sigmoid", "sigmoid")
activation("SiLU", "silu")
activation("Mish", "mish")
activation("Softplus", "softplus")
activation("Hardswish", "hardswish")

--- nn.GELU{approximate = "none" | "tanh"}
activation("GELU", "gelu", {approximate = {kind = "string"}})
--- nn.LeakyReLU{negative_slope = 0.01}
activation("LeakyReLU", "leaky_relu", {negative_slope = {kind = "number"}})
--- nn.ELU{alpha = 1}
activation("ELU", "elu", {alpha = {kind = "number"}})
--- nn.Hardtanh{min_val = -1, max_val = 1}
activation("Hardtanh", "hardtanh", {min_val = {kind = "number"}, max_val = {kind = "number"}})

--- nn.ReLU6(): between 0 and 6
M.ReLU6 = module.module("ReLU6", {
  forward = function(_, x) return core.hardtanh(x, {min_val = 0, max_val = 6}) end,
}, true)

--- nn.PReLU({channels = 1, init = 0.25}): x where positive, else times a learned slope, one for all or one for each
--- channel (dimension 2)
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

--- nn.Softmax(dim = -1)
over_dim("Softmax", "softmax")
over_dim("LogSoftmax", "log_softmax")
over_dim("Softmin", "softmin")

return M
