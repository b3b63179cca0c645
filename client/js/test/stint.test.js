import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import crypto from 'node:crypto'
import http from 'node:http'
import test from 'node:test'
import { Stint, StintError, clientIP, safeKey } from '@stint/client'
import { sha256 } from '../key.js'
import { listen, proxy, refusedPort, startSecure, startStint } from './server.js'

const url = await startStint()
const limits = new Stint({ addresses: [url], timeoutMs: 20000 })

// firstAt makes a client that begins at the first of its addresses.
function firstAt(addresses, options = {}) {
  const random = Math.random
  Math.random = () => 0
  try {
    return new Stint({ addresses, timeoutMs: 20000, ...options })
  } finally {
    Math.random = random
  }
}

const used = async (policy, key) => (await limits.get({ policy, key }))[0].used

test('a call has a bound of its own', async () => {
  let within
  const fetch = async (_, { headers }) => {
    within = headers['connect-timeout-ms']
    return new Response('{"code":"internal","message":"cannot decide","details":[{"type":"stint.v1.Failure","value":""}]}', { status: 500 })
  }
  for (const [timeoutMs, want] of [[undefined, '5000'], [700, '700']]) {
    await assert.rejects(new Stint({ addresses: [url], timeoutMs, fetch }).check({ policy: 'five', key: 'bound' }), StintError)
    assert.equal(within, want)
  }
})

test('a check counts, and a denial is a decision with its wait', async () => {
  for (let i = 1; i <= 5; i++) {
    const d = await limits.check({ policy: 'five', key: 'counts' })
    assert.equal(d.allowed, true)
    assert.equal(d.limits[0].used, i)
    assert.equal(d.limits[0].remaining, 5 - i)
    assert.ok(d.decidedAt instanceof Date && d.decisionId !== '')
  }
  const denied = await limits.check({ policy: 'five', key: 'counts' })
  assert.equal(denied.allowed, false)
  assert.deepEqual(denied.deniedBy, ['five/ever'])
  assert.equal(denied.retryAfterMs, undefined, 'no wait helps')
  for (let i = 0; i < 3; i++) await limits.check({ policy: 'window', key: 'counts' })
  const later = await limits.check({ policy: 'window', key: 'counts' })
  assert.ok(later.retryAfterMs > 0 && later.retryAfterMs <= 86400000)
  assert.equal(later.retryAfterSeconds, Math.ceil(later.retryAfterMs / 1000))
  assert.equal(later.headers['Retry-After'], String(later.retryAfterSeconds))
})

test('an answer that is no object is no answer', async () => {
  for (const body of ['null', '5', '"ok"', '[]', '<html>']) {
    const stranger = new Stint({ addresses: [url], timeoutMs: 1, fetch: async () => new Response(body) })
    const entry = { policy: 'five', key: 'stranger' }
    for (const ask of [() => stranger.check(entry), () => stranger.checkBatch([entry]), () => stranger.get(entry), () => stranger.forget(entry)]) {
      await assert.rejects(ask(), (error) => error instanceof StintError && error.maybeApplied && error.noDecision, body)
    }
  }
})

test('two entries are all or nothing', async () => {
  const entries = [{ policy: 'window', key: 'both' }, { policy: 'many', key: 'both', cost: 7 }]
  for (let i = 0; i < 3; i++) assert.equal((await limits.check(entries)).allowed, true)
  assert.equal((await limits.check(entries)).allowed, false)
  assert.equal(await used('many', 'both'), 21)
})

test('an answer that got lost is asked for again at the next address, and counts once', async (t) => {
  const lossy = await proxy(t, url, () => 'drop')
  const client = firstAt([lossy.url, url])
  const d = await client.check({ policy: 'many', key: 'lost' })
  assert.equal(d.allowed, true)
  assert.equal(d.replayed, true)
  assert.equal(lossy.seen.length, 1)
  assert.match(lossy.seen[0].body.idempotencyId, /^[0-9a-f-]{36}$/)
  assert.equal(await used('many', 'lost'), 1)
})

