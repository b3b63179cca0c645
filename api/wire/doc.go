// Package wire reads and writes the messages of checks as JSON and protobuf, by hand where it pays.
//
// Nearly all calls are checks, and the protobuf libraries, which use reflection, spend more on such a message than the
// rest of the call costs. So UnmarshalJSON has a reader of its own for the JSON that clients send, and MarshalJSON and
// MarshalProto have writers for the answers to Check and CheckBatch. All other messages go to the library, and so does
// text that the reader cannot judge: it accepts, refuses and means what the library does. Property and fuzz tests
// compare the two.
//
// All functions may be called concurrently.
package wire
