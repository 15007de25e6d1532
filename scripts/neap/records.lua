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
}
