// What the users of five other limiters write, and what they get here. The names S0 to S4 are only those of the designs.
import assert from 'node:assert/strict'
import test from 'node:test'
import { Stint, clientIP } from '@stint/client'
import { rateLimiter } from '@stint/client/cloudflare'
import { checkLimit, limited, rateLimitKey, rateLimitMiddleware, tooManyRequests } from '@stint/client/fetch'
import { ExactRateLimitStore, adapter } from '@stint/client/stoma'
import { sha256 } from '../key.js'
import { override, startStint, startWithTokens, testClock, undecided } from './server.js'

const url = await startStint()
const limits = new Stint({ addresses: [url], timeoutMs: 20000 })
const nowhere = new Stint({ addresses: ['http://127.0.0.1:1'], fetch: undecided })
const from = (ip, headers = {}) => new Request('http://app.example/', { headers: { 'cf-connecting-ip': ip, ...headers } })

// S0: 100 a minute by address. The window of the test is longer, so that none ends while it runs.
const perIP = checkLimit(limits, { policy: 'per-ip', key: clientIP({ header: 'cf-connecting-ip' }) })

async function worker(request) {
  const result = await perIP(request)
  if (!result.allowed) return tooManyRequests(result)
  return new Response('hello', { headers: { 'x-ratelimit-remaining': String(result.remaining) } })
}

test('S0: the 101st request of an address is denied, and a denial is not counted', async () => {
  for (let i = 1; i <= 100; i++) {
    const response = await worker(from('192.0.2.1'))
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('x-ratelimit-remaining'), String(100 - i))
  }
  for (let again = 0; again < 2; again++) {
    const denied = await worker(from('192.0.2.1'))
    assert.equal(denied.status, 429)
    assert.equal(denied.headers.get('content-type'), 'application/json')
    assert.equal(denied.headers.get('x-ratelimit-limit'), '100')
    assert.equal(denied.headers.get('x-ratelimit-remaining'), '0')
    const wait = Number(denied.headers.get('retry-after'))
    assert.ok(Number.isInteger(wait) && wait >= 1 && wait <= 86400)
    assert.match(denied.headers.get('access-control-expose-headers'), /retry-after.*x-ratelimit-limit.*x-ratelimit-remaining/)
    assert.deepEqual(await denied.json(), { error: 'rate_limited', retryAfter: wait })
  }
  assert.equal((await perIP(from('192.0.2.1'))).count, 100)
  const exact = tooManyRequests(await perIP(from('192.0.2.1')), { error: 'rate_limited' })
  assert.equal(await exact.text(), '{"error":"rate_limited"}')
})

test('S0: two addresses count apart', async () => {
  const first = await perIP(from('192.0.2.2'))
  const second = await perIP(from('192.0.2.3'))
  assert.deepEqual([first.count, second.count], [1, 1])
})

test('S0: when the minute is over the count begins again, and not before', async () => {
  const clocked = await startStint(undefined, '--test-clock')
  const { advance, nextMinute } = testClock(clocked)
  const cluster = new Stint({ addresses: [clocked], timeoutMs: 20000 })
  const check = checkLimit(cluster, { policy: 'per-minute' })
  await nextMinute()
  await cluster.check({ policy: 'per-minute', key: '192.0.2.9', cost: 100 })
  const denied = await check('192.0.2.9')
  assert.equal(denied.allowed, false)
  assert.ok(denied.retryAfterSeconds >= 1 && denied.retryAfterSeconds <= 60)
  await advance(`${denied.retryAfterSeconds}s`)
  const again = await check('192.0.2.9')
  assert.deepEqual([again.allowed, again.count], [true, 1])
})

test('S0: a window that begins with its first hit ends at resetAt', async () => {
  const check = checkLimit(limits, { policy: 'short' })
  await check('rolls over')
  const ends = (await check('rolls over')).decision.limits[0].resetAt
  for (;;) {
    const result = await check('rolls over')
    if (result.decision.limits[0].resetAt.getTime() === ends.getTime()) {
      assert.ok(result.count <= 2)
      continue
    }
    assert.ok(result.allowed && result.count === 1 && result.decision.decidedAt >= ends)
    return
  }
})

test('S0: no address is an error, not a key that all share', async () => {
  await assert.rejects(perIP(new Request('http://app.example/')), (e) => e.code === 'invalid_argument' && !e.maybeApplied)
})

