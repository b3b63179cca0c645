package node

import (
	"fmt"
	"os"
	"strings"

	"github.com/stint-io/stint/internal/auth"
)

// firstTokenName is the name of the token of --admin-token-file.
const firstTokenName = "admin"

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
