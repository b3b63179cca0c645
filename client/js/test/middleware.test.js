import assert from 'node:assert/strict'
import http from 'node:http'
import { createRequire } from 'node:module'
import test from 'node:test'
import { Stint, clientIP } from '@stint/client'
import { limit as expressLimit } from '@stint/client/express'
import { StintStore } from '@stint/client/express-rate-limit'
import { checkLimit, limited, rateLimitMiddleware, tooManyRequests } from '@stint/client/fetch'
import { limit as honoLimit } from '@stint/client/hono'
import { listen, startStint, undecided } from './server.js'

const express = createRequire(import.meta.url)('express')
const url = await startStint()
const limits = new Stint({ addresses: [url], timeoutMs: 20000 })
const nowhere = new Stint({ addresses: ['http://127.0.0.1:1'], fetch: undecided })
const used = async (policy, key) => (await limits.get({ policy, key }))[0].used
const byHeader = (name) => (request) => (request.get ? request.get(name) : request.headers.get(name)) ?? undefined

// app serves GET / behind middlewares. The answer is the decision's first limit; an error is its code, as 500.
async function app(t, ...middlewares) {
  const server = express()
  server.get('/', ...middlewares, (req, res) => res.json(req.stint ? req.stint.limits[0].used : 'unasked'))
  server.use((error, req, res, next) => res.status(500).json(error.code ?? error.message))
  return await listen(t, http.createServer(server))
}

test('Express: exactly five, then 429 with Retry-After and problem+json', async (t) => {
  const base = await app(t, expressLimit(limits, { policy: 'five', key: byHeader('x-user'), fail: 'closed' }))
  const ask = () => fetch(base, { headers: { 'x-user': 'ann' } })
  const all = await Promise.all(Array.from({ length: 20 }, ask))
  assert.equal(all.filter((r) => r.status === 200).length, 5)
  assert.equal(all.filter((r) => r.status === 429).length, 15)
  const first = await fetch(base, { headers: { 'x-user': 'eve' } })
  assert.equal(first.headers.get('ratelimit'), '"ever";r=4')
  assert.equal(first.headers.get('ratelimit-policy'), '"ever";q=5')
  assert.equal(first.headers.get('access-control-expose-headers'), 'RateLimit, RateLimit-Policy')
  assert.equal(await first.json(), 1)
  const denied = await ask()
  assert.match(denied.headers.get('content-type'), /^application\/problem\+json/)
  assert.equal(denied.headers.get('cache-control'), 'no-store')
  assert.deepEqual(await denied.json(), { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
    title: 'Too many requests', status: 429, 'violated-policies': ['five/ever'] })
  assert.equal(denied.headers.get('retry-after'), null, 'no wait helps')
})

test('a key without room never passes, and known ones are still decided', async (t) => {
  const base = await app(t, expressLimit(limits, { policy: 'few', key: byHeader('x-user'), fail: 'open' }))
  const ask = async (user) => {
    const { status, headers } = await fetch(base, { headers: { 'x-user': user } })
    return [status, headers.get('retry-after'), headers.get('stint-failed')]
  }
  assert.deepEqual(await ask('js'), [200, null, null])
  assert.deepEqual(await ask('another'), [503, '1', null])
  assert.deepEqual(await ask('js'), [200, null, null])
})

test('Express: Retry-After and the reason', async (t) => {
  const base = await app(t, expressLimit(limits, { policy: 'login', key: byHeader('x-user'), fail: 'closed' }))
  const ask = () => fetch(base, { headers: { 'x-user': 'login ann' } })
  for (let i = 0; i < 3; i++) assert.equal((await ask()).status, 200)
  const denied = await ask()
  assert.ok(Number(denied.headers.get('retry-after')) >= 1)
  const problem = await denied.json()
  assert.equal(problem.detail, 'Too many attempts.')
})

