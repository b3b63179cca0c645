//go:build docker

package chart

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestTheChartRuns runs what the chart renders, with TLS and tokens, and does with it what docs/kubernetes.md says.
// All the time clients ask the Service: none of their requests may fail, and what they were told is what was counted.
func TestTheChartRuns(t *testing.T) {
	c := newCluster(t)
	values := map[string]any{
		"image": map[string]any{"repository": "stint", "tag": "dev"},
		"tls":   map[string]any{"secret": "api"}, "adminToken": map[string]any{"secret": "admin"},
		"shards": 2, "policies": policiesOf("stock"),
	}
	c.install(values)
	c.until("the cluster is healthy", c.isHealthy)
	c.knowsItsMemory()
	k := newClients(c)

	values["podAnnotations"] = map[string]any{"rolled": "once"}
	c.upgrade(values)
	k.sound("roll")

	c.scale(values, 5)
	k.sound("3 to 5")
	c.changesNothingButPolicies(k, values)
	k.sound("another ConfigMap")
	c.showsAnotherCertificate(k)
	c.changesTheClusterKey()
	k.sound("other Secrets")
	c.removeLast(values, 5)
	c.removeLast(values, 4)
	k.sound("5 to 3")
	c.scale(values, 5)
	k.sound("3 to 5 again")

	c.pods[1].end()
	c.loseClaim(1)
	c.pods[1] = c.newPod(1)
	c.until("the pod without its volume is ready", c.pods[1].isReady)
	c.until("the cluster is healthy", c.isHealthy)
	k.sound("a lost volume")

	k.end()
	if used, told := k.used(t), k.allowed.Load(); used != told || told < 1000 {
		t.Errorf("%d were counted, and clients were told of %d", used, told)
	}
	for _, p := range c.pods {
		if code := p.end(); code != "0" {
			t.Errorf("%s ended with %s", p.name, code)
		}
	}
}

// policiesOf is a policies file.
func policiesOf(names ...string) string {
	text := "policies:\n"
	for _, name := range names {
		text += fmt.Sprintf("  %s: {limits: [{name: all, quota: 1000000000, lifetime: {}}]}\n", name)
	}
	return text
}

// scale adds pods.
func (c *cluster) scale(values map[string]any, replicas int) {
	c.t.Helper()
	values["replicas"] = replicas
	c.upgrade(values)
	c.until("all nodes are there, and healthy", func() bool { return len(c.nodes()) == replicas && c.isHealthy() })
}

// removeLast removes the pod with the highest number, as the page says: first from the cluster, then the pod, then its
// claim.
func (c *cluster) removeLast(values map[string]any, of int) {
	c.t.Helper()
	name := fmt.Sprintf("stint-%d", of-1)
	if out, err := c.stint("cluster", "remove-node", name, "--yes"); err != nil {
		c.t.Fatalf("%s%v", out, err)
	}
	values["replicas"] = of - 1
	c.upgrade(values)
	c.loseClaim(of - 1)
	c.until(name+" is gone, and the others are healthy", func() bool { return len(c.nodes()) == of-1 && c.isHealthy() })
}

// node is a node as `stint status` lists it.
type node struct {
	State    string
	KeyLines []string
	Machine  struct {
		MemoryLimit int64 `json:",string"`
	}
}

// nodes are those that were not removed.
func (c *cluster) nodes() []node {
	out, _ := c.stint("status", "-o", "json") // an error may be a problem that the test waits to see gone
	var status struct{ Nodes []node }
	if json.Unmarshal([]byte(out), &status) != nil {
		return nil
	}
	return slices.DeleteFunc(status.Nodes, func(n node) bool { return n.State == "removed" })
}

// knowsItsMemory holds that nodes take the bound of their pod for that of a machine.
func (c *cluster) knowsItsMemory() {
	c.t.Helper()
	most := c.pods[0].template.Spec.Containers[0].Resources.Limits.Memory().Value() / 10 * 9
	for _, n := range c.nodes() {
		if n.Machine.MemoryLimit != most {
			c.t.Errorf("a node takes its bound of memory for %d, want %d", n.Machine.MemoryLimit, most)
		}
	}
}

// starts says when each container has started.
func (c *cluster) starts() (all []string) {
	for _, p := range c.pods {
		all = append(all, c.docker("inspect", "-f", "{{.State.StartedAt}}", p.container()))
	}
	return all
}

// changesNothingButPolicies upgrades the release with another policies file, which is in force then. No pod is
// restarted.
func (c *cluster) changesNothingButPolicies(k *clients, values map[string]any) {
	c.t.Helper()
	before := c.starts()
	values["policies"] = policiesOf("stock", "more")
	c.upgrade(values)
	var reply struct{ Limits []struct{ Used string } }
	if err := k.call(k.client(false), "Get", "more", &reply); err != nil {
		c.t.Errorf("the new policy: %v", err)
	}
	if now := c.starts(); !slices.Equal(now, before) {
		c.t.Errorf("pods were restarted: %q, and before %q", now, before)
	}
}

// showsAnotherCertificate changes the Secret of the certificate. All pods show the new one, and none is restarted.
func (c *cluster) showsAnotherCertificate(k *clients) {
	c.t.Helper()
	before, old := c.starts(), c.serials(k)
	c.renewCertificate()
	c.syncVolumes()
	c.until("all pods show the new certificate", func() bool {
		now := c.serials(k)
		return len(now) == 1 && now[0] != old[0]
	})
	if now := c.starts(); !slices.Equal(now, before) {
		c.t.Errorf("pods were restarted: %q, and before %q", now, before)
	}
}

// serials are the numbers of the certificates that the pods show, each once.
func (c *cluster) serials(k *clients) (all []string) {
	c.t.Helper()
	settings := k.secure.Clone()
	settings.ServerName = host
	for _, p := range c.pods {
		conn, err := tls.Dial("tcp", p.address()+":7400", settings)
		if err != nil {
			c.t.Fatal(err)
		}
		if serial := conn.ConnectionState().PeerCertificates[0].SerialNumber.String(); !slices.Contains(all, serial) {
			all = append(all, serial)
		}
		conn.Close()
	}
	return all
}

// changesTheClusterKey rotates the key in the Secret that the chart made, in the three steps of docs/operations.md.
func (c *cluster) changesTheClusterKey() {
	c.t.Helper()
	secret := c.objects["Secret stint-cluster-key"].(*corev1.Secret)
	old := string(secret.Data["cluster.key"])
	c.tool("tool", "certs", "cluster-key", "/out/fresh.key")
	fresh := strings.TrimSpace(string(c.read("fresh.key")))
	var names []string // of the old line and the new one
	for _, lines := range []string{old + "\n" + fresh, fresh + "\n" + old, fresh} {
		secret.Data["cluster.key"] = []byte(lines + "\n")
		c.syncVolumes()
		want := strings.Count(lines, "\n") + 1
		c.until("the step is in force on all nodes", func() bool {
			nodes := c.nodes()
			for _, n := range nodes {
				if len(n.KeyLines) != want || !slices.Equal(n.KeyLines, nodes[0].KeyLines) {
					return false
				}
			}
			now := nodes != nil && !slices.Equal(nodes[0].KeyLines, names)
			if now {
				names = nodes[0].KeyLines
			}
			return now
		})
	}
}
