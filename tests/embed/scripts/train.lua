-- A network that learns a simple function; the host calls these globals, and trains it whole or by ticks.
-- luacheck: globals train train_by_ticks last_loss steps micro_batch weights prepare
local neap = require "neap"
local nn = neap.nn

local INPUTS <const>, HIDDEN <const>, OUTPUTS <const>, BATCH <const> = 64, 256, 8, 512

local model = nn.Sequential {nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, OUTPUTS)}
local x = neap.randn(BATCH, INPUTS)
local y = (x:narrow(2, 1, OUTPUTS) * 2):tanh()
local update = neap.update {
  loss = function(input, wanted) return neap.mse_loss(model(input), wanted) end,
  optimizer = neap.optim.adam {params = model:parameters(), lr = 1e-2},
}
neap.export("act", model, {{1, INPUTS}})

local committed, wanted, loss = 0, 0, math.huge

local function step(budget_ms)
  if committed >= wanted then return "stopped" end
  local done, value = update:step(budget_ms, x, y)
  if done then committed, loss = committed + 1, value end
end

--- Trains for n updates, all at once.
function train(n)
  for _ = 1, n do loss = update(x, y) end
end

--- Lets ticks go on to n updates in all.
function train_by_ticks(n)
  wanted = n
  neap.on_tick(step)
end

function last_loss() return loss end

function steps() return committed end

function micro_batch() return update:plan().micro_batch end

--- All parameters, as bytes.
function weights()
  local parts = {}
  for _, tensor in model:named_parameters() do parts[#parts + 1] = tensor:tobytes() end
  return table.concat(parts)
end

function prepare()
  neap.on_prepare(function() update:memory(x, y) end)
end
