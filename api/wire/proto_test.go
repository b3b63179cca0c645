package wire

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzProtoWriter checks that any answer is written as the library writes it, up to the order of a map.
func FuzzProtoWriter(f *testing.F) { fuzzAnswers(f, sameProto) }

// Every field is written: this fails when a message has a new field that the writer does not know.
func TestEveryFieldOfAnAnswerIsWrittenInBinary(t *testing.T) {
	eachFullAnswer(func(m proto.Message) {
		sameProto(t, m)
		w := &protoWriter{}
		writeAnswer(w, m)
		if w.unsure {
			t.Errorf("the writer is unsure about %v", m)
		}
	})
}

func sameProto(t *testing.T, m proto.Message) {
	t.Helper()
	before := []byte("before")
	got, gotErr := MarshalProto(before, m)
	want, wantErr := proto.MarshalOptions{}.MarshalAppend(before, m)
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%v: error %v, the library's %v", m, gotErr, wantErr)
	}
	if wantErr != nil {
		return
	}
	read := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(bytes.TrimPrefix(got, before), read); err != nil || !proto.Equal(read, m) ||
		len(got) != len(want) {
		t.Errorf("%v\nis written as %v, in %d bytes; %d by the library; error %v", m, read, len(got), len(want), err)
	}
}
