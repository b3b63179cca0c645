import { StintError } from './error.js'
import { millis, tightest } from './message.js'
import { Stint } from './stint.js'
import { prefixed } from './window.js'

// Ratelimit has the methods of @upstash/ratelimit: limit, blockUntilReady, getRemaining, resetUsedTokens. What it counts is a limiter
// of Ratelimit.fixedWindow, slidingWindow or tokenBucket, or a policy.
//
// Without a decision it rejects. fail: 'open' makes that a success with the reason "timeout", which @upstash/ratelimit does
// after 5 s unasked. Options that it does not have are refused: a deny list that nobody reads is a hole.
export class Ratelimit {
  // fixedWindow admits tokens in each window, as in fixedWindow(10, '1 m'). Windows begin with the clock.
  static fixedWindow(tokens, window) {
    const ms = msOf(window)
    return { name: `fixed-${ms}ms`, quota: quotaOf(tokens, 'tokens'), fixedWindow: { period: millis(ms, 'window'), anchor: 'ANCHOR_EPOCH' } }
  }

  // slidingWindow admits tokens in any window: those of the window before count by the share of it that is not over.
  static slidingWindow(tokens, window) {
    const ms = msOf(window)
    return { name: `sliding-${ms}ms`, quota: quotaOf(tokens, 'tokens'), slidingWindow: { period: millis(ms, 'window') } }
  }

  // tokenBucket begins with maxTokens. refillRate of them come back in each interval, evenly.
  static tokenBucket(refillRate, interval, maxTokens) {
    const ms = msOf(interval)
    const refill = quotaOf(refillRate, 'refillRate')
    return { name: `bucket-${refill}-${ms}ms`, quota: quotaOf(maxTokens, 'maxTokens'), tokenBucket: { refill, per: millis(ms, 'interval') } }
  }

  #limits
  #entry
  #prefix
  #timeoutMs
  #fail
  #onError

  constructor({ limits, limiter, policy, prefix = '@upstash/ratelimit', timeout, fail = 'closed', onError = () => {}, ...others } = {}) {
    const [other] = Object.keys(others)
    if (other !== undefined) throw new TypeError(`stint: Ratelimit: there is no option ${other} here`)
    if (!(limits instanceof Stint)) throw new TypeError('stint: Ratelimit: limits must be a Stint')
    if ((limiter === undefined) === (policy === undefined)) throw new TypeError('stint: Ratelimit: give a limiter, as Ratelimit.slidingWindow(10, "10 s") is, or a policy')
    if (fail !== 'closed' && fail !== 'open') throw new TypeError("stint: Ratelimit: fail must be 'closed' (rejects) or 'open'")
    this.#limits = limits
    this.#entry = policy === undefined ? { policy: 'upstash', limits: [limiter] } : { policy }
    this.#prefix = `${prefix}:`
    this.#timeoutMs = timeout
    this.#fail = fail
    this.#onError = onError
  }

  // limit counts rate requests (1) of an identifier, or none of them.
  limit = async (identifier, { rate } = {}) => {
    try {
      const decision = await this.#limits.check({ ...this.#entryOf(identifier), cost: rate }, { timeoutMs: this.#timeoutMs })
      return { success: decision.allowed, ...standingOf(decision), pending: Promise.resolve(), reason: undefined, decision }
    } catch (error) {
      if (!(error instanceof StintError) || !error.noDecision) throw error
      this.#onError(error)
      if (this.#fail === 'closed') throw error
      return { success: true, limit: 0, remaining: 0, reset: 0, pending: Promise.resolve(), reason: 'timeout', decision: undefined }
    }
  }

  // blockUntilReady waits until the request may pass, timeout milliseconds at most. It does not wait if that would not help.
  blockUntilReady = async (identifier, timeout) => {
    if (!(timeout > 0)) throw new TypeError('stint: blockUntilReady: timeout must be a number of milliseconds above 0')
    const ends = performance.now() + timeout
    for (;;) {
      const result = await this.limit(identifier)
      const wait = result.decision?.retryAfterMs
      const left = ends - performance.now()
      if (result.success || wait === undefined || left <= 0) return result
      await new Promise((done) => setTimeout(done, Math.max(1, Math.min(wait, left))))
    }
  }

  // getRemaining counts nothing.
  getRemaining = async (identifier) => standingOf(await this.#limits.check(this.#entryOf(identifier), { mode: 'peek', timeoutMs: this.#timeoutMs }))

  // resetUsedTokens needs policy: the cluster resets keys of policies, not windows that requests bring along.
  resetUsedTokens = async (identifier) => {
    const { policy, key, limits } = this.#entryOf(identifier)
    if (limits !== undefined) throw new TypeError('stint: resetUsedTokens needs policy: limits that requests bring along cannot be reset')
    await this.#limits.adjust({ policy, key }, 'reset', { timeoutMs: this.#timeoutMs })
  }

  #entryOf(identifier) { return { ...this.#entry, key: prefixed(this.#prefix, identifier) } }
}

// standingOf returns the limit that matters most. reset is in milliseconds: after a denial the instant at which the request may pass,
// else the one at which all is back. 0: there is none.
function standingOf(decision) {
  const shown = tightest(decision)
  const again = decision.retryAfterMs === undefined ? undefined : decision.decidedAt.getTime() + decision.retryAfterMs
  const reset = decision.allowed ? shown?.resetAt?.getTime() : again
  return { limit: shown?.quota ?? 0, remaining: shown?.remaining ?? 0, reset: reset ?? 0 }
}

const unitMs = { ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000 }

function msOf(text) {
  const [, number, unit] = /^(\d+) ?(ms|s|m|h|d)$/.exec(text) ?? []
  const ms = Number(number) * unitMs[unit]
  if (!Number.isSafeInteger(ms) || ms < 1) throw new TypeError(`stint: ${JSON.stringify(text)} is no duration, as "10 s" is`)
  return ms
}

function quotaOf(number, name) {
  if (!Number.isSafeInteger(number) || number < 1) throw new TypeError(`stint: Ratelimit: ${name} must be a whole number from 1`)
  return String(number)
}
