// Package codec writes values as bytes, and reads them back. A function lists the fields of a type once, for both ways,
// as a filter routine of XDR does (RFC 4506 has the idea's format). So a format cannot be written in one way and read
// in another.
//
// The package knows numbers, texts and lists, and no format. Package shard has the formats.
package codec
