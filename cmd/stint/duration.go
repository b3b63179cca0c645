package main

import (
	"reflect"
	"time"

	"github.com/alecthomas/kong"
	"google.golang.org/protobuf/types/known/timestamppb"

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

// untilOf reads an instant, or a duration that begins now. Now is the time of the key's shard, with which the end is
// compared: this machine's clock may be wrong.
func (r remote) untilOf(e entry, text string) (*timestamppb.Timestamp, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(at), nil
	}
	length, err := policy.ParseDuration(text)
	if err != nil || length <= 0 {
		return nil, usagef("%s: is no duration, as 2h or 90d, and no time, as 2030-01-01T00:00:00Z", text)
	}
	now, err := r.get(e.get())
	if err != nil {
		return nil, err
	}
	return timestamppb.New(now.At.AsTime().Add(length)), nil
}
