package auth

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Buckets is the number of documents that hold the records: enough that 10,000 records of usual size fit into documents
// of 192 KiB. The number is part of the format.
const Buckets = 64

// HeadDocument is the name of the document that records whether the cluster requires tokens, besides their existence.
const HeadDocument = "tokens"

// Bucket returns the name of the document with the record of a name. Which one that is must never change.
func Bucket(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return BucketName(int(h.Sum32() % Buckets))
}

// BucketName returns the name of the i-th bucket.
func BucketName(i int) string { return fmt.Sprintf("%s/%02d", HeadDocument, i) }

// Head is the content of HeadDocument, as JSON.
type Head struct {
	Off bool `json:",omitempty"` // tokens are not required, although there are or were some
}

// bucket is the content of a bucket.
type bucket struct{ Records []Record }

// EncodeBucket writes records, sorted by name. Equal records have equal bytes.
func EncodeBucket(records []Record) []byte {
	records = slices.SortedFunc(slices.Values(records), func(a, b Record) int {
		return strings.Compare(a.Name, b.Name)
	})
	text, err := json.Marshal(bucket{records})
	if err != nil {
		panic("auth: records that cannot be written: " + err.Error()) // they hold only texts and numbers
	}
	return text
}

// DecodeBucket reads the output of EncodeBucket. Unknown fields are ignored: a newer version may have added them. A
// record that cannot be used is an error: leaving it out could leave out a revocation.
func DecodeBucket(body []byte) ([]Record, error) {
	var b bucket
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("auth: a bucket of tokens: %w", err)
	}
	for i := range b.Records {
		if err := b.Records[i].readable(); err != nil {
			return nil, fmt.Errorf("auth: the record of %q: %w", b.Records[i].Name, err)
		}
	}
	return b.Records, nil
}
