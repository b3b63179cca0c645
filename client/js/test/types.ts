// Checked by tsc --strict and never run: each shape is assigned to a copy of the interface that its users have. The copies say
// only what the packages' documents say of the members; the packages themselves are none of Debian's.
import { Stint, StintError, clientIP, safeKey } from '../index.js'
import type { Decision } from '../index.js'
import { limit as expressLimit } from '../express.js'
import { StintStore } from '../express-rate-limit.js'
import { fastifyStore } from '../fastify.js'
import { limit as honoLimit } from '../hono.js'
import { ExactRateLimitStore, adapter } from '../stoma.js'
import { rateLimiter } from '../cloudflare.js'
import { Ratelimit } from '../upstash.js'
import { StintThrottlerStorage } from '../nestjs.js'
import { rateLimiterStint } from '../rate-limiter-flexible.js'
import { checkLimit, limited, rateLimitKey, rateLimitMiddleware, tooManyRequests } from '../fetch.js'

// express-rate-limit 7 and 8, and hono-rate-limiter
interface LimiterStore {
  init?: (options: { windowMs: number; limit: unknown }) => void
  get?: (key: string) => Promise<HitsOf | undefined> | HitsOf | undefined
  increment: (key: string) => Promise<HitsOf> | HitsOf
  decrement: (key: string) => Promise<void> | void
  resetKey: (key: string) => Promise<void> | void
  resetAll?: () => Promise<void> | void
  shutdown?: () => Promise<void> | void
  localKeys?: boolean
  prefix?: string
}
type HitsOf = { totalHits: number; resetTime: Date | undefined }

// @fastify/rate-limit 11
interface FastifyLimiterStoreCtor { new(options: {}): FastifyLimiterStore }
interface FastifyLimiterStore {
  incr(key: string, callback: (error: Error | null, result?: { current: number; ttl: number }) => void, timeWindow: number, max: number): void
  child(routeOptions: { method: string | string[]; url: string; path: string; prefix: string }): FastifyLimiterStore
}

// @upstash/ratelimit 1
interface UpstashLimiter {
  limit(identifier: string, req?: { rate?: number }): Promise<UpstashResponse>
  blockUntilReady(identifier: string, timeout: number): Promise<UpstashResponse>
  getRemaining(identifier: string): Promise<{ remaining: number; reset: number; limit: number }>
  resetUsedTokens(identifier: string): Promise<void>
}
type UpstashResponse = { success: boolean; limit: number; remaining: number; reset: number; pending: Promise<unknown>
  reason?: 'timeout' | 'cacheBlock' | 'denyList'; deniedValue?: string }

// @nestjs/throttler 6
interface ThrottlerStorage {
  increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string):
    Promise<{ totalHits: number; timeToExpire: number; isBlocked: boolean; timeToBlockExpire: number }>
}

// rate-limiter-flexible 11
declare abstract class RateLimiterCompatibleAbstract { abstract get keyPrefix(): string; block(key: string, seconds: number): Promise<RateLimiterRes> }
declare class RateLimiterRes { constructor(remainingPoints?: number, msBeforeNext?: number); readonly msBeforeNext: number }

// Stoma
interface StomaStore { increment(key: string, windowSeconds: number): Promise<{ count: number; resetAt: number }> }

// Cloudflare
interface Binding { limit(options: { key: string }): Promise<{ success: boolean }> }

// Express
interface Req { get(name: string): string | undefined; headers: Record<string, string | string[] | undefined>; socket: { remoteAddress?: string } }
interface Res {
  set(field: string, value?: string | string[]): this
  append(field: string, value?: string[] | string): this
  status(code: number): this
  type(type: string): this
  send(body?: any): this
}
type Handler = (req: Req, res: Res, next: (error?: any) => void) => void

// Hono
interface Context {
  req: { raw: Request; header(name: string): string | undefined }
  res: Response
  set(name: string, value: unknown): void
  header(name: string, value?: string, options?: { append?: boolean }): void
}
type HonoMiddleware = (c: Context, next: () => Promise<void>) => Promise<Response | void>

// Workers
interface ExportedHandler<Env> { fetch(request: Request, env: Env, ctx: unknown): Response | Promise<Response> }
interface Env { LIMITS: Stint }

