--- Losses as layers of two inputs, prediction and target, with PyTorch's names; options are those of the ops.
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

local M = {}

--- options: names of the op's options beside reduction, and what they are.
local function loss(name, op, options)
  local what, specs = "nn." .. name, {reduction = {kind = "string"}}
  for key, kind in pairs(options or {}) do specs[key] = {kind = kind} end
  M[name] = module.module(name, {
    init = function(self, given)
      self.options = check.options(what, given, specs)
      local r = self.options.reduction
      if r and r ~= "mean" and r ~= "sum" and r ~= "none" then
        check.fail("INVALID", "%s: reduction is %q, expected \"mean\", \"sum\" or \"none\"", what, r)
      end
    end,
    forward = function(self, x, target) return core[op](x, target, self.options) end,
  }, true)
end

loss("CrossEntropyLoss", "cross_entropy", {ignore_index = "integer", label_smoothing = "number"})
loss("NLLLoss", "nll_loss", {ignore_index = "integer"})
loss("MSELoss", "mse_loss")
loss("L1Loss", "l1_loss")
loss("HuberLoss", "huber_loss", {delta = "number"})
loss("SmoothL1Loss", "smooth_l1_loss", {beta = "number"})
loss("BCELoss", "binary_cross_entropy")
loss("BCEWithLogitsLoss", "binary_cross_entropy_with_logits")
loss("KLDivLoss", "kl_div", {log_target = "boolean"})
loss("PoissonNLLLoss", "poisson_nll_loss", {log_input = "boolean", eps = "number"})

return M
