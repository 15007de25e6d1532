local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function f64(values) return neap.tensor(values, {dtype = "fp64"}) end

-- Values and gradients of torch.nn.functional in double precision.
describe("Losses with margins and weights", function()
  local X = f64 {{0.5, -1.25, 2.0}, {1.5, 0.25, -0.75}}
  local y, z = f64 {{0.25, 0.75, -1.0}, {2.0, -0.5, 1.0}}, f64 {{-0.5, 1.0, 0.5}, {0.5, 1.5, -1.0}}
  local s, sign = f64 {{1, -1, 1}, {-1, 1, -1}}, f64 {1, -1}
  local w, positive = f64 {0.5, 2, 1.5}, f64 {3, 1, 2}
  local label = neap.tensor({2, 0}, {dtype = "int64"})
  local p, t = X:sigmoid(), f64 {{0, 1, 0.25}, {1, 0.5, 0}}
  local cases = {
    {function(x) return neap.margin_ranking_loss(x, y, s, {margin = 0.5}) end,
      0.04166666666667, {-0.166666666667, 0, 0, 0, 0, 0}},
    {function(x) return neap.hinge_embedding_loss(x, s, {margin = 0.75}) end,
      1.041666666667, {0.166666666667, -0.166666666667, 0.166666666667, 0, 0.166666666667, -0.166666666667}},
    {function(x) return neap.soft_margin_loss(x, s) end,
      0.5861929634242, {-0.0629234447997, 0.0371166898042, -0.0198671536704,
        0.136262412699, -0.0729705831857, 0.0534702168041}},
    {function(x) return neap.multilabel_soft_margin_loss(x, t, w) end,
      1.335696776544, {0.0518716109335, -0.259099953725, 0.157699269494,
        -0.0152021269839, 0.0207255002953, 0.0802053252062}},
    {function(x) return neap.multi_margin_loss(x, label, w, {p = 2, margin = 1.5}) end,
      0.005208333333333, {0, 0, 0, -0.0416666666667, 0.0416666666667, 0}},
    {function(x) return neap.cosine_embedding_loss(x, y, sign, {margin = -0.5}) end,
      1.481049674202, {-0.0800331643898, -0.0236163435905, 0.00524807635346,
        0.114708989285, -0.0881300771337, 0.200041286192}},
    {function(x) return neap.triplet_margin_loss(x, y, z, {margin = 1.5, swap = true}) end,
      2.633471272722, {0.0345858582265, -0.276685620726, 0.415028776947,
        -0.435606930692, 0.576258584541, -0.521652346153}},
    {function(x) return neap.kl_div(x, p, {reduction = "batchmean"}) end,
      -2.257646094339, {-0.311229665601, -0.111350069413, -0.440398538989,
        -0.408787238097, -0.281088250443, -0.160410650412}},
    {function(x) return neap.poisson_nll_loss(x, t + 2, {full = true}) end,
      2.847657769863, {-0.0585464548833, -0.452249200523, 0.856509349822,
        0.24694817839, -0.202662430552, -0.254605574543}},
    {function(x) return neap.binary_cross_entropy(x:sigmoid(), t, w) end,
      1.335696776544, {0.0518716109335, -0.259099953725, 0.157699269494,
        -0.0152021269839, 0.0207255002953, 0.0802053252062}},
    {function(x) return neap.binary_cross_entropy_with_logits(x, t, positive, w) end,
      1.377198656898, {0.0518716109335, -0.259099953725, 0.150249086868,
        -0.0456063809516, 0.0207255002953, 0.0802053252062}},
    {function(x) return neap.mse_loss(x, y, p) end,
      3.02347116462, {0.0908294315949, -0.259971709144, 1.54231373392,
        -0.238601371164, 0.24609883476, -0.327700308369}},
    {function(x) return neap.l1_loss(x, y, p) end,
      1.352757694475, {0.18165886319, -0.0649929272859, 0.257052288986,
        -0.238601371164, 0.16406588984, -0.093628659534}},
    {function(x) return neap.gaussian_nll_loss(x, y, f64 {0.5, 2}, {full = true}) end,
      3.257480199871, {0.0833333333333, -0.666666666667, 1, -0.0416666666667, 0.0625, -0.145833333333}},
  }

  it("are PyTorch's", function()
    for _, case in ipairs(cases) do
      local value, gradients = neap.value_and_grad(case[1])(X)
      expect.near(case[2], value:item(), 1e-11)
      expect.near_all(case[3], gradients[1], 1e-11)
    end
  end)

  it("are layers, too", function()
    local pairs_of = {
      {nn.MarginRankingLoss {margin = 0.5}(X, y, s), 1}, {nn.HingeEmbeddingLoss {margin = 0.75}(X, s), 2},
      {nn.SoftMarginLoss()(X, s), 3}, {nn.MultiLabelSoftMarginLoss {weight = w}(X, t), 4},
      {nn.MultiMarginLoss {p = 2, margin = 1.5, weight = w}(X, label), 5},
      {nn.CosineEmbeddingLoss {margin = -0.5}(X, y, sign), 6},
      {nn.TripletMarginLoss {margin = 1.5, swap = true}(X, y, z), 7},
      {nn.KLDivLoss {reduction = "batchmean"}(X, p), 8}, {nn.PoissonNLLLoss {full = true}(X, t + 2), 9},
      {nn.BCELoss {weight = w}(p, t), 10}, {nn.BCEWithLogitsLoss {weight = w, pos_weight = positive}(X, t), 11},
      {nn.BCEWithLogitsLoss {weight = w}(X, t), 10}, {nn.GaussianNLLLoss {full = true}(X, y, f64 {0.5, 2}), 14},
    }
    for _, pair in ipairs(pairs_of) do expect.near(cases[pair[2]][2], pair[1]:item(), 1e-11) end
    assert.is_true(nn.BCELoss {weight = w}:state().weight ~= nil)
    expect.fails("INVALID", {"nn.BCELoss", "weight", "a tensor"}, nn.BCELoss, {weight = 2})
    expect.fails("INVALID", {"nn.MSELoss", "batchmean"}, nn.MSELoss, {reduction = "batchmean"})
  end)

  it("refuse what does not fit", function()
    expect.fails("SHAPE", {"[2, 3]", "[2, 2]"}, neap.cosine_embedding_loss, X, y, neap.zeros(2, 2))
    expect.fails("SHAPE", {"[2, 3]", "[2]"}, neap.multi_margin_loss, X, label, neap.zeros(2, {dtype = "fp64"}))
    expect.fails("RANGE", {"margin", "0"}, neap.triplet_margin_loss, X, y, z, {margin = 0})
    expect.fails("DTYPE", {"class indices"}, neap.multi_margin_loss, X, s)
    expect.fails("RANGE", "5", neap.multi_margin_loss, X, neap.tensor({5, 0}, {dtype = "int64"}))
    expect.fails("SHAPE", {"weight", "[3]"}, neap.mse_loss, X, y, w)
  end)

  it("add up over micro-batches, means over weights, too", function()
    local input, target, weight = neap.randn(64, 3), neap.randn(64, 3), neap.rand(64, 3)
    local function train(loss, micro)
      neap.manual_seed(4)
      local layer = nn.Linear(3, 3)
      layer:parameters()
      local update = neap.update {
        loss = function(a, b, c) return loss(layer(a), b, c) end, grain = 16,
        optimizer = neap.optim.sgd {params = layer, lr = 0.1},
      }
      update:start_with(micro)
      for _ = 1, 2 do update(input, target, weight) end
      assert.equal("bits", update:plan().exact)
      return layer:state()
    end
    local losses = {
      neap.mse_loss, function(a, b) return neap.kl_div(a, b:sigmoid(), {reduction = "batchmean"}) end,
      function(a, b) return neap.triplet_margin_loss(a, b, b:flip(2)) end,
      function(a, b) return neap.cosine_embedding_loss(a, b, b:select(2, 1):sign()) end,
    }
    for _, loss in ipairs(losses) do assert.is_true(expect.same_bits(train(loss), train(loss, 16))) end
  end)
end)