test('a node that never answers costs its share of the time, and counts once', async (t) => {
  const silent = await proxy(t, url, () => 'hang')
  const client = firstAt([silent.url, url], { timeoutMs: 4000 })
  const d = await client.check({ policy: 'many', key: 'hangs' })
  assert.equal(d.replayed, true)
  assert.equal(await used('many', 'hangs'), 1)
})

test('a fetch that hears no signal does not hold the caller', async () => {
  const client = firstAt(['http://127.0.0.1:1', url], { timeoutMs: 4000, fetch: (input, init) => (input.includes(':1/') ? new Promise(() => {}) : fetch(input, init)) })
  assert.equal((await client.check({ policy: 'many', key: 'deaf' })).allowed, true)
})

test('without an id a request that may have been counted is not repeated', async (t) => {
  const lossy = await proxy(t, url, () => 'drop')
  const client = firstAt([lossy.url, url])
  await assert.rejects(client.check({ policy: 'many', key: 'no id' }, { idempotencyId: null }),
    (e) => e instanceof StintError && e.code === 'aborted' && e.maybeApplied && e.noDecision)
  assert.equal(lossy.seen[0].body.idempotencyId, '')
  assert.equal(await used('many', 'no id'), 1)
})

test('an address at which nobody listens is certainly not counted, with an id or without', async () => {
  const refused = await refusedPort()
  assert.equal((await firstAt([refused, url]).check({ policy: 'many', key: 'refused' }, { idempotencyId: null })).allowed, true)
  await assert.rejects(firstAt([refused], { timeoutMs: 3000 }).check({ policy: 'many', key: 'refused' }),
    (e) => e.code === 'unavailable' && !e.maybeApplied && e.message.includes(refused))
  assert.equal(await used('many', 'refused'), 1)
})

test('a wrong request is refused once and names the field', async (t) => {
  const seen = await proxy(t, url, () => 'answer')
  const client = firstAt([seen.url])
  await assert.rejects(client.check({ policy: 'nope', key: 'k' }), (e) => e.code === 'not_found' && !e.noDecision && !e.unknownKey && /entries\[0\]\.policy/.test(e.message))
  await assert.rejects(client.check({ policy: 'known', key: 'k' }), (e) => e.unknownKey)
  assert.equal(seen.seen.length, 2)
  for (const key of ['', undefined, null, 7]) {
    await assert.rejects(client.check({ policy: 'five', key }), (e) => e.code === 'invalid_argument' && /entries\[0\]\.key/.test(e.message))
  }
  for (const cost of [-1, 1.5, NaN]) await assert.rejects(client.check({ policy: 'five', key: 'k', cost }), /cost/)
  for (const timeoutMs of [0, NaN, Infinity, 2 ** 31, '5']) {
    await assert.rejects(client.check({ policy: 'five', key: 'k' }, { timeoutMs }), /timeoutMs/)
    assert.throws(() => new Stint({ addresses: [url], timeoutMs }), /timeoutMs/)
  }
  await assert.rejects(client.check([]), /entries/)
  assert.equal(seen.seen.length, 2, 'nothing of that is sent')
})

test('the caller can give up', { timeout: 60000 }, async (t) => {
  const silent = await proxy(t, url, () => 'hang')
  const stop = new AbortController()
  const call = firstAt([silent.url], { timeoutMs: 1e9 }).check({ policy: 'many', key: 'gives up' }, { signal: stop.signal })
  while (silent.seen.length === 0) await new Promise((done) => setTimeout(done, 5))
  stop.abort()
  await assert.rejects(call, (e) => e.maybeApplied && e.noDecision)
  await assert.rejects(limits.check({ policy: 'many', key: 'gives up' }, { signal: stop.signal }), (e) => e.code === 'canceled' && !e.maybeApplied)
})

