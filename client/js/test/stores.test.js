// Stores and limiters in the shapes of other packages, which Debian does not have: the tests do what these packages do with them.
import assert from 'node:assert/strict'
import test from 'node:test'
import { Stint } from '@stint/client'
import { fastifyStore } from '@stint/client/fastify'
import { checkLimit } from '@stint/client/fetch'
import { StintThrottlerStorage } from '@stint/client/nestjs'
import { rateLimiterStint } from '@stint/client/rate-limiter-flexible'
import { Ratelimit } from '@stint/client/upstash'
import { startStint, testClock, undecided } from './server.js'

const url = await startStint(undefined, '--test-clock')
const { advance, nextMinute } = testClock(url)
const limits = new Stint({ addresses: [url], timeoutMs: 20000 })
const nowhere = new Stint({ addresses: ['http://127.0.0.1:1'], fetch: undecided })

// ask does what @fastify/rate-limit 11 does for a request: it makes one call of the store, and compares.
async function ask(store, key, { max = 3, timeWindow = 3600000, method = 'incr' } = {}) {
  const { current, ttl } = await new Promise((resolve, reject) => {
    store[method](key, (error, result) => (error ? reject(error) : resolve(result)), timeWindow, max)
  })
  return { remaining: Math.max(0, max - current), ttl, exceeded: current > max, current }
}

test('Fastify: every hit counts, in a window that begins with the first', async () => {
  const Store = fastifyStore(limits, { prefix: 'a:' })
  const store = new Store({ timeWindow: 3600000, max: 3 })
  const first = await ask(store, '192.0.2.1')
  assert.deepEqual([first.remaining, first.ttl, first.exceeded], [2, 3600000, false])
  await advance('600s')
  const all = await Promise.all(Array.from({ length: 9 }, () => ask(store, '192.0.2.1')))
  assert.equal(all.filter((a) => !a.exceeded).length, 2, 'three in all')
  assert.ok(all.every(({ ttl }) => ttl > 0 && ttl <= 3000000))
  for (let again = 0; again < 2; again++) assert.equal((await ask(store, '192.0.2.1', { method: 'read' })).current, 10, 'to read counts nothing')
  await advance('3000s')
  assert.deepEqual(await ask(store, '192.0.2.1', { method: 'read' }), { remaining: 3, ttl: 0, exceeded: false, current: 0 })
  assert.equal((await ask(store, '192.0.2.1')).current, 1)
})

test('Fastify: a route counts apart, and so does another window', async () => {
  const store = new (fastifyStore(limits, { prefix: 'b:' }))({ timeWindow: 60000 })
  const login = store.child({ timeWindow: 3600000, routeInfo: { method: 'POST', url: '/login' } })
  const search = store.child({ timeWindow: 3600000, routeInfo: { method: ['GET', 'HEAD'], url: '/search' } })
  const counts = []
  for (const one of [store, login, login, search]) counts.push((await ask(one, 'ann')).current)
  assert.deepEqual(counts, [1, 1, 2, 1])
  assert.equal((await ask(login, 'ann', { timeWindow: 60000 })).current, 1)
  assert.equal((await ask(new (fastifyStore(limits, { prefix: 'b:' }))({ timeWindow: 3600000 }), 'ann')).current, 2, 'another process goes on')
})

test('Fastify: a policy, whose window is its own', async () => {
  const store = new (fastifyStore(limits, { policy: 'window' }))({ timeWindow: 1 })
  for (let i = 1; i <= 5; i++) assert.equal((await ask(store, 'fastify')).current, i)
  await assert.rejects(ask(new (fastifyStore(limits, { policy: 'hybrid' }))({}), 'ann'), /2 limits/)
})

