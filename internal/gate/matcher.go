package gate

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

// matcher is a policy.GateMatch prepared for questions.
type matcher struct {
	method, host string
	path         func(string) bool // nil matches every path
	header       []*policy.GateHeader
}

func newMatcher(m *policy.GateMatch) matcher {
	ready := matcher{method: cleanMethod(m.Method), host: m.Host, header: m.Header}
	switch {
	case m.Path != "":
		whole := cleanPath(m.Path, plain)
		ready.path = func(path string) bool { return path == whole }
	case m.Prefix != "":
		start := cleanPath(m.Prefix, plain)
		ready.path = func(path string) bool {
			rest, found := strings.CutPrefix(path, strings.TrimSuffix(start, "/"))
			return found && (rest == "" || rest[0] == '/')
		}
	case m.Glob != "":
		ready.path = compileGlob(m.Glob)
	case m.Regexp != "":
		ready.path = compileRegexp(m.Regexp)
	}
	return ready
}

func compileRegexp(pattern string) func(string) bool {
	return regexp.MustCompile(`(?is)\A(?:` + pattern + `)\z`).MatchString
}

// compileGlob compiles a pattern: "*" is any text within a segment, and "**" any text. "/**" at the end also matches no
// text.
func compileGlob(glob string) func(string) bool {
	glob, tail := strings.TrimSuffix(glob, "/"), ""
	if start, whole := strings.CutSuffix(glob, "/**"); whole {
		glob, tail = start, `(?:/.*)?`
	}
	var pattern strings.Builder
	for i, part := range strings.Split(glob, "**") {
		if i > 0 {
			pattern.WriteString(".*")
		}
		for j, text := range strings.Split(part, "*") {
			if j > 0 {
				pattern.WriteString("[^/]*")
			}
			pattern.WriteString(regexp.QuoteMeta(text))
		}
	}
	if glob == "" && tail == "" {
		tail = "/"
	}
	return compileRegexp(pattern.String() + tail)
}

func (m *matcher) matches(r *request, path string, header http.Header) bool {
	if m.method != "" && m.method != r.method {
		return false
	}
	if below, wild := strings.CutPrefix(m.host, "*"); m.host != "" && m.host != r.host &&
		!(wild && strings.HasSuffix(r.host, below)) {
		return false
	}
	if m.path != nil && !m.path(path) {
		return false
	}
	for _, h := range m.header {
		values := header[http.CanonicalHeaderKey(h.Name)]
		if len(values) == 0 || h.Value != "*" && !slices.Contains(values, h.Value) {
			return false
		}
	}
	return true
}
