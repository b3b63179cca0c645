import type { Stint } from './index.js'

/** A store of express-rate-limit 7 and 8, and of hono-rate-limiter. */
export class StintStore {
  constructor(limits: Stint, options?: { prefix?: string; policy?: string; onError?: (error: unknown) => void })
  prefix: string
  localKeys: boolean
  init(options: { windowMs: number }): void
  get(key: string): Promise<{ totalHits: number; resetTime: Date | undefined } | undefined>
  increment(key: string): Promise<{ totalHits: number; resetTime: Date | undefined }>
  decrement(key: string): Promise<void>
  resetKey(key: string): Promise<void>
}
