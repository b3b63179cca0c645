package load

// keyDigits is the width of a key's number: fixed, so that all requests have one length.
const keyDigits = 7

// template is one encoded check with a hole for the number of its key.
type template struct {
	text []byte
	hole int // offset of the first digit
}

// appendTo writes the check of one key.
func (t template) appendTo(dst []byte, number uint32) []byte {
	start := len(dst) + t.hole
	dst = append(dst, t.text...)
	putDigits(dst[start:start+keyDigits], number)
	return dst
}

func putDigits(dst []byte, number uint32) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + number%10)
		number /= 10
	}
}

func keyName(prefix string, number uint32) string {
	name := append([]byte(prefix), make([]byte, keyDigits)...)
	putDigits(name[len(prefix):], number)
	return string(name)
}
