local neap = require "neap"
local expect = require "support.expect"
local action, policy = neap.action, neap.policy

--- An event whose predictions follow a formula: n samples at once need n bytes and `base`; pieces of less than
--- the whole batch take longer, those that are no whole slabs are not exact.
local function event(o)
  local plan = {micro_batch = o.micro or o.batch, batch = o.batch, grain = o.grain or 8}
  local oom = {plan = plan, asked = {}}
  function oom:predict(act)
    local micro, batch = plan.micro_batch, plan.batch
    for _, item in ipairs(act.items) do
      if item.kind == "micro_batch" then micro = item.n end
      if item.kind == "batch" then batch = item.n end
    end
    micro = math.min(micro, batch)
    self.asked[#self.asked + 1] = tostring(act)
    local exact = micro % plan.grain == 0 and "bits" or "rounding"
    if batch < plan.batch or o.mixing then exact = false end
    return {
      peak = micro + (o.base or 0), fits = micro + (o.base or 0) <= o.room, exact = exact,
      slowdown = (o.slowdown or function(n) return plan.batch / n end)(micro),
    }
  end
  function oom:answers()
    local n = plan.micro_batch
    return function()
      n = n // 2
      if n < 1 then return nil end
      local act = action.micro_batch(n)
      return act, self:predict(act)
    end
  end
  return oom
end

local function answer(p, o)
  local act = p(event(o))
  return act and tostring(act) or nil
end

describe("Actions", function()
  it("combine with + and tell themselves", function()
    local both = action.micro_batch(64) + action.checkpoint "safe.h5" + action.stop
    assert.equal('micro_batch(64) + checkpoint("safe.h5") + stop', tostring(both))
    assert.equal(64, both:find("micro_batch").n)
    assert.is_nil(both:find "batch")
  end)

  it("stay as they are when they are combined", function()
    local one = action.micro_batch(1)
    local _ = one + action.stop
    assert.equal("micro_batch(1)", tostring(one))
    assert.equal("stop", tostring(action.stop))
  end)

  it("are equal when they do the same", function()
    assert.is_true(action.micro_batch(3) == action.micro_batch(3))
    assert.is_false(action.micro_batch(3) == action.micro_batch(4))
    assert.is_false(action.micro_batch(3) == action.batch(3))
  end)

  it("refuse bad values", function()
    expect.fails("INVALID", {"action.micro_batch", "0"}, action.micro_batch, 0)
    expect.fails("INVALID", {"action.batch", "2.5"}, action.batch, 2.5)
    expect.fails("INVALID", {"action.checkpoint", "3"}, action.checkpoint, 3)
    expect.fails("INVALID", {"number"}, function() return action.stop + 3 end)
  end)
end)

describe("policy.micro_batch", function()
  it("takes the largest pieces of whole slabs that fit", function()
    assert.equal("micro_batch(256)", answer(policy.micro_batch(), {batch = 512, room = 300}))
    assert.equal("micro_batch(8)", answer(policy.micro_batch(), {batch = 512, room = 15}))
    assert.equal("micro_batch(64)", answer(policy.micro_batch(), {batch = 512, room = 164, base = 100}))
  end)

  it("makes the pieces even, when that takes no more of them", function()
    -- 400 fit, but two pieces are needed all the same.
    assert.equal("micro_batch(256)", answer(policy.micro_batch(), {batch = 512, room = 400}))
    -- 200 fit: three pieces, of 176 rather than 200.
    assert.equal("micro_batch(176)", answer(policy.micro_batch(), {batch = 512, room = 200}))
  end)

  it("goes below a slab only when it must", function()
    assert.equal("micro_batch(4)", answer(policy.micro_batch(), {batch = 512, room = 7}))
    assert.equal("micro_batch(1)", answer(policy.micro_batch(), {batch = 512, room = 1}))
  end)

  it("asks for few predictions", function()
    local oom = event {batch = 4096, room = 3000}
    policy.micro_batch()(oom)
    assert.is_true(#oom.asked <= 10)
  end)

  it("has no answer below its least size, or when nothing fits", function()
    assert.is_nil(answer(policy.micro_batch {min = 16}, {batch = 512, room = 15}))
    assert.equal("micro_batch(16)", answer(policy.micro_batch {min = 16}, {batch = 512, room = 16}))
    assert.is_nil(answer(policy.micro_batch(), {batch = 512, room = 0}))
  end)

  it("stays with whole slabs when the bits must be the same", function()
    assert.is_nil(answer(policy.micro_batch {exact = "bits"}, {batch = 512, room = 7}))
    assert.equal("micro_batch(8)", answer(policy.micro_batch {exact = "bits"}, {batch = 512, room = 8}))
    expect.fails("INVALID", {"exact", "close"}, policy.micro_batch, {exact = "close"})
  end)

  it("goes below what is in force, which did not fit", function()
    assert.equal("micro_batch(56)", answer(policy.micro_batch(), {batch = 512, micro = 64, room = 1000}))
    assert.equal("micro_batch(4)", answer(policy.micro_batch(), {batch = 512, micro = 8, room = 1000}))
    assert.is_nil(answer(policy.micro_batch(), {batch = 512, micro = 1, room = 1000}))
  end)

  it("has no answer where samples depend on each other", function()
    assert.is_nil(answer(policy.micro_batch(), {batch = 512, room = 300, mixing = true}))
  end)

  it("refuses bad options", function()
    expect.fails("INVALID", {"policy.micro_batch", "min", "0"}, policy.micro_batch, {min = 0})
    expect.fails("INVALID", {"policy.micro_batch", "max"}, policy.micro_batch, {max = 3})
  end)
end)

describe("policy.shrink_batch", function()
  it("shrinks by its factor until it fits", function()
    assert.equal("batch(256)", answer(policy.shrink_batch(), {batch = 512, room = 300}))
    assert.equal("batch(64)", answer(policy.shrink_batch(), {batch = 512, room = 100}))
    assert.equal("batch(460)", answer(policy.shrink_batch {factor = 0.9}, {batch = 512, room = 500}))
  end)

  it("stops at its least size", function()
    assert.equal("batch(100)", answer(policy.shrink_batch {min = 100}, {batch = 512, room = 110}))
    assert.is_nil(answer(policy.shrink_batch {min = 100}, {batch = 512, room = 99}))
    assert.is_nil(answer(policy.shrink_batch(), {batch = 8, room = 99}))
  end)

  it("makes progress with a factor close to 1", function()
    assert.equal("batch(9)", answer(policy.shrink_batch {factor = 0.99}, {batch = 10, room = 9}))
  end)

  it("refuses bad options", function()
    expect.fails("INVALID", {"factor", "1"}, policy.shrink_batch, {factor = 1})
    expect.fails("INVALID", {"factor", "0"}, policy.shrink_batch, {factor = 0})
    expect.fails("INVALID", {"min", "0.5"}, policy.shrink_batch, {min = 0.5})
  end)
end)

describe("policy.checkpoint_and_stop", function()
  it("answers with both, in this order", function()
    local none = {batch = 8, room = 0}
    assert.equal('checkpoint("last.h5") + stop', answer(policy.checkpoint_and_stop {path = "last.h5"}, none))
    assert.equal("checkpoint + stop", answer(policy.checkpoint_and_stop(), none))
  end)
end)

describe("policy.chain", function()
  it("takes the first answer", function()
    local chain = policy.chain {
      policy.micro_batch {min = 64}, policy.shrink_batch {min = 8}, policy.checkpoint_and_stop(),
    }
    assert.equal("micro_batch(128)", answer(chain, {batch = 512, room = 128}))
    assert.equal("batch(32)", answer(chain, {batch = 512, room = 40}))
    assert.equal("checkpoint + stop", answer(chain, {batch = 512, room = 3}))
  end)

  it("takes functions, and has no answer when none has", function()
    local none = {batch = 8, room = 0}
    assert.equal("stop", answer(policy.chain {function() end, function() return action.stop end}, none))
    assert.is_nil(answer(policy.chain {function() end}, none))
  end)

  it("refuses what is no policy", function()
    expect.fails("INVALID", "entry 2", policy.chain, {print, action.stop})
    expect.fails("INVALID", "empty", policy.chain, {})
    expect.fails("INVALID", "nil", policy.chain)
  end)
end)

describe("policy.auto", function()
  it("takes the fastest answer that keeps the bits", function()
    assert.equal("micro_batch(256)", answer(policy.auto(), {batch = 512, room = 300}))
    local slow_large = function(n) return n == 256 and 9 or 512 / n end
    assert.equal("micro_batch(128)", answer(policy.auto(), {batch = 512, room = 300, slowdown = slow_large}))
  end)

  it("goes within rounding when nothing keeps the bits", function()
    assert.equal("micro_batch(4)", answer(policy.auto(), {batch = 512, room = 4}))
  end)

  it("prefers bits to speed", function()
    local fast_odd = function(n) return n < 8 and 1 or 5 end
    assert.equal("micro_batch(8)", answer(policy.auto(), {batch = 16, room = 8, slowdown = fast_odd}))
  end)

  it("shrinks the batch only when that is allowed", function()
    local mixing = {batch = 512, room = 300, mixing = true}
    assert.equal("checkpoint + stop", answer(policy.auto(), mixing))
    assert.equal("batch(256)", answer(policy.auto {shrink_batch = true}, mixing))
    assert.equal("checkpoint + stop", answer(policy.auto {shrink_batch = {min = 400}}, mixing))
  end)

  it("ends with a checkpoint where it is told, or not at all", function()
    assert.equal('checkpoint("a.h5") + stop', answer(policy.auto {path = "a.h5"}, {batch = 8, room = 0}))
    assert.is_nil(answer(policy.auto {stop = false}, {batch = 8, room = 0}))
  end)
end)
