// clientIP returns a key function for the address of the client, as in "ip:192.0.2.7" and "ip:2001:db8:1:2::": a client has
// a whole /64 of IPv6. undefined means that there is no address that can be believed.
//
//	clientIP()                                    the peer of the connection; a forwarded address is never read
//	clientIP({ trustedProxies: ['10.0.0.5/32'] }) if the peer is one of these: X-Forwarded-For from the right, without them
//	clientIP({ header: 'cf-connecting-ip' })      a header that the platform overwrites
//
// peer says where the address of the peer is, if it is not where Node has it.
export function clientIP({ header, trustedProxies, peer = peerOf } = {}) {
  if (header !== undefined && trustedProxies !== undefined) throw new TypeError('stint: header and trustedProxies exclude each other')
  if (header !== undefined && /^(x-forwarded-for|forwarded)$/i.test(header)) {
    throw new TypeError(`stint: a client can write ${header}: give trustedProxies instead`)
  }
  const trusted = (trustedProxies ?? []).map(rangeOf)
  return (request) => {
    const address = header !== undefined ? parsed(headerOf(request, header)) : forwarded(request, parsed(peer(request)), trusted)
    return address && `ip:${masked(address)}`
  }
}

// forwarded returns the client's address. A proxy that sends no header tells nothing: all its clients would share its address. If
// all addresses are trusted it is the first one: nobody else has written the list.
function forwarded(request, peer, trusted) {
  const hops = (headerOf(request, 'x-forwarded-for') ?? '').split(',')
  let address = peer
  for (let i = hops.length - 1; i >= 0 && address !== undefined && isIn(address, trusted); i--) address = parsed(hops[i])
  return address
}

// headerOf reads a header of a Fetch Request, of Node's, or of a Hono context.
export function headerOf(request, name) {
  const headers = request?.req?.raw?.headers ?? request?.headers
  const value = typeof headers?.get === 'function' ? headers.get(name) : headers?.[name.toLowerCase()]
  return value ?? undefined
}

function peerOf(request) { return request?.socket?.remoteAddress ?? request?.env?.incoming?.socket?.remoteAddress }

// parsed reads an address, with a zone, a port or brackets or without, as {bits, size}. IPv4 within IPv6 becomes IPv4.
// undefined: it is none.
function parsed(text) {
  if (typeof text !== 'string') return undefined
  let t = text.trim()
  const port = /^(?:\[([^\]]*)\]|(\d+\.\d+\.\d+\.\d+))(?::\d{1,5})?$/.exec(t)
  if (port) t = port[1] ?? port[2]
  t = t.replace(/%[\w.-]+$/, '')
  const four = bitsOf4(t)
  if (four !== undefined) return { bits: four, size: 32 }
  const six = bitsOf6(t)
  if (six === undefined) return undefined
  return six >> 32n === 0xffffn ? { bits: six & 0xffffffffn, size: 32 } : { bits: six, size: 128 }
}

function bitsOf4(text) {
  const octets = text.split('.')
  if (octets.length !== 4 || !octets.every((o) => /^(0|[1-9]\d{0,2})$/.test(o) && Number(o) < 256)) return undefined
  return octets.reduce((bits, o) => (bits << 8n) | BigInt(o), 0n)
}

function bitsOf6(text) {
  const tail = /^(.*:)([^:]*\..*)$/.exec(text) // IPv4 at the end
  if (tail) {
    const four = bitsOf4(tail[2])
    if (four === undefined) return undefined
    text = `${tail[1]}${(four >> 16n).toString(16)}:${(four & 0xffffn).toString(16)}`
  }
  const halves = text.split('::')
  if (halves.length > 2 || !text.includes(':')) return undefined
  const [head, end = []] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const missing = 8 - head.length - end.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined
  const groups = [...head, ...Array(missing).fill('0'), ...end]
  if (!groups.every((g) => /^[0-9a-f]{1,4}$/i.test(g))) return undefined
  return groups.reduce((bits, g) => (bits << 16n) | BigInt(`0x${g}`), 0n)
}

function rangeOf(text) {
  const [base, length, more] = String(text).split('/')
  const address = parsed(base)
  const bits = length === undefined ? address?.size : /^\d{1,3}$/.test(length) ? Number(length) : -1
  if (address === undefined || more !== undefined || bits < 0 || bits > address.size) {
    throw new TypeError(`stint: trustedProxies: ${JSON.stringify(text)} is no address and no range, as 10.0.0.0/8 is`)
  }
  return { ...address, shift: BigInt(address.size - bits) }
}

function isIn(address, ranges) {
  return ranges.some((r) => r.size === address.size && r.bits >> r.shift === address.bits >> r.shift)
}

// within returns the IPv4 address of a client that comes through NAT64 (64:ff9b::/96) or Teredo (2001::/32), where all have one /64.
function within({ bits, size }) {
  if (size === 128 && bits >> 32n === 0x64ff9bn << 64n) return { bits: bits & 0xffffffffn, size: 32 }
  if (size === 128 && bits >> 96n === 0x20010000n) return { bits: ~bits & 0xffffffffn, size: 32 }
  return { bits, size }
}

// masked writes an address as a key: IPv4 whole, of IPv6 the first 64 bits.
function masked(address) {
  const { bits, size } = within(address)
  const groups = (count, width, base) => Array.from({ length: count }, (_, i) =>
    ((bits >> BigInt(size - width * (i + 1))) & ((1n << BigInt(width)) - 1n)).toString(base))
  if (size === 32) return groups(4, 8, 10).join('.')
  return `${groups(4, 16, 16).join(':').replace(/(^|:)0(:0)*$/, '')}::`
}
