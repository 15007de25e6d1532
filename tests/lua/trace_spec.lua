local neap = require "neap"
local core = require "neap.core"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

local function traced(...) return (core.traced(...)) end

describe("a trace", function()
  it("gives a graph that computes what the function does", function()
    local w = neap.tensor {{1, 2}, {3, 4}}
    local function f(x, scale) return (x:matmul(w) * scale):relu(), x:sum() end
    local x = neap.tensor {{1, -1}, {2, 0.5}}
    local graph, n = core.traced(f, x, 2)
    assert.are.equal(2, n)
    local y, s = core.run(graph, x, 3)
    local expected_y, expected_s = f(x, 3)
    assert.are.same(expected_y:totable(), y:totable())
    assert.are.equal(expected_s:item(), s:item())
  end)

  it("takes numbers as run-time scalars and gives numbers back", function()
    local graph = core.traced(function(a, b) return a * b, 7 end, 1, 2)
    local product, seven = core.run(graph, 3, 4.5)
    assert.are.same({13.5, 7}, {product:item(), seven:item()})
  end)

  it("reads the tensors it refers to at each run", function()
    local w = neap.tensor {1, 2}
    local graph = core.traced(function(x) return x * w end, w)
    local captured = graph:captures()
    assert.are.equal(1, #captured)
    assert.are.same({1, 2}, captured[1]:totable())
    w[1] = 10
    assert.are.same({30, 6}, core.run(graph, neap.tensor {3, 3}):totable())
    w:close()
    raises("CLOSED", function() return core.run(graph, neap.tensor {3, 3}) end, "closed")
  end)

  it("gives views, indexing and constants their place in the graph", function()
    local function f(x) return x[{{}, {1, 2}}]:reshape(-1) + x[2][1] + neap.zeros(4) + neap.ones_like(x[1]):sum() end
    local x = neap.arange(6, {dtype = "fp32"}):reshape(2, 3)
    local graph = core.traced(f, x)
    assert.are.equal(0, #graph:captures())
    assert.are.same(f(x):totable(), core.run(graph, x):totable())
  end)

  it("knows shapes and dtypes but no values", function()
    core.traced(function(x)
      assert.are.same({2, 3}, (x + 1).shape)
      assert.are.equal("fp32", x.dtype)
      assert.is_truthy(tostring(x):find("traced", 1, true))
      assert.is_true(core.tracing())
      return x
    end, neap.ones(2, 3))
    assert.is_false(core.tracing())
    for _, method in ipairs {"item", "totable", "tobytes"} do
      local err = raises("INVALID", function() core.traced(function(x) return x[method](x) end, neap.ones(1)) end,
        method .. "() inside a traced function")
      assert.is_truthy(err.where:match("trace_spec%.lua:%d+$"))
    end
  end)

  it("refuses what it could not repeat", function()
    local w = neap.ones(2)
    local x = neap.ones(2)
    raises("INVALID", function() core.traced(function(v) v[1] = 2 return v end, x) end, "neap.where")
    raises("INVALID", function() core.traced(function(v) w[1] = 2 return v end, x) end, "neap.where")
    raises("INVALID", function() core.traced(function(v) w:copy_(v) return v end, x) end, "copy_")
    raises("INVALID", function() core.traced(function(v) return v + neap.rand(2) end, x) end, "rand inside")
    raises("INVALID", function() core.traced(function() return nil end, x) end, "result 1", "nil")
    raises("INVALID", function() core.traced(function() end, x) end, "nothing")
    raises("INVALID", function() core.traced(function(v) return core.traced(function(u) return u end, v) end, x) end,
      "do not nest")
    raises("INVALID", function() core.traced(nil, x) end, "function")
    raises("INVALID", function() core.traced(function(v) return v end, "x") end, "input 1", "'x'")
    assert.are.same({1, 1}, w:totable())
  end)

  it("ends with an error and leaves nothing behind", function()
    collectgarbage()
    local before = neap.memory().in_use
    local ok, err = pcall(core.traced, function(x)
      local y = x + 1
      error({mine = y.ndim})
    end, neap.ones(3))
    assert.is_false(ok)
    assert.are.equal(1, err.mine)
    assert.is_false(core.tracing())
    assert.are.same({2, 2, 2}, (neap.ones(3) + 1):totable())
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, neap.memory().in_use)
  end)

  it("can go on after an error that was caught inside", function()
    local graph = core.traced(function(x)
      assert.is_false(pcall(x.reshape, x, 7))
      return x * 2
    end, neap.ones(3))
    assert.are.same({2, 2, 2}, core.run(graph, neap.ones(3)):totable())
  end)

  it("names the line of the script in errors of ops", function()
    local err = raises("SHAPE", function()
      core.traced(function(x) return x + neap.ones(5) end, neap.ones(3))
    end, "add", "[3]", "[5]")
    assert.is_truthy(err.where:match("trace_spec%.lua:%d+$"))
  end)

  it("is left by its values only through results", function()
    local leaked
    core.traced(function(x) leaked = x * 2 return leaked end, neap.ones(3))
    raises("INVALID", function() return leaked + 1 end, "has ended")
    raises("INVALID", function() return leaked:totable() end, "has ended")
    raises("INVALID", function() return core.traced(function(x) return x + leaked end, neap.ones(3)) end, "has ended")
  end)

  it("can step aside for what has to happen at once", function()
    local sum
    core.traced(function(x)
      sum = core.untraced(function(n) return neap.ones(n):sum():item() end, 4)
      assert.is_true(core.tracing())
      assert.is_false(pcall(core.untraced, function() return x + 1 end))
      return x
    end, neap.ones(1))
    assert.are.equal(4, sum)
  end)

  it("runs in a coroutine, but does not yield", function()
    local co = coroutine.wrap(function()
      local ok, err = pcall(core.traced, function(x) coroutine.yield() return x end, neap.ones(1))
      assert.is_false(ok)
      assert.is_truthy(tostring(err):find("yield", 1, true))
      return core.run(traced(function(x) return x + 1 end, neap.ones(1)), neap.ones(1)):item()
    end)
    assert.are.equal(2, co())
  end)
end)

describe("gradients", function()
  it("are appended for inputs and tensors, zeros where there is none", function()
    local w, unused = neap.tensor {2, 3}, neap.tensor {{1, 1}}
    local x = neap.tensor {4, 5}
    local graph = core.traced(function(a, s) return (a * w * s):sum() end, x, 10)
    assert.are.equal(graph, graph:differentiate {inputs = {1, 2}, tensors = {w, unused}})
    local value, dx, ds, dw, none = core.run(graph, x, 10)
    assert.are.equal(230, value:item())
    assert.are.same({20, 30}, dx:totable())
    assert.are.equal(23, ds:item())
    assert.are.same({40, 50}, dw:totable())
    assert.are.same({{0, 0}}, none:totable())
  end)

  it("stop at detach", function()
    local x = neap.tensor {1, 2}
    local graph = core.traced(function(a) return (a * a:detach()):sum() end, x)
    local value, dx = core.run(graph:differentiate {inputs = {1}}, x)
    assert.are.equal(5, value:item())
    assert.are.same({1, 2}, dx:totable())
  end)

  it("need a floating-point scalar and floating-point inputs", function()
    local x = neap.ones(2)
    local function double(v) return v * 2 end
    raises("SHAPE", function() traced(double, x):differentiate {inputs = {1}} end, "[2]", "scalar")
    local i = neap.ones(2, {dtype = "int64"})
    raises("DTYPE", function() core.traced(function(v) return v:sum() end, i):differentiate {inputs = {1}} end, "int64")
    raises("DTYPE", function()
      core.traced(function(v, k) return (v * k:to("fp32")):sum() end, x, i):differentiate {inputs = {2}}
    end, "input 2", "int64")
    local function sum(v) return v:sum() end
    raises("RANGE", function() traced(sum, x):differentiate {inputs = {2}} end, "2", "1")
    raises("INVALID", function() traced(sum, x):differentiate {input = {1}} end, "'input'")
  end)
end)

describe("a program", function()
  local function f(x, y) return x:matmul(y), x:sum() end
  local x, y = neap.ones(2, 3), neap.ones(3, 2)

  it("runs again and again", function()
    local program = core.program(traced(f, x, y))
    for k = 1, 3 do
      local product, sum = program(x * k, y)
      assert.are.same({{3 * k, 3 * k}, {3 * k, 3 * k}}, product:totable())
      assert.are.equal(6 * k, sum:item())
    end
  end)

  it("knows which inputs are its own", function()
    local program = core.program(traced(f, x, y))
    assert.is_true(program:matches(x, y))
    assert.is_false(program:matches(x))
    assert.is_false(program:matches(y, x))
    assert.is_false(program:matches(x:to("fp64"), y))
    assert.is_false(program:matches(x, 1))
    raises("INVALID", function() return program(x) end, "2 inputs", "got 1")
    raises("SHAPE", function() return program(x, x) end, "input 2", "[2, 3]", "[3, 2]")
    raises("DTYPE", function() return program(x:to("fp64"), y) end, "input 1", "fp64", "fp32")
    raises("INVALID", function() return program(x, "y") end, "input 2", "'y'")
  end)

  it("tells its memory, time and nodes", function()
    local program = core.program(traced(f, x, y))
    local m = program:memory()
    for _, name in ipairs {"parameters", "gradients", "optimizer", "activations", "workspace", "peak"} do
      assert.are.equal("integer", math.type(m[name]), name)
    end
    assert.is_true(m.peak >= 2 * 24 + 16 + 4)
    assert.is_true(program:seconds() > 0)
    local nodes = program:nodes()
    assert.is_true(#nodes >= 2)
    for _, node in ipairs(nodes) do
      assert.is_truthy(node.where:match("trace_spec%.lua:%d+$"))
      assert.is_true(node.bytes > 0 and node.cost >= 0 and #node.op > 0)
    end
  end)

  it("names the modules that its nodes come from", function()
    local graph = core.traced(function(v)
      assert.are.equal("", core.at("block1.fc"))
      local h = v * 2
      assert.are.equal("block1.fc", core.at(""))
      return h + 1
    end, x)
    local nodes = core.program(graph):nodes()
    assert.are.same({"block1.fc", ""}, {nodes[1].path, nodes[2].path})
  end)

  it("takes batch dimensions that agree", function()
    local graph = core.traced(function(a, b) return (a + b):sum() end, neap.ones(4, 2), neap.ones(4, 2))
    assert.are.equal(16, core.program(graph, {batch_dims = {1, 1}})(neap.ones(4, 2), neap.ones(4, 2)):item())
    raises("SHAPE", function() core.program(graph, {batch_dims = {1, 2}}) end, "2 samples", "4")
    raises("RANGE", function() core.program(graph, {batch_dims = {3, 1}}) end, "batch_dims", "3")
    raises("INVALID", function() core.program(graph, {batch = 1}) end, "'batch'")
  end)

  it("writes what the function assigns, unless it must not", function()
    local z = neap.zeros(1)
    local graph = core.traced(function(v)
      core.assign(z, v:sum():reshape(1))
      return v
    end, x)
    raises("INVALID", function() graph:pure("who asks") end, "who asks", "writes to a tensor (fp32 [1], at ",
      "trace_spec.lua")
    core.run(graph, x)
    assert.are.equal(6, z:item())
    core.program(graph)(x * 2)
    assert.are.equal(12, z:item())
    core.assign(z, 5)
    assert.are.equal(5, z:item())
  end)

  it("cannot run inside a traced function", function()
    local program = core.program(traced(function(v) return v + 1 end, x))
    raises("INVALID", function() core.traced(function() return program(x) end, x) end, "call the function itself")
  end)

  it("frees what it holds when it is closed", function()
    collectgarbage()
    collectgarbage()
    local before = neap.memory().in_use
    do
      local program <close> = core.program(traced(function(a) return a * 2 end, 1))
      assert.are.equal(6, program(3):item())
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(neap.memory().in_use <= before + 4096)
  end)
end)

describe("a snapshot", function()
  it("finds an upvalue that changed, with its line", function()
    local rate, name, flag, nothing = 0.5, "a", true, nil
    local function inner() return name, nothing end
    local function f() return rate, flag, inner() end
    local s = core.snapshot(f)
    assert.is_nil((core.changed(s)))
    rate = 0.25
    local what, old, new, where = core.changed(s)
    assert.are.same({"rate", 0.5, 0.25}, {what, old, new})
    assert.is_truthy(where:match("trace_spec%.lua:%d+$"))
    rate = 0.5
    name = "b"
    what, old, new = core.changed(s)
    assert.are.same({"name", "a", "b"}, {what, old, new})
    name, nothing = "a", 1
    what, old, new = core.changed(s)
    assert.are.same({"nothing", nil, 1}, {what, old, new})
    nothing = nil
    flag = nil
    what, old, new = core.changed(s)
    assert.are.same({"flag", true, nil}, {what, old, new})
  end)

  it("follows functions in circles and leaves tables alone", function()
    local a, b
    local n, t = 1, {}
    function a() return b, n, t end
    function b() return a, t end
    local s = core.snapshot(a)
    t.x = 1
    assert.is_nil((core.changed(s)))
    n = 2
    assert.are.equal("n", (core.changed(s)))
    raises("INVALID", function() core.snapshot(3) end, "3")
  end)

  it("takes no memory to look at", function()
    local n = 1
    local s = core.snapshot(function() return n end)
    collectgarbage()
    collectgarbage("stop")
    core.changed(s)
    local before = collectgarbage("count")
    for _ = 1, 100 do core.changed(s) end
    local after = collectgarbage("count")
    collectgarbage("restart")
    assert.are.equal(before, after)
  end)
end)
