local neap = require "neap"
local expect = require "support.expect"
local training = require "support.training"
local nn, action = neap.nn, neap.action

--- What of the arena whole batches and pieces of n samples need.
local function arena(update, n, ...)
  return update:predict_memory({micro_batch = n, inputs = {...}}).memory.arena
end

describe("An update", function()
  after_each(function() neap.set_memory_limit(nil, "now") end)

  it("gives the loss as a number and commits a step", function()
    local w = nn.Linear(1, 1, {bias = false})
    w:load_state {weight = neap.tensor {{2}}}
    local update = neap.update {
      loss = function(x) return w(x):square():mean() end, optimizer = neap.optim.sgd {params = w, lr = 0.1},
    }
    local loss = update(neap.tensor {{1}, {3}})
    expect.near(20, loss)
    expect.near(2 - 0.1 * 2 * 2 * 5, w.weight:totable()[1][1])
    assert.equal(1, update.optimizer:step_count())
  end)

  it("gives the loss function's other results as tensors", function()
    local w = nn.Linear(1, 1, {bias = false})
    w:load_state {weight = neap.tensor {{2}}}
    local update = neap.update {
      loss = function(x) local y = w(x) return y:sum(), y * 10 end,
      optimizer = neap.optim.sgd {params = w, lr = 0.1},
    }
    local loss, ten = update(neap.tensor {{1}, {3}})
    expect.near(8, loss)
    assert.same({{20.0}, {60.0}}, ten:totable())
  end)

  it("takes no memory of Lua's to run", function()
    local update = training.update(training.model())
    local x, y = training.batch(32)
    local function work(times)
      for _ = 1, times do
        update.optimizer.lr = update.optimizer.lr * 0.99
        update(x, y)
      end
      return collectgarbage "count"
    end
    work(1)
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    -- The collector shrinks Lua's stack, which grows again once.
    local before = work(1)
    local after = work(100)
    assert.equal(before, after)
  end)

  it("learns", function()
    local update = training.update(training.model())
    local x, y = training.batch(32)
    local first, last = update(x, y), nil
    for _ = 1, 60 do last = update(x, y) end
    assert.is_true(last < 0.2 * first)
  end)

  it("uses a learning rate that was changed", function()
    local model = training.model()
    local update = training.update(model)
    local x, y = training.batch(8)
    update(x, y)
    update.optimizer.lr, update.optimizer.weight_decay = 0, 0
    local before = model:state()
    update(x, y)
    assert.is_true(expect.same_bits(before, model:state()))
  end)

  it("leaves frozen parameters alone", function()
    local model = training.model()
    local update = training.update(model)
    local x, y = training.batch(8)
    update(x, y)
    model:freeze "fc1"
    local before = model:state()
    update(x, y)
    local after = model:state()
    assert.equal(before["fc1.weight"]:tobytes(), after["fc1.weight"]:tobytes())
    assert.are_not.equal(before["fc2.weight"]:tobytes(), after["fc2.weight"]:tobytes())
  end)

  it("writes buffers when it commits", function()
    local Counter = nn.module("Counter", {
      init = function(self)
        self.fc = nn.Linear(1, 1)
        self.seen = nn.buffer(neap.zeros(1))
      end,
      forward = function(self, x)
        self.seen = self.seen + 1
        return self.fc(x)
      end,
    })
    local counter = Counter()
    local update = neap.update {
      loss = function(x) return counter(x):sum() end, optimizer = neap.optim.sgd {params = counter, lr = 0.1},
    }
    local x = neap.ones(2, 1)
    update(x)
    update(x)
    assert.same({2.0}, counter.seen:totable())
  end)

  it("clips the norm of all gradients", function()
    local w = nn.Linear(2, 1, {bias = false})
    w:load_state {weight = neap.tensor {{0, 0}}}
    local update = neap.update {
      loss = function(x) return w(x):sum() end, optimizer = neap.optim.sgd {params = w, lr = 1}, clip_norm = 1,
    }
    update(neap.tensor {{3, 4}})
    expect.near_all({-0.6, -0.8}, w.weight, 1e-5)
    expect.near(5, update:grad_norm())
  end)

  it("gives the same bits in micro-batches of whole slabs", function()
    local x, y = training.batch(64)
    local function train(micro)
      local model = training.model(3)
      local update = training.update(model, {grain = 8})
      update:start_with(micro)
      for _ = 1, 3 do update(x, y) end
      assert.equal(micro or 64, update:plan().micro_batch)
      assert.equal("bits", update:plan().exact)
      return model:state()
    end
    local whole = train(nil)
    assert.is_true(expect.same_bits(whole, train(32)))
    assert.is_true(expect.same_bits(whole, train(8)))
    assert.is_true(expect.same_bits(whole, train(24)))
  end)

  it("spreads a gradient known beforehand over samples that are summed", function()
    local x = neap.arange(24, {dtype = "fp32"}):reshape {8, 3}
    local losses = {
      sum = function(y) return y:sum(1):sum() end, mean = function(y) return y:mean(1):mean() * 24 end,
      kept = function(y) return y:sum(1, true):sum() end, given = function(y) local s = y:sum(1) return s:sum(), s end,
    }
    for name, loss in pairs(losses) do
      for _, micro in ipairs {8, 2, 1} do
        local w = nn.Linear(3, 3, {bias = false})
        w:load_state {weight = neap.zeros(3, 3)}
        local update = neap.update {
          loss = function(v) return loss(w(v)) end, optimizer = neap.optim.sgd {params = w, lr = 1}, grain = 1,
        }
        update:start_with(micro)
        update(x)
        assert.same({-84.0, -92.0, -100.0}, w.weight:totable()[2], name .. " in micro-batches of " .. micro)
      end
    end
  end)

  it("gives the same sums within rounding in smaller micro-batches", function()
    local x, y = training.batch(16)
    local function train(micro)
      local model = training.model(3)
      local update = training.update(model, {grain = 8})
      update:start_with(micro)
      local loss = update(x, y)
      return loss, model:state(), update:plan().exact
    end
    local loss, state = train(nil)
    local other_loss, other_state, exact = train(3)
    assert.equal("rounding", exact)
    expect.near(loss, other_loss, 1e-5)
    expect.near_all(expect.values(state["fc3.bias"]), other_state["fc3.bias"], 1e-4)
  end)
end)

