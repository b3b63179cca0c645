package api

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The dashboard's files are there without a token, and what they show is not.
func TestTheDashboardIsServedToEverybodyAndItsFiguresAreNot(t *testing.T) {
	k := newTokens()
	k.add(t, "root", "ops=admin")
	w := newGuardedWorld(t, k.guard)
	for path, kind := range map[string]string{"/ui/": "text/html", "/ui/ui.js": "text/javascript",
		"/ui/ui.css": "text/css", "/ui/icon.svg": "image/svg+xml"} {
		answer := httptest.NewRecorder()
		w.api.ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
		h := answer.Result().Header
		if answer.Code != 200 || !strings.HasPrefix(h.Get("Content-Type"), kind) ||
			h.Get("Content-Security-Policy") != uiPolicy || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", path, answer.Code, h)
		}
	}
	for path, code := range map[string]int{"/": http.StatusFound, "/ui/nothing": http.StatusNotFound,
		"/ui/../stint.v1.ClusterService/Status": http.StatusUnauthorized,
		"/ui/%2e%2e/metrics":                    http.StatusUnauthorized} {
		answer := httptest.NewRecorder()
		w.api.ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
		if answer.Code != code && answer.Code != http.StatusMovedPermanently &&
			answer.Code != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d, want %d", path, answer.Code, code)
		}
		if strings.Contains(answer.Body.String(), "clusterId") || strings.Contains(answer.Body.String(), "stint_") {
			t.Errorf("%s shows figures to a stranger: %s", path, answer.Body)
		}
	}
}

// The policy of the page forbids what these look for; a browser would say so only where it is used.
func TestTheDashboardKeepsItsOwnPolicy(t *testing.T) {
	forbidden := map[string]*regexp.Regexp{
		"another site":           regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//`),
		"a script in the markup": regexp.MustCompile(`<script(?:>| [^>]*>[^<])|\son\w+=["']|javascript:`),
		"a style in the markup":  regexp.MustCompile(`<style|\sstyle=["']`),
		"markup out of text": regexp.MustCompile(
			`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function`),
		"a request that is not call's":  regexp.MustCompile(`XMLHttpRequest|WebSocket|EventSource|sendBeacon`),
		"a token that outlives the tab": regexp.MustCompile(`localStorage|document\.cookie|indexedDB`),
	}
	err := fs.WalkDir(uiFiles, "ui", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(uiFiles, path)
		for what, pattern := range forbidden {
			if found := pattern.Find(text); found != nil {
				t.Errorf("%s has %s: %s", path, what, found)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every procedure that the page asks is in the contract, and every element that it looks for is in the markup.
func TestTheDashboardAsksForWhatThereIs(t *testing.T) {
	script, err := uiFiles.ReadFile("ui/ui.js")
	if err != nil {
		t.Fatal(err)
	}
	markup, err := uiFiles.ReadFile("ui/index.html")
	if err != nil {
		t.Fatal(err)
	}
	known := procedures(t)
	asked := regexp.MustCompile(`call\('(\w+/\w+)'`).FindAllSubmatch(script, -1)
	if len(asked) < 8 {
		t.Errorf("the page asks for %d procedures", len(asked))
	}
	for _, procedure := range asked {
		if !slices.Contains(known, "/stint.v1."+string(procedure[1])) {
			t.Errorf("the page asks for %s, which is no procedure", procedure[1])
		}
	}
	for _, id := range regexp.MustCompile(`byId\('([\w-]+)'\)`).FindAllSubmatch(script, -1) {
		if !strings.Contains(string(markup), `id="`+string(id[1])+`"`) &&
			!strings.Contains(string(script), "id: '"+string(id[1])+"'") {
			t.Errorf("the page looks for #%s, which is nowhere", id[1])
		}
	}
}
