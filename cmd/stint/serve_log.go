package main

import (
	"io"
	"log/slog"
)

// logFlags are the flags of serve about its log.
type logFlags struct {
	LogFormat string `help:"text (logfmt) or json." enum:"text,json" default:"text" env:"STINT_LOG_FORMAT"`
	LogLevel  string `help:"debug, info, warn or error; stint cluster log-level changes it while the node runs." enum:"debug,info,warn,error" default:"info" env:"STINT_LOG_LEVEL"`
}

// logger returns the log of a node, and its level, which may be changed later.
func (f logFlags) logger(to io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(f.LogLevel)) // the parser has checked it
	options := &slog.HandlerOptions{Level: level}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, options)), level
	}
	return slog.New(slog.NewTextHandler(to, options)), level
}
