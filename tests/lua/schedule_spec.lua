local neap = require "neap"
local expect = require "support.expect"
local training = require "support.training"
local schedule = neap.optim.schedule

local function optimizer(options)
  local o = {params = {neap.nn.Linear(1, 1):parameters()[1]}, lr = 0.1}
  for name, v in pairs(options or {}) do o[name] = v end
  return neap.optim.sgd(o)
end

--- Rates before each of n updates.
local function rates(s, n)
  local opt = optimizer()
  s:bind(opt)
  local list = {}
  for i = 1, n do
    list[i] = opt.lr
    s:advance(4)
  end
  return list
end

local function same(expected, got)
  assert.equal(#expected, #got)
  for i, v in ipairs(expected) do expect.near(v, got[i], 1e-12) end
end

describe("A schedule", function()
  it("steps down", function()
    same({0.1, 0.1, 0.05, 0.05, 0.025}, rates(schedule.step {every = 2, gamma = 0.5}, 5))
  end)

  it("follows half a cosine, and stays at its end", function()
    local got = rates(schedule.cosine {total = 4, min = 0.02}, 6)
    same({0.1, 0.02 + 0.04 * (1 + math.sqrt(0.5)), 0.06, 0.02 + 0.04 * (1 - math.sqrt(0.5)), 0.02, 0.02}, got)
  end)

  it("warms up, and then lets another begin", function()
    same({0.02, 0.06, 0.1, 0.01}, rates(schedule.warmup {total = 2, start = 0.2, next = schedule.step {every = 1}}, 4))
    same({0, 0.05, 0.1, 0.1}, rates(schedule.warmup {total = 2}, 4))
  end)

  -- Numbers of torch.optim.lr_scheduler.OneCycleLR(max_lr = 1, total_steps = 10).
  it("goes up and down once", function()
    same({0.04, 0.52, 1, 0.9504846320134737, 0.8117456539497631, 0.6112620219362893, 0.38874197806371076,
          0.18825834605023698, 0.0495193679865264, 4e-06}, rates(schedule.one_cycle {max_lr = 1, total = 10}, 10))
  end)

  it("counts samples when told to", function()
    same({0.1, 0.1, 0.05, 0.05, 0.025}, rates(schedule.step {every = 8, gamma = 0.5, by = "samples"}, 5))
  end)

  it("lowers the rate on a plateau", function()
    local s, opt = schedule.plateau {patience = 1, factor = 0.5, cooldown = 1, min = 0.02}, optimizer()
    s:bind(opt)
    local got = {}
    for i, loss in ipairs {1, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8} do
      s:observe(loss)
      got[i] = opt.lr
    end
    same({0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.02, 0.02, 0.02, 0.02}, got)
  end)

  it("sets the rates of groups from what each began with", function()
    local layer = neap.nn.Linear(1, 1)
    local list = layer:parameters()
    local opt = neap.optim.sgd {lr = 1, groups = {{params = {list[1]}, lr = 0.5}, {params = {list[2]}}}}
    local s = schedule.step {every = 1, gamma = 0.5}:bind(opt)
    s:advance()
    assert.equal(0.25, opt.groups[1].lr)
    assert.equal(0.5, opt.lr)
    same({0.25, 0.5}, s:rates())
  end)

  it("goes on from its state", function()
    for _, make in pairs {
      function() return schedule.cosine {total = 10} end,
      function() return schedule.plateau {patience = 0} end,
    } do
      local a, b, opt_a, opt_b = make(), make(), optimizer(), optimizer {lr = 7}
      a:bind(opt_a)
      b:bind(opt_b)
      for i = 1, 3 do a:advance(); a:observe(i) end
      b:load_state(a:state())
      assert.equal(opt_a.lr, opt_b.lr)
      a:advance(); a:observe(9)
      b:advance(); b:observe(9)
      assert.equal(opt_a.lr, opt_b.lr)
    end
  end)

  it("names what is wrong", function()
    expect.fails("INVALID", {"optim.schedule.step", "every", "missing"}, schedule.step, {})
    expect.fails("INVALID", {"by", "epochs"}, schedule.cosine, {total = 3, by = "epochs"})
    expect.fails("INVALID", {"mode", "up"}, schedule.plateau, {mode = "up"})
    expect.fails("INVALID", {"next", "the number 3"}, schedule.warmup, {total = 3, next = 3})
    expect.fails("INVALID", {"counts updates", "samples"}, function()
      schedule.warmup {total = 3, next = schedule.cosine {total = 3, by = "samples"}}
    end)
    local s = schedule.step {every = 2, by = "samples"}
    expect.fails("INVALID", {"bind"}, s.advance, s)
    s:bind(optimizer())
    expect.fails("INVALID", {"samples"}, s.advance, s)
    expect.fails("INVALID", {"already"}, s.bind, s, optimizer())
    expect.fails("INVALID", {"cosine"}, s.load_state, s, schedule.cosine {total = 3}:bind(optimizer()):state())
    expect.fails("INVALID", {"neap.trainer", "schedule"}, training.trainer, {schedule = {}})
  end)
end)

describe("A trainer with a schedule", function()
  after_each(expect.remove_files)

  it("sets the rate of each update, and resumes it with the same bits", function()
    local function trainer() return training.trainer {schedule = schedule.cosine {total = 9}} end
    local whole = trainer()
    whole:fit {steps = 6}
    expect.near(1e-2 * (1 + math.cos(math.pi * 6 / 9)) / 2, whole.optimizer.lr, 1e-12)

    local path, first = expect.path(), trainer()
    first:fit {steps = 4}
    assert(first:save(path))
    local second = trainer()
    assert(second:resume(path))
    second:fit {steps = 6}
    assert.equal(whole.optimizer.lr, second.optimizer.lr)
    assert.is_true(expect.same_bits(whole.model:state(), second.model:state()))
  end)

  it("shows a plateau the losses of its epochs, or what it evaluates", function()
    local t = training.trainer {schedule = schedule.plateau {patience = 0, threshold = 1}}
    t:fit {epochs = 3}
    expect.near(1e-4, t.optimizer.lr, 1e-12)
    local other = training.trainer {schedule = schedule.plateau {patience = 0, metric = "loss", threshold = 1}}
    other:fit {epochs = 1}
    expect.near(1e-2, other.optimizer.lr, 1e-12)
    for _ = 1, 2 do other:evaluate(training.loader(32)) end
    expect.near(1e-3, other.optimizer.lr, 1e-12)
    other.schedule.metric = "beauty"
    expect.fails("INVALID", {"beauty", "loss"}, other.evaluate, other, training.loader(32))
  end)

  it("refuses a checkpoint without one", function()
    local path = expect.path()
    assert(training.trainer():save(path))
    local t = training.trainer {schedule = schedule.cosine {total = 9}}
    expect.fails("INVALID", {"schedule"}, t.resume, t, path)
  end)
end)
