local neap = require "neap"
local expect = require "support.expect"
local mlp = require "models.mlp"
local nn, optim = neap.nn, neap.optim

local function model()
  neap.manual_seed(1)
  local m = mlp {sizes = {16, 128, 128, 128, 4}}
  m:parameters() -- drawn now
  return m
end

local function update_of(m)
  return neap.update {
    loss = function(x, y) return neap.cross_entropy(m(x), y) end, optimizer = optim.adam {params = m},
  }
end

local x, y = neap.randn(64, 16), neap.zeros({64}, {dtype = "int64"})

describe("Freezing the lower half of a model", function()
  it("takes its gradients, moments and activations out of the plan", function()
    local whole = update_of(model()):memory(x, y)
    local half = update_of(model():freeze "fc[12]"):memory(x, y)
    local frozen = 4 * (128 * 16 + 128 + 128 * 128 + 128)
    assert.equal(whole.parameters, half.parameters)
    assert.equal(whole.gradients - frozen, half.gradients)
    assert.equal(whole.optimizer - 2 * frozen, half.optimizer)
    -- Two of the three hidden layers feed gradients still; what the first two layers keep is not.
    assert.is_true(half.activations <= whole.activations - 64 * 128 * 4)
    assert.is_true(half.peak < whole.peak - 3 * frozen)
  end)

  it("trains the upper half to the bits that an optimizer of that half alone gives", function()
    local a, b = model():freeze "fc[12]", model()
    local frozen, alone = update_of(a), neap.update {
      loss = function(u, v) return neap.cross_entropy(b(u), v) end,
      optimizer = optim.adam {params = b:parameters "fc[34]"},
    }
    local before = a:state()
    for _ = 1, 3 do assert.equal(alone(x, y), (frozen(x, y))) end
    assert.is_true(expect.same_bits(a:state(), b:state()))
    assert.equal(before["fc1.weight"]:tobytes(), a.fc1.weight:tobytes())
    assert.are_not.equal(before["fc4.weight"]:tobytes(), a.fc4.weight:tobytes())
  end)

  it("may be undone with an optimizer that was made before", function()
    local m = model()
    local opt = optim.sgd {params = m, lr = 1}
    m:freeze "fc1"
    local before = m.fc1.weight:tobytes()
    local update = neap.update {loss = function(u, v) return neap.cross_entropy(m(u), v) end, optimizer = opt}
    update(x, y)
    assert.equal(before, m.fc1.weight:tobytes())
    m:unfreeze "fc1"
    update(x, y)
    assert.are_not.equal(before, m.fc1.weight:tobytes())
  end)

  it("is noticed when it is undone under an optimizer without moments for it", function()
    local m = model():freeze "fc1"
    local update = update_of(m)
    update(x, y)
    m:unfreeze()
    expect.fails("INVALID", {"fc1.weight", "frozen when the optimizer was made"}, update, x, y)
  end)

  it("leaves an optimizer something to do", function()
    local m = model():freeze()
    expect.fails("INVALID", {"optim.adam", "all of its 8 parameters are frozen"}, optim.adam, {params = m})
  end)
end)

describe("Parameters by pattern", function()
  it("are those below a path, or that match", function()
    local net = nn.Sequential {{"fc1", nn.Linear(2, 3)}, {"fc10", nn.Linear(3, 1)}}
    local function shapes(pattern)
      local list = {}
      for i, p in ipairs(net:parameters(pattern)) do list[i] = table.concat(p.shape, "x") end
      return table.concat(list, " ")
    end
    assert.equal("3x2 3 1x3 1", shapes())
    assert.equal("3x2 3", shapes "fc1")
    assert.equal("3 1", shapes ".*bias")
    assert.equal("1x3 1", shapes "fc%d%d")
    expect.fails("NOT_FOUND", {"parameters", "fc2", "fc10.weight"}, net.parameters, net, "fc2")
    expect.fails("INVALID", {"parameters", "pattern", "the number 3"}, net.parameters, net, 3)
    expect.fails("INVALID", {"parameters", "[a", "no Lua pattern"}, net.parameters, net, "[a")
  end)

  it("make groups", function()
    local net = mlp {sizes = {2, 3, 1}}
    local opt = optim.sgd {lr = 0.5, groups = {
      {params = net:parameters ".*weight", weight_decay = 1}, {params = net:parameters ".*bias"},
    }}
    local before, zero = net:state(), {}
    for path, p in net:named_parameters() do zero[path] = neap.zeros_like(p) end
    opt:step(zero)
    expect.near_all((before["fc1.weight"] * 0.5):reshape(-1):totable(), net.fc1.weight)
    assert.equal(before["fc1.bias"]:tobytes(), net.fc1.bias:tobytes())
  end)
end)
