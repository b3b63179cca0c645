package api

import (
	_ "embed"
	"net/http"
)

// openAPI describes the JSON form of the procedures. tools/openapi writes it from the .proto files.
//
//go:embed gen/openapi.yaml
var openAPI []byte

// serveOpenAPI answers GET /openapi.yaml. Like gRPC's reflection, it requires a token, with any grants.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	w.Write(openAPI)
}
