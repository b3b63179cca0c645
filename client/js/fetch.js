import { headerOf } from './address.js'
import { guardOf, responseOf, verdictOf, withHeaders } from './guard.js'
import { safeKey, sha256 } from './key.js'
import { tightest } from './message.js'

// limited returns a fetch handler that counts a request before the handler sees it: (request, ...rest) => Response.
export function limited(limits, options, handler) {
  const guard = guardOf(limits, options, 'limited')
  return async (request, ...rest) => {
    const verdict = await guard(request)
    if (!verdict.pass) return denied(verdict, request, options)
    return withHeaders(await handler(request, ...rest), verdict.headers)
  }
}

async function denied(verdict, request, { onDenied }) {
  if (!verdict.decision || !onDenied) return responseOf(verdict)
  return withHeaders(await onDenied(request, verdict.decision), verdict.headers)
}

// checkLimit returns a function that checks one key by one policy: (key or request) => { allowed, count, limit, remaining,
// retryAfterSeconds, ... }. With a request, key makes the key. It rejects if there is no decision: the caller chooses what that
// means.
export function checkLimit(limits, { policy, key, timeoutMs } = {}) {
  if (typeof policy !== 'string' || policy === '') throw new TypeError('stint: checkLimit: policy is missing')
  return async (keyOrRequest) => {
    const value = typeof keyOrRequest === 'string' ? keyOrRequest : await key?.(keyOrRequest)
    const decision = await limits.check({ policy, key: safeKey(value) }, { timeoutMs })
    const shown = tightest(decision)
    return {
      allowed: decision.allowed,
      count: shown?.used ?? 0,
      limit: shown?.quota ?? 0,
      remaining: shown?.remaining ?? 0,
      retryAfterSeconds: decision.retryAfterSeconds ?? 0,
      reason: decision.allowed ? undefined : decision.reason || undefined,
      decision,
    }
  }
}

// rateLimitKey returns a function that names the caller of a request by the first that there is: user:SUB (verified: the option
// checks the token), key:SHA256 of an API key, ip:ADDRESS. The policy of API keys needs unknown_key: deny, else each invented
// key is a fresh allowance.
export function rateLimitKey({ user = () => undefined, apiKey = () => undefined, ip = () => undefined } = {}) {
  return async (request) => {
    const sub = await user(request)
    if (sub) return `user:${sub}`
    const secret = await apiKey(request)
    if (secret) return `key:${sha256(secret)}`
    return await ip(request)
  }
}

// tooManyRequests answers a denial of checkLimit: 429, Retry-After, X-RateLimit-* and the headers of the policy's styles. The
// body is {"error":"rate_limited","retryAfter":N} unless another is given. A challenge is the 403 of the middlewares, whatever body
// is given.
export function tooManyRequests({ limit, retryAfterSeconds, decision }, body = { error: 'rate_limited', retryAfter: retryAfterSeconds || undefined }) {
  if (decision?.challenge) return responseOf(verdictOf(decision))
  const headers = new Headers({ 'Content-Type': 'application/json', 'Cache-Control': 'no-store', 'X-RateLimit-Limit': String(limit),
    'X-RateLimit-Remaining': '0' })
  if (retryAfterSeconds > 0) headers.set('Retry-After', String(retryAfterSeconds))
  for (const [name, value] of Object.entries(decision?.headers ?? {})) headers.set(name, value)
  const told = [...headers.keys()].filter((name) => name === 'retry-after' || name.includes('ratelimit') || name.startsWith('x-quota'))
  headers.set('Access-Control-Expose-Headers', told.join(', ')) // for scripts of other origins
  return new Response(JSON.stringify(body), { status: 429, headers })
}

// rateLimitMiddleware returns (request, env, ctx, next) => Response for plans by API key: one check of a policy with all its
// limits and tiers before next, headers after it. 401 without a key, 403 for an unknown one (the policy has unknown_key: deny,
// and each key an override with its tier), 429 with the limit's reason as the text. limits may be a function of env. A challenge is
// the 403 of limited, and onDenied has its say as there.
export function rateLimitMiddleware({ limits, header = 'x-api-key', ...options } = {}) {
  const key = (request) => {
    const secret = headerOf(request, header)
    return secret && `key:${sha256(secret)}`
  }
  const guardFor = (cluster) => guardOf(cluster, { ...options, key }, 'rateLimitMiddleware')
  const guard = typeof limits === 'function' ? undefined : guardFor(limits)
  return async (request, env, ctx, next) => {
    const verdict = await (guard ?? guardFor(limits(env)))(request)
    if (verdict.pass) return withHeaders(await next(), verdict.headers)
    const { decision } = verdict
    if (decision && (decision.challenge || options.onDenied)) return denied(verdict, request, options)
    const status = verdict.status === 400 ? 401 : verdict.status // no key
    const body = decision ? decision.reason || 'Too Many Requests' : texts[status]
    return responseOf({ ...verdict, status, type: 'text/plain; charset=utf-8', body })
  }
}

const texts = { 401: 'Unauthorized', 403: 'Invalid API key', 503: 'Service Unavailable' }