test('S0: allowed answers have the headers too, which the policy asks for', async () => {
  const serve = limited(limits, { policy: 'per-ip', key: clientIP({ header: 'cf-connecting-ip' }), fail: 'closed' }, () => new Response('hello'))
  for (let i = 1; i <= 3; i++) {
    const { headers } = await serve(from('192.0.2.30'))
    assert.deepEqual([headers.get('x-ratelimit-limit'), headers.get('x-ratelimit-remaining')], ['100', String(100 - i)])
    assert.match(headers.get('x-ratelimit-reset'), /^\d{10}$/)
  }
})

test('S0: an app has a namespace and a token of its own', async () => {
  const { url: guarded, grant } = await startWithTokens()
  const appOf = (name, text) => new Stint({ addresses: [guarded], token: grant(name, text), namespace: name, timeoutMs: 20000 })
  const shop = appOf('shop', 'ns=shop ops=check')
  const blog = appOf('blog', 'ns=blog ops=check')
  const entry = { policy: 'window', key: '192.0.2.31' }
  for (let i = 0; i < 3; i++) assert.equal((await shop.check(entry)).allowed, true)
  assert.equal((await shop.check(entry)).allowed, false)
  assert.equal((await blog.check(entry)).limits[0].used, 1, 'the same key of another app counts apart')
  await assert.rejects(blog.check(entry, { namespace: 'shop' }), (e) => e.code === 'permission_denied' && !e.maybeApplied && !e.noDecision)
  await assert.rejects(new Stint({ addresses: [guarded], timeoutMs: 20000 }).check(entry), (e) => e.code === 'unauthenticated')
})

test('S4: the internal tier is for a caller who proves it, and for no header of a client', async () => {
  const { url: guarded, grant } = await startWithTokens()
  const callerOf = (name, text) => new Stint({ addresses: [guarded], token: grant(name, text), timeoutMs: 20000 })
  const service = callerOf('service', 'policy=partner tier=internal ops=check')
  const site = callerOf('site', 'policy=partner ops=check')
  const internal = { policy: 'partner', key: 'acme', tier: 'internal' }
  for (let i = 1; i <= 4; i++) {
    const { allowed, limits: [ever] } = await service.check(internal)
    assert.deepEqual([allowed, ever.unlimited, ever.used], [true, true, i], 'counted, and never denied')
  }
  await assert.rejects(site.check(internal), (e) => e.code === 'permission_denied' && !e.maybeApplied)
  const serve = rateLimitMiddleware({ limits: site, policy: 'partner', fail: 'closed' })
  const statuses = []
  for (let i = 0; i < 3; i++) {
    const request = new Request('http://api.example/', { headers: { 'x-api-key': 'k', 'x-internal': 'true', 'x-tier': 'internal' } })
    statuses.push((await serve(request, {}, {}, async () => new Response('served'))).status)
  }
  assert.deepEqual(statuses, [200, 200, 429])
})

test('S1: minute and hour are one decision, and the limit that denied says why', async () => {
  const check = checkLimit(limits, { policy: 'hybrid' })
  for (let i = 0; i < 3; i++) assert.equal((await check('192.0.2.4')).allowed, true)
  const denied = await check('192.0.2.4')
  assert.deepEqual({ allowed: denied.allowed, reason: denied.reason }, { allowed: false, reason: 'Too many requests per minute' })
  assert.equal(denied.decision.limits[1].used, 3, 'the hour is not charged for what the minute denies')
})

test('S1: a rate limiting binding: limit({key}) -> {success}', async () => {
  const env = { RATE_LIMITER_MINUTE: rateLimiter(limits, { name: 'minute', simple: { limit: 3, period: 86400 } }) }
  const answers = []
  for (let i = 0; i < 5; i++) answers.push((await env.RATE_LIMITER_MINUTE.limit({ key: '192.0.2.5' })).success)
  // A day of UTC can end in between; then more are admitted, and no test of a clock is wanted here.
  assert.deepEqual(answers.slice(0, 3), [true, true, true])
  const policy = rateLimiter(limits, { policy: 'window' })
  const others = []
  for (let i = 0; i < 4; i++) others.push((await policy.limit({ key: '192.0.2.5' })).success)
  assert.deepEqual(others, [true, true, true, false])
  await assert.rejects(policy.limit({ key: '' }), /missing or empty/)
  await assert.rejects(policy.limit({}), /missing or empty/)
  await assert.rejects(rateLimiter(nowhere, { policy: 'window' }).limit({ key: 'k' }), (e) => e.noDecision, 'no decision is no success')
  for (const wrong of [{}, { policy: 'a', simple: { limit: 1, period: 1 } }, { name: 'a' }, { name: 'A b', simple: { limit: 1, period: 1 } }, { name: 'a', simple: { limit: 0, period: 1 } }]) {
    assert.throws(() => rateLimiter(limits, wrong), TypeError)
  }
})

