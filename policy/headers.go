package policy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// The header styles in which an answer describes limits to a client. A policy has at most one of each family, since two
// of one family would write the same headers.
const (
	StyleIETF            = "ietf"              // RateLimit-Policy and RateLimit
	StyleXRateLimit      = "x-ratelimit"       // X-RateLimit-*; Reset in Unix seconds
	StyleXRateLimitDelta = "x-ratelimit-delta" // the same; Reset in seconds from now
	// StyleXRateLimitUsed is StyleXRateLimit with X-RateLimit-Used and -Resource as GitHub has them.
	StyleXRateLimitUsed = "x-ratelimit-github"
	// StyleXQuota is X-Quota-* of the limit named QuotaLimit; "x-quota: month" is of the limit month.
	StyleXQuota = "x-quota"
)

// QuotaLimit is the name of the limit that the header style x-quota shows if it names none.
const QuotaLimit = "daily"

var headerStyles = []string{StyleIETF, StyleXRateLimit, StyleXRateLimitDelta, StyleXRateLimitUsed, StyleXQuota}

// quotaOf precedes the name of a limit: a style with a name is written as in the file, "x-quota: month".
const quotaOf = StyleXQuota + ": "

// QuotaStyle returns the limit that a style of the family x-quota shows; ok is false for other styles.
func QuotaStyle(style string) (limit string, ok bool) {
	if style == StyleXQuota {
		return QuotaLimit, true
	}
	return strings.CutPrefix(style, quotaOf)
}

// family returns the common prefix of a style's headers.
func family(style string) string {
	if _, quota := QuotaStyle(style); quota {
		return StyleXQuota
	}
	if strings.HasPrefix(style, StyleXRateLimit) {
		return StyleXRateLimit
	}
	return style
}

// headers refuses unknown header styles, and two of one family. Whether the limit of an x-quota exists is for
// quotaMistake, which Parse does not ask.
func (c *checker) headers() {
	styles := c.policy.Headers
	for i, style := range styles {
		field := fmt.Sprintf("headers[%d]", i)
		if name, named := strings.CutPrefix(style, quotaOf); named {
			if problem := NameProblem(name); problem != "" {
				c.fail(field, "x-quota of %s: it %s", shown(name), problem)
				continue
			}
		} else if !slices.Contains(headerStyles, style) {
			c.fail(field, "%s is no header style: known are %s, and x-quota: LIMIT",
				shown(style), strings.Join(headerStyles, ", "))
			continue
		}
		first := slices.IndexFunc(styles[:i], func(s string) bool { return family(s) == family(style) })
		switch {
		case first >= 0 && styles[first] == style:
			c.fail(field, "%s is there twice", style)
		case first >= 0:
			c.fail(field, "%s writes the same headers as %s: choose one", style, styles[first])
		}
	}
}

// styleKind is a word, or "x-quota" with the name of a limit.
func styleKind() kind {
	quota := kindFor(func(d *decoder, v value, style *string) {
		given := d.entries(v)
		d.knows(v, given, []string{StyleXQuota})
		switch {
		case len(given) == 0:
			d.fail(v.path, "must be the name of a header style")
		case d.failed[given[0].path]:
			d.failed[v.path] = true
		default:
			anyTextKind.readInto(d, given[0], style)
			d.failed[v.path] = d.failed[given[0].path]
		}
		*style = quotaOf + *style
	}, func(style *string) *yaml.Node {
		name := texts["name"].node(strings.TrimPrefix(*style, quotaOf))
		return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar(StyleXQuota, false), name}}
	}, jsonSchema{"type": "object", "required": []string{StyleXQuota}, "additionalProperties": false,
		"properties": jsonSchema{StyleXQuota: texts["name"].schema}})
	isNamed := func(v reflect.Value) bool { return strings.HasPrefix(v.String(), quotaOf) }
	return eitherKind(quota, textKind(`text:"style"`), isNamed)
}

// quotaMistake returns the problem of an x-quota that would show nothing, or "".
func (p *Policy) quotaMistake() string {
	for _, style := range p.Headers {
		if name, quota := QuotaStyle(style); quota && !p.Has(name) {
			return fmt.Sprintf("%s shows the limit named %s, and there is none: name the limit so, write \"x-quota: "+
				"LIMIT\" with the name of another, or leave x-quota out", StyleXQuota, name)
		}
	}
	return ""
}
