--- Training steps of neap against PyTorch (eager) on the same machine, in turn (A B A B ...), same shapes,
--- SGD with momentum. Prints the median ratio PyTorch time / neap time: above 1 neap is faster.
---
---   build/neap --threads 2 tests/bench/run.lua [CASE]
---
--- Needs a `python3` that has torch ($NEAP_BENCH_PYTHON names another); without one it says so and ends well.
local neap = require "neap"
local nn = neap.nn

local THREADS = 2
local ROUNDS = 5
local here = arg[0]:match("^(.*)/[^/]*$") or "."
-- A setting of the machine that slows current BLAS builds would flatter neap: the peer runs without it.
local python = "env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE " .. (os.getenv("NEAP_BENCH_PYTHON") or "python3")

local function labels(n, classes)
  local t = {}
  for i = 1, n do t[i] = (i * 7) % classes end
  return neap.tensor(t, {dtype = "int64"})
end

local function tokens(n, length)
  return labels(n * length, 65):reshape {n, length}
end

local cases = {
  {
    name = "policy", title = "policy network 4-64-64-2, batch 32", steps = 2000, floor = 5,
    build = function()
      return nn.Sequential{nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)},
        neap.randn(32, 4), labels(32, 2)
    end,
  },
  {
    name = "mlp", title = "MLP 784-256-10, batch 64", steps = 600, floor = 1.5,
    build = function()
      return require "models.mlp" {sizes = {784, 256, 10}, activation = "relu"}, neap.randn(64, 784), labels(64, 10)
    end,
  },
  {
    name = "cnn", title = "digits CNN, batch 64", steps = 80, floor = 1.0,
    build = function()
      return require "models.simple_cnn" {channels = 1, size = 28, classes = 10, width = {16, 32}, hidden = 64},
        neap.randn(64, 1, 28, 28), labels(64, 10)
    end,
  },
  {
    name = "gpt", title = "GPT 4 layers, 128 wide, 32 x 64 tokens", steps = 16, floor = 1.0,
    build = function()
      local model = require "models.gpt" {vocab = 65, d = 128, heads = 4, layers = 4, context = 64}
      return model, tokens(32, 64), tokens(32, 64)
    end,
    loss = function(model, x, y) return neap.cross_entropy(model(x):reshape {-1, 65}, y:reshape {-1}) end,
  },
  {
    name = "lstm", title = "LSTM 2 layers, 128 wide, 32 x 64 tokens", steps = 16, floor = 1.0,
    build = function()
      return require "models.lstm_lm" {vocab = 65, d = 128, layers = 2}, tokens(32, 64), tokens(32, 64)
    end,
    loss = function(model, x, y)
      local scores = model(x)
      return neap.cross_entropy(scores:reshape {-1, 65}, y:reshape {-1})
    end,
  },
}

local function classify(model, x, y)
  return neap.cross_entropy(model(x), y)
end

local function median(t)
  table.sort(t)
  return t[(#t + 1) // 2]
end

local function ours(case)
  local model, x, y = case.build()
  local loss = case.loss or classify
  local update = neap.update {
    loss = function(a, b) return loss(model, a, b) end,
    optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.01, momentum = 0.9},
  }
  local times = {}
  for i = 1, case.steps do
    local t0 = neap.clock()
    update(x, y)
    if i > case.steps // 4 then times[#times + 1] = neap.clock() - t0 end
  end
  return median(times)
end

local function theirs(case)
  local command = ("%s %s/peer_torch.py %s %d %d 2>/dev/null"):format(python, here, case.name, THREADS, case.steps)
  local pipe <close> = assert(io.popen(command))
  return tonumber(pipe:read("l") or "")
end

if not os.execute(python .. " -c 'import torch' >/dev/null 2>&1") then
  print("no python3 with torch: nothing to compare with (pip install torch, or set NEAP_BENCH_PYTHON)")
  os.exit(0)
end

local failed = false
print(("%-40s %12s %12s %8s %8s"):format("", "neap us", "PyTorch us", "ratio", "floor"))
for _, case in ipairs(cases) do
  if not arg[1] or arg[1] == case.name then
    local ratios, a, b = {}, {}, {}
    for round = 1, ROUNDS do
      a[round] = ours(case)
      b[round] = assert(theirs(case), "the peer failed; run " .. here .. "/peer_torch.py by hand")
      ratios[round] = b[round] / a[round]
      collectgarbage()
    end
    local ratio = median(ratios)
    failed = failed or ratio < case.floor
    print(("%-40s %12.1f %12.1f %8.2f %8.1f"):format(case.title, median(a) * 1e6, median(b) * 1e6, ratio, case.floor))
  end
end
os.exit(failed and 1 or 0)
