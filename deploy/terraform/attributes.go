package main

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// instantOf reads an instant, as in 2027-01-01T00:00:00Z. It returns nil if the text is null or empty.
func instantOf(text types.String) (*timestamppb.Timestamp, error) {
	if text.ValueString() == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text.ValueString())
	return timestamppb.New(t), err
}

// sameInstant returns an instant as the state writes it, so that another spelling is no difference.
func sameInstant(state types.String, t *timestamppb.Timestamp) types.String {
	if t == nil {
		return types.StringNull()
	}
	if old, err := instantOf(state); err == nil && old != nil && old.AsTime().Equal(t.AsTime()) {
		return state
	}
	return types.StringValue(t.AsTime().Format(time.RFC3339Nano))
}

// textOf returns null for the empty text, which is how the API says that there is none.
func textOf(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// textsOf returns a set of texts, or null for none.
func textsOf(texts []string) types.Set {
	if len(texts) == 0 {
		return types.SetNull(types.StringType)
	}
	values := make([]attr.Value, len(texts))
	for i, text := range texts {
		values[i] = types.StringValue(text)
	}
	return types.SetValueMust(types.StringType, values)
}

// texts reads a set of texts.
func texts(set types.Set) (all []string) {
	for _, value := range set.Elements() {
		all = append(all, value.(types.String).ValueString())
	}
	return all
}

// unitsOf returns a number, or nil for none. One below 0 is above what the cluster takes.
func unitsOf(n types.Int64) *uint64 {
	if n.IsNull() {
		return nil
	}
	units := uint64(n.ValueInt64())
	return &units
}

func int64Of(units *uint64) types.Int64 {
	if units == nil {
		return types.Int64Null()
	}
	return types.Int64Value(int64(*units))
}