describe("An update in slices", function()
  it("gives the same bits as in one go", function()
    local x, y = training.batch(64)
    local function train(slices)
      local model = training.model(5)
      local update = training.update(model)
      local losses = {}
      for i = 1, 3 do
        if slices then
          local done, loss = update:step(0, x, y)
          while not done do done, loss = update:step(0) end
          losses[i] = loss
        else
          losses[i] = update(x, y)
        end
      end
      return losses, model:state()
    end
    local losses, state = train(false)
    local other_losses, other_state = train(true)
    assert.same(losses, other_losses)
    assert.is_true(expect.same_bits(state, other_state))
  end)

  it("changes nothing before it commits, and nothing when it is dropped", function()
    local model = training.model()
    local update = training.update(model)
    local x, y = training.batch(64)
    local before = model:state()
    assert.is_false((update:step(0, x, y)))
    assert.is_true(update:is_running())
    assert.is_true(expect.same_bits(before, model:state()))
    update:drop()
    assert.is_false(update:is_running())
    assert.is_true(expect.same_bits(before, model:state()))
    local loss = update(x, y)
    assert.equal(training.update(training.model())(x, y), loss)
  end)

  it("may be finished by a call", function()
    local update = training.update(training.model())
    local x, y = training.batch(64)
    assert.is_false((update:step(0, x, y)))
    local loss = update(x, y)
    assert.equal(training.update(training.model())(x, y), loss)
    assert.equal(1, update.optimizer:step_count())
  end)

  it("refuses other inputs while it is unfinished", function()
    local update = training.update(training.model())
    local x, y = training.batch(64)
    update:step(0, x, y)
    expect.fails("BUSY", "unfinished", update.step, update, 0, y, x)
    expect.fails("BUSY", "unfinished", update, x)
    update:drop()
    expect.fails("INVALID", "inputs are needed", update.step, update, 0)
    expect.fails("INVALID", {"budget", "-1"}, update.step, update, -1, x, y)
  end)

  it("may begin anew when the host took its memory back", function()
    local update = training.update(training.model())
    local x, y = training.batch(64)
    update:step(0, x, y)
    neap.set_memory_limit(nil, "now")
    assert.is_false(update:is_running())
    assert.equal(training.update(training.model())(x, y), update(x, y))
  end)
end)

