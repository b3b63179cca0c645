package stintcaddy

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/client/stinthttp"
)

func init() { caddy.RegisterModule(Handler{}) }

// Handler counts each request by its limits, all or nothing, before the next handler sees it. Its fields are the JSON
// of the module http.handlers.stint.
type Handler struct {
	// Addresses are the base URLs of some nodes.
	Addresses []string `json:"addresses"`
	// Token authenticates the requests. It may have placeholders, as {env.STINT_TOKEN} or {file./run/secrets/stint}.
	Token string `json:"token,omitempty"`
	// Namespace of the policies; "" means the server's default.
	Namespace string `json:"namespace,omitempty"`
	// Timeout is how long a request waits for its decision. 0 means 2 s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// Fail says what happens while the cluster gives no decision: "closed" answers 503, "open" lets requests pass.
	Fail string `json:"fail"`
	// Limits are counted together or not at all.
	Limits []Limit `json:"limits"`

	client *client.Client                  // made by Provision and closed by Cleanup; nil if Provision failed
	limit  func(http.Handler) http.Handler // made by Provision; it may be called concurrently
}

// CaddyModule implements caddy.Module.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.stint", New: func() caddy.Module { return new(Handler) }}
}

// Provision implements caddy.Provisioner: it makes the client, which connects when it is first asked.
func (h *Handler) Provision(ctx caddy.Context) (err error) {
	if len(h.Limits) == 0 {
		return errors.New("stint: no limit says what to count")
	}
	options := []stinthttp.Option{failed(ctx.Logger())}
	switch h.Fail {
	case "open":
		options = append(options, stinthttp.FailOpen)
	case "closed":
	default:
		return fmt.Errorf("stint: fail is %q: say closed (503) or open for the time when the cluster gives no decision",
			h.Fail)
	}
	if h.Timeout != 0 {
		options = append(options, stinthttp.Within(time.Duration(h.Timeout)))
	}
	for _, l := range h.Limits {
		entry, err := l.entry()
		if err != nil {
			return err
		}
		options = append(options, entry)
	}
	token, err := caddy.NewReplacer().ReplaceOrErr(h.Token, true, true)
	if err != nil {
		return fmt.Errorf("stint: the token: %w", err)
	}
	h.client, err = client.New(client.Config{Addresses: h.Addresses, Token: token, Namespace: h.Namespace})
	if err != nil {
		return err
	}
	h.limit = stinthttp.Limit(h.client, options...)
	return nil
}

// Cleanup implements caddy.CleanerUpper.
func (h *Handler) Cleanup() error {
	if h.client != nil {
		h.client.Close()
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (err error) {
	h.limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err = next.ServeHTTP(w, r)
	})).ServeHTTP(w, r)
	return err
}

// failed writes down why there is no decision, and answers as stinthttp does.
func failed(log *zap.Logger) stinthttp.Option {
	return stinthttp.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
		if !errors.Is(err, stinthttp.ErrNoKey) { // a client can cause it
			log.Error("no decision", zap.Error(err), zap.Bool("passes", w == nil))
		}
		stinthttp.Failed(w, r, err)
	})
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
