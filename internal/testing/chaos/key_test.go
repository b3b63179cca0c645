//go:build chaos || docker

package chaos

import (
	"bytes"
	"testing"

	"github.com/stint-io/stint/cluster/peer"
)

// keyNames are the names by which a status lists the lines of a cluster key file, in their order. Their number does not
// tell the steps of a rotation apart: the second step only moves a line up.
func keyNames(t *testing.T, lines ...[]byte) []string {
	t.Helper()
	key, err := peer.ParseClusterKey(bytes.Join(lines, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	return key.Fingerprints()
}
