package node

import (
	"fmt"
	"os"
	"strings"

	"github.com/stint-io/stint/internal/edge/auth"
)

// firstTokenName is the name of the token of --admin-token-file.
const firstTokenName = "admin"

// warnOfExposed says which secrets of the configuration, or of these other flags, every user of this machine may read.
func (c *Config) warnOfExposed(files ...[2]string) {
	files = append(files, [2]string{"admin-token-file", c.AdminTokenFile}, [2]string{"cluster-key", c.ClusterKeyFile})
	if c.ClientTLS != nil {
		files = append(files, [2]string{"api-key", c.ClientTLS.Key})
	}
	if c.PeerTLS != nil {
		files = append(files, [2]string{"peer-key", c.PeerTLS.KeyFile})
	}
	for _, file := range files {
		if info, err := os.Stat(file[1]); file[1] != "" && err == nil && info.Mode().Perm()&0o004 != 0 {
			c.Logger.Warn("every user of this machine may read a secret: chmod 600", "flag", file[0], "file", file[1])
		}
	}
}

// readAdminToken reads the file of the first token.
func (c *Config) readAdminToken() error {
	if c.AdminTokenFile == "" {
		return nil
	}
	text, err := os.ReadFile(c.AdminTokenFile)
	if err != nil {
		return fmt.Errorf("admin-token-file: %w", err)
	}
	c.adminToken = &auth.Record{Name: firstTokenName, Grants: []auth.Grant{auth.Everything()}}
	if err := c.adminToken.SetToken(strings.TrimSpace(string(text))); err != nil {
		return fmt.Errorf("admin-token-file: what %s holds %w: stint token generate makes one", c.AdminTokenFile, err)
	}
	return nil
}
