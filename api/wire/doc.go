// Package wire reads and writes the messages of checks as JSON and protobuf, by hand where that is worth it.
//
// Nearly all calls are checks, and the protobuf libraries spend more on such a message, by reflection, than the rest of the
// call costs. So UnmarshalJSON has a reader of its own for the JSON that clients send, and MarshalJSON and MarshalProto
// have writers for the answers to Check and CheckBatch. All other messages go to the library, and so does a text that the
// reader is not sure about: it accepts, refuses and means what the library does, judged by property and fuzz tests.
//
// All functions may be called concurrently.
package wire
