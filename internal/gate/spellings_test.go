package gate

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
)

// spellings returns what testdata/spellings.txt lists.
func spellings(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile("testdata/spellings.txt")
	if err != nil {
		t.Fatal(err)
	}
	bytes, spaces := make([]string, 256), []string{}
	for i := range bytes {
		bytes[i] = string([]byte{byte(i)})
	}
	for _, r := range "\u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff" {
		spaces = append(spaces, string(r))
	}
	var all []string
	seen := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		pattern, err := strconv.Unquote(`"` + strings.TrimSuffix(line, "\n") + `"`)
		if err != nil {
			t.Fatalf("spellings.txt: %q: %v", line, err)
		}
		for _, spelling := range filled(filled([]string{pattern}, "{byte}", bytes), "{space}", spaces) {
			if !seen[spelling] {
				seen[spelling], all = true, append(all, spelling)
			}
		}
	}
	return all
}

// filled puts each text, raw and percent-encoded, where a pattern has a name.
func filled(patterns []string, name string, texts []string) (all []string) {
	for _, pattern := range patterns {
		if !strings.Contains(pattern, name) {
			all = append(all, pattern)
			continue
		}
		for _, text := range texts {
			var encoded strings.Builder
			for i := range len(text) {
				fmt.Fprintf(&encoded, "%%%02x", text[i])
			}
			all = append(all, strings.ReplaceAll(pattern, name, text),
				strings.ReplaceAll(pattern, name, encoded.String()))
		}
	}
	return all
}

// takenFile says which servers take which spelling for the page. `make spellings` asks them, and writes it if they take
// others now.
const takenFile = "testdata/taken.txt"

// taken returns the servers of each spelling.
func taken(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(takenFile)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		quoted, servers, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		spelling, err := strconv.Unquote(quoted)
		if err != nil || servers == "" {
			t.Fatalf("%s: %q", takenFile, line)
		}
		all[spelling] = servers
	}
	return all
}

// ways are gates with a route for the page, by what it says.
func ways(t *testing.T) map[string]*Gate {
	t.Helper()
	gates := map[string]*Gate{}
	for _, match := range []string{"{path: /login}", "{prefix: /login}", "{glob: /login}", "{glob: '/log*'}",
		"{regexp: '/login/?'}"} {
		gates[match] = made(t, "    no_match: allow\n    trusted_proxies: [10.0.0.0/8]\n    routes: [{match: "+match+
			`, entries: [{policy: login, key: "{ip}"}]}]`+"\n")
	}
	return gates
}

// free returns where a spelling of the page passes uncounted: at which gate, and how the proxy asks it.
func free(gates map[string]*Gate, spelling string) (found []string) {
	for match, g := range gates {
		for place, q := range map[string]*Question{
			"behind the gate": {Peer: "10.0.0.1:1", Method: http.MethodGet, Path: spelling},
			"in a header": {Peer: "10.0.0.1:1", Method: http.MethodGet,
				Header: http.Header{"X-Original-Method": {http.MethodGet},
					"X-Original-Uri": {strings.Trim(spelling, " \t")}}}, // as net/http reads headers
		} {
			var refusal *Refusal
			if route, err := g.Match(q); route == nil && !errors.As(err, &refusal) {
				found = append(found, match+" "+place)
			}
		}
	}
	return found
}

// A server that takes a spelling for the page must not get it uncounted: the gate counts it as the page, or refuses it.
func TestNoSpellingOfAPageIsFree(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	servers, gates, asked := taken(t), ways(t), 0
	for _, spelling := range spellings(t) {
		r, err := http.ReadRequest(
			bufio.NewReader(strings.NewReader("GET " + spelling + " HTTP/1.1\r\nHost: a\r\n\r\n")))
		if answer := httptest.NewRecorder(); err == nil {
			if mux.ServeHTTP(answer, r); answer.Code == http.StatusTeapot {
				servers[spelling] += " net/http"
			}
		}
		if servers[spelling] == "" {
			continue
		}
		asked++
		if found := free(gates, spelling); len(found) > 0 {
			t.Errorf("%q is the page for %s, and free with %s", spelling, servers[spelling], strings.Join(found, ", "))
		}
		delete(servers, spelling)
	}
	if asked < 50 || len(servers) > 0 {
		t.Errorf("%d spellings were asked; these are not in the list: %v", asked, servers)
	}
}
