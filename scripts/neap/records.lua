--- Records of the ops that are written in Lua, in the form that core.op_info gives for those of the engine.
local function record(r)
  r.min_inputs, r.max_inputs, r.results = r.min_inputs or 1, r.max_inputs or 1, r.results or 1
  r.random, r.composite, r.gradient, r.batch, r.precision = false, true, "parts", "parts", "parts"
  r.samples = {}
  return r
end

local dim <const> = {name = "dim", type = "dim", required = false, default = 1, doc = "Dimension to cut along."}

---@type table<string, neap.OpRecord>
return {
  split = record {
    name = "split", topic = "Joining, cutting and repeating", method = true,
    args = "x [...] -> parts... [...]",
    doc = "Parts of `size` entries along `dim`, of which the last may be smaller, or of the sizes in a list, which add "
      .. "up to the whole. The results come one by one.",
    options = {
      {name = "size", type = "integers", required = true, min = 0, doc = "Entries of each part, or a list of them."},
      dim,
    },
    example = "local a, b, c = neap.split(neap.arange(0, 5), 2)\n"
      .. "print(a)  --> tensor int64 [2] {0, 1}\n"
      .. "print(c)  --> tensor int64 [1] {4}\n"
      .. "local head, rest = neap.split(neap.arange(0, 5), {1, 4})\n"
      .. "print(rest)  --> tensor int64 [4] {1, 2, 3, 4}",
  },
  chunk = record {
    name = "chunk", topic = "Joining, cutting and repeating", method = true,
    args = "x [...] -> parts... [...]",
    doc = "At most `chunks` parts of equal size along `dim`, of which the last may be smaller. The results come one by "
      .. "one.",
    options = {{name = "chunks", type = "integer", required = true, min = 1, doc = "Number of parts."}, dim},
    example = "local q, k, v = neap.chunk(neap.zeros(8, 10, 48), 3, {dim = -1})\n"
      .. "print(table.concat(q.shape, \" \"))  --> 8 10 16",
  },
  einsum = record {
    name = "einsum", topic = "Matrices and products", method = false,
    equation = true,
    args = "tensors... [...] -> [...]",
    doc = "Einstein's sum: letters name dimensions, those that are not in the output are summed over, `...` stands for "
      .. "the others, which broadcast. Without `->` the output has the letters that occur once, sorted. It is made of "
      .. "transposes, matrix products and sums, from left to right.",
    options = {},
    example = "local a = neap.tensor {{1, 2}, {3, 4}}\n"
      .. "print(neap.einsum(\"ij->ji\", a))  --> tensor fp32 [2, 2] {{1, 3}, {2, 4}}\n"
      .. "print(neap.einsum(\"ii\", a))  --> tensor fp32 [] 5\n"
      .. "print(neap.einsum(\"ij,j->i\", a, neap.tensor {1, 10}))  --> tensor fp32 [2] {21, 43}\n"
      .. "local q, k = neap.zeros(8, 4, 10, 16), neap.zeros(8, 4, 12, 16)\n"
      .. "print(table.concat(neap.einsum(\"...le,...se->...ls\", q, k).shape, \" \"))  --> 8 4 10 12",
  },
  unbind = record {
    name = "unbind", topic = "Joining, cutting and repeating", method = true,
    args = "x [...] -> parts... [...]",
    doc = "The entries of `dim` one by one, without it.",
    options = {dim},
    example = "local first, second = neap.unbind(neap.tensor {{1, 2}, {3, 4}})\n"
      .. "print(second)  --> tensor fp32 [2] {3, 4}",
  },
  meshgrid = record {
    name = "meshgrid", topic = "Making tensors", method = false, spread = true,
    args = "vectors... [...] -> grids... [...]",
    doc = "Coordinates of a grid: of vectors with m and n entries two tensors [m, n], and so on. With \"xy\" the "
      .. "first two dimensions change places.",
    options = {
      {name = "indexing", type = "choice", required = false, default = "ij", choices = {"ij", "xy"},
       doc = "What the first dimension follows: the first vector or, as in plots, the second."},
    },
    example = "local y, x = neap.meshgrid(neap.arange(2), neap.arange(3))\n"
      .. "print(y)  --> tensor int64 [2, 3] {{0, 0, 0}, {1, 1, 1}}\n"
      .. "print(x)  --> tensor int64 [2, 3] {{0, 1, 2}, {0, 1, 2}}",
  },
  tensordot = record {
    name = "tensordot", topic = "Matrices and products", method = true, min_inputs = 2, max_inputs = 2,
    args = "a [...], b [...] -> [...]",
    doc = "Products summed over dimensions of both inputs: the last `dims` of the first with the first of the second, "
      .. "or those that two lists name, `{dims = {{1, 2}, {3, 1}}}`. The other dimensions stay, those of the first in "
      .. "front.",
    options = {{name = "dims", type = "integers", required = false, default = 2, doc = "How many, or which."}},
    example = "local a, b = neap.ones(2, 3, 4), neap.ones(4, 3, 5)\n"
      .. "print(table.concat(neap.tensordot(a, b, 1).shape, \" \"))  --> 2 3 3 5\n"
      .. "print(table.concat(a:tensordot(b, {dims = {{2, 3}, {2, 1}}}).shape, \" \"))  --> 2 5",
  },
  nonzero = record {
    name = "nonzero", topic = "Indexing", method = true,
    args = "x [...] -> [...]",
    doc = "Not there: the size of its result would depend on values, and memory is known before anything runs. Take "
      .. "the mask itself, or topk or sort of it for as many positions as are wanted.",
    options = {},
    example = "local mask = neap.tensor({0, 1, 0, 1}, {dtype = \"int64\"})\n"
      .. "print((pcall(neap.nonzero, mask)))  --> false\n"
      .. "local _, places = mask:topk(2)\n"
      .. "print(places)  --> tensor int64 [2] {1, 3}",
  },
  masked_select = record {
    name = "masked_select", topic = "Indexing", method = true, min_inputs = 2, max_inputs = 2,
    args = "x [...], mask [...] bool -> [...]",
    doc = "Not there: the size of its result would depend on values, and memory is known before anything runs. `where` "
      .. "and `masked_fill` keep the shape; means over a mask are sums of products with it.",
    options = {},
    example = "local x = neap.tensor {1, 2, 3, 4}\n"
      .. "print((pcall(neap.masked_select, x, x:gt(2))))  --> false\n"
      .. "local mask = x:gt(2):to \"fp32\"\n"
      .. "print((x * mask):sum() / mask:sum())  --> tensor fp32 [] 3.5",
  },
}