test('S2: a RateLimitStore: the window begins with the first hit, and every hit counts', async () => {
  const { rateLimitStore } = adapter(limits, { prefix: 'test:' })
  assert.ok(rateLimitStore instanceof ExactRateLimitStore)
  const before = Date.now()
  const first = await rateLimitStore.increment('192.0.2.6', 3600)
  assert.equal(first.count, 1)
  assert.ok(Number.isInteger(first.resetAt) && first.resetAt >= before + 3600000 - 1 && first.resetAt <= Date.now() + 3600000 + 1)
  for (let count = 2; count <= 5; count++) assert.deepEqual(await rateLimitStore.increment('192.0.2.6', 3600), { count, resetAt: first.resetAt })
  assert.equal((await rateLimitStore.increment('192.0.2.6', 60)).count, 1, 'another window of the key counts apart')
  assert.equal((await new ExactRateLimitStore(limits).increment('192.0.2.6', 3600)).count, 1, 'so does another prefix')
  await assert.rejects(rateLimitStore.increment('', 60), /missing or empty/)
  await assert.rejects(rateLimitStore.increment('k', 0), TypeError)
})

// createGateway does what Stoma does with an adapter: the rate limit of a pipeline counts in the adapter's store.
function createGateway({ adapter: { rateLimitStore }, rateLimit: { max, windowSeconds } }) {
  return async (request) => {
    const { count, resetAt } = await rateLimitStore.increment(request.headers.get('cf-connecting-ip'), windowSeconds)
    if (count <= max) return new Response('served')
    return new Response('Too many requests', { status: 429, headers: { 'retry-after': String(Math.ceil((resetAt - Date.now()) / 1000)) } })
  }
}

test('S2: the adapter is the one line that changes', async () => {
  const gateway = createGateway({
    adapter: adapter(limits, { prefix: 'gateway:' }),
    rateLimit: { max: 3, windowSeconds: 3600 },
  })
  const answers = await Promise.all(Array.from({ length: 20 }, () => gateway(from('192.0.2.32'))))
  assert.equal(answers.filter((r) => r.status === 200).length, 3, 'together, too')
  assert.equal((await gateway(from('192.0.2.33'))).status, 200)
})

test('S2: a store of one\'s own, for the format of keys, for logs and metrics', async () => {
  const log = []
  class AuditedStore extends ExactRateLimitStore {
    async increment(key, windowSeconds) {
      const hit = await super.increment(`tenant-1/${key}`, windowSeconds)
      log.push(`${key} ${hit.count}`)
      return hit
    }
  }
  const gateway = createGateway({ adapter: { rateLimitStore: new AuditedStore(limits, { prefix: 'v2:' }) }, rateLimit: { max: 1, windowSeconds: 3600 } })
  assert.deepEqual([(await gateway(from('192.0.2.34'))).status, (await gateway(from('192.0.2.34'))).status], [200, 429])
  assert.deepEqual(log, ['192.0.2.34 1', '192.0.2.34 2'])
})

test('S2: at resetAt a new window begins', async () => {
  const store = new ExactRateLimitStore(limits)
  const { resetAt } = await store.increment('192.0.2.7', 0.3)
  for (let count = 2; ; count++) {
    const next = await store.increment('192.0.2.7', 0.3)
    if (next.resetAt === resetAt) {
      assert.equal(next.count, count)
      continue
    }
    assert.equal(next.count, 1)
    assert.ok(next.resetAt - resetAt >= 300, 'the next window begins when the first is over')
    return
  }
})

test('S3: user before API key before address', async () => {
  const key = rateLimitKey({
    user: (request) => request.headers.get('x-test-verified-sub'),
    apiKey: (request) => request.headers.get('x-api-key'),
    ip: clientIP({ header: 'cf-connecting-ip' }),
  })
  assert.equal(await key(from('192.0.2.8', { 'x-test-verified-sub': '42', 'x-api-key': 'k' })), 'user:42')
  assert.equal(await key(from('192.0.2.8', { 'x-api-key': 'k' })), `key:${sha256('k')}`)
  assert.equal(await key(from('192.0.2.8')), 'ip:192.0.2.8')
  assert.equal(await key(new Request('http://app.example/')), undefined)
  const check = checkLimit(limits, { policy: 'window', key })
  const { allowed, retryAfterSeconds, limit } = await check(from('192.0.2.8'))
  assert.deepEqual({ allowed, retryAfterSeconds, limit }, { allowed: true, retryAfterSeconds: 0, limit: 3 })
  assert.equal((await check('ip:192.0.2.8')).count, 2, 'two requests of one client are one counter')
})

