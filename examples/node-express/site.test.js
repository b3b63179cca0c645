import assert from 'node:assert/strict'
import { once } from 'node:events'
import test from 'node:test'
import { fileURLToPath } from 'node:url'
import { Stint } from '@stint/client'
import { startStint } from './clock.js'
import { site } from './site.js'

// start starts a stint and the site, behind a proxy on this machine. The clock of stint goes on by itself, so the test begins with a minute.
async function start(t) {
  const stint = await startStint(fileURLToPath(new URL('policies.yaml', import.meta.url)))
  t.after(stint.stop)
  const now = await stint.advance(0)
  await stint.advance((60000 - (now % 60000)) / 1000)
  return { stint, base: await listen(t, new Stint({ addresses: [stint.url], timeoutMs: 20000 })) }
}

async function listen(t, limits) {
  const server = site(limits, { trustedProxies: ['127.0.0.1'] }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${server.address().port}`
}

const visit = (base, ip, headers) => fetch(base, { headers: { 'x-forwarded-for': ip, ...headers } })
const signIn = (base, ip, email, password) => fetch(`${base}/login`,
  { method: 'POST', headers: { 'x-forwarded-for': ip, accept: 'text/html' }, body: new URLSearchParams({ email, password }) })

test('a hundred requests a minute, and not one more', async (t) => {
  const { base } = await start(t)
  for (let i = 1; i <= 100; i++) {
    const response = await visit(base, '192.0.2.1')
    assert.deepEqual([response.status, response.headers.get('x-ratelimit-remaining')], [200, String(100 - i)])
  }
  for (let again = 0; again < 3; again++) { // a denial is not counted
    const denied = await visit(base, '192.0.2.1')
    const wait = Number(denied.headers.get('retry-after'))
    assert.equal(denied.status, 429)
    assert.ok(wait >= 1 && wait <= 60)
    assert.deepEqual(await denied.json(), { error: 'rate_limited', retryAfter: wait })
  }
  assert.equal((await fetch(`${base}/style.css`, { headers: { 'x-forwarded-for': '192.0.2.1' } })).status, 200, 'a file is not limited')
})

test('two addresses count apart', async (t) => {
  const { base } = await start(t)
  for (const ip of ['192.0.2.1', '192.0.2.2']) assert.equal((await visit(base, ip)).headers.get('x-ratelimit-remaining'), '99')
})

test('when the minute is over the count begins again', async (t) => {
  const { stint, base } = await start(t)
  for (let i = 0; i < 100; i++) await visit(base, '192.0.2.1')
  const denied = await visit(base, '192.0.2.1')
  assert.equal(denied.status, 429)
  await stint.advance(Number(denied.headers.get('retry-after')))
  const again = await visit(base, '192.0.2.1')
  assert.deepEqual([again.status, again.headers.get('x-ratelimit-remaining')], [200, '99'])
})

test('the sixth wrong password is not tried, and people read why', async (t) => {
  const { stint, base } = await start(t)
  for (let i = 0; i < 5; i++) assert.equal((await signIn(base, '192.0.2.1', 'Ann@example.com', 'wrong')).status, 403)
  const denied = await signIn(base, '192.0.2.1', ' ann@example.com', 'correct horse')
  assert.equal(denied.status, 429)
  assert.match(await denied.text(), /<h1>One moment, please<\/h1>\s*<p>There were too many attempts to sign in\. Please try again in 15 minutes\.<\/p>/)
  assert.equal((await signIn(base, '192.0.2.2', 'ann@example.com', 'correct horse')).status, 200, 'ann, elsewhere, is not locked out')
  await stint.advance(15 * 60)
  for (let i = 0; i < 20; i++) assert.equal((await signIn(base, '192.0.2.1', 'ann@example.com', 'correct horse')).status, 200, 'a right password costs nothing')
  assert.equal((await signIn(base, '192.0.2.1', '', 'x')).status, 400)
})

test('while stint is away people can read, and nobody can guess passwords', async (t) => {
  const silent = t.mock.method(console, 'error', () => {})
  const base = await listen(t, new Stint({ addresses: ['http://127.0.0.1:1'], timeoutMs: 300 })) // nobody listens there
  const first = await visit(base, '192.0.2.1')
  assert.deepEqual([first.status, first.headers.get('stint-failed')], [200, 'open'])
  assert.equal((await signIn(base, '192.0.2.1', 'ann@example.com', 'correct horse')).status, 503)
  assert.equal(silent.mock.callCount(), 2)
})
