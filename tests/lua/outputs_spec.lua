local neap = require "neap"
local nn = neap.nn

local MIB <const> = 1048576

local x, y = neap.ones(1024, 8), neap.zeros(1024, {dtype = "int64"})

local function in_use()
  collectgarbage()
  collectgarbage()
  return neap.memory().in_use
end

--- An update whose loss function has a second result of 1 MiB.
local function wide(policy)
  local model = nn.Linear(8, 4)
  return neap.update {
    loss = function(a, b)
      local h = model(a)
      return neap.cross_entropy(h, b), h:tile {dims = {1, 64}}
    end,
    optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.1}, policy = policy,
  }, model
end

describe("Other results of a loss function", function()
  after_each(function() neap.set_memory_limit(nil, "now") end)

  it("are part of what an update needs", function()
    local memory = wide():memory(x, y)
    assert.equal(MIB, memory.outputs)
    assert.is_true(memory.peak >= memory.parameters + memory.arena + memory.outputs)
  end)

  it("are negotiated before anything runs", function()
    local asked = {}
    local update, model = wide(function(oom)
      asked[#asked + 1] = oom.requested
      for answer, p in oom:answers() do assert.is_false(p.fits, tostring(answer)) end
      return nil
    end)
    local memory, before = update:memory(x, y), model.weight:tobytes()
    neap.set_memory_limit(in_use() + MIB // 2, "now")
    assert.is_false(update:predict_memory().fits)
    local ok, err = pcall(update, x, y)
    assert.is_false(ok)
    assert.equal("OOM", err.code)
    assert.same({memory.arena + memory.outputs}, asked)
    assert.equal(before, model.weight:tobytes())
    assert.equal(0, update.optimizer:step_count())
  end)

  it("fit where the prediction says so", function()
    local update = wide()
    local memory = update:memory(x, y)
    neap.set_memory_limit(in_use() + memory.arena + memory.outputs + 4 * MIB, "now")
    assert.is_true(update:predict_memory().fits)
    local _, tiled = update(x, y)
    assert.same({1024, 256}, tiled.shape)
  end)

  it("are held by prepare(), and predicted as held", function()
    local update = wide()
    local memory = update:memory(x, y)
    neap.set_memory_limit(in_use() + memory.arena + memory.outputs + 4 * MIB, "now")
    local before = in_use()
    update:prepare(x, y)
    assert.is_true(neap.memory().in_use - before >= memory.outputs + memory.arena)
    assert.is_true(update:predict_memory().fits)
    local _, tiled = update(x, y)
    assert.same({1024, 256}, tiled.shape)
  end)

  it("of all members of a group are taken before the first begins", function()
    local first, second = wide(function() end), wide(function() end)
    local group = neap.group {first, second}
    group({x, y}, {x, y})
    local memory = first:memory()
    neap.set_memory_limit(nil, "now")
    local base = in_use()
    local committed
    for extra = 0, 7 * MIB, MIB // 4 do
      neap.set_memory_limit(base + extra, "now")
      local before = first.optimizer:step_count()
      local ok = pcall(group, {x, y}, {x, y})
      assert.equal(before + (ok and 1 or 0), first.optimizer:step_count())
      assert.equal(first.optimizer:step_count(), second.optimizer:step_count())
      neap.set_memory_limit(nil, "now")
      assert.equal(base, in_use())
      committed = committed or ok and extra
    end
    assert.is_true(committed and committed >= 2 * MIB + memory.arena, tostring(committed))
  end)

  it("go with an update that fails or is dropped, to the byte", function()
    local update = wide()
    local bad = neap.full({1024}, 9, {dtype = "int64"})
    update(x, y)
    update:step(0, x, y)
    update:drop()
    neap.set_memory_limit(nil, "now")
    local before = in_use()
    local function check(what)
      neap.set_memory_limit(nil, "now")
      assert.equal(before, neap.memory().in_use, what)
    end
    assert.is_false(pcall(update, x, bad))
    check "a call"
    assert.is_false(pcall(function()
      update:step(0, x, bad)
      while not update:step(10) do end
    end))
    check "slices"
    update:step(0, x, y)
    update:drop()
    check "dropped"
    update:step(0, x, y)
    neap.set_memory_limit("64MiB", "now")
    assert.equal(before, neap.memory().in_use, "a limit that binds now")
  end)
end)
