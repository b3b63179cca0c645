import { StintError } from './error.js'
import { safeKey } from './key.js'
import { Stint } from './stint.js'

// guardOf checks the options of a middleware and returns a function from a request to what to do with it:
//
//	{ pass: true, decision, headers }              go on, and add the headers to the response
//	{ pass: false, decision, status, headers, body, type }   answer this
//
// It throws what no fail mode may hide: an unknown policy, a token that does not allow it, a key function that fails.
export function guardOf(limits, options, middleware) {
  if (!(limits instanceof Stint)) throw new TypeError(`stint: ${middleware}: the first argument must be a Stint`)
  const { entries, policy, key, cost, fail, onMissing = 'deny', onError = () => {}, timeoutMs, idempotencyId } = options ?? {}
  if (entries !== undefined && (policy !== undefined || key !== undefined || cost !== undefined)) {
    throw new TypeError(`stint: ${middleware}: entries and policy exclude each other`)
  }
  const templates = entries ?? [{ policy, key, cost }]
  if (!Array.isArray(templates) || templates.length === 0) throw new TypeError(`stint: ${middleware}: entries must be a list with one at least`)
  for (const entry of templates) {
    if (typeof entry?.policy !== 'string' || entry.policy === '') throw new TypeError(`stint: ${middleware}: an entry has no policy`)
    if (typeof entry.key !== 'function') {
      throw new TypeError(`stint: ${middleware}: the key of policy ${entry.policy} must be a function of the request, as clientIP() is`)
    }
  }
  if (fail !== 'closed' && fail !== 'open') {
    throw new TypeError(`stint: ${middleware}: say fail: 'closed' (503) or fail: 'open' for the time when the cluster gives no decision`)
  }
  if (!['deny', 'skip', 'shared'].includes(onMissing)) throw new TypeError(`stint: ${middleware}: onMissing must be deny, skip or shared`)
  if (idempotencyId !== undefined && idempotencyId !== null) throw new TypeError(`stint: ${middleware}: idempotencyId can only be null: one id for all requests counts once`)

  return async (request) => {
    const asked = []
    for (const { policy, key, cost } of templates) {
      const value = safeKey(await key(request)) ?? (onMissing === 'shared' ? 'shared' : undefined)
      if (value !== undefined) asked.push({ policy, key: value, cost: typeof cost === 'function' ? await cost(request) : cost })
      else if (onMissing === 'deny') return refusal(400, 'Bad request', `The request does not say whom it counts for (${policy}).`)
    }
    if (asked.length === 0) return { pass: true, decision: undefined, headers: {} }
    try {
      return verdictOf(await limits.check(asked, { timeoutMs, idempotencyId }))
    } catch (error) {
      if (!(error instanceof StintError)) throw error
      if (error.unknownKey) return refusal(403, 'Forbidden', 'The sender is not known.')
      if (!error.noDecision && !error.noRoom) throw error
      onError(error)
      if (fail === 'open' && !error.noRoom) return { pass: true, decision: undefined, headers: { 'Stint-Failed': 'open' } }
      return refusal(503, 'Service unavailable', undecided, `${problems}temporary-reduced-capacity`)
    }
  }
}

const undecided = 'The request was not carried out, since its limits could not be checked. Try again.'
const problems = 'https://iana.org/assignments/http-problem-types#'

// verdictOf turns a decision into an answer. Its headers are those that the cluster made, in the styles of the policies.
export function verdictOf(decision) {
  if (decision.allowed) return { pass: true, decision, headers: exposed(decision.headers) }
  const reason = decision.reason || undefined
  const answer = decision.challenge
    ? refusal(403, 'Challenge required', reason, 'urn:stint:problem:challenge', decision.deniedBy, 'challenge')
    : refusal(429, 'Too many requests', reason, `${problems}quota-exceeded`, decision.deniedBy)
  return { ...answer, decision, headers: { ...exposed(decision.headers), ...answer.headers } }
}

// exposed adds the names that a script in a browser may read.
function exposed(headers) {
  const names = Object.keys(headers)
  return names.length === 0 ? {} : { ...headers, 'Access-Control-Expose-Headers': names.join(', ') }
}

// refusal is an answer of RFC 9457. No cache may keep it (RFC 6585).
function refusal(status, title, detail, type = 'about:blank', violatedPolicies = undefined, code = undefined) {
  return {
    pass: false,
    decision: undefined,
    status,
    type: 'application/problem+json',
    headers: { 'Cache-Control': 'no-store', ...(status === 503 ? exposed({ 'Retry-After': '1' }) : {}) },
    body: JSON.stringify({ type, title, status, detail, code, 'violated-policies': violatedPolicies }),
  }
}

// responseOf makes a Fetch Response of an answer.
export function responseOf({ status, headers, type, body }) {
  return new Response(body, { status, headers: { ...headers, 'Content-Type': type } })
}

// withHeaders adds headers to a response, which may be one that does not let its headers be changed. A response of a
// WebSocket (101) cannot be made again.
export function withHeaders(response, headers) {
  if (Object.keys(headers).length === 0 || response.status === 101) return response
  const copy = new Response(response.body, response)
  for (const [name, value] of Object.entries(headers)) {
    if (name === 'Access-Control-Expose-Headers') copy.headers.append(name, value)
    else copy.headers.set(name, value)
  }
  return copy
}
