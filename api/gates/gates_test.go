package gates

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// The gate judges the path as the site will read it, in any spelling.
func TestThePathBehindAGateIsAsItWasSent(t *testing.T) {
	for target, want := range map[string]string{
		"/gate/web":                         "web ",
		"/gate/web?deny=403":                "web ",
		"/gate/web/a%2Fb?c":                 "web /a%2Fb",
		"/gate/web/search/a%2Fb|":           "web /search/a%2Fb|",
		"/gate/web/a%2Fb\xff":               "web /a%2Fb\xff",
		"http://n1:7400/gate/web/a%2Fb|?x":  "web /a%2Fb|",
		"/%67ate/web/a":                     " ",
		"/gate/web/http://n1:7400/gate/s0/": "web /http://n1:7400/gate/s0/",
	} {
		r, err := http.ReadRequest(
			bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: n1\r\n\r\n")))
		if err != nil {
			t.Fatal(target, err)
		}
		if name, path := pathOf(r); name+" "+path != want {
			t.Errorf("%s: %q of %q", target, path, name)
		}
	}
}
