package policy

// Revision is a version of a cluster's policies. It is immutable.
type Revision struct {
	Version uint64 // of the system shard's document; only grows; 0 means none yet
	Text    []byte // canonical YAML, as Format writes it
	Set     *Set   // parsed from Text, At Version
}