test('a hold is settled once; a decision is given back once', async () => {
  const hold = await limits.reserve({ policy: 'login', key: 'ann' }, { ttlMs: 30000 })
  assert.ok(hold.allowed && hold.holdId !== '' && hold.holdExpiresAt > hold.decidedAt)
  assert.ok((await limits.settle(hold, { extend: { ttlMs: 60000 } })).holdExpiresAt > hold.holdExpiresAt)
  await limits.settle(hold, 'success')
  await limits.settle(hold, 'success')
  await assert.rejects(limits.settle(hold, 'failed'), (e) => e.code === 'failed_precondition')
  for (let i = 0; i < 3; i++) await limits.settle(await limits.reserve({ policy: 'login', key: 'bob' }), 'failed')
  const blocked = await limits.reserve({ policy: 'login', key: 'bob' })
  assert.ok(!blocked.allowed && blocked.reason === 'Too many attempts.')
  await assert.rejects(limits.settle(blocked, 'failed'), /a denial has nothing to settle/)
  const d = await limits.check({ policy: 'many', key: 'refund', cost: 10 })
  await limits.settle(d, { commit: { actualCost: [4] } })
  assert.equal(await used('many', 'refund'), 4)
})

test('overrides, and what is forgotten', async () => {
  const key = { policy: 'five', key: 'js acme' }
  await limits.putOverride({ ...key, limits: { ever: { quota: 7 } }, expiresAt: new Date('2999-01-01T00:00:00Z'), note: 'by a test' })
  assert.equal((await limits.check({ ...key, cost: 7 })).allowed, true)
  assert.equal((await limits.get(key))[0].quota, 7)
  assert.deepEqual([await limits.deleteOverride(key), await limits.deleteOverride(key)], [true, false])
  assert.deepEqual([(await limits.get(key))[0].quota, await used('five', 'js acme')], [5, 7])
  await limits.forget({ key: 'js acme', note: 'by a test' })
  assert.equal(await used('five', 'js acme'), 0)
  await assert.rejects(limits.putOverride({ policy: 'nope', key: 'k', tier: 'large' }), (e) => e.code === 'not_found')
  await assert.rejects(limits.putOverride({ policy: 'five', key: '' }), /key/)
})

test('bills, and their corrections', async (t) => {
  const key = { policy: 'billed', key: 'js billed' }
  await limits.check({ ...key, cost: 7 })
  const corrected = await limits.correctUsage({ ...key, units: -2, note: 'by a test' })
  const { records, nextPageToken, completeThrough, unreadable } = await limits.listUsage(key)
  assert.deepEqual([records, nextPageToken, unreadable], [[corrected], '', []])
  assert.ok(corrected.start <= completeThrough)
  const { meter, state, units, credits, corrections } = corrected
  assert.deepEqual([meter, corrected.key, state, units, credits, corrections], ['calls', 'js billed', 'open', 7, 0, -2])
  const nobody = { policy: 'billed', key: 'js nobody', units: 1, note: 'by a test' }
  await assert.rejects(limits.correctUsage(nobody), (e) => e.code === 'failed_precondition')
  assert.equal((await limits.correctUsage({ ...nobody, isNew: true })).corrections, 1)
  await assert.rejects(limits.correctUsage({ ...nobody, units: 0.5 }), /units/)
  const lossy = await proxy(t, url, () => 'drop')
  await firstAt([lossy.url, url]).correctUsage({ ...key, units: 5, note: 'by a test' })
  assert.equal(lossy.seen[0].body.idempotencyId.length, 36)
  assert.equal((await limits.listUsage(key)).records[0].corrections, 3)
})

test('a reservation whose answer got lost is repeated and holds once', async (t) => {
  const lossy = await proxy(t, url, () => 'drop')
  const hold = await firstAt([lossy.url, url]).reserve({ policy: 'many', key: 'reserve lost' })
  assert.equal(lossy.seen[0].body.check.idempotencyId.length, 36)
  assert.equal((await limits.get({ policy: 'many', key: 'reserve lost' }))[0].held, 1)
  const lossy2 = await proxy(t, url, () => 'drop')
  await firstAt([lossy2.url, url]).settle(hold, 'commit')
  assert.equal(await used('many', 'reserve lost'), 1)
})

test('64 callers get exactly 5 of 5', async () => {
  const all = await Promise.all(Array.from({ length: 64 }, () => limits.check({ policy: 'five', key: 'crowd' })))
  assert.equal(all.filter((d) => d.allowed).length, 5)
})

