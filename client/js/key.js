// safeKey makes a key of text that comes from outside, as a value or as parts by name. Different values give different keys. "%",
// "=", "|", braces and controls are written in percent: a brace would let a client choose the shard. So is "/" in parts: what stands
// before it is the key of a parent, which only a text may name. The end of a key over 512 bytes becomes its SHA-256. A text has the
// same key in the middleware for Go. undefined: the value, or one of the parts, is missing, empty or no Unicode.
export function safeKey(value) {
  if (typeof value === 'string') return isText(value) ? shortened(escaped(value)) : undefined
  if (value === null || typeof value !== 'object') return undefined
  const parts = Object.entries(value)
  if (parts.length === 0 || !parts.every(([, v]) => isText(v))) return undefined
  return shortened(parts.map((part) => part.map((text) => escaped(text).replaceAll('/', '%2F')).join('=')).join('|'))
}

function isText(value) { return typeof value === 'string' && value !== '' && !/\p{Cs}/u.test(value) }

function escaped(text) {
  return text.replace(/[%=|{}\p{Cc}]/gu, (c) => [...new TextEncoder().encode(c)].map((b) => `%${b.toString(16).toUpperCase().padStart(2, '0')}`).join(''))
}

const keyBytesMax = 512

// shortened keeps the beginning of a long key, for people to read. No other key ends like that: behind the last bar of parts is "=".
function shortened(text) {
  const bytes = new TextEncoder().encode(text)
  if (bytes.length <= keyBytesMax) return text
  let cut = keyBytesMax - 65
  while ((bytes[cut] & 0xc0) === 0x80) cut-- // not within a character
  return `${new TextDecoder().decode(bytes.subarray(0, cut))}|${sha256(bytes.subarray(cut))}`
}

// sha256 returns the digest of bytes or of a text in hex. The one that runtimes have is asynchronous, and a key function is not.
export function sha256(data) {
  const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
  const padded = new Uint8Array((bytes.length + 72) & ~63)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29))
  view.setUint32(padded.length - 4, bytes.length << 3)
  const hash = Uint32Array.from(initial)
  const w = new Uint32Array(64)
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(block + 4 * i)
    for (let i = 16; i < 64; i++) {
      const s0 = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ (w[i - 15] >>> 3)
      const s1 = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ (w[i - 2] >>> 10)
      w[i] = w[i - 16] + s0 + w[i - 7] + s1
    }
    let [a, b, c, d, e, f, g, h] = hash
    for (let i = 0; i < 64; i++) {
      const s1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i]) | 0
      const s0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
      h = g; g = f; f = e; e = (d + t1) | 0
      d = c; c = b; b = a; a = (t1 + t2) | 0
    }
    for (const [i, v] of [a, b, c, d, e, f, g, h].entries()) hash[i] += v
  }
  return [...hash].map((v) => v.toString(16).padStart(8, '0')).join('')
}

const rotated = (x, n) => (x >>> n) | (x << (32 - n))

// The constants of FIPS 180-4: the first 32 bits of the fractions of square and cube roots of the first primes.
const primes = [...Array(312).keys()].filter((n) => n > 1 && ![...Array(n).keys()].some((d) => d > 1 && d * d <= n && n % d === 0))
const initial = primes.slice(0, 8).map((p) => fractionBits(p, 2n))
const constants = primes.slice(0, 64).map((p) => fractionBits(p, 3n))

// fractionBits returns floor(p^(1/degree) * 2^32) mod 2^32, by bisection.
function fractionBits(p, degree) {
  const target = BigInt(p) << (32n * degree)
  let low = 0n
  let high = 1n << 40n
  while (high - low > 1n) {
    const middle = (low + high) >> 1n
    if (middle ** degree <= target) low = middle
    else high = middle
  }
  return Number(low & 0xffffffffn)
}
