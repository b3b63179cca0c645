package gate

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pathBytesMax bounds a path. Each route reads it, up to four times: a longer one could take longer than a proxy waits,
// and then pass.
const pathBytesMax = 8 << 10

// paths are a target's paths as servers read it, one for each set of readings, or "" if there is none. Most targets
// have one.
type paths [everyReading]string

// readings returns the paths of a target, such as /a//b/C/?x=1 or http://host/a/c, in canonical form:
//
//	%41                 decoded once
//	//, /a/, /A         empty segments, a slash at the end and the case of letters do not matter (nginx,
//	                    Express, IIS, Spring, "(?i)" of Go and Python)
//
// Some features make no difference to some servers, and a great one to others. A target with one of them has both
// paths:
//
//	%2F, %5C            a slash (nginx, IIS), or a letter (Express); "%2f" or "%5c" in the second path
//	/a;x=1/b            a parameter that is cut off (Tomcat, Jetty), or a part of the name (Express)
//	/a%20, /a., /a!     white space, dots and bytes that are no text at an end of a name: they are dropped (trim, Windows), or a part of it
//	//a/b               the host a (parse_url of PHP), or a name
//
// A target that no ordinary client sends, and that servers read in too many ways, is refused.
func readings(target string) (paths, error) {
	_, path, err := splitTarget(target)
	if err != nil {
		return paths{}, err
	}
	if len(path) > pathBytesMax { //mutant:path-of-any-length
		return paths{}, &Refusal{http.StatusBadRequest, fmt.Sprintf("the path has %d bytes: at most %d are allowed",
			len(path), pathBytesMax)}
	}
	if err := printableProblem(path); err != nil {
		return paths{}, err
	}
	var differ reading
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		decoded := decode(segment)
		if err := segmentProblem(decoded, i == len(segments)-1); err != nil {
			return paths{}, err
		}
		if strings.ContainsAny(decoded, `/\`) { //mutant:encoded-slash-leaves-a-route
			differ |= slashesInNames
		}
		if strings.Contains(decoded, ";") { //mutant:parameter-leaves-a-route
			differ |= parametersInNames
		}
		if strings.ContainsFunc(decoded, isLoose) { //mutant:space-leaves-a-route
			differ |= looseEnds
		}
	}
	if strings.HasPrefix(path, "//") { //mutant:host-leaves-a-route
		differ |= hostInPath
	}
	var all paths
	for way := range everyReading {
		if way&^differ != 0 {
			continue
		}
		if clean := cleanPath(path, way); !slices.Contains(all[:way], clean) {
			all[way] = clean
		}
	}
	return all, nil
}

// printableProblem refuses characters that cannot be part of a URI (RFC 3986), and control characters in any encoding:
// "$" of many regular expressions matches before a line feed, and servers cut a request line at any white space that
// their language knows.
func printableProblem(path string) error {
	if path != "" && path != "*" && path[0] != '/' { //mutant:path-without-slash-leaves-a-route
		return ambiguousPath(`no "/" at its beginning`)
	}
	if strings.ContainsFunc(decode(path), unicode.IsControl) { //mutant:control-character-leaves-a-route
		return ambiguousPath("a control character")
	}
	for i := range len(path) {
		if path[i] >= utf8.RuneSelf { //mutant:raw-byte-leaves-a-route
			return ambiguousPath("a byte that is no ASCII and not percent-encoded")
		}
	}
	return nil
}

// segmentProblem refuses a decoded segment that a server may read as a way up, or as empty.
func segmentProblem(segment string, last bool) error {
	parts := strings.FieldsFunc(segment, isSlash)
	for i, part := range parts {
		name, _, cut := strings.Cut(part, ";")
		switch bare := strings.TrimFunc(name, isSpace); {
		case bare == "." || bare == "..": //mutant:dots-leave-a-route
			return ambiguousPath(`a segment "." or ".."`)
		case cut && i < len(parts)-1: //mutant:slash-in-a-parameter-leaves-a-route
			return ambiguousPath(`a "/" in a parameter behind ";"`)
		case name == "" && !last:
			return ambiguousPath(`a segment that begins with ";"`)
		}
	}
	return nil
}

func ambiguousPath(what string) error {
	return &Refusal{http.StatusBadRequest, "the path has " + what + ", which servers read in different ways: " +
		"send the path without it"}
}

// reading is a way to read a path.
type reading uint8

const (
	slashesInNames    reading = 1 << iota // encoded slashes are parts of names
	parametersInNames                     // text after ";" as well
	looseEnds                             // loose characters at the ends of a name are not part of it
	hostInPath                            // "//" begins with the name of a host

	everyReading             // number of sets of readings
	plain        reading = 0 // the set of none, in which rules are written
)

// cleanPath returns a path in canonical form, as readings describes it, for one set of readings.
func cleanPath(path string, way reading) string {
	if way&hostInPath != 0 {
		_, path, _ = strings.Cut(path[len("//"):], "/")
	}
	var names []string
	for segment := range strings.SplitSeq(path, "/") {
		if way&parametersInNames == 0 {
			segment, _, _ = strings.Cut(segment, ";")
		}
		segment = lower(decode(segment)) //mutant:encoded-path-differs
		parts := []string{encodedSlashes.Replace(segment)}
		if way&slashesInNames == 0 {
			parts = strings.FieldsFunc(segment, isSlash)
		}
		for _, name := range parts {
			if way&parametersInNames == 0 {
				name, _, _ = strings.Cut(name, ";") // a proxy may have decoded it
			}
			if way&looseEnds != 0 {
				name = strings.TrimFunc(name, isLoose)
			}
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return "/" + strings.Join(names, "/")
}

// isLoose reports whether some servers drop a character at the beginning or end of a name. A byte that is not text may
// be white space in another character set; Envoy reports it as "!".
func isLoose(r rune) bool { return r == '.' || r == '!' || isSpace(r) } //mutant:byte-that-is-no-text-leaves-a-route

// isSpace reports whether a server may take a character for white space: also control characters, and bytes that are
// not UTF-8.
func isSpace(r rune) bool { return r == utf8.RuneError || unicode.In(r, unicode.Z, unicode.C) }

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// encodedSlashes spells the slashes that are parts of a name, so that a canonical path has no others than separators.
var encodedSlashes = strings.NewReplacer("/", "%2f", `\`, "%5c")

// splitTarget returns the host and the path of a target in absolute form, or of a path alone ("//host/x" is a path).
// Neither is decoded.
func splitTarget(target string) (host, path string, err error) {
	path = target
	if scheme, rest, found := strings.Cut(target, "://"); found && scheme != "" &&
		!strings.ContainsAny(scheme, `/\%;?#`) {
		host, path = rest, ""
		if i := strings.IndexAny(rest, `/\?#`); i >= 0 {
			host, path = rest[:i], rest[i:]
		}
		//mutant:host-ends-the-path
		if path != "" && path[0] != '/' { // a proxy that writes it has taken it from a client
			return "", "", &Refusal{http.StatusBadRequest,
				"the host of the address has a character that no name of a host has"}
		}
	}
	path, _, _ = strings.Cut(path, "?")
	switch {
	case strings.Contains(path, "#"):
		return "", "", ambiguousPath(`a "#"`)
	case strings.Contains(path, `\`):
		return "", "", ambiguousPath(`a "\"`)
	}
	return host, path, nil
}

// decode undoes percent-encoding once. Malformed escapes stay unchanged.
func decode(text string) string {
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return escape.ReplaceAllStringFunc(text, func(one string) string {
		decoded, _ := url.PathUnescape(one) // it is well-formed
		return decoded
	})
}

// escape matches one percent-encoded byte.
var escape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

// lower writes all cases of a letter as one, and "i" with and without its dot as one letter. The bytes of a path need
// not be text.
func lower(text string) string {
	text = dotlessI.Replace(text) //mutant:letter-of-another-case-differs
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError {
			b = append(b, text[i:i+size]...)
		} else {
			b = utf8.AppendRune(b, folded(r))
		}
		i += size
	}
	return string(b)
}

// folded returns the one letter that stands for a letter in each of its cases, as "(?i)" compares them: "s" for U+017F,
// and "k" for U+212A.
func folded(r rune) rune {
	first := r
	//mutant:case-outside-of-ascii-differs
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		first = min(first, other)
	}
	return unicode.ToLower(first)
}

// dotlessI has the letters U+0130 and U+0131, which are "i" in upper or lower case for some servers.
var dotlessI = strings.NewReplacer("\u0130", "i", "\u0131", "i")

// cleanHost returns the name in a Host header: lower case, no port, no dot at the end.
func cleanHost(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.TrimSuffix(lower(host), ".")
}