test('Fastify: no decision is 503, or passes if the program says so; a mistake never passes', async () => {
  const errors = []
  const onError = (error) => errors.push(error.code)
  const closed = new (fastifyStore(nowhere, { onError }))({ timeWindow: 60000 })
  await assert.rejects(ask(closed, 'ann'), (error) => error.statusCode === 503 && error.cause.noDecision && !/cannot decide/.test(error.message))
  const open = new (fastifyStore(nowhere, { onError, fail: 'open' }))({ timeWindow: 60000 })
  assert.equal((await ask(open, 'ann')).exceeded, false)
  assert.deepEqual(errors, ['internal', 'internal'])
  const throws = new (fastifyStore(nowhere, { onError: () => { throw new Error('of the program') } }))({ timeWindow: 60000 })
  await assert.rejects(ask(throws, 'ann'), /of the program/)
  const wrong = new (fastifyStore(limits, { policy: 'nope', fail: 'open' }))({})
  await assert.rejects(ask(wrong, 'ann'), (error) => error.code === 'not_found' && error.statusCode === undefined)
  const Store = fastifyStore(limits)
  for (const key of ['', undefined]) await assert.rejects(ask(new Store({ timeWindow: 1000 }), key), /missing or empty/)
  await assert.rejects(ask(new Store({ timeWindow: 1.5 }), 'ann', { timeWindow: 1.5 }), /timeWindow/)
  for (const option of ['skipOnError', 'continueExceeding', 'exponentialBackoff']) {
    assert.throws(() => new Store({ timeWindow: 1000, [option]: true }), new RegExp(option))
    assert.throws(() => new Store({ timeWindow: 1000 }).child({ [option]: true }), new RegExp(option))
  }
  assert.throws(() => fastifyStore(limits, { fail: 'maybe' }), /fail/)
})

test('Upstash: fixed windows begin with the clock', async () => {
  const limiter = new Ratelimit({ limits, limiter: Ratelimit.fixedWindow(3, '1 m') })
  const begins = await nextMinute()
  const answers = []
  for (let i = 0; i < 4; i++) answers.push(await limiter.limit('ann'))
  assert.deepEqual(answers.map((a) => [a.success, a.limit, a.remaining]), [[true, 3, 2], [true, 3, 1], [true, 3, 0], [false, 3, 0]])
  const { reset, reason, pending } = answers[3]
  assert.ok(Math.abs(reset - begins - 60000) <= 1, `${reset} is when the next minute begins, ${begins + 60000}`)
  assert.equal(reason, undefined)
  await pending
  assert.equal((await limiter.limit('bob')).remaining, 2)
  await advance('60s')
  assert.equal((await limiter.limit('ann')).success, true)
})

test('Upstash: sliding windows and buckets, and several at a time', async () => {
  const sliding = new Ratelimit({ limits, limiter: Ratelimit.slidingWindow(10, '1m') })
  await nextMinute()
  assert.deepEqual([(await sliding.limit('ann', { rate: 8 })).remaining, (await sliding.limit('ann', { rate: 3 })).success], [2, false])
  await advance('75s') // a quarter of the next minute: three quarters of the last one count
  const { remaining } = await sliding.getRemaining('ann')
  assert.ok(remaining >= 4 && remaining <= 5, `${remaining} are left`)
  const bucket = new Ratelimit({ limits, limiter: Ratelimit.tokenBucket(1, '10 s', 5) })
  assert.equal((await bucket.limit('ann', { rate: 5 })).remaining, 0)
  const denied = await bucket.limit('ann')
  assert.equal(denied.success, false)
  assert.ok(denied.reset > denied.decision.decidedAt.getTime() && denied.reset <= denied.decision.decidedAt.getTime() + 10000)
  await advance('10s')
  assert.equal((await bucket.limit('ann')).success, true)
  assert.equal((await bucket.limit('ann', { rate: 6 })).reset, 0, 'more than the bucket holds: no wait helps')
  await assert.rejects(bucket.limit('ann', { rate: -1 }), /cost/)
})

test('Upstash: to wait until a request may pass', async () => {
  const limiter = new Ratelimit({ limits, limiter: Ratelimit.tokenBucket(1, '100ms', 1) })
  assert.equal((await limiter.limit('waits')).success, true)
  assert.equal((await limiter.blockUntilReady('waits', 60000)).success, true)
  const slow = new Ratelimit({ limits, policy: 'window' })
  for (let i = 0; i < 3; i++) await slow.limit('waits')
  assert.equal((await slow.blockUntilReady('waits', 20)).success, false)
  const never = new Ratelimit({ limits, policy: 'five' })
  for (let i = 0; i < 5; i++) await never.limit('waits')
  assert.equal((await never.blockUntilReady('waits', 1e9)).success, false, 'nothing ever comes back: it does not wait')
  await assert.rejects(never.blockUntilReady('waits', 0), /timeout/)
})

