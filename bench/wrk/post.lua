-- One POST with one body, again and again.
require("summary")

local path, body, one

function init(args)
  path = args[1]
  body = io.open(args[2]):read("*a")
  one = wrk.format("POST", path, nil, body)
end

function request()
  return one
end
