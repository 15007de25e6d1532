--- An error that ends a coroutine leaves its stack as it is, with nothing closed: what a call changed for a while is
--- put back all the same.
local neap = require "neap"
local core = require "neap.core"
local training = require "support.training"

--- The error that ends a coroutine which calls fn; the dead coroutine, so that nothing collects it.
local function die(fn, ...)
  local co = coroutine.create(function(...) return fn(...) end)
  local ok, err = coroutine.resume(co, ...)
  assert.is_false(ok)
  return err, co
end

describe("An error that ends a coroutine", function()
  after_each(function() neap.set_memory_limit(nil) end)

  it("ends the trace", function()
    local x = neap.ones(2)
    for _, fn in ipairs {
      neap.compile(function() error("mine", 0) end),
      neap.compile(function(a) coroutine.yield(a) end),
      neap.value_and_grad(function(a) return neap.value_and_grad(function() error("mine", 0) end)(a) end),
    } do
      local _, co = die(fn, x)
      assert.is_false(core.tracing())
      assert.same({3, 3}, (x + 2):totable())
      assert.equal("dead", coroutine.status(co))
    end
  end)

  it("ends the question to a policy", function()
    local good = false
    local update = training.update(training.model(), {policy = function()
      if not good then error("mine", 0) end
      return neap.action.micro_batch(8)
    end})
    local x, y = training.batch(4096)
    training.leave_room(1 << 18)
    local err, co = die(update, x, y)
    assert.equal("mine", err)
    good = true
    assert.is_number(update(x, y))
    assert.equal("dead", coroutine.status(co))
  end)

  it("leaves a model's modes and the random numbers as they were", function()
    local trainer = training.trainer {loss = function() error("mine", 0) end}
    local _, co = die(trainer.evaluate, trainer, trainer.loader)
    assert.is_true(neap.nn.is_training(trainer.model))
    local model, seed = neap.nn.Linear(2, 2), core.random_state()
    model.extra = neap.nn.parameter {shape = {2}, init = function() error("mine", 0) end}
    local _, other = die(model.parameters, model)
    assert.equal(seed, (core.random_state()))
    assert.equal("dead", coroutine.status(co), coroutine.status(other))
  end)
end)
