package policy

// Revision is a version of a cluster's policies. It is immutable.
type Revision struct {
	Version uint64 // of the system shard's document; it only grows. 0: none yet
	Text    []byte // canonical YAML, as Format writes it
	Set     *Set   // parsed from Text, At Version
}
