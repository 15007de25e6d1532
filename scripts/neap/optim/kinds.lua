--- The kinds of optimizers: what each is set by, with PyTorch's names and defaults. `core` is what the engine calls it,
--- `decoupled` whether weight decay is, where that is no setting.
local rate = {kind = "number", min = 0}
local fraction = {kind = "number", min = 0, max = 1}
local flag = {kind = "boolean"}
local betas = {kind = "table"}

local M = {}

--- Settings that all have, and those of the kind: name to {check, default}.
local function kind(core, lr, settings, decoupled)
  local made = {core = core, decoupled = decoupled, required = {lr = lr == nil}, specs = {}, defaults = {}}
  settings.lr, settings.weight_decay, settings.maximize = {rate, lr}, settings.weight_decay or {rate, 0}, {flag, false}
  for name, setting in pairs(settings) do made.specs[name], made.defaults[name] = setting[1], setting[2] end
  return made
end

M.sgd = kind("sgd", nil, {momentum = {rate, 0}, dampening = {rate, 0}, nesterov = {flag, false}})
M.adam = kind("adam", 1e-3, {
  betas = {betas, {0.9, 0.999}}, eps = {rate, 1e-8}, amsgrad = {flag, false}, decoupled_weight_decay = {flag, false},
})
M.adamw = kind("adam", 1e-3, {
  betas = {betas, {0.9, 0.999}}, eps = {rate, 1e-8}, weight_decay = {rate, 1e-2}, amsgrad = {flag, false},
}, true)
M.nadam = kind("nadam", 2e-3, {
  betas = {betas, {0.9, 0.999}}, eps = {rate, 1e-8}, momentum_decay = {rate, 4e-3},
  decoupled_weight_decay = {flag, false},
})
M.radam = kind("radam", 1e-3, {
  betas = {betas, {0.9, 0.999}}, eps = {rate, 1e-8}, decoupled_weight_decay = {flag, false},
})
M.adamax = kind("adamax", 2e-3, {betas = {betas, {0.9, 0.999}}, eps = {rate, 1e-8}})
M.adadelta = kind("adadelta", 1.0, {rho = {fraction, 0.9}, eps = {rate, 1e-6}})
M.rmsprop = kind("rmsprop", 1e-2, {
  alpha = {fraction, 0.99}, eps = {rate, 1e-8}, momentum = {rate, 0}, centered = {flag, false},
})
M.adagrad = kind("adagrad", 1e-2, {lr_decay = {rate, 0}, eps = {rate, 1e-10}, initial_accumulator_value = {rate, 0}})
M.lion = kind("lion", 1e-4, {betas = {betas, {0.9, 0.99}}})

return M
