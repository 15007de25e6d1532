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

  -- What follows: numbers of torch.optim.lr_scheduler 2.15, for an SGD with a rate of 0.1 and momentum.
  it("has the factors of PyTorch's", function()
    same({0.1, 0.08, 0.064, 0.0512, 0.04096}, rates(schedule.exponential {gamma = 0.8}, 5))
    same({0.1, 0.1, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125},
         rates(schedule.multi_step {milestones = {2, 3, 6}, gamma = 0.5}, 8))
    same({0.025, 0.0375, 0.05, 0.0625, 0.075, 0.075},
         rates(schedule.linear {start_factor = 0.25, end_factor = 0.75, total = 4}, 6))
    same({0.025, 0.025, 0.025, 0.1, 0.1}, rates(schedule.constant {factor = 0.25, total = 3}, 5))
    same({0.1, 0.064, 0.036, 0.016, 0.004, 0, 0}, rates(schedule.polynomial {total = 5, power = 2}, 7))
    same({0.1, 0.05, 0.1 / 3, 0.025}, rates(schedule.lambda {fn = function(n) return 1 / (1 + n) end}, 4))
  end)

  it("begins a cosine again", function()
    same({0.1, 0.08, 0.04, 0.1, 0.08, 0.04, 0.1, 0.08}, rates(schedule.cosine_restarts {total = 3, min = 0.02}, 8))
    same({0.1, 0.06, 0.1, 0.08828427124746191, 0.06, 0.0317157287525381, 0.1, 0.09695518130045147,
          0.08828427124746191}, rates(schedule.cosine_restarts {total = 2, mult = 2, min = 0.02}, 9))
  end)

  it("is made of others, one after the other or all at once", function()
    same({0.01, 0.01, 0.1, 0.05, 0.025, 0.1, 0.2 / 3, 0.1 / 3, 0}, rates(schedule.sequential {
      schedules = {schedule.constant {factor = 0.1, total = 2}, schedule.exponential {gamma = 0.5},
                   schedule.polynomial {total = 3}},
      milestones = {2, 5},
    }, 9))
    same({0.01, 0.009, 0.081, 0.03645, 0.032805, 0.0295245, 0.01328602500000}, rates(schedule.chained {
      schedules = {schedule.constant {factor = 0.1, total = 2}, schedule.exponential {gamma = 0.9},
                   schedule.step {every = 3, gamma = 0.5}},
    }, 7))
  end)

  --- Momenta, or first betas, before each of n updates.
  local function momenta(s, opt, n)
    s:bind(opt)
    local list, lrs = {}, {}
    for i = 1, n do
      list[i], lrs[i] = opt.betas and opt.betas[1] or opt.momentum, opt.lr
      s:advance(1)
    end
    return list, lrs
  end

  it("cycles momentum against the rate", function()
    local expected = {0.95, 0.9, 0.85, 0.854951556604879, 0.8688255099070633, 0.8888739533021842, 0.9111260466978157,
                      0.9311744900929366, 0.945048443395121, 0.95}
    local params = {neap.nn.Linear(1, 1):parameters()[1]}
    local adam = neap.optim.adam {params = params}
    same(expected, (momenta(schedule.one_cycle {max_lr = 1, total = 10}, adam, 10)))
    assert.equal(0.999, adam.betas[2])
    same(expected, (momenta(schedule.one_cycle {max_lr = 1, total = 10}, optimizer {momentum = 0.9}, 10)))
    local got, lrs = momenta(schedule.one_cycle {
      max_lr = 1, total = 10, anneal_strategy = "linear", three_phase = true, pct_start = 0.4, base_momentum = 0.8,
      max_momentum = 0.9, div_factor = 10, final_div_factor = 100,
    }, optimizer {momentum = 0.5}, 10)
    same({0.9, 2.6 / 3, 2.5 / 3, 0.8, 2.5 / 3, 2.6 / 3, 0.9, 0.9, 0.9, 0.9}, got)
    same({0.1, 0.4, 0.7, 1, 0.7, 0.4, 0.1, 0.067, 0.034, 0.001}, lrs)
    got, lrs = momenta(schedule.one_cycle {max_lr = 1, total = 10, three_phase = true, pct_start = 0.25},
                       optimizer {momentum = 0.5}, 10)
    same({0.95, 0.875, 0.875, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95}, got)
    same({0.04, 0.76, 0.76, 0.04, 0.03732077602488121, 0.030001, 0.020002, 0.010003, 0.002683223975118795, 4e-06}, lrs)
  end)

  it("leaves momentum alone where there is none, or when told to", function()
    assert.same({0, 0, 0}, (momenta(schedule.one_cycle {max_lr = 1, total = 4}, optimizer(), 3)))
    local kept = schedule.one_cycle {max_lr = 1, total = 4, cycle_momentum = false}
    assert.same({0.9, 0.9, 0.9}, (momenta(kept, optimizer {momentum = 0.9}, 3)))
    local s = schedule.one_cycle {max_lr = 1, total = 4, cycle_momentum = true}
    expect.fails("INVALID", {"cycle_momentum", "no momentum"}, s.bind, s, optimizer())
  end)

  it("gives a function the place of the group", function()
    local list = neap.nn.Linear(1, 1):parameters()
    local opt = neap.optim.sgd {lr = 1, groups = {{params = {list[1]}, lr = 0.5}, {params = {list[2]}}}}
    schedule.lambda {fn = function(n, i) return n + i end}:bind(opt):advance()
    assert.same({1, 3}, {opt.groups[1].lr, opt.lr})
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
      function() return schedule.one_cycle {max_lr = 1, total = 8} end,
      function() return schedule.cosine_restarts {total = 2, mult = 2} end,
      function()
        return schedule.sequential {
          schedules = {schedule.linear {total = 2}, schedule.exponential {gamma = 0.5}}, milestones = {2},
        }
      end,
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
    expect.fails("INVALID", {"milestones[2]", "3", "at least 4"}, schedule.multi_step, {milestones = {3, 3}})
    expect.fails("INVALID", {"anneal_strategy", "sine"}, schedule.one_cycle,
                 {max_lr = 1, total = 3, anneal_strategy = "sine"})
    local function parts(o)
      return {schedules = o, milestones = {2}}
    end
    expect.fails("INVALID", {"1 milestones", "1 schedules"}, schedule.sequential, parts {schedule.linear {total = 2}})
    expect.fails("INVALID", {"schedules[2]", "plateau"}, schedule.sequential,
                 parts {schedule.linear {total = 2}, schedule.plateau {}})
    expect.fails("INVALID", {"schedules[1]", "momentum"}, schedule.sequential,
                 parts {schedule.one_cycle {max_lr = 1, total = 3, cycle_momentum = true}, schedule.linear {total = 2}})
    expect.fails("INVALID", {"schedules", "empty"}, schedule.chained, {schedules = {}})
    local wrong = schedule.lambda {fn = function() return "x" end}
    expect.fails("INVALID", {"fn(0)", '"x"'}, wrong.bind, wrong, optimizer())
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

  it("resumes a cycle of betas with the same bits", function()
    local function trainer() return training.trainer {schedule = schedule.one_cycle {max_lr = 0.01, total = 9}} end
    local whole = trainer()
    whole:fit {steps = 6}
    local path, first, second = expect.path(), trainer(), trainer()
    first:fit {steps = 4}
    assert(first:save(path))
    assert(second:resume(path))
    assert.equal(first.optimizer.betas[1], second.optimizer.betas[1])
    assert.are_not.equal(0.9, second.optimizer.betas[1])
    second:fit {steps = 6}
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