test('a token goes to https and to this machine only', async (t) => {
  const token = 'stint_x_y'
  for (const address of ['http://192.0.2.1:7400', 'http://node.example.com', 'http://localhost.example.com', 'http://notlocalhost', 'http://[2001:db8::1]:7400', 'http://0.0.0.0:7400']) {
    assert.throws(() => new Stint({ addresses: [url, address], token }), /not sent in the clear/)
    new Stint({ addresses: [address] }) // without one
  }
  for (const address of ['https://node.example.com', 'http://localhost:7400', 'http://127.1.2.3', 'http://[::1]:7400', 'http://[::ffff:127.0.0.1]:7400']) {
    new Stint({ addresses: [address], token })
  }
  const seen = await proxy(t, url, () => 'answer')
  await firstAt([seen.url], { token }).check({ policy: 'many', key: 'token' })
  assert.equal(seen.seen[0].headers.authorization, 'Bearer stint_x_y')
  await firstAt([seen.url]).check({ policy: 'many', key: 'token' })
  assert.equal(seen.seen[1].headers.authorization, undefined)
})

test('a redirect is not followed: the token stays here', async (t) => {
  let elsewhere = 0
  const other = await listen(t, http.createServer((req, res) => { elsewhere++; res.end('{}') }))
  const here = await listen(t, http.createServer((req, res) => res.writeHead(307, { location: other }).end()))
  await assert.rejects(firstAt([here], { timeoutMs: 200, token: 'stint_x_y' }).check({ policy: 'many', key: 'redirect' }), (e) => e.maybeApplied)
  assert.equal(elsewhere, 0)
})

test('addresses that are none are refused', () => {
  for (const addresses of [undefined, [], ['localhost:7400'], ['127.0.0.1:7400'], ['ftp://x'], ['http://'], ['http://a/?b'], ['http://u:p@127.0.0.1']]) {
    assert.throws(() => new Stint({ addresses }), TypeError)
  }
  assert.throws(() => new Stint({ addresses: ['http://u:secret@127.0.0.1'] }), (e) => !e.message.includes('secret'))
})

test('keys of outside text: different texts stay different, and no brace gets through', () => {
  assert.equal(safeKey('user:42'), 'user:42')
  assert.equal(safeKey('{a}%\n=|'), '%7Ba%7D%25%0A%3D%7C')
  assert.equal(safeKey('\u0085'), '%C2%85')
  assert.equal(safeKey({ a: 'x|b=y', b: 'z' }), 'a=x%7Cb%3Dy|b=z')
  assert.equal(safeKey({ route: '/x/{y}', user: 'z' }), 'route=%2Fx%2F%7By%7D|user=z', 'no part makes a parent')
  assert.equal(safeKey('vendor:acme/product:x'), 'vendor:acme/product:x')
  assert.notEqual(safeKey({ a: 'x_y', b: 'z' }), safeKey({ a: 'x', b: 'y_z' }))
  for (const missing of ['', undefined, null, 5, {}, { a: '' }, { a: undefined, b: 'x' }, '\ud800', { a: '\udc00' }]) assert.equal(safeKey(missing), undefined)
  const long = 'ü'.repeat(400)
  assert.ok(Buffer.byteLength(safeKey(long)) <= 512)
  assert.notEqual(safeKey(long), safeKey(`${long}x`))
  assert.notEqual(safeKey(safeKey(long)), safeKey(long), 'nobody can spell a shortened key')
  assert.equal(safeKey('a'.repeat(600)), `${'a'.repeat(447)}|${sha256('a'.repeat(153))}`, 'as Go makes it')
})

test('SHA-256 is SHA-256', () => {
  for (let n = 0; n < 200; n++) {
    const text = 'aü'.repeat(n)
    assert.equal(sha256(text), crypto.createHash('sha256').update(text).digest('hex'))
  }
})

