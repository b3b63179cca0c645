package api

import (
	"embed"
	"net/http"
)

// uiPath is the path of the dashboard. Its files need no token, as they hold no data: the page calls the API with the
// operator's token.
const uiPath = "/ui/"

//go:embed ui
var uiFiles embed.FS

// uiPolicy lets the page load its own files and call this server, and nothing else: no script or style in the markup,
// no other site, no frame around it. See https://www.w3.org/TR/CSP3/.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveUI answers GET /ui/ and the files below it.
func serveUI() http.Handler {
	files := http.FileServerFS(uiFiles)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", uiPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache") // the next node may serve the files of another release
		files.ServeHTTP(w, r)
	})
}
