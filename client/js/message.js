import { StintError, invalid } from './error.js'

// entriesOf checks entries and writes them as the API wants them. An entry without a key is refused here: "undefined" in a
// template is a key that all callers share.
export function entriesOf(entries) {
  const list = Array.isArray(entries) ? entries : [entries]
  if (list.length === 0) throw invalid('entries', 'there must be one at least')
  return list.map((entry, i) => {
    const { policy = '', key, cost, tier, limits } = entry ?? {}
    if (typeof key !== 'string' || key === '') throw invalid(`entries[${i}].key`, 'is missing or empty: all callers would share it')
    if (policy === '' && limits === undefined) throw invalid(`entries[${i}].policy`, 'is missing')
    const message = { policy, key }
    if (cost !== undefined) {
      if (!Number.isSafeInteger(cost) || cost < 0) throw invalid(`entries[${i}].cost`, 'must be a whole number from 0')
      message.cost = String(cost)
    }
    if (tier !== undefined) message.tier = tier
    if (limits !== undefined) message.limits = limits
    return message
  })
}

const settlements = ['commit', 'cancel', 'success', 'failed']

// settlementOf writes a settlement. target has a holdId or a decisionId; a decision has them.
export function settlementOf(target, action) {
  const request = {}
  if (target?.holdId) request.holdId = target.holdId
  else if (target?.decisionId) request.decisionId = target.decisionId
  else throw invalid('target', 'has no holdId and no decisionId: a denial has nothing to settle')
  if (settlements.includes(action)) {
    request[action] = {}
  } else if (action?.commit) {
    const { actualCost, overage } = action.commit
    request.commit = {}
    if (actualCost !== undefined) request.commit.actualCost = actualCost.map(String)
    if (overage !== undefined) request.commit.overage = `OVERAGE_${String(overage).toUpperCase()}`
  } else if (action?.extend) {
    request.extend = { ttl: millis(action.extend.ttlMs, 'extend.ttlMs') }
  } else {
    throw invalid('action', 'must be commit, cancel, success, failed, {commit: {...}} or {extend: {ttlMs}}')
  }
  return request
}

// decisionOf translates a decision: numbers for 64-bit texts, and Dates and milliseconds for instants and durations.
export function decisionOf(d) {
  if (d === null || typeof d !== 'object') throw new StintError('aborted', 'an answer without a decision', true)
  const retryAfterMs = msOf(d.retryAfter)
  return {
    allowed: d.allowed === true,
    challenge: d.outcome === 'OUTCOME_CHALLENGE',
    decisionId: d.decisionId ?? '',
    limits: (d.limits ?? []).map(limitOf),
    deniedBy: d.deniedBy ?? [],
    reason: d.reason ?? '',
    retryAfterMs,
    retryAfterSeconds: retryAfterMs === undefined ? undefined : Math.max(1, Math.ceil(retryAfterMs / 1000)),
    decidedAt: dateOf(d.decidedAt),
    headers: d.headers ?? {},
    holdId: d.holdId ?? '',
    holdExpiresAt: dateOf(d.holdExpiresAt),
    replayed: d.replayed === true,
    leased: d.leased === true,
    shadowDenied: d.shadowDenied === true,
    explanation: d.explanation ?? '',
  }
}

// limitOf translates the state of one limit.
export function limitOf(l) {
  return {
    policy: l.policy ?? '',
    limit: l.limit ?? '',
    key: l.key ?? '',
    quota: Number(l.quota ?? 0),
    used: Number(l.used ?? 0),
    held: Number(l.held ?? 0),
    remaining: Number(l.remaining ?? 0),
    granted: Number(l.granted ?? 0),
    windowStart: dateOf(l.windowStart),
    resetAt: dateOf(l.resetAt),
    retryAfterMs: msOf(l.retryAfter),
    allowed: l.allowed === true,
    shadow: l.shadow === true,
    soft: l.soft === true,
    unlimited: l.unlimited === true,
    lockoutLevel: l.lockoutLevel ?? 0,
    blockedUntil: dateOf(l.blockedUntil),
  }
}

// usageOf translates the bill of one key for one period.
export function usageOf(r) {
  return {
    id: r.id ?? '',
    namespace: r.namespace ?? '',
    policy: r.policy ?? '',
    meter: r.meter ?? '',
    key: r.key ?? '',
    start: dateOf(r.start),
    end: dateOf(r.end),
    state: (r.state ?? '').replace('USAGE_STATE_', '').toLowerCase(),
    units: Number(r.units ?? 0),
    credits: Number(r.credits ?? 0),
    corrections: Number(r.corrections ?? 0),
    revision: Number(r.revision ?? 0),
    recovered: r.recovered === true,
    timeZone: r.timeZone ?? '',
  }
}

// tightest returns the limit that denied and waits longest, else the one with least left: nothing, if a block of the key denied.
export function tightest({ allowed, limits }) {
  const stopped = limits.filter((l) => !l.allowed && !l.shadow)
  if (stopped.length > 0) return stopped.reduce((a, b) => ((b.retryAfterMs ?? Infinity) > (a.retryAfterMs ?? Infinity) ? b : a))
  const counted = limits.filter((l) => !l.unlimited && !l.shadow)
  const least = counted.reduce((a, b) => (a && a.remaining <= b.remaining ? a : b), undefined)
  return allowed || !least ? least : { ...least, remaining: 0 }
}

// dateOf returns an instant as a Date, rounded up: at the Date, what ends at the instant has ended.
export function dateOf(text) {
  if (text === undefined || text === null) return undefined
  const [, seconds, fraction = ''] = /^(.*?)(?:\.(\d+))?Z$/.exec(text) ?? []
  return new Date(Date.parse(`${seconds}Z`) + Math.ceil(Number(fraction.padEnd(9, '0').slice(0, 9)) / 1e6))
}

// msOf returns a duration, as in "0.413252s", in milliseconds, rounded up. undefined: there is none.
function msOf(text) {
  if (text === undefined || text === null) return undefined
  const [, seconds, fraction = ''] = /^(\d+)(?:\.(\d+))?s$/.exec(text) ?? []
  return Number(seconds) * 1000 + Math.ceil(Number(fraction.padEnd(9, '0').slice(0, 9)) / 1e6)
}

// millis writes a duration of whole milliseconds for the API.
export function millis(ms, field) {
  if (!Number.isSafeInteger(ms) || ms < 1) throw invalid(field, 'must be a whole number of milliseconds from 1')
  return `${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, '0')}s`
}
