-- The update and the optimizer of the core, without the standard library around them.
local neap = require "neap"
local core = require "neap.core"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

local function parameter() return core.parameter(neap.tensor {{0.5, -0.25}, {1, 2}}) end

--- An update of mean((x w - y)^2) over 8 samples, with the sums of x as aux when asked for.
local function regression(options, aux)
  local w = parameter()
  local optimizer = core.optimizer("sgd", {w}, {1}, {{lr = 0.1}})
  local x, y = neap.arange(16, {dtype = "fp32"}):reshape(8, 2) / 8, neap.ones(8, 2)
  local graph = core.trace(function(a, b)
    local loss = (a:matmul(w) - b):square():mean()
    if aux then return loss, a:sum(2) end
    return loss
  end, x, y)
  options = options or {batch_dims = {1, 1}}
  return core.update(graph, optimizer, options), x, y, w, optimizer
end

local function ready(...)
  local u, x, y, w, optimizer = regression(...)
  u:plan()
  assert(u:reserve())
  return u, x, y, w, optimizer
end

describe("an update of the core", function()
  it("lowers the loss and counts its steps", function()
    local u, x, y, _, optimizer = ready()
    local first, last = u(x, y), nil
    for _ = 1, 10 do last = u(x, y) end
    assert.is_true(last < first)
    assert.are.equal(last, u:loss())
    assert.are.equal(11, optimizer:step_count())
  end)

  it("makes the step that its gradient says", function()
    local u, x, y, w = ready()
    local before = w:clone()
    local graph = core.trace(function(a, b) return (a:matmul(w) - b):square():mean() end, x, y)
    local loss, gradient = core.run(graph:differentiate {tensors = {w}}, x, y)
    assert.is_true(math.abs(loss:item() - u(x, y)) < 1e-6)
    expect.near_all(expect.values(before - gradient * 0.1), w, 1e-6)
  end)

  it("takes no memory of Lua or the engine", function()
    local u, x, y = ready()
    u(x, y)
    collectgarbage()
    collectgarbage("stop")
    local memory, lua = neap.memory().in_use, collectgarbage("count")
    for _ = 1, 100 do u(x, y) end
    local after = collectgarbage("count")
    collectgarbage("restart")
    assert.are.equal(memory, neap.memory().in_use)
    -- The table of the first reading is all that came.
    assert.is_true(after - lua < 0.01, after - lua)
  end)

  it("brings aux tensors, each call its own", function()
    local u, x, y = ready(nil, true)
    local _, a = u(x, y)
    local _, b = u(x * 2, y)
    assert.are.same((x:sum(2)):totable(), a:totable())
    assert.are.same((x:sum(2) * 2):totable(), b:totable())
  end)

  it("gives the same bits in slices", function()
    local u, x, y, w = ready(nil, true)
    local v, _, _, whole = ready(nil, true)
    for _ = 1, 3 do
      v(x, y)
      u:begin(x, y)
      assert.is_true(u:running())
      local slices, done, loss, sums = 0
      repeat
        done, loss, sums = u:step(1e-7)
        slices = slices + 1
        assert.is_true(slices < 10000)
      until done
      assert.are.equal(v:loss(), loss)
      assert.are.same(x:sum(2):totable(), sums:totable())
      assert.is_false(u:running())
    end
    assert.are.equal(whole:tobytes(), w:tobytes())
  end)

  it("leaves everything as it was when it is dropped", function()
    local u, x, y, w, optimizer = ready()
    local before = w:tobytes()
    u:begin(x, y)
    u:step(0)
    u:drop()
    assert.is_false(u:running())
    assert.are.equal(before, w:tobytes())
    assert.are.equal(0, optimizer:step_count())
    u(x, y)
    assert.are.equal(1, optimizer:step_count())
  end)

  it("is dropped when a lower limit comes at once", function()
    finally(function() neap.set_memory_limit(nil) end)
    local u, x, y, w = ready()
    local before = w:tobytes()
    u:begin(x, y)
    neap.set_memory_limit("1GiB", "next")
    assert.is_true(u:running())
    neap.set_memory_limit("1GiB", "now")
    assert.is_false(u:running())
    assert.are.equal(before, w:tobytes())
  end)

  it("keeps its inputs while it runs, and stops when one is closed", function()
    local u, x, y, w = ready()
    u:begin(x * 1, y * 1)
    collectgarbage()
    collectgarbage()
    local done repeat done = u:step() until done
    local other, before = x * 1, w:tobytes()
    u:begin(other, y)
    other:close()
    raises("CLOSED", function() u:step() end, "input 1", "closed")
    assert.is_false(u:running())
    assert.are.equal(before, w:tobytes())
    u:begin(x, y)
    w:close()
    raises("CLOSED", function() u:step() end, "closed")
    raises("CLOSED", function() u(x, y) end, "closed")
  end)

  it("wants plan, reservation and turns in order", function()
    local u, x, y = regression()
    raises("INVALID", function() u(x, y) end, "plan")
    raises("INVALID", function() u:reserve() end, "plan")
    raises("INVALID", function() u:forecast() end, "plan")
    u:plan()
    raises("INVALID", function() u(x, y) end, "reserve")
    raises("INVALID", function() u:step() end, "no update was begun")
    u:reserve()
    u:begin(x, y)
    raises("BUSY", function() u(x, y) end, "unfinished")
    raises("BUSY", function() u:begin(x, y) end, "unfinished")
    raises("BUSY", function() u:plan(4) end, "unfinished")
    u:drop()
    raises("INVALID", function() core.trace(function(a) u(x, y) return a end, x) end, "inside a traced function")
  end)

  it("checks its inputs", function()
    local u, x, y = ready()
    assert.is_true(u:matches(x, y))
    assert.is_false(u:matches(x, y[1]))
    raises("INVALID", function() u(x) end, "2 inputs", "got 1")
    raises("SHAPE", function() u(x[{{1, 4}}], y) end, "input 1", "[4, 2]", "[8, 2]")
    raises("DTYPE", function() u(x:to("fp64"), y) end, "input 1", "fp64")
  end)

  it("predicts what other plans need, and says no when memory is short", function()
    finally(function() neap.set_memory_limit(nil) end)
    local u = regression()
    local whole, part = u:predict(), u:predict(2)
    assert.are.equal(8, whole.micro)
    assert.are.equal(2, part.micro)
    assert.are.equal("bits", whole.exact)
    for _, name in ipairs {"parameters", "gradients", "optimizer", "activations", "workspace", "arena", "peak"} do
      assert.are.equal("integer", math.type(whole.memory[name]), name)
    end
    assert.is_true(whole.seconds > 0)
    u:plan(2)
    assert.are.equal(2, u:forecast().micro)
    raises("RANGE", function() u:plan(0) end, "0")
    raises("RANGE", function() u:predict(1.5) end, "1.5")
    local big = neap.ones(1 << 17, 2)
    local w = parameter()
    local v = core.update((core.trace(function(a) return a:matmul(w):square():mean() end, big)),
      core.optimizer("adam", {w}, {1}, {{lr = 1}}), {batch_dims = {1}})
    v:plan()
    neap.set_memory_limit(neap.memory().in_use, "now")
    local ok, err = v:reserve()
    assert.is_nil(ok)
    assert.are.equal("OOM", err.code)
    assert.is_true(err.bytes > 0)
    neap.set_memory_limit(nil)
    assert.is_true(v:reserve())
  end)

  it("clips gradients by their norm", function()
    local u, x, y, w = ready {batch_dims = {1, 1}, clip_norm = 0.01}
    local before = w:clone()
    u(x, y)
    assert.is_true(u:grad_norm() > 0.01)
    local moved = ((w - before):square():sum()):item() ^ 0.5
    assert.is_true(math.abs(moved - 0.1 * 0.01) < 1e-6, moved)
  end)

  it("writes at commit and not before", function()
    local w, seen = parameter(), neap.zeros(2)
    local x = neap.tensor {{1, 2}, {3, 4}}
    local graph = core.trace(function(a)
      core.assign(seen, a:sum(1))
      return a:matmul(w):square():mean()
    end, x)
    local u = core.update(graph, core.optimizer("sgd", {w}, {1}, {{lr = 0.1}}))
    u:plan()
    u:reserve()
    u:begin(x)
    assert.are.same({0, 0}, seen:totable())
    u:step()
    assert.are.same({4, 6}, seen:totable())
    raises("SHAPE", function()
      core.trace(function(a) core.assign(seen, a:sum()) return a:mean() end, x)
    end, "assign", "[]", "[2]")
    raises("INVALID", function() core.trace(function(a) core.assign(a, a) return a:mean() end, x) end, "target")
  end)

  it("takes numbers as inputs", function()
    local w = core.parameter(neap.ones(2))
    local u = core.update((core.trace(function(a, s) return (a * w * s):sum() end, w, 1)),
      core.optimizer("sgd", {w}, {1}, {{lr = 0}}))
    u:plan()
    u:reserve()
    local x = neap.ones(2)
    assert.are.same({2, 5}, {u(x, 1), u(x, 2.5)})
    raises("INVALID", function() u(x, "1") end, "input 2", "'1'")
  end)

  it("refuses losses and options that make no sense", function()
    local w, x = parameter(), neap.ones(2, 2)
    local optimizer = core.optimizer("sgd", {w}, {1}, {{lr = 0.1}})
    local function traced(fn) return (core.trace(fn, x)) end
    raises("SHAPE", function() core.update(traced(function(a) return a:matmul(w) end), optimizer) end, "[2, 2]")
    raises("INVALID", function() core.update(traced(function(a) return a:mean() end), optimizer) end, "depends on none")
    local function mean(a) return a:matmul(w):mean() end
    raises("RANGE", function() core.update(traced(mean), optimizer, {grain = 0}) end, "grain", "0")
    raises("RANGE", function() core.update(traced(mean), optimizer, {clip_norm = 0 / 0}) end, "clip_norm", "NaN")
    raises("INVALID", function() core.update(traced(mean), optimizer, {grains = 1}) end, "'grains'")
    raises("INVALID", function() core.update(traced(mean), traced(mean)) end, "neap.optimizer")
    local graph = traced(mean)
    core.update(graph, optimizer)
    raises("INVALID", function() core.update(graph, optimizer) end, "in use already")
  end)
end)

