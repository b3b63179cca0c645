import type { Decision, Stint, StintError } from './index.js'

/** A span such as "10 s" or "1d". */
export type Duration = `${number} ${'ms' | 's' | 'm' | 'h' | 'd'}` | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** What Ratelimit.fixedWindow and the others return. */
export interface Limiter { readonly name: string }

/** Where an identifier stands. reset is in milliseconds since 1970: after a denial when the request may pass, else when all is back; 0: never. */
export interface Standing { limit: number; remaining: number; reset: number }

/** The answer of limit. */
export interface RatelimitResponse extends Standing {
  success: boolean
  /** Settled: nothing goes on behind an answer. */
  pending: Promise<unknown>
  /** timeout: there was no decision, and fail is 'open'. */
  reason?: 'timeout'
  /** undefined: there was none. */
  decision: Decision | undefined
}

/** In the shape of @upstash/ratelimit. */
export class Ratelimit {
  static fixedWindow(tokens: number, window: Duration): Limiter
  static slidingWindow(tokens: number, window: Duration): Limiter
  static tokenBucket(refillRate: number, interval: Duration, maxTokens: number): Limiter
  constructor(options: {
    limits: Stint
    /** Before every identifier. Absent: @upstash/ratelimit. */
    prefix?: string
    /** Milliseconds for a decision. Absent: the client's. */
    timeout?: number
    /** What limit does while the cluster gives no decision. closed (default): it rejects. open: success, with the reason timeout. */
    fail?: 'closed' | 'open'
    /** Hears each failure to decide, for metrics. */
    onError?: (error: StintError) => void
  } & ({ limiter: Limiter; policy?: undefined } | { policy: string; limiter?: undefined }))
  limit: (identifier: string, options?: { rate?: number }) => Promise<RatelimitResponse>
  blockUntilReady: (identifier: string, timeout: number) => Promise<RatelimitResponse>
  getRemaining: (identifier: string) => Promise<Standing>
  resetUsedTokens: (identifier: string) => Promise<void>
}