test('a key without room passes no store that opens', async () => {
  const store = new (fastifyStore(limits, { policy: 'few', fail: 'open' }))({})
  const limiter = new Ratelimit({ limits, policy: 'few', fail: 'open' })
  const errors = []
  for (let i = 0; i < 2; i++) {
    await ask(store, `room ${i}`).catch((error) => errors.push(error.statusCode))
    await limiter.limit(`room ${i}`).catch((error) => errors.push(error.noRoom && !error.noDecision))
  }
  assert.deepEqual([...new Set(errors)].sort(), [503, true])
})

test('Upstash: a policy can be reset, and the prefix keeps limiters apart', async () => {
  const limiter = new Ratelimit({ limits, policy: 'window', prefix: 'app' })
  for (let i = 2; i >= 0; i--) assert.equal((await limiter.limit('ann')).remaining, i)
  assert.equal((await limits.get({ policy: 'window', key: 'app:ann' }))[0].used, 3)
  assert.equal((await new Ratelimit({ limits, policy: 'window' }).limit('ann')).remaining, 2)
  await limiter.resetUsedTokens('ann')
  const { remaining, limit } = await limiter.getRemaining('ann')
  assert.deepEqual([remaining, limit], [3, 3])
  await assert.rejects(new Ratelimit({ limits, limiter: Ratelimit.fixedWindow(1, '1s') }).resetUsedTokens('ann'), /policy/)
})

test('Upstash: no decision is an error, or a success with a reason if the program says so', async () => {
  const errors = []
  const options = { limits: nowhere, limiter: Ratelimit.slidingWindow(10, '10 s'), onError: (error) => errors.push(error.code) }
  await assert.rejects(new Ratelimit(options).limit('ann'), (error) => error.noDecision)
  const open = await new Ratelimit({ ...options, fail: 'open' }).limit('ann')
  assert.deepEqual([open.success, open.reason], [true, 'timeout'])
  assert.deepEqual(errors, ['internal', 'internal'])
  await assert.rejects(new Ratelimit({ limits, policy: 'nope', fail: 'open' }).limit('ann'), (error) => error.code === 'not_found')
  await assert.rejects(new Ratelimit({ limits, policy: 'five' }).limit(''), /missing or empty/)
  const limiter = Ratelimit.fixedWindow(1, '1 s')
  for (const wrong of [{}, { limits }, { limits, limiter, policy: 'five' }, { limiter }, { limits, limiter, fail: 'maybe' },
    { limits, limiter, enableProtection: true }, { limits, limiter, redis: {} }]) {
    assert.throws(() => new Ratelimit(wrong), /Ratelimit: /, JSON.stringify(wrong))
  }
  for (const wrong of ['10', '0 s', '1.5 s', '1 week', '', undefined]) assert.throws(() => Ratelimit.fixedWindow(1, wrong), /duration/)
  for (const wrong of [0, -1, 1.5, '1']) assert.throws(() => Ratelimit.slidingWindow(wrong, '1 s'), /whole number/)
})

// guard does what the ThrottlerGuard of @nestjs/throttler 6 does with its storage.
async function guard(storage, key, { ttl = 60000, limit = 3, blockDuration = ttl } = {}) {
  const { totalHits, timeToExpire, isBlocked, timeToBlockExpire } = await storage.increment(key, ttl, limit, blockDuration, 'default')
  return isBlocked ? { status: 429, retryAfter: timeToBlockExpire } : { status: 200, remaining: Math.max(0, limit - totalHits), reset: timeToExpire }
}

test('NestJS: the limit passes in each window, and no more', async () => {
  const storage = new StintThrottlerStorage(limits)
  assert.deepEqual(await guard(storage, 'a'), { status: 200, remaining: 2, reset: 60 })
  const all = await Promise.all(Array.from({ length: 9 }, () => guard(storage, 'a')))
  assert.equal(all.filter(({ status }) => status === 200).length, 2)
  assert.ok(all.every(({ status, retryAfter }) => status === 200 || retryAfter > 0 && retryAfter <= 60))
  await advance('60s')
  assert.equal((await guard(storage, 'a')).remaining, 2)
  assert.equal((await guard(storage, 'a', { ttl: 5000 })).remaining, 2, 'another window counts apart')
  const ofPolicy = new StintThrottlerStorage(limits, { policy: 'five', prefix: 'nest:' })
  for (let i = 4; i >= 0; i--) assert.equal((await guard(ofPolicy, 'a', { limit: 5, blockDuration: 1 })).remaining, i)
  assert.deepEqual(await guard(ofPolicy, 'a'), { status: 429, retryAfter: 31536000 }, 'what never comes back')
  await assert.rejects(guard(storage, 'a', { blockDuration: 1 }), /lockout/)
  await assert.rejects(guard(storage, ''), /missing or empty/)
  await assert.rejects(guard(new StintThrottlerStorage(nowhere), 'a'), (error) => error.noDecision)
})

