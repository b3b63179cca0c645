package api

import (
	_ "embed"
	"net/http"
)

// openAPI describes the JSON face of the procedures. tools/openapi writes it from the .proto files.
//
//go:embed gen/openapi.yaml
var openAPI []byte

// serveOpenAPI answers GET /openapi.yaml. It is asked for as gRPC's reflection is: by whoever has a token, whatever it allows.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	w.Write(openAPI)
}
