package main

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stint-io/stint/policy"
)

const day = 24 * time.Hour

// durations makes every duration flag accept days and weeks.
var durations = kong.TypeMapper(reflect.TypeFor[time.Duration](),
	kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		length, err := policy.ParseDuration(text)
		if err != nil {
			return err
		}
		target.SetInt(int64(length))
		return nil
	}))
