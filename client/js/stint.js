import { StintError, failed, invalid, refused } from './error.js'
import { dateOf, decisionOf, entriesOf, limitOf, settlementOf, usageOf, millis } from './message.js'

const pauseLeastMs = 10
const pauseMostMs = 200
const attemptLeastMs = 250 // what one address is given at least before the next is asked
const restLeastMs = 50 // less is left out: such an attempt could only make a certain failure unsure

// Stint sends requests to one cluster. One object serves a whole program: it has no connections or
// timers of its own, and any number of calls may be under way.
export class Stint {
  #addresses
  #token
  #namespace
  #timeoutMs
  #fetch
  #next // index of the address to ask: the last one that answered

  constructor({ addresses, token = '', timeoutMs = 5000, namespace = '', fetch = undefined } = {}) {
    if (!Array.isArray(addresses) || addresses.length === 0) {
      throw new TypeError('stint: no address: give the base URL of one node at least, as in http://127.0.0.1:7400')
    }
    if (!isTimeout(timeoutMs)) throw new TypeError('stint: timeoutMs must be from 1 to 2147483647')
    if (typeof token !== 'string' || /[^\x21-\x7e]/.test(token)) throw new TypeError('stint: the token is not one that stint gave out')
    this.#addresses = addresses.map((address) => baseOf(address, token !== ''))
    this.#token = token
    this.#namespace = namespace
    this.#timeoutMs = timeoutMs
    this.#fetch = fetch ?? ((...args) => globalThis.fetch(...args))
    this.#next = Math.floor(Math.random() * addresses.length)
  }

  // check decides and counts: all entries or none. A denial is a decision, never an error.
  async check(entries, options = {}) {
    const { body, id } = this.#checkOf(entries, options)
    const answer = await this.#call('LimitService/Check', body, id !== '', options)
    return decisionOf(answer.decision)
  }

