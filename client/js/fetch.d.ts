import type { Decision, GuardEntry, GuardOptions, GuardSettings, Key, Stint } from './index.js'

/** Options: onDenied answers in place of the 429 (a challenge: 403) with problem+json; the headers are added. */
export type LimitedOptions = GuardOptions<Request> & { onDenied?: (request: Request, decision: Decision) => Response | Promise<Response> }

/** Returns a fetch handler that counts a request before the handler sees it. */
export function limited<Rest extends unknown[]>(limits: Stint, options: LimitedOptions,
  handler: (request: Request, ...rest: Rest) => Response | Promise<Response>): (request: Request, ...rest: Rest) => Promise<Response>

/** What checkLimit resolves to: the limit that denied, else the one with least left. */
export interface LimitResult {
  allowed: boolean
  /** Units that count now. */
  count: number
  limit: number
  remaining: number
  /** Whole seconds, rounded up; 0 if allowed, or if no wait helps. */
  retryAfterSeconds: number
  reason: string | undefined
  decision: Decision
}

/** Returns a function that checks one key, or the key of a request. It rejects if there is no decision. */
export function checkLimit<R = Request>(limits: Stint, options: { policy: string; key?: (request: R) => Key | Promise<Key>; timeoutMs?: number }):
  (keyOrRequest: string | R) => Promise<LimitResult>

/** Returns a function that names the caller: user:SUB, else key:SHA256, else ip:ADDRESS; undefined: nobody. */
export function rateLimitKey<R = Request>(options: {
  user?: (request: R) => string | undefined | null | Promise<string | undefined | null>
  apiKey?: (request: R) => string | undefined | null | Promise<string | undefined | null>
  ip?: (request: R) => string | undefined | Promise<string | undefined>
}): (request: R) => Promise<string | undefined>

/** Answers a denial: 429, Retry-After, X-RateLimit-*, {"error":"rate_limited","retryAfter":N}; a challenge: 403 with problem+json, whatever body is given. */
export function tooManyRequests(result: LimitResult, body?: unknown): Response

/** Returns a middleware for plans by API key: 401, 403, 429, or next() with headers. */
export function rateLimitMiddleware<Env = any>(options: GuardSettings & Pick<LimitedOptions, 'onDenied'> & {
  limits: Stint | ((env: Env) => Stint)
  policy: string
  cost?: GuardEntry<Request>['cost']
  /** Header of the API key. Absent: x-api-key. */
  header?: string
}): (request: Request, env: Env, ctx: unknown, next: () => Response | Promise<Response>) => Promise<Response>
