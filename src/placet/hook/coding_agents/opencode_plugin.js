// The gate of Placet. `placet gate install opencode` writes this file, `placet gate uninstall opencode` removes it.
import { spawn } from "node:child_process"

const HOOKS = {}

const BEFORE = "tool.execute.before"
const ASKED = "permission.asked"
const FAILED = { verdict: "deny", message: "The gate failed, so this was not done. Run: placet gate doctor opencode" }
const MAX_REMEMBERED = 1000

/** Run the hook of an event; return its decision. Whatever goes wrong is a denial. */
function decide(event, input, started) {
  return new Promise((resolve) => {
    try {
      const hook = HOOKS[event]
      const child = spawn("/bin/sh", ["-c", hook.command], { detached: true, stdio: ["pipe", "pipe", "ignore"] })
      const end = () => {
        try {
          process.kill(-child.pid, "SIGTERM")
        } catch {}
      }
      const timer = setTimeout(() => (end(), resolve(FAILED)), hook.timeout * 1000)
      const parts = []
      child.stdout.on("data", (part) => parts.push(part))
      child.on("error", () => resolve(FAILED))
      child.on("close", (code) => {
        clearTimeout(timer)
        resolve(code === 0 ? read(event, Buffer.concat(parts).toString()) : FAILED)
      })
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify({ event, ...input }))
      started?.(end)
    } catch {
      resolve(FAILED)
    }
  })
}

function read(event, text) {
  try {
    const said = JSON.parse(text)
    return said.event === event && ["allow", "deny", "none"].includes(said.verdict) ? said : FAILED
  } catch {
    return FAILED
  }
}

export const PlacetGate = async ({ client, directory }) => {
  const calls = new Map() // session and id of a call -> the tool and its arguments
  const asking = new Map() // id of a permission -> ends its hook

  async function answer(asked) {
    const call = calls.get(`${asked.sessionID} ${asked.tool?.callID}`)
    const sent = { session: asked.sessionID, folder: directory, permission: asked, call }
    const said = await decide(ASKED, sent, (end) => asking.set(asked.id, end))
    if (!asking.delete(asked.id)) return // answered in the terminal meanwhile
    const reply = said.verdict === "allow" ? { reply: "once" } : { reply: "reject", message: said.message }
    const headers = { "Content-Type": "application/json" }
    const path = { requestID: asked.id }
    const query = { directory }
    await client._client.post({ url: "/permission/{requestID}/reply", path, query, body: reply, headers })
  }

  return {
    event: async ({ event }) => {
      const about = event.properties
      if (event.type === ASKED) void answer(about).catch(() => {})
      if (event.type === "permission.replied") {
        const end = asking.get(about.requestID)
        asking.delete(about.requestID)
        end?.()
      }
    },
    [BEFORE]: async (input, output) => {
      const call = { id: input.callID, tool: input.tool, arguments: output.args ?? {} }
      const said = await decide(BEFORE, { session: input.sessionID, folder: directory, call })
      if (said.verdict === "deny") throw new Error(said.message)
      if (said.arguments) {
        for (const name of Object.keys(output.args)) delete output.args[name]
        Object.assign(output.args, said.arguments)
      }
      calls.set(`${input.sessionID} ${input.callID}`, { ...call, arguments: output.args ?? {} })
      if (calls.size > MAX_REMEMBERED) calls.delete(calls.keys().next().value)
    },
  }
}
