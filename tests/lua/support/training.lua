--- Small models, data and updates for specs.
local neap = require "neap"
local mlp = require "models.mlp"

local M = {}

--- A network whose activations need more than its parameters, with a seed.
function M.model(seed)
  neap.manual_seed(seed or 1)
  local model = mlp {sizes = {16, 64, 64, 4}}
  model:parameters()
  return model
end

local made = {}

--- Inputs and classes of `n` samples, the same for the same n.
function M.batch(n)
  if made[n] then return table.unpack(made[n]) end
  local x, y = {}, {}
  for i = 1, n do
    local row = {}
    for k = 1, 16 do row[k] = math.sin(i * k * 0.37) + (k % 4 == i % 4 and 1 or 0) end
    x[i], y[i] = row, i % 4
  end
  made[n] = {neap.tensor(x), neap.tensor(y, {dtype = "int64"})}
  return table.unpack(made[n])
end

--- An update of a model; options are added to loss and optimizer.
function M.update(model, options)
  local o = {
    loss = function(x, y) return neap.cross_entropy(model(x), y) end,
    optimizer = neap.optim.adamw {params = model, lr = 1e-2},
  }
  for name, v in pairs(options or {}) do o[name] = v end
  return neap.update(o)
end

--- A loader over n samples.
function M.loader(n, options)
  local x, y = M.batch(n)
  local o = {dataset = neap.data.tensors {x = x, y = y}, batch_size = 32, shuffle = true, seed = 4}
  for name, v in pairs(options or {}) do o[name] = v end
  return neap.data.loader(o)
end

--- A quiet trainer.
function M.trainer(options)
  local o = {
    model = M.model(), loss = neap.cross_entropy, optimizer = neap.optim.adamw {lr = 1e-2}, loader = M.loader(96),
    progress = false,
  }
  for name, v in pairs(options or {}) do o[name] = v end
  return neap.trainer(o)
end

--- Sets the budget to what is held now and `bytes` more. The pool keeps what it holds for small blocks, so
--- only larger ones than that, of some MiB, are sure to be refused.
function M.leave_room(bytes)
  collectgarbage()
  collectgarbage()
  neap.set_memory_limit(nil, "now")
  neap.set_memory_limit(neap.memory().reserved + (bytes // 1 | 0), "now")
end

return M
