package bench

import "strconv"

// keyDigits is the width of a key's number: fixed, so that all requests have the same length.
const keyDigits = 7

// template is one encoded check with a hole in each entry for the number of its key.
type template struct {
	text  []byte
	holes []int // offsets of the first digit
}

// appendTo writes the check of one number.
func (t template) appendTo(dst []byte, number uint32) []byte {
	start := len(dst)
	dst = append(dst, t.text...)
	for _, hole := range t.holes {
		putDigits(dst[start+hole:start+hole+keyDigits], number)
	}
	return dst
}

// moved returns the template for text, which is t's text with more bytes before it.
func (t template) moved(text []byte) template {
	by := len(text) - len(t.text)
	moved := template{text: text, holes: make([]int, len(t.holes))}
	for i, hole := range t.holes {
		moved.holes[i] = hole + by
	}
	return moved
}

func putDigits(dst []byte, number uint32) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + number%10)
		number /= 10
	}
}

// keyName is the key of the first entry of a number's check.
func (p Plan) keyName(number uint32) string { return p.entryKey(number, 0) }

// entryKey is the key of one entry of a number's check. Without a tag, the entries' shards are random.
func (p Plan) entryKey(number uint32, entry int) string {
	name := append([]byte(p.KeyPrefix), make([]byte, keyDigits)...)
	putDigits(name[len(p.KeyPrefix):], number)
	text := string(name)
	if p.Together {
		text = "{" + text + "}"
	}
	if entry > 0 {
		text += "/" + strconv.Itoa(entry)
	}
	return text
}

// digitsAt is the offset of the number in a key.
func (p Plan) digitsAt() int {
	if p.Together {
		return len(p.KeyPrefix) + 1
	}
	return len(p.KeyPrefix)
}
