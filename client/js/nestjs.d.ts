import type { Stint } from './index.js'

/** A ThrottlerStorage of @nestjs/throttler 6. */
export class StintThrottlerStorage {
  constructor(limits: Stint, options?: { prefix?: string; policy?: string })
  increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string):
    Promise<{ totalHits: number; timeToExpire: number; isBlocked: boolean; timeToBlockExpire: number }>
}
