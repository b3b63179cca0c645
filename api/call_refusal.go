package api

import (
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/api/gates"
)

// Refusal is the answer to a connection beyond the limit. It tells the client to retry or to ask another node. No
// denial has this status.
var Refusal = func() []byte {
	body := errorJSON(connect.CodeUnavailable, "too many connections; nothing was counted; "+
		"ask another node, or again in a second")
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}()

// noTLS is the answer to a plaintext request on a TLS port.
const noTLS = "this port speaks TLS, and the request came in plaintext: nothing was done; use https:// (stint: " +
	"an address with https://, or --ca FILE)"

// RefusePlaintext returns the answer to a client that speaks plaintext on a TLS port. HTTP/2 clients, and so every gRPC
// client, understand it too: their error says that the server spoke HTTP/1.1. Most of them would not show the reason in
// an HTTP/2 frame (GOAWAY).
func RefusePlaintext([]byte) (answer []byte, goOn bool) {
	body := errorJSON(connect.CodeFailedPrecondition, noTLS)
	return fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s",
		len(body), body), false
}

// turnAway answers a request that reached no procedure, in the request's own protocol. Of any other answer a client
// reads only the status, and then assumes that the request may have been counted.
func turnAway(w http.ResponseWriter, r *http.Request, status int, code connect.Code, text string) {
	kind := r.Header.Get("Content-Type")
	// At a gate the content type is the visitor's. For one of gRPC the status would be 200, by which the visitor passes.
	atGate := gates.Asked(r) //mutant:visitor-passes-as-grpc
	if r.Method == http.MethodPost && !atGate &&
		(strings.HasPrefix(kind, "application/grpc") || strings.HasPrefix(kind, "application/connect+")) {
		answerStranger(w, r, status, func() {
			errorWriter.Write(w, r, failed(code, text)) // gRPC and streams carry the error in an answer with status 200
		})
		return
	}
	turnAwayWith(w, r, status, code, text)
}

// turnAwayWith is turnAway with the same status in every protocol.
func turnAwayWith(w http.ResponseWriter, r *http.Request, status int, code connect.Code, text string) {
	answerStranger(w, r, status, func() {
		// As in a GET of Connect's protocol.
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/") && !r.URL.Query().Has("encoding") {
			http.Error(w, text, status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(errorJSON(code, text))
	})
}

// answerStranger writes an answer that its client may be slow to read. Only a few calls of a connection may wait for
// that; the others get only the status, without waiting.
func answerStranger(w http.ResponseWriter, r *http.Request, status int, write func()) {
	c := connectionOf(r.Context())
	if !c.enter() {
		w.WriteHeader(status)
		return
	}
	defer c.leave()
	write()
	awaitReader(w, r)
}

// errorJSON writes an error as Connect does, on one line.
func errorJSON(code connect.Code, text string) []byte {
	recorder := answerRecorder{header: make(http.Header)}
	errorWriter.Write(&recorder, &http.Request{}, failed(code, text))
	recorder.WriteByte('\n')
	return recorder.Bytes()
}
