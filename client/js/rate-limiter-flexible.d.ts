import type { Stint } from './index.js'

/** What the limiter resolves to, and rejects with when it denies. */
export interface LimiterRes { msBeforeNext: number; remainingPoints: number; consumedPoints: number; isFirstInDuration: boolean }

/** A limiter that the package takes in its unions and wrappers. reward, set and block are not there. */
export interface RateLimiterStint {
  readonly keyPrefix: string
  consume(key: string, points?: number): Promise<LimiterRes>
  penalty(key: string, points?: number): Promise<LimiterRes>
  get(key: string): Promise<LimiterRes | null>
  /** Needs policy. */
  delete(key: string): Promise<boolean>
}

/** Points in each duration, in seconds; or what a policy says. */
export type RateLimiterStintOptions = { limits: Stint; keyPrefix?: string }
  & ({ points: number; duration: number; policy?: undefined } | { policy: string; points?: undefined; duration?: undefined })

/** Makes the class of two classes of rate-limiter-flexible 11. */
export function rateLimiterStint<Base extends object>(from: { RateLimiterCompatibleAbstract: abstract new () => Base; RateLimiterRes: new (...args: any[]) => object }):
  new (options: RateLimiterStintOptions) => RateLimiterStint & Base
