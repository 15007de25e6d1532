local neap = require "neap"
local nn = neap.nn

local function bytes(model)
  local list = {}
  for _, t in model:named_parameters() do list[#list + 1] = t:tobytes() end
  return table.concat(list)
end

describe("While an update is unfinished", function()
  local model, update, x, y

  before_each(function()
    model = nn.Sequential {nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4)}
    update = neap.update {
      loss = function(a, b) return neap.cross_entropy(model(a), b) end,
      optimizer = neap.optim.adam {params = model:parameters()},
    }
    x, y = neap.rand(2048, 8), neap.zeros(2048, {dtype = "int64"})
  end)

  --- The same update from the same state, with `disturb` called in its middle: it must change nothing of it.
  local function check_refused(what, disturb)
    local state, moments = model:state(), update.optimizer:state()
    update(x, y)
    local expected = bytes(model)
    model:load_state(state)
    update.optimizer:load_state(moments)
    assert.is_false(update:step(0, x, y))
    local ok, err = pcall(disturb)
    assert.is_false(ok, what)
    assert.equal("BUSY", err.code, what)
    assert.matches("unfinished update", err.message, 1, true)
    assert.is_true(update:is_running())
    update()
    assert.equal(expected, bytes(model), what)
  end

  it("its parameters are not written to", function()
    local w = model:parameters()[1]
    check_refused("copy_", function() w:copy_(w * 0) end)
    check_refused("t[i] =", function() w[1] = 0 end)
    check_refused("a view", function() w:narrow(1, 2, 1):copy_(neap.zeros(1, 8)) end)
    check_refused("detached", function() w:detach():copy_(w * 0) end)
  end)

  it("its inputs are not written to", function()
    check_refused("input", function() x:copy_(x * 0) end)
    check_refused("part of an input", function() y[3] = 1 end)
  end)

  it("no state is loaded, nor any part of it", function()
    local last = model[3].bias
    local state = model:state()
    check_refused("module", function() model:load_state(state) end)
    local moments = update.optimizer:state()
    check_refused("optimizer", function() update.optimizer:load_state(moments) end)
    local other = nn.Sequential {nn.Linear(8, 4)}
    other["2"] = model[3]
    local mixed = other:state()
    local before = other[1].weight:tobytes()
    mixed["1.weight"] = mixed["1.weight"] + 1
    check_refused("a part", function() other:load_state(mixed) end)
    assert.equal(before, other[1].weight:tobytes())
    assert.equal(last, model[3].bias)
  end)

  it("its optimizer makes no step, nor does another over the same parameters", function()
    local grads = {}
    for path, t in model:named_parameters() do grads[path] = neap.ones_like(t) end
    check_refused("step", function() update.optimizer:step(grads) end)
    local other = neap.optim.sgd {params = model:parameters(), lr = 1}
    check_refused("another", function() other:step(grads) end)
    assert.equal(0, other:step_count())
  end)

  it("all else may be written to, and its own when it is dropped", function()
    local other, w = nn.Linear(8, 4), model:parameters()[1]
    update:step(0, x, y)
    other:load_state {weight = neap.zeros(4, 8), bias = neap.zeros(4)}
    neap.zeros(3):copy_(1)
    update.optimizer.lr = 0.5
    update:drop()
    w:copy_(w * 0)
    assert.equal(0, w:abs():sum():item())
  end)
end)