test('the client address: a forged header does nothing', () => {
  const request = (peer, xff) => ({ socket: { remoteAddress: peer }, headers: { 'x-forwarded-for': xff } })
  assert.equal(clientIP()(request('192.0.2.1', '1.1.1.1')), 'ip:192.0.2.1')
  const ip = clientIP({ trustedProxies: ['10.0.0.0/8', 'fd00::/8', '192.0.2.9'] })
  for (const [peer, xff, want] of [
    ['192.0.2.1', '1.1.1.1', 'ip:192.0.2.1'], // no proxy of ours
    ['10.0.0.1', '9.9.9.9', 'ip:9.9.9.9'],
    ['::ffff:10.0.0.1', '6.6.6.6, 9.9.9.9 , 10.0.0.2,192.0.2.9', 'ip:9.9.9.9'], // 6.6.6.6 is the client's invention
    ['10.0.0.1', '9.9.9.9, junk', undefined],
    ['10.0.0.1', 'unknown', undefined],
    ['10.0.0.1', '', undefined],
    ['10.0.0.1', undefined, undefined],
    ['10.0.0.1', '9.9.9.9,', undefined],
    ['10.0.0.1', 'junk, 9.9.9.9', 'ip:9.9.9.9'],
    ['10.0.0.1', '10.0.0.7', 'ip:10.0.0.7'],
    ['fd00::1', '[2001:db8:1:2:3:4:5:6]:443', 'ip:2001:db8:1:2::'],
    ['10.0.0.1', '2001:db8::9%eth0', 'ip:2001:db8::'],
    ['10.0.0.1', '64:ff9b::203.0.113.7', 'ip:203.0.113.7'],
    ['10.0.0.1', '2001:0:4136:e378:8000:63bf:3fff:fdd2', 'ip:192.0.2.45'],
    ['10.0.0.1', '64:ff9b:1::203.0.113.7', 'ip:64:ff9b:1::'],
    ['10.0.0.1', '::ffff:9.9.9.9', 'ip:9.9.9.9'],
    ['10.0.0.1', '9.9.9.9:1234', 'ip:9.9.9.9'],
    ['10.0.0.1', '::1', 'ip:::'],
    ['10.0.0.1', '01.2.3.4', undefined],
    ['10.0.0.1', '1:2:3:4:5:6:7', undefined],
    ['10.0.0.1', '1::2::3', undefined],
    [undefined, '9.9.9.9', undefined],
  ]) assert.equal(ip(request(peer, xff)), want, `${peer} ${xff}`)
  const platform = clientIP({ header: 'CF-Connecting-IP' })
  assert.equal(platform(new Request('http://x', { headers: { 'cf-connecting-ip': '9.9.9.9', 'x-forwarded-for': '1.1.1.1' } })), 'ip:9.9.9.9')
  assert.equal(platform(new Request('http://x')), undefined)
  assert.equal(platform({ headers: { 'cf-connecting-ip': '9.9.9.9, 8.8.8.8' } }), undefined)
  assert.throws(() => clientIP({ header: 'X-Forwarded-For' }), /trustedProxies/)
  for (const range of ['10.0.0.0/33', '10.0.0', 'x', '10.0.0.0/8/8', '::/129', '10.0.0.0/']) {
    assert.throws(() => clientIP({ trustedProxies: [range] }), /trustedProxies/, range)
  }
})

test('TLS and tokens of a real node', async () => {
  const secure = await startSecure()
  const answerOf = async (token, env) => {
    const program = `import { Stint } from '@stint/client'
      const limits = new Stint({ addresses: ['${secure.url}'], token: process.env.TEST_TOKEN, timeoutMs: process.env.NODE_EXTRA_CA_CERTS ? 20000 : 3000 })
      console.log(JSON.stringify(await limits.check({ policy: 'five', key: 'tls' }).then((d) => [d.allowed], (e) => [e.code, e.maybeApplied, e.noDecision])))`
    return await new Promise((resolve, reject) => execFile(process.execPath, ['--input-type=module', '-e', program],
      { cwd: new URL('..', import.meta.url), env: { ...process.env, ...env, TEST_TOKEN: token } }, (error, stdout, stderr) => (error ? reject(new Error(stderr)) : resolve(JSON.parse(stdout)))))
  }
  const trusting = { NODE_EXTRA_CA_CERTS: secure.certificate }
  assert.deepEqual(await answerOf(secure.token, trusting), [true])
  assert.deepEqual(await answerOf('', trusting), ['unauthenticated', false, false])
  assert.deepEqual(await answerOf('stint_x_y', trusting), ['unauthenticated', false, false])
  assert.deepEqual(await answerOf(secure.token, {}), ['unavailable', false, true], 'a certificate that is not accepted')
  const plain = new Stint({ addresses: [secure.url.replace('https', 'http')], timeoutMs: 20000 })
  await assert.rejects(plain.check({ policy: 'five', key: 'tls' }), (e) => e.code === 'failed_precondition' && !e.maybeApplied && /https/.test(e.message))
  let first // its retries get the same answer: on a busy machine the last of them may have no time for one of its own
  const tls = new Stint({ addresses: [url.replace('http', 'https')], timeoutMs: 3000, fetch: (...args) => (first ??= fetch(...args)) })
  await assert.rejects(tls.check({ policy: 'five', key: 'tls' }), (e) => e.code === 'unavailable' && !e.maybeApplied)
})

