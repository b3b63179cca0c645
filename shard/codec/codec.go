package codec

import (
	"encoding/binary"
	"strings"
	"unsafe"
)

// Codec is one pass over a value: it writes the value, or it reads it. A method gets a pointer to a field, and does not
// change the field while it writes. After the first missing or malformed value a reader has failed: every further value
// is zero, so callers ask once, at the end.
//
// It must not be used concurrently.
type Codec struct {
	out     []byte // a writer's: what it was given, and what it has written
	in      string // what a reader has left; "" once it has failed
	reading bool
	failed  bool // readers only; never reset
}

// Writer returns a Codec that appends to b.
func Writer(b []byte) Codec { return Codec{out: b} }

// Reader returns a Codec that reads text. The texts that it reads are parts of it, not copies.
func Reader(text string) Codec { return Codec{in: text, reading: true} }

// Over returns a Codec that reads b, which must not change. The texts that it reads share its memory: see Own.
func Over(b []byte) Codec { return Reader(unsafe.String(unsafe.SliceData(b), len(b))) }

// Own copies what a reader has left, so that texts which it reads from then on keep that copy alone alive.
func (c *Codec) Own() { c.in = strings.Clone(c.in) }

// Rest is what a reader has left, in its memory. It is never nil.
func (c *Codec) Rest() []byte {
	if c.in == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(c.in), len(c.in))
}

// SkipTo leaves a reader that many bytes, no more than it has.
func (c *Codec) SkipTo(left int) { c.in = c.in[len(c.in)-left:] }

// Reading reports whether the Codec reads.
func (c *Codec) Reading() bool { return c.reading }

// Written returns what was written, with the bytes before it.
func (c *Codec) Written() []byte { return c.out }

// Left returns how many bytes are still to be read.
func (c *Codec) Left() int { return len(c.in) }

// Fail makes a reader fail.
func (c *Codec) Fail() { c.failed, c.in = true, "" }

// Failed reports whether a value was missing or malformed.
func (c *Codec) Failed() bool { return c.failed }

// Whole reports whether everything was read, and nothing was missing or malformed.
func (c *Codec) Whole() bool { return !c.failed && c.in == "" }

// Uint64 is numbers of one to ten bytes each, the shorter the smaller.
func (c *Codec) Uint64(numbers ...*uint64) {
	for _, v := range numbers {
		if c.reading {
			*v = c.uvarint()
		} else {
			c.out = binary.AppendUvarint(c.out, *v)
		}
	}
}

func (c *Codec) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(c.in) && i < binary.MaxVarintLen64; i++ {
		b := c.in[i]
		if b < 0x80 {
			if i == binary.MaxVarintLen64-1 && b > 1 {
				break // more than 64 bits
			}
			c.in = c.in[i+1:]
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	c.Fail()
	return 0
}

// Fixed64 is a number of eight bytes, little endian.
func (c *Codec) Fixed64(v *uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], *v)
	if c.Array(b[:]); c.reading {
		*v = binary.LittleEndian.Uint64(b[:])
	}
}

// Text is texts, each after its length.
func (c *Codec) Text(texts ...*string) {
	for _, v := range texts {
		if c.reading {
			n := c.Count(0)
			*v, c.in = c.in[:n], c.in[n:]
		} else {
			c.out = append(binary.AppendUvarint(c.out, uint64(len(*v))), *v...)
		}
	}
}

// Bytes is Text for bytes. A reader fails if there are more than most. It reads an empty slice as nil; another one is a
// copy.
func (c *Codec) Bytes(v *[]byte, most int) {
	if c.reading {
		n := c.CountTo(0, most)
		*v, c.in = append([]byte(nil), c.in[:n]...), c.in[n:]
		return
	}
	c.out = append(binary.AppendUvarint(c.out, uint64(len(*v))), *v...)
}

