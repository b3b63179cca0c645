import type { Decision, Stint } from './index.js'

/** Returns an object with the method of a rate limiting binding. It rejects if there is no decision. */
export function rateLimiter(limits: Stint, options: { policy: string; timeoutMs?: number; name?: undefined; simple?: undefined }
  | { name: string; simple: { limit: number; period: number }; timeoutMs?: number; policy?: undefined }): RateLimiter

/** A rate limiting binding. */
export interface RateLimiter {
  limit(options: { key: string }): Promise<{ success: boolean; decision: Decision }>
}
