// The package's manual is README.md. Nothing here reads a clock to decide: the cluster's answer is the only decision.
export { Stint } from './stint.js'
export { StintError } from './error.js'
export { clientIP } from './address.js'
export { safeKey } from './key.js'