// Array is bytes of a number that both ends know.
func (c *Codec) Array(v []byte) {
	switch {
	case !c.reading:
		c.out = append(c.out, v...)
	case len(c.in) < len(v):
		clear(v)
		c.Fail()
	default:
		copy(v, c.in)
		c.in = c.in[len(v):]
	}
}

// Count is the number of values that follow, n when it is written. Each takes a byte at least, so a reader returns no
// more than there are bytes.
func (c *Codec) Count(n int) int {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, uint64(n))
		return n
	}
	v := c.uvarint()
	if v > uint64(len(c.in)) {
		c.Fail()
		return 0
	}
	return int(v)
}

// CountTo is Count, and a reader fails above most.
func (c *Codec) CountTo(n, most int) int {
	if n = c.Count(n); c.reading && n > most {
		c.Fail()
		return 0
	}
	return n
}

// Flags is at most eight bits in a byte, the first one the lowest. A reader takes no others.
func (c *Codec) Flags(bits ...*bool) {
	if c.reading {
		b := c.byte()
		if b>>len(bits) != 0 {
			c.Fail()
			b = 0
		}
		for i, bit := range bits {
			*bit = b&(1<<i) != 0
		}
		return
	}
	var b byte
	for i, bit := range bits {
		if *bit {
			b |= 1 << i
		}
	}
	c.out = append(c.out, b)
}

func (c *Codec) byte() byte {
	if c.in == "" {
		c.Fail()
		return 0
	}
	b := c.in[0]
	c.in = c.in[1:]
	return b
}

// Byte is a number of one byte.
func Byte[T ~uint8](c *Codec, v *T) {
	if c.reading {
		*v = T(c.byte())
		return
	}
	c.out = append(c.out, byte(*v))
}

// Uint is Uint64 for other types, which must not be negative. A reader fails above most, which must fit into T.
func Uint[T ~uint16 | ~uint32 | ~uint64 | ~int | ~int64](c *Codec, v *T, most uint64) {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, uint64(*v))
		return
	}
	u := c.uvarint()
	if u > most {
		c.Fail()
		u = 0
	}
	*v = T(u)
}

// Int is a number that may be negative, of one to ten bytes, the shorter the nearer to 0.
func Int[T ~int64](c *Codec, v *T) {
	if !c.reading {
		c.out = binary.AppendVarint(c.out, int64(*v))
		return
	}
	u := c.uvarint()
	*v = T(int64(u>>1) ^ -int64(u&1))
}

// List is values after their number. A reader fails if there are more than most. It reads an empty list as nil.
func List[T any](c *Codec, values *[]T, most int, each func(*T)) {
	n := c.CountTo(len(*values), most)
	if c.reading {
		*values = nil
	}
	for i := range n {
		if c.reading {
			var one T
			if each(&one); c.failed {
				*values = nil
				return
			}
			*values = append(*values, one)
			continue
		}
		each(&(*values)[i])
	}
}

// Optional is a value that may be missing; the caller has written, or read, whether it is there.
func Optional[T any](c *Codec, there bool, value **T, each func(*T)) {
	if !there {
		return
	}
	if c.reading {
		*value = new(T)
	}
	each(*value)
}

// Sized is what write writes, after its length, so that a reader can take it off as one Text. It only writes.
func (c *Codec) Sized(write func()) {
	start := len(c.out)
	c.out = append(c.out, 0)
	write()
	size := len(c.out) - start - 1
	if size < 0x80 { // nearly always: the length fits the byte reserved for it
		c.out[start] = byte(size)
		return
	}
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(size))
	c.out = append(c.out, length[:n-1]...)
	copy(c.out[start+n:], c.out[start+1:start+1+size])
	copy(c.out[start:], length[:n])
}

// Texts takes n Texts off a reader, and returns a reader of a copy of them. So a value that refers to them keeps only
// that copy alive.
func (c *Codec) Texts(n int) Codec {
	before := c.in
	for range n {
		var text string
		c.Text(&text)
	}
	if c.failed {
		return Codec{reading: true, failed: true}
	}
	return Reader(strings.Clone(before[:len(before)-len(c.in)]))
}
