std = "lua54"
max_line_length = 120
files["tests/**/*_spec.lua"] = {std = "+busted"}
files["tests/lua/support"] = {std = "+busted"}
-- Declarations for editors: nothing in them is used.
files["types"] = {ignore = {"2"}, max_line_length = false}
files["tests/lua/run.lua"] = {globals = {"arg"}}
