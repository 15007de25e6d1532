local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

-- Numbers of torch.nn.functional.
describe("Losses", function()
  local x, t, v = neap.tensor {0.1, 0.7, 0.9}, neap.tensor {0, 1, 0.25}, neap.tensor {0.5, 2, 1e-9}

  it("of probabilities", function()
    expect.near(0.7384381294250488, neap.binary_cross_entropy(x, t):item())
    expect.near(100, neap.binary_cross_entropy(neap.tensor {0, 1}, neap.tensor {1, 0}):item())
    local _, g = neap.value_and_grad(function(p) return neap.binary_cross_entropy(p, t, {reduction = "sum"}) end)(
      neap.tensor {0, 1, 0.5})
    expect.near_all({1, -1, 1}, g[1])
    expect.near(0.012147168628871441, neap.kl_div(x:log(), t):item())
    local other = x:flip(1):log()
    expect.near(1.757779598236084, neap.kl_div(x:log(), other, {log_target = true, reduction = "sum"}):item())
  end)

  it("of likelihoods", function()
    expect.near(1.551175594329834, neap.poisson_nll_loss(x, t):item())
    expect.near(0.694338321685791, neap.poisson_nll_loss(x, t, {log_input = false}):item())
    expect.near(70414.3671875, neap.gaussian_nll_loss(x, t, v):item(), 0.1)
    expect.near(211245.875, neap.gaussian_nll_loss(x, t, v, {full = true, reduction = "sum"}):item(), 0.1)
  end)

  it("have a cosine beside them", function()
    local a, b = neap.tensor {{1, 2}, {0, 0}}, neap.tensor {{3, -1}, {1, 1}}
    expect.near_all({0.1414213478565216, 0}, neap.cosine_similarity(a, b))
    expect.near_all({3 / math.sqrt(10), -1 / math.sqrt(2)}, neap.cosine_similarity(a, b, {dim = 1}), 1e-6)
    local _, g = neap.value_and_grad(function(u) return neap.cosine_similarity(u, b):sum() end)(neap.zeros(2, 2))
    for _, slope in ipairs(expect.values(g[1])) do assert.is_true(slope == slope) end
    expect.fails("SHAPE", {"[2, 2]", "[3]"}, neap.cosine_similarity, a, x)
  end)

  it("are layers, too", function()
    local scores, classes = neap.randn(4, 3), neap.tensor({0, 2, 1, 1}, {dtype = "int64"})
    local y, target = neap.rand(4, 3), neap.rand(4, 3)
    local cases = {
      {nn.CrossEntropyLoss {label_smoothing = 0.1}(scores, classes),
       neap.cross_entropy(scores, classes, {label_smoothing = 0.1})},
      {nn.NLLLoss()(scores:log_softmax {dim = 2}, classes), neap.cross_entropy(scores, classes)},
      {nn.MSELoss {reduction = "sum"}(y, target), (y - target):square():sum()},
      {nn.L1Loss()(y, target), (y - target):abs():mean()},
      {nn.HuberLoss {delta = 2}(y, target), (y - target):square():mean() / 2},
      {nn.SmoothL1Loss {beta = 0}(y, target), (y - target):abs():mean()},
      {nn.BCELoss()(y, target), neap.binary_cross_entropy(y, target)},
      {nn.BCEWithLogitsLoss()(scores, target), neap.binary_cross_entropy(scores:sigmoid(), target)},
      {nn.KLDivLoss()(scores, target), neap.kl_div(scores, target)},
      {nn.PoissonNLLLoss()(scores, target), neap.poisson_nll_loss(scores, target)},
    }
    for _, case in ipairs(cases) do expect.near(case[2]:item(), case[1]:item(), 1e-5) end
    expect.fails("INVALID", {"nn.MSELoss", "average"}, nn.MSELoss, {reduction = "average"})
    expect.fails("INVALID", {"nn.L1Loss", "delta"}, nn.L1Loss, {delta = 1})
  end)

  it("add up over micro-batches", function()
    local function train(micro)
      neap.manual_seed(4)
      local layer = nn.Linear(3, 2)
      layer:parameters()
      local input, target = neap.randn(64, 3), neap.rand(64, 2)
      local update = neap.update {
        loss = function(a, b) return nn.BCELoss()(layer(a):sigmoid(), b) end, grain = 16,
        optimizer = neap.optim.lion {params = layer, lr = 1e-3}, clip_value = 0.01,
      }
      update:start_with(micro)
      for _ = 1, 3 do update(input, target) end
      assert.equal("bits", update:plan().exact)
      return layer:state()
    end
    assert.is_true(expect.same_bits(train(), train(16)))
  end)
end)
