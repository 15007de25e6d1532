--- Data: datasets and the loader.
---
---   local set = neap.data.hdf5("digits.h5", {x = "train/images", y = "train/labels"})
---   local loader = neap.data.loader {dataset = set, batch_size = 64, shuffle = true, seed = 1}
---   for batch in loader:epoch(1) do print(batch.x.shape[1], batch.size) end
local datasets = require "neap.data.datasets"
local loader = require "neap.data.loader"
local random = require "neap.data.random"

return {
  hdf5 = datasets.hdf5, tensors = datasets.tensors, dataset = datasets.dataset,
  loader = loader.new, is_loader = loader.is_loader, random = random,
}