test('S3: the left-most address counts if the ingress has reset the header, and only then', () => {
  const ip = clientIP({ trustedProxies: ['10.0.0.0/8'] })
  const seen = (xff) => ip({ socket: { remoteAddress: '10.0.0.3' }, headers: { 'x-forwarded-for': xff } })
  assert.equal(seen('192.0.2.40, 10.0.0.1, 10.0.0.2'), 'ip:192.0.2.40')
  assert.equal(seen('203.0.113.9, 192.0.2.40, 10.0.0.1, 10.0.0.2'), 'ip:192.0.2.40', 'an ingress that appends leaves the client what it made up')
})

test('S3: the key that a request counts under is in the answer', async () => {
  const key = rateLimitKey({ ip: clientIP({ header: 'cf-connecting-ip' }) })
  const check = checkLimit(limits, { policy: 'window', key })
  for (const headers of [{}, { 'user-agent': 'other', 'x-forwarded-for': '198.51.100.1' }]) {
    const { decision } = await check(from('192.0.2.41', headers))
    assert.equal(decision.limits[0].key, 'ip:192.0.2.41')
  }
  const [counter] = await limits.get({ policy: 'window', key: 'ip:192.0.2.41' })
  assert.deepEqual([counter.key, counter.used], ['ip:192.0.2.41', 2], 'one counter')
})

const apiKey = (secret) => new Request('http://api.example/v1/trials', { headers: secret ? { 'x-api-key': secret } : {} })

test('S4: burst and day by plan, in one decision', async () => {
  await override(url, 'plan', `key:${sha256('vendor-key')}`, 'free')
  await override(url, 'plan', `key:${sha256('tiny-key')}`, 'tiny')
  let calls = 0
  const next = async () => { calls++; return Response.json({ ok: true }) }
  const serve = rateLimitMiddleware({ limits: (env) => env.LIMITS, policy: 'plan', fail: 'closed' })
  const env = { LIMITS: limits }
  for (let i = 1; i <= 5; i++) {
    const response = await serve(apiKey('vendor-key'), env, {}, next)
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('x-quota-used'), String(i))
    assert.equal(response.headers.get('x-quota-limit'), '200')
    assert.match(response.headers.get('x-quota-reset'), /^\d{10}$/)
    assert.equal(response.headers.get('x-ratelimit-remaining'), String(5 - i))
    assert.match(response.headers.get('access-control-expose-headers'), /X-RateLimit-Remaining/)
  }
  const burst = await serve(apiKey('vendor-key'), env, {}, next)
  assert.deepEqual([burst.status, await burst.text()], [429, 'Too Many Requests'])
  assert.ok(Number(burst.headers.get('retry-after')) >= 1)
  assert.equal(burst.headers.get('x-quota-used'), '5', 'a denial spends nothing of the day')
  for (let i = 0; i < 2; i++) assert.equal((await serve(apiKey('tiny-key'), env, {}, next)).status, 200)
  const daily = await serve(apiKey('tiny-key'), env, {}, next)
  assert.deepEqual([daily.status, await daily.text()], [429, 'Daily Quota Exceeded'])
  assert.ok(Number(daily.headers.get('retry-after')) > 60)
  const missing = await serve(apiKey(), env, {}, next)
  assert.deepEqual([missing.status, await missing.text()], [401, 'Unauthorized'])
  const invented = await serve(apiKey('invented'), env, {}, next)
  assert.deepEqual([invented.status, await invented.text()], [403, 'Invalid API key'])
  assert.equal(calls, 7)
})

test('S4: without a decision the fail mode decides, and it must be said', async () => {
  const errors = []
  const next = async () => new Response('served')
  const options = { limits: nowhere, policy: 'plan', onError: (e) => errors.push(e.code) }
  const closed = await rateLimitMiddleware({ ...options, fail: 'closed' })(apiKey('k'), {}, {}, next)
  assert.deepEqual([closed.status, closed.headers.get('retry-after')], [503, '1'])
  assert.equal(closed.headers.get('access-control-expose-headers'), 'Retry-After')
  const open = await rateLimitMiddleware({ ...options, fail: 'open' })(apiKey('k'), {}, {}, next)
  assert.deepEqual([open.status, open.headers.get('stint-failed')], [200, 'open'])
  assert.deepEqual(errors, ['internal', 'internal'])
  assert.throws(() => rateLimitMiddleware(options), /fail/)
  await assert.rejects(rateLimitMiddleware({ limits, policy: 'nope', fail: 'open' })(apiKey('k'), {}, {}, next), (e) => e.code === 'not_found')
})