test('instants and waits are rounded up, and numbers are numbers', async () => {
  const limit = { quota: '9007199254740992', used: '12345678901', resetAt: '2026-11-23T19:27:42.735055Z', retryAfter: '0.413252s' }
  const decision = { allowed: false, decidedAt: '2026-11-23T19:27:42Z', retryAfter: '61.000001s', limits: [limit, {}] }
  const d = await new Stint({ addresses: ['http://127.0.0.1:1'], fetch: async () => new Response(JSON.stringify({ decision })) }).check({ policy: 'p', key: 'k' })
  assert.equal(d.decidedAt.toISOString(), '2026-11-23T19:27:42.000Z')
  assert.deepEqual([d.retryAfterMs, d.retryAfterSeconds], [61001, 62])
  assert.equal(d.limits[0].resetAt.toISOString(), '2026-11-23T19:27:42.736Z')
  assert.deepEqual([d.limits[0].retryAfterMs, d.limits[0].quota, d.limits[0].used], [414, 2 ** 53, 12345678901])
  assert.deepEqual([d.limits[1].retryAfterMs, d.limits[1].resetAt, d.limits[1].used], [undefined, undefined, 0])
})

test('a batch decides each check for itself', async (t) => {
  const [first, wrong, both, third] = await limits.checkBatch([{ policy: 'five', key: 'batch', cost: 4 }, { policy: 'nope', key: 'batch' },
    [{ policy: 'five', key: 'batch' }, { policy: 'window', key: 'batch' }], { policy: 'five', key: 'batch' }])
  assert.deepEqual([first.allowed, both.allowed, both.limits.length, third.allowed], [true, true, 2, false])
  assert.ok(wrong instanceof StintError && wrong.code === 'not_found' && !wrong.maybeApplied)
  await assert.rejects(limits.checkBatch([{ policy: 'five', key: '' }]), /missing or empty/)
  await assert.rejects(limits.checkBatch([{ policy: 'five', key: 'x' }], { idempotencyId: 'one' }), /draws its own/)
  const lost = await proxy(t, url, (n) => (n === 1 ? 'drop' : 'answer'))
  const [again] = await new Stint({ addresses: [lost.url], timeoutMs: 20000 }).checkBatch([{ policy: 'five', key: 'lost batch' }])
  assert.deepEqual([again.replayed, await used('five', 'lost batch')], [true, 1], 'a batch without an answer is sent again, and counts once')
})

test('an attempt is settled by the end of its work', async () => {
  const login = (key, work) => limits.attempt({ policy: 'login', key }, work, { ttlMs: 30000, done: 'success', raised: 'failed' })
  assert.equal(await login('attempt', (attempt) => attempt.holdId === '' ? 'no hold' : 'a hold'), 'a hold')
  assert.equal(await used('login', 'attempt'), 0, 'success gives back')
  for (let i = 0; i < 3; i++) await assert.rejects(login('attempt', async () => { throw new RangeError('wrong password') }), RangeError)
  assert.equal(await login('attempt', (attempt) => attempt.allowed), false, 'the third failure blocks, and a denied attempt has nothing to settle')
  assert.equal(await limits.attempt({ policy: 'five', key: 'attempt' }, () => 1), 1)
  assert.equal(await used('five', 'attempt'), 1, 'the default is commit')
  await assert.rejects(limits.attempt({ policy: 'five', key: 'attempt' }, () => { throw new RangeError() }), RangeError)
  assert.equal(await used('five', 'attempt'), 1, 'and cancel')
})