test('a challenge: 403 with its code, and onDenied sees it', async (t) => {
  const options = { policy: 'soft', key: byHeader('x-user'), fail: 'closed' }
  const base = await app(t, expressLimit(limits, options))
  const ask = (url) => fetch(url, { headers: { 'x-user': 'soft ann' } })
  assert.equal((await ask(base)).status, 200)
  const challenged = await ask(base)
  assert.deepEqual([challenged.status, await challenged.json()], [403, { type: 'urn:stint:problem:challenge', title: 'Challenge required',
    status: 403, detail: 'Are you a robot?', code: 'challenge', 'violated-policies': ['soft/challenge'] }])
  const own = await app(t, expressLimit(limits, { ...options, onDenied: (req, res, d) => res.status(418).json([d.challenge, d.limits.map((l) => l.soft)]) }))
  const answer = await ask(own)
  assert.deepEqual([answer.status, await answer.json()], [418, [true, [true, false]]])
  const request = new Request('http://example.com/', { headers: { 'x-api-key': 'soft' } })
  const byApiKey = (more) => rateLimitMiddleware({ limits, policy: 'soft', fail: 'closed', ...more })(request, {}, {}, () => new Response())
  assert.equal((await byApiKey()).status, 200)
  for (const fetched of [
    await limited(limits, { ...options, key: () => 'soft ann' }, () => new Response())(request),
    await byApiKey(),
    tooManyRequests(await checkLimit(limits, { policy: 'soft' })('soft ann'), { error: 'rate_limited' }),
  ]) {
    assert.deepEqual([fetched.status, fetched.headers.get('content-type'), (await fetched.json()).code], [403, 'application/problem+json', 'challenge'])
  }
  const ownByKey = await byApiKey({ onDenied: (asked, d) => Response.json([asked === request, d.challenge], { status: 418 }) })
  assert.deepEqual([ownByKey.status, await ownByKey.json()], [418, [true, true]])
})

test('Express: two entries, all or nothing, and costs', async (t) => {
  const base = await app(t, expressLimit(limits, { fail: 'closed', entries: [
    { policy: 'window', key: clientIP({ trustedProxies: ['127.0.0.1'] }) },
    { policy: 'many', key: (req) => ({ route: 'login', user: req.get('x-user') }), cost: (req) => Number(req.get('x-cost')) },
  ] }))
  const ask = (ip, user) => fetch(base, { headers: { 'x-forwarded-for': ip, 'x-user': user, 'x-cost': '7' } })
  for (let i = 0; i < 3; i++) assert.equal((await ask('192.0.2.1', '{bob}')).status, 200)
  assert.equal((await ask('192.0.2.1', '{bob}')).status, 429)
  assert.equal((await ask('192.0.2.1, 192.0.2.2', '{bob}')).status, 200)
  assert.equal(await used('many', 'route=login|user=%7Bbob%7D'), 28)
  assert.equal(await used('window', 'ip:192.0.2.1'), 3)
})

test('Express: a forged address is not read', async (t) => {
  const base = await app(t, expressLimit(limits, { policy: 'window', key: clientIP(), fail: 'closed' }))
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await fetch(base, { headers: { 'x-forwarded-for': `198.51.100.${i}` } })).status)
  assert.deepEqual(statuses, [200, 200, 200, 429])
})

test('Express: without a key', async (t) => {
  const key = byHeader('x-user')
  const ask = async (onMissing) => await fetch(await app(t, expressLimit(limits, { policy: 'many', key, fail: 'open', onMissing })))
  assert.equal((await ask(undefined)).status, 400)
  assert.equal((await ask('deny')).status, 400)
  assert.equal(await (await ask('skip')).json(), 'unasked')
  assert.equal((await ask('shared')).status, 200)
  assert.equal(await used('many', 'shared'), 1)
})

test('Express: no decision, by fail mode; a mistake is never open', async (t) => {
  const errors = []
  const options = { policy: 'five', key: () => 'k', onError: (e) => errors.push(e.code) }
  const closed = await fetch(await app(t, expressLimit(nowhere, { ...options, fail: 'closed' })))
  assert.equal(closed.status, 503)
  assert.equal(closed.headers.get('retry-after'), '1')
  assert.equal(closed.headers.get('access-control-expose-headers'), 'Retry-After')
  assert.equal((await closed.json()).type, 'https://iana.org/assignments/http-problem-types#temporary-reduced-capacity')
  const open = await fetch(await app(t, expressLimit(nowhere, { ...options, fail: 'open' })))
  assert.deepEqual([open.status, open.headers.get('stint-failed')], [200, 'open'])
  assert.deepEqual(errors, ['internal', 'internal'])
  for (const fail of ['open', 'closed']) {
    const wrong = await fetch(await app(t, expressLimit(limits, { policy: 'nope', key: () => 'k', fail })))
    assert.deepEqual([wrong.status, await wrong.json()], [500, 'not_found'], 'a policy that does not exist is our mistake, never a denial')
  }
  const throws = await fetch(await app(t, expressLimit(limits, { policy: 'five', key: () => { throw new Error('a bug') }, fail: 'open' })))
  assert.deepEqual([throws.status, await throws.json()], [500, 'a bug'])
  const unknown = await fetch(await app(t, expressLimit(limits, { policy: 'known', key: () => 'invented', fail: 'open' })))
  assert.equal(unknown.status, 403)
})

