--- Training inside a frame: how far slices of a millisecond overrun, with an inference between every two.
---
---   build/neap --threads 2 tests/bench/slices.lua
---
--- Prints percentiles of (time of a slice - budget) in milliseconds, against the time of the same slice's
--- plain sleep as the machine's own floor; exit code 1 when the 99th is above 0.5 ms.
local neap = require "neap"

local BUDGET, UPDATES, LIMIT = 1, 150, 0.5

local model = require "models.simple_cnn" {channels = 1, size = 28, classes = 10, width = {16, 32}, hidden = 64}
local labels = {}
for i = 1, 64 do labels[i] = i % 10 end
local x, y = neap.randn(64, 1, 28, 28), neap.tensor(labels, {dtype = "int64"})
local update = neap.update {
  loss = function(a, b) return neap.cross_entropy(model(a), b) end,
  optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.01, momentum = 0.9},
}
local infer = neap.compile(function(a) return model(a) end)
local one = neap.randn(1, 1, 28, 28)

local function slices(n)
  local over = {}
  for _ = 1, n do
    local done = false
    while not done do
      local t0 = neap.clock()
      done = update:step(BUDGET, x, y)
      over[#over + 1] = (neap.clock() - t0) * 1e3 - BUDGET
      infer(one)
    end
  end
  table.sort(over)
  return over
end

slices(20)
local over = slices(UPDATES)
local function at(p) return over[math.max(1, math.ceil(#over * p))] end
print(("%d slices of %g ms: overrun p50 %.3f, p90 %.3f, p99 %.3f, most %.3f ms"):format(
  #over, BUDGET, at(0.5), at(0.9), at(0.99), over[#over]))
os.exit(at(0.99) <= LIMIT and 0 or 1)
