package policy

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Percent is a share in whole percent: 1 to 100.
type Percent uint32

// percentKind is a share as written in a file: "50%".
var percentKind = kindFor(readShare, func(p *Percent) *yaml.Node {
	return scalar(strconv.FormatUint(uint64(*p), 10)+"%", false)
}, jsonSchema{"type": "string", "pattern": "^([1-9][0-9]?|100)%$"})

func readShare(d *decoder, v value, into *Percent) {
	n := d.percent(v, "a share in whole percent, such as 50%")
	if n > 100 {
		d.fail(v.path, "is %d%%: at most 100%%", n)
		return
	}
	*into = Percent(n)
}

// percent reads digits before a "%", and returns 0 if it refuses them. what describes the values that are allowed.
func (d *decoder) percent(v value, what string) uint32 {
	digits, ok := strings.CutSuffix(v.node.Value, "%")
	n, err := strconv.ParseUint(digits, 10, 32)
	switch {
	case !ok || v.node.Kind != yaml.ScalarNode || err != nil || quoted(v.node) || len(digits) > 1 && digits[0] == '0':
		d.refuse(v, what)
		return 0
	case n == 0:
		d.fail(v.path, "must be at least 1%%")
	}
	return uint32(n)
}