describe("Memory of an update", function()
  after_each(function() neap.set_memory_limit(nil, "now") end)

  it("is known before it is used", function()
    local update = training.update(training.model())
    expect.fails("INVALID", "no inputs were seen", update.memory, update)
    local x, y = training.batch(64)
    local memory = update:memory(x, y)
    local parameters = 4 * (16 * 64 + 64 + 64 * 64 + 64 + 64 * 4 + 4)
    assert.is_true(memory.parameters >= parameters and memory.parameters < parameters + 64 * 6)
    assert.is_true(memory.optimizer >= 2 * parameters)
    assert.is_true(memory.peak >= memory.parameters + memory.optimizer + memory.arena)
    assert.same(memory, update:memory())
  end)

  it("of inputs is known from their shapes alone", function()
    local update = training.update(training.model())
    local x, y = training.batch(64)
    assert.same(update:memory({64, 16}, {64, dtype = "int64"}), update:memory(x, y))
  end)

  it("is less in micro-batches, and the prediction says so", function()
    local update = training.update(training.model(), {grain = 8})
    local x, y = training.batch(2048)
    local whole = update:predict_memory {inputs = {x, y}}
    local pieces = update:predict_memory {micro_batch = 32}
    assert.is_true(pieces.memory.arena < whole.memory.arena)
    assert.equal("bits", pieces.exact)
    assert.equal(32, pieces.micro)
    assert.is_true(whole.fits)
    training.leave_room((whole.memory.arena + pieces.memory.arena) / 2)
    assert.is_false(update:predict_memory().fits)
    assert.is_true(update:predict_memory({micro_batch = 32}).fits)
    expect.fails("INVALID", {"micro", "micro_batch"}, update.predict_memory, update, {micro = 2})
  end)

  it("can be predicted without a change to the plan, nor to what is told of the last update", function()
    local update = training.update(training.model(), {grain = 8, clip_norm = 1})
    local x, y = training.batch(64)
    update(x, y)
    local plan, norm = update:plan(), update:grad_norm()
    update:predict_memory {inputs = {training.batch(2048)}, micro_batch = 32}
    assert.same(plan, update:plan())
    assert.equal(norm, update:grad_norm())
  end)

  it("is cut for all sizes of batches alike, once a size is given", function()
    local update = training.update(training.model(), {grain = 8})
    local x, y = training.batch(64)
    update(x, y)
    for _, bad in ipairs {"x", -1, 1.5, 0} do
      expect.fails("INVALID", {"start_with", "number of samples"}, update.start_with, update, bad)
    end
    update:start_with(16)
    update(x, y)
    assert.equal(16, update:plan().micro_batch)
    update(training.batch(8))
    assert.equal(8, update:plan().micro_batch)
    update(training.batch(32))
    assert.equal(16, update:plan().micro_batch)
    assert.equal(16, update:micro_batch())
  end)

  it("is told in the summary, with what would fit", function()
    local update = training.update(training.model(), {grain = 8})
    local x, y = training.batch(2048)
    local need = arena(update, nil, x, y)
    training.leave_room(need * 0.7)
    local text = neap.memory_summary()
    assert.truthy(text:find("an update with a batch of 2048 needs", 1, true))
    assert.truthy(text:find("micro-batches of 1024 fit", 1, true))
  end)
end)

