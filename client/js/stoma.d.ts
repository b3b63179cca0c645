import type { Stint } from './index.js'

/** A RateLimitStore of Stoma. */
export class ExactRateLimitStore {
  constructor(limits: Stint, options?: { prefix?: string })
  increment(key: string, windowSeconds: number): Promise<{ count: number; resetAt: number }>
}

/** The adapter for createGateway. */
export function adapter(limits: Stint, options?: { prefix?: string }): { rateLimitStore: ExactRateLimitStore }
