-- A trainer over a loader: whole, or in slices by the host's ticks.
-- luacheck: globals fit begin steps weights
local neap = require "neap"
local nn = neap.nn

local model = nn.Sequential {nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 4)}
local x = neap.randn(200, 32)
local y = x:narrow(2, 1, 4):argmax(2)
local trainer = neap.trainer {
  model = model, loss = neap.cross_entropy,
  optimizer = neap.optim.sgd {lr = 0.05, momentum = 0.9},
  loader = neap.data.loader {dataset = neap.data.tensors {x = x, y = y}, batch_size = 64, shuffle = true, seed = 5},
  progress = false,
}

function fit(n) trainer:fit {steps = n} end

function begin(n)
  neap.on_tick(trainer)
  trainer:on("step", function() if trainer.steps_done == n then neap.off_tick(trainer) end end)
end

function steps() return trainer.steps_done end

function weights()
  local parts = {}
  for _, tensor in model:named_parameters() do parts[#parts + 1] = tensor:tobytes() end
  return table.concat(parts)
end
