package policy

import (
	"encoding/json"
	"maps"
)

// jsonSchema is a part of a JSON Schema.
type jsonSchema map[string]any

// with returns the schema with another keyword.
func (s jsonSchema) with(keyword string, value any) jsonSchema {
	s = maps.Clone(s)
	s[keyword] = value
	return s
}

// JSONSchema returns the JSON Schema (draft 2020-12) of policies files, for editors. Parse refuses every file that the
// schema refuses, and also checks fields against each other.
func JSONSchema() []byte {
	text, err := json.MarshalIndent(fileKind.schema.
		with("$schema", "https://json-schema.org/draft/2020-12/schema").
		with("title", "Policies of stint"), "", "  ")
	if err != nil {
		panic(err) // it is made of text and numbers
	}
	return append(text, '\n')
}