test('Express: an answer of its own', async (t) => {
  const onDenied = (req, res, decision) => res.status(429).send(`wait ${decision.retryAfterSeconds}`)
  const base = await app(t, expressLimit(limits, { policy: 'window', key: () => 'own answer', fail: 'closed', onDenied }))
  for (let i = 0; i < 3; i++) await fetch(base)
  const denied = await fetch(base)
  assert.equal(await denied.text(), `wait ${denied.headers.get('retry-after')}`)
})

test('options that would be a trap are refused when the program starts', () => {
  const key = () => 'k'
  for (const [options, says] of [
    [undefined, /policy/], [{}, /policy/], [{ policy: 'five', fail: 'closed' }, /key/], [{ policy: 'five', key: 'k', fail: 'closed' }, /key/],
    [{ policy: 'five', key }, /fail/], [{ policy: 'five', key, fail: 'maybe' }, /fail/], [{ entries: [], fail: 'open' }, /entries/],
    [{ policy: 'five', entries: [{ policy: 'five', key }], fail: 'open' }, /exclude/], [{ policy: 'five', key, fail: 'open', onMissing: 'allow' }, /onMissing/],
    [{ policy: 'five', key, fail: 'open', idempotencyId: 'one' }, /idempotencyId/],
  ]) {
    assert.throws(() => expressLimit(limits, options), says)
    assert.throws(() => limited(limits, options, () => new Response()), says)
    assert.throws(() => honoLimit(limits, options), says)
  }
  assert.throws(() => expressLimit({}, { policy: 'five', key, fail: 'open' }), /a Stint/)
})

test('fetch handlers: 429, headers on both answers, also on a response that cannot be changed', async () => {
  const handler = async (request, env) => (env ? fetch(env) : new Response('served'))
  const serve = limited(limits, { policy: 'five', key: byHeader('x-user'), fail: 'closed' }, handler)
  const ask = (env) => serve(new Request('http://app.example/', { headers: { 'x-user': 'fetch' } }), env)
  const first = await ask()
  assert.deepEqual([first.status, await first.text(), first.headers.get('ratelimit')], [200, 'served', '"ever";r=4'])
  assert.equal((await ask(`${url}/healthz`)).headers.get('ratelimit'), '"ever";r=3')
  for (let i = 0; i < 3; i++) await ask()
  const denied = await ask()
  assert.deepEqual([denied.status, denied.headers.get('content-type')], [429, 'application/problem+json'])
  assert.equal(denied.headers.get('ratelimit'), '"ever";r=0')
  const own = limited(limits, { policy: 'five', key: () => 'fetch', fail: 'closed', onDenied: () => Response.json({ sorry: true }, { status: 429 }) }, handler)
  const answer = await own(new Request('http://app.example/'))
  assert.deepEqual([answer.status, answer.headers.get('ratelimit'), await answer.json()], [429, '"ever";r=0', { sorry: true }])
  assert.equal((await limited(nowhere, { policy: 'five', key: () => 'k', fail: 'closed' }, handler)(new Request('http://a/'))).status, 503)
})

// A stand-in for Hono's context: its package is none of Debian's.
function context(headers = {}) {
  const vars = {}
  return {
    vars,
    req: { raw: new Request('http://app.example/', { headers }) },
    res: new Response('not found', { status: 404 }),
    set: (name, value) => { vars[name] = value },
    header(name, value, { append = false } = {}) {
      this.res = new Response(this.res.body, this.res)
      if (append) this.res.headers.append(name, value)
      else this.res.headers.set(name, value)
    },
  }
}

test('Hono (a copy of its context): 429 before the handler, headers after it', async () => {
  const middleware = honoLimit(limits, { policy: 'five', key: clientIP({ header: 'cf-connecting-ip' }), fail: 'closed' })
  let served = 0
  for (let i = 1; i <= 5; i++) {
    const c = context({ 'cf-connecting-ip': '192.0.2.1' })
    assert.equal(await middleware(c, async () => { served++; c.res = new Response('served') }), undefined)
    assert.equal(c.vars.stint.limits[0].used, i)
    assert.equal(c.res.headers.get('ratelimit'), `"ever";r=${5 - i}`)
  }
  const c = context({ 'cf-connecting-ip': '192.0.2.1' })
  assert.equal((await middleware(c, async () => { served++ })).status, 429)
  assert.equal(served, 5)
  assert.equal((await middleware(context(), async () => { served++ })).status, 400)
  const own = honoLimit(limits, { policy: 'five', key: () => 'ip:192.0.2.1', fail: 'closed', onDenied: () => new Response('wait', { status: 429 }) })
  assert.equal(await own(c, async () => { served++ }), undefined)
  assert.deepEqual([c.res.status, await c.res.text(), served], [429, 'wait', 5])
  const node = honoLimit(limits, { policy: 'window', key: clientIP(), fail: 'closed' })
  const onNode = { ...context({ 'x-forwarded-for': '1.1.1.1' }), env: { incoming: { socket: { remoteAddress: '192.0.2.44' } } } }
  await node(onNode, async () => {})
  assert.equal(await used('window', 'ip:192.0.2.44'), 1)
})