describe("an optimizer of the core", function()
  it("keeps settings by group, which may change", function()
    local a, b = parameter(), core.parameter(neap.ones(3))
    local o = core.optimizer("adam", {a, b}, {1, 2}, {{lr = 0.1, betas = {0.8, 0.9}}, {lr = 0.2, decoupled = true}})
    assert.are.same({0.1, 0.2}, {o:get(1).lr, o:get(2).lr})
    assert.are.same({0.8, 0.9}, o:get(1).betas)
    assert.is_true(o:get(2).decoupled)
    o:lr(2, 0.5)
    o:set(1, {eps = 1e-3})
    assert.are.same({0.5, 1e-3, 0.1}, {o:get(2).lr, o:get(1).eps, o:get(1).lr})
    raises("RANGE", function() o:lr(3, 1) end, "group", "3", "2")
    raises("RANGE", function() o:lr(1, -1) end, "lr", "-1")
    raises("RANGE", function() o:set(1, {betas = {1, 0.9}}) end, "betas", "1")
    raises("INVALID", function() o:set(1, {rate = 1}) end, "'rate'")
    assert.are.equal(0.1, o:get(1).lr)
  end)

  it("steps with gradients, leaving out what has none", function()
    local a, b = core.parameter(neap.ones(2)), core.parameter(neap.ones(3))
    local o = core.optimizer("sgd", {a, b}, {1, 1}, {{lr = 0.5, momentum = 0.9}})
    o:apply {neap.tensor {1, 2}, false}
    assert.are.same({{0.5, 0}, {1, 1, 1}}, {a:totable(), b:totable()})
    o:apply({neap.tensor {0, 0}, neap.ones(3)}, 2)
    assert.are.same({0, 0, 0}, b:totable())
    assert.are.equal(2, o:step_count())
    raises("SHAPE", function() o:apply {neap.ones(3), false} end, "gradient 1", "[3]", "[2]")
    raises("INVALID", function() o:apply {neap.ones(2)} end, "1 gradients", "2 parameters")
    raises("INVALID", function() o:apply {neap.ones(2), 0} end, "gradient 2", "0")
  end)

  it("shows its moments as views in the order of the parameters", function()
    local a, b = core.parameter(neap.ones(2)), core.parameter(neap.ones(1, 3))
    local o = core.optimizer("adam", {a, b}, {1, 1}, {{lr = 0.5, betas = {0.5, 0.5}}})
    o:apply {neap.tensor {1, 2}, neap.ones(1, 3)}
    local m, v = o:moments(1), o:moments(2)
    assert.are.same({{0.5, 1}, {{0.5, 0.5, 0.5}}}, {m[1]:totable(), m[2]:totable()})
    assert.are.same({0.5, 2}, v[1]:totable())
    m[1]:copy_(neap.zeros(2))
    assert.are.same({0, 0}, o:moments(1)[1]:totable())
    assert.are.same({}, core.optimizer("sgd", {core.parameter(neap.ones(1))}, {1}, {{lr = 1}}):moments(1))
    assert.is_true(o:bytes() >= 2 * 5 * 4)
  end)

  it("says what is wrong with its parameters and settings", function()
    local a = core.parameter(neap.ones(2))
    raises("INVALID", function() core.optimizer("sgd", {}, {}, {{lr = 1}}) end, "empty")
    raises("INVALID", function() core.optimizer("lbfgs", {a}, {1}, {{lr = 1}}) end, "'lbfgs'", "sgd, adam")
    raises("INVALID", function() core.optimizer("sgd", {a, a}, {1, 1}, {{lr = 1}}) end, "parameter 2", "twice")
    raises("RANGE", function() core.optimizer("sgd", {a}, {2}, {{lr = 1}}) end, "group of parameter 1", "2")
    raises("INVALID", function() core.optimizer("sgd", {1}, {1}, {{lr = 1}}) end, "parameter 1", "1")
    raises("RANGE", function() core.optimizer("sgd", {a}, {1}, {{lr = 0 / 0}}) end, "lr", "NaN")
    local nesterov = {lr = 1, nesterov = true}
    raises("INVALID", function() core.optimizer("sgd", {a}, {1}, {nesterov}) end, "nesterov", "momentum")
    local plain = core.optimizer("sgd", {a}, {1}, {{lr = 1}})
    raises("INVALID", function() plain:set(1, {momentum = 0.9}) end, "made without momentum")
  end)
end)
