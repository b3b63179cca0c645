// What the tests share: a real node, and proxies in front of it that fail in one way each.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { after } from 'node:test'

const here = path.dirname(fileURLToPath(import.meta.url))

// startStint starts a node on a free port and resolves to its base URL. It ends with the test file.
export async function startStint(policies = path.join(here, 'policies.yaml'), ...flags) {
  const binary = process.env.STINT_BINARY
  if (!binary) throw new Error('STINT_BINARY is not set: the tests need the program stint (make js builds it)')
  const node = spawn(binary, ['serve', '--dev', '--policies', policies, '--api-addr', '127.0.0.1:0', ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  after(async () => {
    node.kill('SIGTERM')
    if (node.exitCode === null) await once(node, 'exit')
  })
  let said = ''
  return await new Promise((resolve, reject) => {
    const read = (chunk) => {
      said += chunk
      const ready = /stint is ready at (https?:\S+)/.exec(said)
      if (ready) resolve(ready[1])
    }
    node.stdout.on('data', read)
    node.stderr.on('data', read)
    node.on('exit', (code) => reject(new Error(`stint ended with status ${code}: ${said}`)))
  })
}

// testClock moves the clock of a node that was started with --test-clock. Both functions resolve to its time in milliseconds.
export function testClock(url) {
  const advance = async (by) => {
    const answer = await fetch(`${url}/stint.test.v1.TestClock/Advance`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ by }) })
    if (answer.status !== 200) throw new Error(await answer.text())
    return Date.parse((await answer.json()).now)
  }
  // The clock goes on by itself: after this the test has a minute before the next one begins.
  const nextMinute = async () => {
    const now = await advance('0s')
    await advance(`${(60000 - (now % 60000)) / 1000}s`)
    return now - (now % 60000) + 60000
  }
  return { advance, nextMinute }
}

// startSecure starts a node with TLS and a token that may do everything. certificate is a file, to be trusted.
export async function startSecure() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'stint-js-'))
  after(() => fs.rmSync(dir, { recursive: true }))
  const [certificate, key, file] = ['cert.pem', 'key.pem', 'token'].map((name) => path.join(dir, name))
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', certificate,
    '-days', '2', '-subj', '/CN=stint', '-addext', 'subjectAltName=IP:127.0.0.1'], { stdio: 'pipe' })
  const token = execFileSync(process.env.STINT_BINARY, ['token', 'generate'], { encoding: 'utf8' }).trim()
  fs.writeFileSync(file, token, { mode: 0o600 })
  fs.chmodSync(key, 0o600)
  const url = await startStint(undefined, '--api-cert', certificate, '--api-key', key, '--admin-token-file', file)
  return { url, token, certificate }
}

// startWithTokens starts a node that asks for tokens. grant makes one and returns it: grant('web', 'ns=shop ops=check').
export async function startWithTokens() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'stint-js-'))
  after(() => fs.rmSync(dir, { recursive: true }))
  const file = path.join(dir, 'token')
  const stint = (...args) => execFileSync(process.env.STINT_BINARY, args, { encoding: 'utf8' }).trim()
  fs.writeFileSync(file, stint('token', 'generate'), { mode: 0o600 })
  const url = await startStint(undefined, '--admin-token-file', file)
  return { url, grant: (name, text) => stint('token', 'create', name, '--grant', text, '--expires', '1h', '--addr', url, '--token-file', file, '--timeout', '60s') }
}

// listen starts a server on a free port and resolves to its base URL. It ends with the test t.
export async function listen(t, server) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    server.closeAllConnections?.()
    server.close()
    await once(server, 'close')
  })
  return `http://127.0.0.1:${server.address().port}`
}

// proxy passes requests on to a node. fate says what happens to the answer of each: 'answer', 'drop' (the node has counted, and
// the connection ends), 'hang' (it never comes), or a status of somebody who is not stint.
export async function proxy(t, target, fate) {
  const seen = []
  const server = http.createServer(async (req, res) => {
    const chunks = []
    for await (const chunk of req) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    seen.push({ path: req.url, headers: req.headers, body: JSON.parse(body) })
    const answer = await fetch(target + req.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const text = await answer.text()
    const now = fate(seen.length)
    if (now === 'drop') return req.socket.destroy()
    if (now === 'hang') return undefined
    if (typeof now === 'number') return res.writeHead(now, { 'content-type': 'text/html' }).end('<h1>not stint</h1>')
    return res.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
  })
  return { url: await listen(t, server), seen }
}

// refusedPort resolves to a base URL at which nobody listens.
export async function refusedPort() {
  const server = net.createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}`
}

// undecided is what a cluster says that cannot decide, and it is not asked again: no test has to wait for the end of a time.
export async function undecided() {
  const body = { code: 'internal', message: 'cannot decide', details: [{ type: 'stint.v1.Failure', value: '' }] }
  return new Response(JSON.stringify(body), { status: 500 })
}

// override gives a key a tier of a policy.
export async function override(url, policy, key, tier) {
  const answer = await fetch(`${url}/stint.v1.PolicyService/PutOverride`,
    { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ policy, key, tier }) })
  if (answer.status !== 200) throw new Error(await answer.text())
}