// What rate-limiter-flexible 11 has: a class that throws for what a limiter lacks, and an answer.
class RateLimiterCompatibleAbstract {
  get keyPrefix() { throw new Error('keyPrefix') }
  get blockDuration() { throw new Error('blockDuration') }
  get execEvenly() { throw new Error('execEvenly') }
  block() { throw new Error("You have to implement the method 'block'!") }
}
class RateLimiterRes {
  constructor(remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration) {
    Object.assign(this, { remainingPoints, msBeforeNext, consumedPoints, isFirstInDuration })
  }
}

test('rate-limiter-flexible: points pass, and a denial rejects with where the key stands', async () => {
  const RateLimiterStint = rateLimiterStint({ RateLimiterCompatibleAbstract, RateLimiterRes })
  const limiter = new RateLimiterStint({ limits, points: 3, duration: 60, keyPrefix: 'login' })
  assert.ok(limiter instanceof RateLimiterCompatibleAbstract)
  assert.deepEqual([limiter.keyPrefix, limiter.blockDuration, limiter.execEvenly], ['login', 0, false])
  assert.equal(await limiter.get('ann'), null)
  const near = (res, ...want) => {
    assert.ok(res instanceof RateLimiterRes)
    assert.ok(res.msBeforeNext > 50000 && res.msBeforeNext <= 60000, `wait ${res.msBeforeNext}`)
    assert.deepEqual([res.remainingPoints, res.consumedPoints, res.isFirstInDuration], want)
  }
  near(await limiter.consume('ann', 2), 1, 2, true)
  near(await limiter.consume('ann'), 0, 3, false)
  near(await limiter.get('ann'), 0, 3, false)
  near(await limiter.consume('ann').catch((res) => res), 0, 4, false)
  near(await limiter.get('ann'), 0, 3, false)
  near(await limiter.penalty('ann', 2), 0, 5, false)
  const all = await Promise.allSettled(Array.from({ length: 9 }, () => limiter.consume('ben')))
  assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 3)
  await assert.rejects(limiter.delete('ann'), /policy/)
  assert.throws(() => limiter.block('ann'), /block/)
  const ofPolicy = new RateLimiterStint({ limits, policy: 'five' })
  for (let i = 0; i < 5; i++) await ofPolicy.consume('flexible')
  assert.deepEqual(await ofPolicy.consume('flexible').catch((res) => res.msBeforeNext), -1, 'what never comes back')
  assert.equal(await ofPolicy.delete('flexible'), true)
  assert.equal((await ofPolicy.consume('flexible')).consumedPoints, 1)
  await assert.rejects(new RateLimiterStint({ limits: nowhere, policy: 'five' }).consume('ann'), (error) => error.noDecision)
  for (const wrong of [{ limits }, { limits, points: 1.5, duration: 1 }, { limits, points: 1 }, { limits, policy: 'five', execEvenly: true }]) {
    assert.throws(() => new RateLimiterStint(wrong), /RateLimiterStint: /)
  }
})

test('a key that is blocked has nothing left, whatever its limits have', async () => {
  const body = { policy: 'five', key: 'blocked:ann', blockUntil: new Date(await advance('0s') + 86400000) }
  const { status } = await fetch(`${url}/stint.v1.LimitService/Adjust`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  assert.equal(status, 200)
  const checked = await checkLimit(limits, { policy: 'five' })('blocked:ann')
  assert.deepEqual([checked.allowed, checked.limit, checked.remaining, checked.decision.limits[0].remaining], [false, 5, 0, 5])
  const upstash = new Ratelimit({ limits, policy: 'five', prefix: 'blocked' })
  for (const standing of [await upstash.limit('ann'), await upstash.getRemaining('ann')]) assert.deepEqual([standing.limit, standing.remaining], [5, 0])
  const RateLimiterStint = rateLimiterStint({ RateLimiterCompatibleAbstract, RateLimiterRes })
  const flexible = new RateLimiterStint({ limits, policy: 'five', keyPrefix: 'blocked' })
  assert.equal(await flexible.consume('ann').catch((res) => res.remainingPoints), 0)
  assert.equal((await checkLimit(limits, { policy: 'five' })('free')).remaining, 4)
})
