-- What programs assign to tensors: at the end of a run, or not at all.
local neap = require "neap"
local core = require "neap.core"
local expect = require "support.expect"
local training = require "support.training"
local nn = neap.nn

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

describe("A program that assigns", function()
  it("writes when it has run; a result taken before an assignment is of before it", function()
    local count, last = neap.zeros(2), neap.zeros(3)
    local program = neap.compile(function(x)
      local before = count * 10
      neap.assign(count, count + 1)
      neap.assign(last, x * count:sum())
      return before, last * 1, count
    end)
    local before, product, after = program(neap.tensor {1, 2, 3})
    assert.same({{0, 0}, {2, 4, 6}, {1, 1}}, {before:totable(), product:totable(), after:totable()})
    assert.same({{1, 1}, {2, 4, 6}}, {count:totable(), last:totable()})
    before, product, after = program(neap.tensor {4, 5, 6})
    assert.same({{10, 10}, {16, 20, 24}, {2, 2}}, {before:totable(), product:totable(), after:totable()})
    assert.same({{2, 2}, {16, 20, 24}}, {count:totable(), last:totable()})
  end)

  it("does as the same function outside of a trace, where tensors change places", function()
    local function swap(a, b)
      local old = a * 1
      neap.assign(a, b)
      neap.assign(b, old)
    end
    local a, b = neap.tensor {1, 2}, neap.tensor {3, 4}
    swap(a, b)
    assert.same({{3, 4}, {1, 2}}, {a:totable(), b:totable()})
    local program = neap.compile(function(x)
      swap(a, b)
      return x
    end)
    program(1)
    assert.same({{1, 2}, {3, 4}}, {a:totable(), b:totable()})
  end)

  it("lets the last of several assignments count, also to views of the same tensor", function()
    local t = neap.zeros(3)
    local part = t:narrow(1, 1, 2)
    local program = neap.compile(function(x)
      neap.assign(t, x)
      neap.assign(part, x[{{2, 3}}] * 10)
      neap.assign(t, x * 2)
      return x
    end)
    program(neap.tensor {1, 2, 3})
    assert.same({2, 4, 6}, t:totable())
    program = neap.compile(function(x)
      neap.assign(t, x)
      neap.assign(part, x[{{2, 3}}] * 10)
      return x
    end)
    program(neap.tensor {1, 2, 3})
    assert.same({20, 30, 3}, t:totable())
  end)

  it("writes in a function of gradients, once a call, of inputs and of parameters", function()
    local count = neap.zeros(1)
    local layer = nn.Linear(2, 1)
    local function fn(x)
      neap.assign(count, count + 1)
      return layer(x):square():sum()
    end
    neap.value_and_grad(fn)(neap.ones(3, 2))
    assert.equal(1, count:item())
    local run = nn.value_and_grad(layer, fn)
    for _ = 1, 3 do run(neap.ones(3, 2)) end
    assert.equal(4, count:item())
  end)

  it("passes its writes on when it is called in a trace", function()
    local count = neap.zeros(1)
    local inner = neap.compile(function(x)
      neap.assign(count, count + 1)
      return x * 2
    end)
    local outer = neap.compile(function(x) return inner(x) + 1 end)
    assert.equal(7, outer(3):item())
    assert.equal(1, count:item())
    local layer = nn.Linear(2, 1)
    local function penalty(x)
      local _, g = neap.value_and_grad(function(u) return inner(layer(u)):sum() end)(x)
      return g[1]:square():sum() + layer(x):sum()
    end
    local update = neap.update {loss = penalty, optimizer = neap.optim.sgd {params = layer, lr = 0.1}}
    update:step(0, neap.ones(4, 2))
    update:drop()
    assert.equal(1, count:item())
    update(neap.ones(4, 2))
    assert.equal(2, count:item())
  end)

  it("writes nothing when it fails", function()
    finally(function() neap.set_memory_limit(nil) end)
    local count, table_ = neap.zeros(1), neap.randn(3, 1 << 18)
    local program = neap.compile(function(rows, closed)
      neap.assign(count, count + 1)
      return table_:index_select(rows, {dim = 1}):exp():sum() + closed
    end)
    local rows, t = neap.tensor({0, 2}, {dtype = "int64"}), neap.ones(1)
    program(rows, t)
    raises("RANGE", function() program(neap.tensor({0, 3}, {dtype = "int64"}), t) end, "3")
    assert.equal(1, count:item())
    raises("SHAPE", function() core.program((core.traced(function(x)
      neap.assign(count, x)
      return x
    end, neap.ones(2)))) end, "assign", "[2]", "[1]")
    training.leave_room(64 * 1024)
    raises("OOM", function() program(rows, t) end)
    neap.set_memory_limit(nil)
    assert.equal(1, count:item())
    local fresh = neap.ones(1)
    fresh:close()
    raises("CLOSED", function() program(rows, fresh) end)
    assert.equal(1, count:item())
    program(rows, t)
    assert.equal(2, count:item())
    count:close()
    raises("CLOSED", function() program(rows, t) end, "closed")
  end)

  it("through the cache of programs writes to the tensors of its own graph", function()
    local function counting(t)
      return (core.traced(function(x)
        neap.assign(t, t + x)
        return x
      end, 1))
    end
    local a, b = neap.zeros(1), neap.zeros(1)
    local one, two = counting(a), counting(b)
    core.run(one, 1)
    core.run(two, 10)
    core.run(one, 2)
    assert.same({3, 10}, {a:item(), b:item()})
    -- The program stays in the cache, the tensors do not.
    collectgarbage()
    collectgarbage()
    local before = neap.memory().in_use
    for _ = 1, 3 do
      local big = neap.zeros(1 << 20)
      core.run((core.traced(function(x)
        neap.assign(big, big + x)
        return x
      end, 1)), 1)
    end
    collectgarbage()
    collectgarbage()
    neap.memory()
    assert.is_true(neap.memory().in_use < before + (1 << 22), neap.memory().in_use - before)
  end)

  it("is not run where nothing may change, which is said by name", function()
    local count = neap.zeros(1)
    local norm = nn.BatchNorm1d(3)
    raises("INVALID", function() neap.export("counting", function(x)
      neap.assign(count, count + 1)
      return x
    end, {{1}}) end, "neap.export", "writes to a tensor (fp32 [1]", "writes_spec.lua")
    raises("INVALID", function() neap.export("norm", norm, {{2, 3}}) end, "neap.export", "fp32 [3]")
    norm:eval()
    neap.export("norm", norm, {{2, 3}})
    local Counting = nn.module("Counting", {
      init = function(self) self.fc, self.count = nn.Linear(16, 4), nn.buffer(neap.zeros(1)) end,
      forward = function(self, x)
        self.count = self.count + 1
        return self.fc(x)
      end,
    })
    local model = Counting()
    local trainer = training.trainer {model = model}
    trainer:fit {steps = 2}
    assert.equal(2, model.count:item())
    raises("INVALID", function() trainer:evaluate(training.loader(32)) end, "trainer:evaluate", "writes_spec.lua")
    assert.equal(2, model.count:item())
  end)

  it("is no part of what an op of one's own does backward", function()
    local count = neap.zeros(2)
    local op = neap.custom {
      forward = function(x)
        neap.assign(count, x * 2)
        return x
      end,
      backward = function(d) return d end,
    }
    neap.value_and_grad(function(x) return op(x):sum() end)(neap.ones(2))
    assert.same({2, 2}, count:totable())
    local wrong = neap.custom {
      forward = function(x) return x end,
      backward = function(d)
        neap.assign(count, d)
        return d
      end,
    }
    raises("INVALID", function()
      neap.value_and_grad(function(x) return wrong(x):sum() end)(neap.ones(2))
    end, "backward writes", "writes_spec.lua")
    assert.same({2, 2}, count:totable())
  end)
end)