const limits = new Stint({ addresses: ['http://127.0.0.1:7400'], timeoutMs: 2000 })
export const store: LimiterStore = new StintStore(limits, { prefix: 'rl:' })
export const fastify: FastifyLimiterStoreCtor = fastifyStore(limits, { prefix: 'rl:', fail: 'closed' })
export const upstash: UpstashLimiter = new Ratelimit({ limits, limiter: Ratelimit.slidingWindow(10, '10 s') })
export const upstashPolicy: UpstashLimiter = new Ratelimit({ limits, policy: 'login', timeout: 1000, fail: 'open' })
export const throttler: ThrottlerStorage = new StintThrottlerStorage(limits, { policy: 'per-ip' })
const RateLimiterStint = rateLimiterStint({ RateLimiterCompatibleAbstract, RateLimiterRes })
export const flexible: RateLimiterCompatibleAbstract = new RateLimiterStint({ limits, points: 5, duration: 60 })
export const waits: Promise<number> = new RateLimiterStint({ limits, policy: 'login' }).consume('ann').then((res) => res.msBeforeNext)
export const stoma: StomaStore = new ExactRateLimitStore(limits)
export const gateway: { rateLimitStore: StomaStore } = adapter(limits)
export const binding: Binding = rateLimiter(limits, { policy: 'per-ip' })
export const simple: Binding = rateLimiter(limits, { name: 'minute', simple: { limit: 10, period: 60 } })
export const handler: Handler = expressLimit<Req, Res>(limits, { policy: 'login', key: (req) => ({ user: req.get('x-user') }), fail: 'closed',
  onDenied: (req, res, decision) => res.status(429).send(decision.reason) })
export const addressed: Handler = expressLimit(limits, { policy: 'per-ip', key: clientIP(), fail: 'open' })
export const several: Handler = expressLimit<Req, Res>(limits, { entries: [{ policy: 'per-ip', key: clientIP() }, { policy: 'login', key: (req) => req.get('x-user'), cost: 2 }], fail: 'closed' })
export const hono: HonoMiddleware = honoLimit<Context>(limits, { policy: 'api', key: (c) => c.req.header('x-user'), fail: 'open' })
export const worker: ExportedHandler<Env> = { fetch: limited(limits, { policy: 'api', key: clientIP({ header: 'cf-connecting-ip' }), fail: 'open' },
  (request: Request, env: Env) => new Response(request.url)) }
export const plan: (request: Request, env: Env, ctx: unknown, next: () => Promise<Response>) => Promise<Response> =
  rateLimitMiddleware<Env>({ limits: (env) => env.LIMITS, policy: 'api', fail: 'closed', cost: 2, onDenied: (request, d) => new Response(d.reason) })

export async function calls(): Promise<Response | undefined> {
  const key = rateLimitKey({ user: () => 'u', ip: clientIP({ header: 'cf-connecting-ip' }) })
  const result = await checkLimit(limits, { policy: 'per-ip', key })(new Request('http://a/'))
  if (!result.allowed) return tooManyRequests(result)
  const hold: Decision = await limits.reserve({ policy: 'login', key: safeKey('x') ?? 'shared' }, { ttlMs: 1000, onExpire: 'commit' })
  await limits.settle(hold, { commit: { actualCost: [1], overage: 'debt' } })
  await limits.settle({ decisionId: 'x' }, 'cancel')
  try {
    await limits.check([{ policy: 'a', key: 'b', cost: 2 }], { mode: 'peek', idempotencyId: null, signal: new AbortController().signal })
  } catch (error) {
    if (error instanceof StintError && error.maybeApplied) return undefined
  }
  for (const each of await limits.checkBatch([{ policy: 'a', key: 'b' }, [{ policy: 'a', key: 'c' }]])) {
    if (!(each instanceof StintError) && !each.allowed) return undefined
  }
  const length: number = await limits.attempt({ policy: 'login', key: 'x' }, (attempt) => attempt.limits.length, { done: 'success', raised: 'failed' })
  if (length > 9) return undefined
  // @ts-expect-error a key is required
  await limits.check({ policy: 'a' })
  // @ts-expect-error the fail mode is required
  expressLimit(limits, { policy: 'a', key: clientIP() })
  // @ts-expect-error a policy or entries, not both
  expressLimit(limits, { policy: 'a', key: clientIP(), entries: [], fail: 'open' })
  // @ts-expect-error a policy or simple
  rateLimiter(limits, {})
  // @ts-expect-error a limiter or a policy
  new Ratelimit({ limits })
  // @ts-expect-error no duration
  Ratelimit.fixedWindow(10, 'a minute')
  return undefined
}
