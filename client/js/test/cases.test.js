// The cases that the clients of all languages pass: client/testdata/cases.json says what its fields are.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import http from 'node:http'
import test from 'node:test'
import { Stint, StintError } from '@stint/client'
import { listen, refusedPort } from './server.js'

const { cases } = JSON.parse(fs.readFileSync(new URL('../../testdata/cases.json', import.meta.url), 'utf8'))

// call makes the case's call and resolves to the part of the answer that the case may want.
async function call(limits, { op, entries, id, ttlMs, holdId, decisionId, action }) {
  const options = { idempotencyId: id ?? null, ttlMs }
  try {
    if (op === 'get') return { limits: await limits.get(entries) }
    if (op === 'settle') return { decision: await limits.settle({ holdId, decisionId }, action) }
    return { decision: await limits[op](entries, options) }
  } catch (error) {
    if (!(error instanceof StintError)) throw error
    return { error }
  }
}

// named keeps of an answer what the case names.
function named(want, got) {
  if (Array.isArray(want)) return got?.length === want.length ? want.map((part, i) => named(part, got[i])) : got
  if (want === null) return got ?? null
  if (typeof want !== 'object') return got
  return Object.fromEntries(Object.keys(want).map((name) => [name, named(want[name], got?.[name])]))
}

for (const { name, do: request, nodes = 1, refused = 0, timeoutMs = 120000, answers, asked, want } of cases) {
  test(name, async (t) => {
    const bodies = []
    const server = () => http.createServer(async (req, res) => {
      let body = ''
      for await (const part of req) body += part
      const answer = answers[Math.min(bodies.push(body), answers.length) - 1]
      if (answer === 'drop') return req.socket.destroy()
      return res.writeHead(answer.status).end(typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body))
    })
    const addresses = []
    for (let i = 0; i < refused; i++) addresses.push(await refusedPort())
    for (let i = 0; i < nodes; i++) addresses.push(await listen(t, server()))
    const got = await call(new Stint({ addresses, timeoutMs }), request)
    assert.deepEqual(named(want, got), want)
    assert.equal(bodies.length, asked)
    assert.ok(bodies.every((body) => body === bodies[0]), bodies)
  })
}
