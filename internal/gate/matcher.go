package gate

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-io/stint/policy"
)

// matcher is a policy.GateMatch prepared for questions. All of its conditions must hold.
type matcher struct {
	method, host string               // canonical, as in request; "" matches all; a host may begin with "*."
	path         func(string) bool    // of a canonical path; nil matches every path
	header       []*policy.GateHeader // all must be there; others may be, too
}

// newMatcher prepares valid conditions. Paths and prefixes become canonical, like the paths of requests; globs and
// regular expressions are compared with canonical paths as they are written.
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

// compileRegexp returns the matcher of whole paths, in any case of letters. It panics if the pattern is invalid: the
// policies file was refused then.
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

// matches reports whether one path of a request, and the rest of the request, meet the conditions.
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