describe("When memory is refused, an update", function()
  after_each(function() neap.set_memory_limit(nil, "now") end)

  --- An update whose whole batch does not fit, with a policy that writes down what it saw.
  local function tight(policy, share)
    local model, events = training.model(), {}
    local update = training.update(model, {
      grain = 8, policy = function(oom)
        events[#events + 1] = oom
        return policy(oom)
      end,
    })
    local x, y = training.batch(2048)
    local need = arena(update, nil, x, y)
    training.leave_room(need * share)
    return update, x, y, events, model
  end

  it("asks its policy with facts and takes its answer", function()
    local update, x, y, events = tight(function() return action.micro_batch(512) end, 0.7)
    assert.equal("number", type(update(x, y)))
    assert.equal(512, update:plan().micro_batch)
    assert.equal(1, #events)
    local oom = events[1]
    assert.same({micro_batch = 2048, batch = 2048, grain = 8}, oom.plan)
    assert.equal("reserve", oom.phase)
    assert.equal(1, oom.attempt)
    assert.equal(0, oom.step)
    assert.equal(neap.memory().budget, oom.budget)
    assert.is_true(oom.requested > oom.largest_free)
    assert.is_true(#oom.holders > 0 and oom.holders[1].bytes > 0)
    assert.truthy(tostring(oom):find("a batch of 2048", 1, true))
  end)

  it("predicts what answers lead to", function()
    local seen = {}
    local update, x, y = tight(function(oom)
      seen.whole = oom:predict(action.retry)
      seen.half = oom:predict(action.micro_batch(512))
      seen.odd = oom:predict(action.micro_batch(3))
      seen.batch = oom:predict(action.batch(512))
      for answer, p in oom:answers() do seen[#seen + 1] = {tostring(answer), p.fits, p.exact} end
      return action.micro_batch(512)
    end, 0.7)
    update(x, y)
    assert.is_false(seen.whole.fits)
    assert.is_true(seen.half.fits)
    assert.equal("bits", seen.half.exact)
    assert.is_true(seen.half.slowdown >= 1)
    assert.equal("rounding", seen.odd.exact)
    assert.is_false(seen.batch.exact)
    assert.same({"micro_batch(1024)", true, "bits"}, seen[1])
    assert.same({"micro_batch(1)", true, "rounding"}, seen[#seen])
  end)

  it("gives the same bits with the default policy as without a budget", function()
    local x, y = training.batch(2048)
    local function train(share)
      local model = training.model(9)
      local update = training.update(model, {grain = 8})
      if share then training.leave_room(arena(update, nil, x, y) * share) end
      for _ = 1, 3 do update(x, y) end
      local plan = update:plan()
      neap.set_memory_limit(nil, "now")
      return model:state(), plan
    end
    local free, plan = train(nil)
    assert.equal(2048, plan.micro_batch)
    local bound
    bound, plan = train(0.6)
    assert.is_true(plan.micro_batch < 2048)
    assert.is_true(expect.same_bits(free, bound))
  end)

  it("never takes more than the budget", function()
    local update, x, y = tight(neap.policy.micro_batch(), 0.5)
    neap.reset_peak()
    for _ = 1, 3 do update(x, y) end
    assert.is_true(neap.memory().peak <= neap.memory().budget)
  end)

  it("raises what was refused when the policy has no answer, and changes nothing", function()
    local update, x, y, _, model = tight(function() return nil end, 0.7)
    local before = model:state()
    local err = expect.fails("OOM", {"a batch of 2048", "no answer", "the budget is"}, update, x, y)
    assert.is_true(err.bytes > 0)
    assert.equal(2048, err.plan.batch)
    neap.set_memory_limit(nil, "now")
    assert.is_true(expect.same_bits(before, model:state()))
    assert.equal("number", type(update(x, y)))
  end)

  it("says so when what is free lies in pieces", function()
    local plain, apart
    local update, x, y = tight(function(oom)
      oom.requested, oom.in_use, oom.largest_free = 64, oom.budget - 64, 32
      apart = tostring(oom)
      oom.in_use = oom.budget - 63
      plain = tostring(oom)
    end, 0.7)
    expect.fails("OOM", {"no answer"}, update, x, y)
    assert.is_nil(plain:find("piece", 1, true))
    assert.truthy(apart:find("at most 32 B are free in one piece", 1, true))
  end)

  it("cuts a policy off that gives one answer twice", function()
    local update, x, y, events = tight(function() return action.retry end, 0.7)
    expect.fails("OOM", {"retry", "twice"}, update, x, y)
    assert.equal(2, #events)
  end)

  it("cuts a policy off that leads nowhere", function()
    local n = 0
    local update, x, y, events = tight(function()
      n = n + 1
      return n % 2 == 0 and action.retry or action.release
    end, 0.7)
    expect.fails("OOM", {"20 answers"}, update, x, y)
    assert.equal(20, #events)
  end)

  it("hands on what only a loop can do", function()
    local update, x, y = tight(function() return action.batch(32) end, 0.7)
    local err = expect.fails("OOM", {"batch(32)"}, update, x, y)
    assert.equal(32, err.action:find("batch").n)
    update, x, y = tight(neap.policy.checkpoint_and_stop {path = "a.h5"}, 0.7)
    err = expect.fails("STOPPED", "stopped by a policy", update, x, y)
    assert.equal(3, err.exit_code)
    assert.equal("a.h5", err.action:find("checkpoint").path)
  end)

  it("refuses an answer that is no action", function()
    local update, x, y = tight(function() return "smaller" end, 0.7)
    expect.fails("INVALID", {"smaller", "action"}, update, x, y)
  end)

  it("refuses an update within its policy", function()
    local update, x, y
    update, x, y = tight(function() return update(x, y) end, 0.7)
    expect.fails("BUSY", {"policy", "is being asked"}, update, x, y)
    expect.fails("BUSY", "is being asked", update.step, update, 1, x, y)
    update, x, y = tight(function() update:start_with(8) end, 0.7)
    expect.fails("BUSY", {"start_with"}, update, x, y)
    neap.set_memory_limit(nil, "now")
    update(x, y)
  end)

  it("says what was no answer, also to whoever watches", function()
    local update, x, y = tight(function() return 5 end, 0.7)
    update.on_oom = function(oom, act) return oom:predict(act) end
    expect.fails("INVALID", "the policy answered the number 5", update, x, y)
  end)

  it("passes on an error of the policy itself", function()
    local update, x, y = tight(function() error("policy broke", 0) end, 0.7)
    assert.equal("policy broke", expect.error_of(update, x, y))
  end)
end)

describe("A group", function()
  after_each(function() neap.set_memory_limit(nil, "now") end)

  it("runs its updates in turn and gives their losses", function()
    local a, b = training.update(training.model(1)), training.update(training.model(2))
    local x, y = training.batch(16)
    local losses = neap.group {a, b}({x, y}, {x, y})
    assert.equal(training.update(training.model(1))(x, y), losses[1])
    assert.equal(training.update(training.model(2))(x, y), losses[2])
  end)

  it("needs the larger of its members, not the sum", function()
    local a, b = training.update(training.model(1)), training.update(training.model(2))
    local x, y = training.batch(2048)
    local need = arena(a, nil, x, y)
    b:memory(x, y)
    training.leave_room(need * 1.1)
    local losses = neap.group {a, b}({x, y}, {x, y})
    assert.equal(2, #losses)
    assert.equal(2048, a:plan().micro_batch)
    assert.equal(2048, b:plan().micro_batch)
  end)

  it("begins nothing when one cannot have its memory", function()
    local none = function() return nil end
    local first = training.model(1)
    local a = training.update(first, {policy = none})
    local b = training.update(training.model(2), {policy = none})
    local x, y = training.batch(8)
    local large_x, large_y = training.batch(4096)
    a:memory(x, y)
    training.leave_room(arena(b, nil, large_x, large_y) * 0.7)
    local before = first:state()
    expect.fails("OOM", "a batch of 4096", neap.group {a, b}, {x, y}, {large_x, large_y})
    assert.is_true(expect.same_bits(before, first:state()))
    assert.equal(0, a.optimizer:step_count())
  end)

  it("refuses what is no update, and inputs that do not fit", function()
    expect.fails("INVALID", "entry 1", neap.group, {print})
    expect.fails("INVALID", "empty", neap.group, {})
    local a = training.update(training.model())
    expect.fails("INVALID", {"2 lists", "1 updates"}, neap.group {a}, {}, {})
  end)
end)

describe("Bad options of an update", function()
  it("are named", function()
    local optimizer = neap.optim.sgd {params = training.model(), lr = 1}
    local function loss() end
    expect.fails("INVALID", {"loss", "missing"}, neap.update, {optimizer = optimizer})
    expect.fails("INVALID", {"optimizer", "missing"}, neap.update, {loss = loss})
    expect.fails("INVALID", {"optimizer", "number"}, neap.update, {loss = loss, optimizer = 3})
    expect.fails("INVALID", {"no parameters"}, neap.update, {loss = loss, optimizer = neap.optim.sgd {lr = 1}})
    expect.fails("INVALID", {"clip", "clip_norm"}, neap.update, {loss = loss, optimizer = optimizer, clip = 1})
    expect.fails("INVALID", {"clip_norm", "0"}, neap.update, {loss = loss, optimizer = optimizer, clip_norm = 0})
    expect.fails("INVALID", {"grain", "1.5"}, neap.update, {loss = loss, optimizer = optimizer, grain = 1.5})
    expect.fails("UNSUPPORTED", {"bf16", "fp32"}, neap.update, {loss = loss, optimizer = optimizer, precision = "bf16"})
  end)

  it("come out of the loss function with their line", function()
    local model = training.model()
    local x, y = training.batch(4)
    local update = training.update(model, {loss = function(input) return model(input) end})
    expect.fails("SHAPE", {"[4, 4]"}, update, x, y)
    update = training.update(model, {loss = function(input) return model(input):nothing() end})
    assert.truthy(tostring(expect.error_of(update, x, y)):find("update_spec.lua", 1, true))
    update = training.update(model, {loss = function(input) return input:sum() end})
    expect.fails("INVALID", "none of the optimizer's parameters", update, x, y)
  end)

  it("and a label out of range change nothing", function()
    local model = training.model()
    local update = training.update(model)
    local x = training.batch(2)
    local before = model:state()
    expect.fails("RANGE", {"7"}, update, x, neap.tensor({1, 7}, {dtype = "int64"}))
    assert.is_true(expect.same_bits(before, model:state()))
    assert.equal(0, update.optimizer:step_count())
  end)

  it("include dimensions that are not there, but not those counted from the end", function()
    local w = nn.Linear(3, 1)
    local function make(dims)
      return neap.update {
        loss = function(x) return w(x:transpose {dim0 = 1, dim1 = 2}):mean() end, batch_dims = dims,
        optimizer = neap.optim.sgd {params = w, lr = 0},
      }
    end
    local update = make {-1}
    update(neap.ones(3, 8))
    assert.equal(8, update:plan().batch)
    expect.fails("RANGE", {"batch_dims", "0"}, make {0}, neap.ones(3, 8))
    expect.fails("RANGE", {"batch_dims", "-3"}, make {-3}, neap.ones(3, 8))
  end)

  it("include batches that do not agree", function()
    local update = training.update(training.model())
    local x = training.batch(4)
    expect.fails("SHAPE", {"4", "3"}, update, x, neap.zeros({3}, {dtype = "int64"}))
  end)
end)