test('Hono: the answer of a WebSocket stays as it is', async () => {
  const upgraded = { status: 101, body: null } // Node makes no Response of this status
  const c = context()
  await honoLimit(limits, { policy: 'five', key: () => 'hono socket', fail: 'closed' })(c, async () => { c.res = upgraded })
  assert.equal(c.res, upgraded)
})

// limiter does what express-rate-limit 7 and 8 do with a store, as far as their contract says: its package is none of Debian's.
function limiter({ windowMs, limit, store, skipSuccessfulRequests = false }) {
  store.init({ windowMs, limit })
  return async (req, res, next) => {
    try {
      const key = req.get('x-user')
      const { totalHits, resetTime } = await store.increment(key)
      if (!(Number.isInteger(totalHits) && totalHits > 0 && resetTime instanceof Date)) throw new Error('the store broke its contract')
      res.set('x-total', String(totalHits))
      if (skipSuccessfulRequests) res.on('finish', () => { if (res.statusCode < 400) store.decrement(key).then(() => res.app.emit('decremented')) })
      if (totalHits > limit) return res.status(429).end()
      next()
    } catch (error) {
      next(error)
    }
  }
}

test('express-rate-limit (a copy of its contract): counts hits, gives back, resets', async (t) => {
  const store = new StintStore(limits, { prefix: 'a:' })
  assert.equal(store.localKeys, false)
  const base = await app(t, limiter({ windowMs: 3600000, limit: 3, store }))
  const ask = () => fetch(base, { headers: { 'x-user': 'ann' } })
  const all = await Promise.all(Array.from({ length: 10 }, ask))
  assert.equal(all.filter((r) => r.status === 200).length, 3)
  assert.equal((await store.get('ann')).totalHits, 10, 'denied hits count')
  await store.decrement('ann')
  assert.equal((await store.get('ann')).totalHits, 9)
  const { resetTime } = await store.get('ann')
  assert.deepEqual((await store.increment('ann')).resetTime, resetTime)
  for (let i = 0; i < 12; i++) await store.decrement('ann')
  assert.equal(await store.get('ann'), undefined, 'never below nothing')
  await assert.rejects(store.resetKey('ann'), /policy/)
  const other = new StintStore(limits, { prefix: 'b:' })
  other.init({ windowMs: 3600000 })
  await store.increment('ann')
  assert.equal(await other.get('ann'), undefined)
  await other.decrement('ann') // has nothing to give back
  await assert.rejects(new StintStore(limits).increment('ann'), /init/)
  await assert.rejects(store.increment(''), /missing or empty/)
  assert.throws(() => new StintStore(limits).init({ windowMs: 0 }), /windowMs/)
})

// express-rate-limit gives back when a response has been sent, and nobody awaits that: a rejection would end the process.
test('express-rate-limit: what cannot be given back is told, and rejects nothing', async () => {
  let answers = true
  const shaky = new Stint({ addresses: [url], timeoutMs: 20000, fetch: (...args) => (answers ? fetch(...args) : undecided()) })
  const told = []
  for (const options of [{ prefix: 'e:' }, { prefix: 'e:', onError: (error) => told.push(error.code) }]) {
    const store = new StintStore(shaky, options)
    store.init({ windowMs: 3600000 })
    await store.increment('ann')
    answers = false
    await store.decrement('ann')
    answers = true
    assert.ok((await store.get('ann')).totalHits > 0, 'it counts still')
  }
  assert.deepEqual(told, ['internal'])
})

test('express-rate-limit: with a policy a key can be reset', async () => {
  const store = new StintStore(limits, { prefix: 'p:', policy: 'window' })
  store.init({ windowMs: 1 })
  for (let i = 1; i <= 4; i++) assert.equal((await store.increment('ann')).totalHits, i)
  await store.resetKey('ann')
  assert.equal(await store.get('ann'), undefined)
  assert.equal((await store.increment('ann')).totalHits, 1)
  await assert.rejects(new StintStore(limits, { policy: 'hybrid' }).increment('ann'), /2 limits/)
})

test('express-rate-limit: no decision is an error, not a count', async () => {
  const store = new StintStore(nowhere)
  store.init({ windowMs: 60000 })
  await assert.rejects(store.increment('ann'), (e) => e.noDecision)
})