  // checkBatch makes independent checks in one call, of what check takes each. It resolves to a decision for each, or to the
  // StintError of the one that failed.
  async checkBatch(list, options = {}) {
    if (options.idempotencyId) throw invalid('idempotencyId', 'each check of a batch draws its own; null sends none')
    const checks = list.map((entries) => this.#checkOf(entries, options).body)
    const answer = await this.#call('LimitService/CheckBatch', { checks }, options.idempotencyId !== null, options)
    return list.map((_, i) => {
      const { decision, failure } = answer.results?.[i] ?? {}
      return failure ? new StintError(failure.code ?? 'unknown', failure.message ?? '', failure.maybeApplied === true) : decisionOf(decision ?? null)
    })
  }

  // reserve takes units now, as a hold that settle ends.
  async reserve(entries, options = {}) {
    const { body, id } = this.#checkOf(entries, options)
    const request = { check: body }
    if (options.ttlMs !== undefined) request.ttl = millis(options.ttlMs, 'ttlMs')
    if (options.onExpire !== undefined) request.onExpire = named('ON_EXPIRE_', options.onExpire, 'onExpire')
    const answer = await this.#call('LimitService/Reserve', request, id !== '', options)
    return decisionOf(answer.decision)
  }

  // settle ends or extends a hold, or gives back what a decision took. The same settlement sent again does nothing.
  async settle(target, action, options = {}) {
    const request = settlementOf(target, action)
    if (request.extend) request.idempotencyId = idOf(options)
    const answer = await this.#call('LimitService/Settle', request, request.idempotencyId !== '', options)
    return decisionOf(answer.decision)
  }

  // attempt reserves for a piece of work, and settles by its end: done if it ends, raised if it throws. For a login: 'success' and
  // 'failed'. The work gets the decision, and looks at it first: a denied one has nothing to settle.
  async attempt(entries, work, { done = 'commit', raised = 'cancel', ...options } = {}) {
    const decision = await this.reserve(entries, options)
    const settle = async (action) => decision.allowed && await this.settle(decision, action, { timeoutMs: options.timeoutMs })
    let result
    try {
      result = await work(decision)
    } catch (error) {
      await settle(raised).catch(() => {}) // the policy's onExpire settles it, and the caller wants what was thrown
      throw error
    }
    await settle(done)
    return result
  }

  // get returns the state of keys and changes nothing.
  async get(entries, options = {}) {
    const request = { namespace: options.namespace ?? this.#namespace, entries: entriesOf(entries) }
    if (options.staleOk) request.staleOk = true
    const answer = await this.#call('LimitService/Get', request, true, options)
    return (answer.limits ?? []).map(limitOf)
  }

  // adjust resets a key by one policy. It is kept in the audit log, and needs a token that may adjust.
  async adjust({ policy, key, limit = '', note = '' }, action, options = {}) {
    if (action !== 'reset' && action !== 'unblock') throw invalid('action', 'must be reset or unblock')
    const request = { ...this.#changeOf(policy, key, note, options), limit, [action]: {} }
    const answer = await this.#call('LimitService/Adjust', request, request.idempotencyId !== '', options)
    return (answer.limits ?? []).map(limitOf)
  }

  // putOverride gives one key a tier or quotas of its own, in place of an override that it has.
  async putOverride({ policy, key, tier = '', limits = {}, expiresAt = undefined, note = '' }, options = {}) {
    const request = { ...this.#changeOf(policy, key, note, options), tier, limits }
    if (expiresAt !== undefined) request.expiresAt = expiresAt.toISOString()
    await this.#call('PolicyService/PutOverride', request, request.idempotencyId !== '', options)
  }

  // deleteOverride removes the override of one key, and says whether there was one.
  async deleteOverride({ policy, key, note = '' }, options = {}) {
    const request = this.#changeOf(policy, key, note, options)
    return (await this.#call('PolicyService/DeleteOverride', request, request.idempotencyId !== '', options)).deleted === true
  }

  // forget ends everything that the cluster keeps of one key. It may be called again: if it fails, a part may have been ended.
  async forget({ key, note = '', bills = false }, options = {}) {
    await this.#call('LimitService/Forget', { namespace: options.namespace ?? this.#namespace, key, note, bills }, true, options)
  }

  // listUsage returns a page of bills.
  async listUsage({ policy = '', key = '', period = '', pageSize = 0, pageToken = '' } = {}, options = {}) {
    const request = { namespace: options.namespace ?? this.#namespace, policy, key, period, pageSize, pageToken }
    const page = await this.#call('ObserveService/ListUsage', request, true, options)
    return {
      records: (page.records ?? []).map(usageOf),
      nextPageToken: page.nextPageToken ?? '',
      completeThrough: dateOf(page.completeThrough),
      unreadable: page.unreadable ?? [],
    }
  }

  // correctUsage adds units to the bill of one key, or takes some away, and returns the bill. undefined: it was corrected before
  // under this id, so long ago that the answer is forgotten.
  async correctUsage({ policy, key, units, note, meter = '', period = '', isNew = false }, options = {}) {
    if (!Number.isSafeInteger(units)) throw invalid('units', 'must be a whole number')
    const request = { ...this.#changeOf(policy, key, note, options), units: String(units), meter, period, new: isNew }
    const { record } = await this.#call('LimitService/CorrectUsage', request, request.idempotencyId !== '', options)
    return record && usageOf(record)
  }

  #changeOf(policy, key, note, options) {
    entriesOf({ policy, key })
    return { namespace: options.namespace ?? this.#namespace, policy, key, note, idempotencyId: idOf(options) }
  }

  #checkOf(entries, options) {
    const id = idOf(options)
    const body = { namespace: options.namespace ?? this.#namespace, entries: entriesOf(entries), idempotencyId: id }
    if (options.mode !== undefined) body.mode = named('MODE_', options.mode, 'mode')
    if (options.explain) body.explain = true
    return { body, id }
  }

  // #call sends a request until it is answered, its time is over, or a retry would be unsafe or useless. countsOnce says that
  // sending it twice counts it once.
  async #call(method, request, countsOnce, { timeoutMs = this.#timeoutMs, signal = undefined }) {
    if (!isTimeout(timeoutMs)) throw invalid('timeoutMs', 'must be from 1 to 2147483647')
    const body = JSON.stringify(request)
    const ends = performance.now() + timeoutMs
    let maybeApplied = false // by an earlier attempt, whatever a later one says
    for (let attempt = 0; ; attempt++) {
      const at = this.#next
      let failure
      try {
        return await this.#attempt(this.#addresses[at], method, body, ends, signal)
      } catch (error) {
        if (!(error instanceof StintError)) throw error
        failure = error
      }
      const elsewhere = failure.maybeApplied || failure.code === 'unavailable' && !failure.noRoom
      if (elsewhere && this.#next === at) this.#next = (at + 1) % this.#addresses.length
      const again = elsewhere && (countsOnce || !failure.maybeApplied)
      if (maybeApplied && !failure.maybeApplied) {
        failure = new StintError('aborted', `an earlier attempt may have been counted; the last one: ${failure.message}`, true, failure)
      }
      maybeApplied = failure.maybeApplied
      // Another address is asked at once, the same one after a pause.
      const pause = attempt + 1 < this.#addresses.length ? 0 : Math.min(pauseLeastMs * 2 ** Math.min(attempt, 8), pauseMostMs)
      if (!again || signal?.aborted || performance.now() + pause + restLeastMs > ends) throw failure
      if (pause > 0) await new Promise((done) => setTimeout(done, pause))
      if (performance.now() + restLeastMs > ends) throw failure // the pause was longer than it should have been
    }
  }

  // #attempt asks one address. It has a timer of its own beside the signal: a fetch to a host that is gone may hear no signal.
  async #attempt(address, method, body, ends, signal) {
    const left = ends - performance.now()
    const within = Math.max(1, Math.ceil(Math.min(left, Math.max(attemptLeastMs, left / this.#addresses.length))))
    if (signal?.aborted) throw new StintError('canceled', 'the caller gave up before the request was sent')
    const stop = new AbortController()
    let timer, onAbort
    const over = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new StintError('aborted', `${address} gave no answer within ${within} ms`, true)), within)
      onAbort = () => reject(new StintError('aborted', 'the caller gave up while the request was under way', true))
      signal?.addEventListener('abort', onAbort)
    })
    try {
      return await Promise.race([over, this.#send(address, method, body, within, stop.signal)])
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      stop.abort()
    }
  }

  async #send(address, method, body, within, signal) {
    const headers = { 'content-type': 'application/json', 'connect-timeout-ms': String(within) }
    if (this.#token !== '') headers.authorization = `Bearer ${this.#token}`
    let status, text
    try {
      const response = await this.#fetch(`${address}/stint.v1.${method}`, { method: 'POST', headers, body, signal, redirect: 'manual' })
      status = response.status
      text = await response.text()
    } catch (error) {
      throw failed(address, error)
    }
    if (status !== 200) throw refused(status, text)
    const answer = objectOf(text)
    if (answer === undefined) throw new StintError('aborted', `${address} sent an answer that is no JSON object`, true)
    return answer
  }
}

// objectOf reads a JSON object. undefined: it is none.
function objectOf(text) {
  try {
    const value = JSON.parse(text)
    return value !== null && typeof value === 'object' && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

// isTimeout reports whether a timer takes these milliseconds: a longer one would run out at once.
function isTimeout(ms) { return typeof ms === 'number' && ms >= 1 && ms < 2 ** 31 }

// baseOf checks an address and returns it without a slash at its end. A token is not sent where others can read it.
function baseOf(address, token) {
  let url
  try {
    url = new URL(address)
  } catch {
    url = null
  }
  if (url === null || !/^https?:$/.test(url.protocol) || url.host === '' || url.search !== '' || url.hash !== '') {
    throw new TypeError(`stint: ${JSON.stringify(address)} is no base URL, as http://127.0.0.1:7400 is`)
  }
  if (url.username !== '' || url.password !== '') throw new TypeError(`stint: the address of ${url.host} has a name or password: use a token`)
  if (token && url.protocol !== 'https:' && !loopback.test(url.hostname)) {
    throw new TypeError(`stint: the token is not sent in the clear to ${url.host}: use https://, or an address of this machine`)
  }
  return url.href.replace(/\/+$/, '')
}

// URL has already given host names in their one spelling.
const loopback = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\])$/

// idOf returns the idempotency id of a request: the caller's, or a new one. null: none.
function idOf({ idempotencyId }) {
  if (idempotencyId === null) return ''
  if (idempotencyId === undefined) return globalThis.crypto.randomUUID()
  if (typeof idempotencyId !== 'string' || idempotencyId === '') throw invalid('idempotencyId', 'must be a text; null sends none')
  return idempotencyId
}

function named(prefix, name, field) {
  if (typeof name !== 'string' || !/^[a-z]+$/.test(name)) throw invalid(field, 'must be a word in lower case')
  return prefix + name.toUpperCase()
}
