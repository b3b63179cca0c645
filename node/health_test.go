package node

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stint-io/stint/internal/testing/await"
)

// What a scrape tells is what the cluster is like: three nodes that agree, and two without the third.
func TestAScrapeTellsTheHealthOfTheCluster(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		c := trioToBe(t)
		for i := range c.nodes {
			c.configs[i].World.IdleSum = 50 * time.Millisecond
			c.start(i)
		}
		c.ready(0, 1, 2)
		h := scrapedHealth{admin: c.nodes[0].admin, readiness: c.nodes[0].readiness, dir: c.nodes[0].dir,
			ports: c.nodes[0].ports, router: c.nodes[0].router, hop: c.nodes[0].hop, top: c.nodes[0].opener.top}
		before := h.read()
		await.Until(t, "the sums of every replica are compared", func() bool {
			now := h.read()
			return len(now.SumsAgreed) == len(c.nodes[0].replicas.all()) &&
				now.SumsAgreed[0].After(before.SumsAgreed[0])
		})
		now := h.read()
		if !now.Ready || now.ShardsUnowned != 0 || now.DiskLow || now.Convicted != 0 || !now.LastBackup.IsZero() ||
			!now.ClockKnown || now.ClockAhead.Abs() > time.Second || now.RecordsMost == 0 ||
			!now.CertificateEnds["api"].IsZero() {
			t.Errorf("a sound cluster is told as %+v", now)
		}
		c.spend(0, "k")
		if series := scraped(c.nodes[0], "stint_ready"); series == "" {
			t.Error("a scrape does not tell whether the node is ready")
		}
		c.stop(1, 2)
		await.Until(t, "shards have no owner", func() bool {
			now := h.read()
			return !now.Ready && now.ShardsUnowned > 0
		})
	})
}

// What is no more has no series: a policy that no longer bounds its keys.
func TestAScrapeForgetsWhatIsNoMore(t *testing.T) {
	config := testConfig(t)
	bounded := strings.Replace(lifetimePolicy, "  stock:\n", "  stock:\n    max_keys: 9\n", 1)
	if err := os.WriteFile(config.PoliciesFile, []byte(bounded), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, config)
	defer stop(t, n)
	told := func() bool {
		answer, err := clientOf(n).Get("http://" + n.APIAddr() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(text), `stint_keys{shard="0"}`) {
			t.Fatalf("%s, %v", text, err)
		}
		return strings.Contains(string(text), `stint_policy_keys{policy="stock"`)
	}
	check(t, n, "k")
	if !told() {
		t.Error("a scrape does not tell how many keys a policy has that bounds them")
	}
	if _, _, err := n.admin.Apply(t.Context(), quotaPolicy(t, 600), nil, false, "jo", ""); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the policy has no bound and no series", func() bool { return !told() })
}