describe("While an update is unfinished, a program", function()
  it("writes to nothing that the update takes, and to all else", function()
    local teacher, other = neap.zeros(1, 8), neap.zeros(1)
    local layer = nn.Linear(8, 1, {bias = false})
    local update = neap.update {
      loss = function(x)
        neap.assign(teacher, teacher * 0.9 + layer.weight * 0.1)
        return layer(x):square():mean()
      end,
      optimizer = neap.optim.sgd {params = layer, lr = 0.1},
    }
    local x = neap.rand(2048, 8)
    local function writer(target)
      local program = neap.compile(function(v)
        neap.assign(target, target + v)
        return v
      end)
      program(0)
      return program
    end
    local targets = {["a tensor used"] = teacher, ["a parameter"] = layer.weight, ["an input"] = x}
    local writers = {}
    for use, target in pairs(targets) do writers[use] = writer(target) end
    local free = writer(other)
    assert.is_false(update:step(0, x))
    for use, program in pairs(writers) do
      local before = targets[use]:tobytes()
      raises("BUSY", function() program(1) end, use, "unfinished update")
      assert.equal(before, targets[use]:tobytes())
    end
    raises("BUSY", function() core.run((core.traced(function(v)
      neap.assign(teacher, teacher * v)
      return v
    end, 1)), 2) end, "unfinished update")
    free(3)
    free(4)
    assert.equal(7, other:item())
    assert.is_true(update:is_running())
    update()
    writers["a tensor used"](1)
    assert.are_not.equal(0, teacher:sum():item())
  end)
end)

-- Batch normalization in loops of one's own ------------------------------------------------------------

local function bn_net()
  neap.manual_seed(3)
  local model = require "models.bn_net" {channels = 1, width = 4, classes = 4}
  model:parameters()
  return model
end

local function batches()
  local list = {}
  neap.manual_seed(5)
  for i = 1, 4 do
    list[i] = {neap.randn(16, 1, 8, 8), neap.randint(0, 4, {16}):to "int64"}
  end
  return list
end

describe("A loop of one's own over a network with batch norm", function()
  it("is an update, bit for bit, running statistics and all", function()
    local a, b = bn_net(), bn_net()
    assert.is_true(expect.same_bits(a:state(), b:state()))
    local update = neap.update {
      loss = function(x, y) return neap.cross_entropy(a(x), y) end,
      optimizer = neap.optim.sgd {params = a, lr = 0.1, momentum = 0.9},
    }
    local optimizer = neap.optim.sgd {params = b, lr = 0.1, momentum = 0.9}
    local loss_and_grads = nn.value_and_grad(b, function(x, y) return neap.cross_entropy(b(x), y) end)
    for _, batch in ipairs(batches()) do
      local expected = update(table.unpack(batch))
      local loss, grads = loss_and_grads(table.unpack(batch))
      optimizer:step(grads)
      assert.equal(expected, loss:item())
      local same, path = expect.same_bits(a:state(), b:state())
      assert.is_true(same, path)
    end
  end)
end)
