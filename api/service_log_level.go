package api

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"github.com/stint-io/stint/internal/edge/auth"
)

// logLevelPath shows (GET) and changes (PUT) the level of this node's log, until the node starts again.
const logLevelPath = "/log-level"

// logLevel serves logLevelPath. It logs the change with its actor; it is about one process, and nothing in the cluster
// changes.
type logLevel struct {
	level  *slog.LevelVar // nil: the path is not served
	logger *slog.Logger   // has this level
}

func (l logLevel) register(d *registry) {
	if l.level == nil {
		return
	}
	d.gate.ops[logLevelPath] = auth.Cluster
	d.mux.HandleFunc("GET "+logLevelPath, l.show)
	d.mux.HandleFunc("PUT "+logLevelPath, l.change)
}

func (l logLevel) show(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, strings.ToLower(l.level.Level().String()))
}

func (l logLevel) change(w http.ResponseWriter, r *http.Request) {
	const most = 16
	body, err := io.ReadAll(io.LimitReader(r.Body, most))
	var wanted slog.Level
	if err == nil {
		wanted, err = ParseLogLevel(strings.TrimSpace(string(body)))
	}
	if err != nil {
		turnAway(w, r, http.StatusBadRequest, connect.CodeInvalidArgument, "the level of the log "+err.Error())
		return
	}
	was := l.level.Level()
	l.level.Set(min(was, wanted)) // the lower of the two, so that the change itself is logged
	l.logger.Log(r.Context(), max(slog.LevelWarn, l.level.Level()), "the level of the log was changed", "from",
		strings.ToLower(was.String()), "to", strings.ToLower(wanted.String()), "by", callerIn(r.Context()).Name())
	l.level.Set(wanted)
	l.show(w, r)
}

// ParseLogLevel reads "debug", "info", "warn" or "error".
func ParseLogLevel(text string) (slog.Level, error) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(text, level.String()) {
			return level, nil
		}
	}
	return 0, fmt.Errorf("must be debug, info, warn or error")
}
