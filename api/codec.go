package api

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// call receives one message. A message that cannot be read becomes a request with a fault, not a transport error, so that
// it is answered and counted like every other call.
type call[M any, P pointer[M]] struct {
	message M
	fault   error
}

type pointer[M any] interface {
	*M
	proto.Message
}

func (c *call[M, P]) read(data []byte, unmarshal func([]byte, proto.Message) error) {
	c.fault = unmarshal(data, P(&c.message))
}

// reader is the interface of a *call.
type reader interface {
	read(data []byte, unmarshal func([]byte, proto.Message) error)
}

// codec is a message encoding for connect. It reads into a call instead of a bare request.
type codec struct {
	name      string
	unmarshal func([]byte, proto.Message) error
	append    func([]byte, proto.Message) ([]byte, error)
}

// The JSON codec refuses unknown fields: a misspelled "cost" must not be counted as 1. It writes every field that is not
// a message, so that "allowed": false and "remaining": "0" are visible.
var (
	readJSON  = protojson.UnmarshalOptions{}
	writeJSON = protojson.MarshalOptions{EmitDefaultValues: true}
)

var codecs = connect.WithHandlerOptions(
	connect.WithCodec(codec{"proto", proto.Unmarshal, marshalProto}),
	connect.WithCodec(codec{"json", unmarshalJSON, marshalJSON}),
	connect.WithCodec(codec{"json; charset=utf-8", unmarshalJSON, marshalJSON}),
)

// Name implements connect.Codec.
func (c codec) Name() string { return c.name }

// Unmarshal implements connect.Codec for a *call.
func (c codec) Unmarshal(data []byte, target any) error {
	target.(reader).read(data, c.unmarshal)
	return nil
}

// Marshal implements connect.Codec for a message.
func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend lets connect reuse its buffers.
func (c codec) MarshalAppend(buffer []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", message)
	}
	return c.append(buffer, m)
}
