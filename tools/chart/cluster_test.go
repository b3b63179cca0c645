//go:build docker

package chart

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Where the release is: what release.render says.
const (
	namespace = "limits"
	domain    = "." + namespace + ".svc.cluster.local"
)

// cluster runs a release of the chart on a Docker Engine. For its pods it is what Kubernetes is: the controller of the
// StatefulSet, the kubelets, the DNS of the headless Service, and kube-proxy for the other one. The test's goroutine
// alone calls it, except for ready.
type cluster struct {
	t       *testing.T
	name    string // of the network on the engine, and before the names of the containers
	dir     string // claims and the content of the other volumes
	objects map[string]any
	given   map[string]map[string][]byte // Secrets that are not the chart's
	pods    []*pod                       // by ordinal

	mu        sync.Mutex
	endpoints map[string]string // pods that are ready: their addresses, by name
}

// newCluster brings what the chart asks the operator for: an authority, a certificate, and the first token.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, dir: dir, name: "stint-chart-" + filepath.Base(filepath.Dir(dir)),
		endpoints: map[string]string{}}
	c.docker("network", "create", c.name)
	t.Cleanup(func() { c.docker("network", "rm", c.name) })
	c.tool("tool", "certs", "ca", "--out", "/out")
	c.given = map[string]map[string][]byte{"api": nil, "admin": {"admin.token": []byte(c.tool("token", "generate"))}}
	c.renewCertificate()
	return c
}

// renewCertificate puts another certificate into the Secret that clients see.
func (c *cluster) renewCertificate() {
	c.t.Helper()
	args := []string{"tool", "certs", "api", "--ca-cert", "/out/ca.crt", "--ca-key", "/out/ca.key", "--out", "/out",
		"stint" + domain}
	for ordinal := range 5 {
		args = append(args, fmt.Sprintf("stint-%d.stint-peers%s", ordinal, domain))
	}
	c.tool(args...)
	c.given["api"] = map[string][]byte{"tls.crt": c.read("api.crt"), "tls.key": c.read("api.key"),
		"ca.crt": c.read("ca.crt")}
}

// tool runs a command of the image beside the cluster, with the test's directory at /out.
func (c *cluster) tool(args ...string) string {
	c.t.Helper()
	options := []string{"run", "--rm", "--network", "none", "--user", "0:0", "-v", c.dir + ":/out", "stint:dev"}
	return c.docker(append(options, args...)...)
}

func (c *cluster) read(name string) []byte {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

// docker runs a command of the engine, which must succeed.
func (c *cluster) docker(args ...string) string {
	c.t.Helper()
	out, err := docker(args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// docker runs a command of the engine, and returns its output, also beside an error.
func docker(args ...string) (string, error) {
	command := exec.Command("docker", args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		err = fmt.Errorf("docker %q: %w\n%s%s", args, err, out, &stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// install is `helm install`.
func (c *cluster) install(values map[string]any) { c.t.Helper(); c.apply(release{values: values}) }

// upgrade is `helm upgrade`. It sees the Secret of the cluster key that is there.
func (c *cluster) upgrade(values map[string]any) {
	c.t.Helper()
	key := base64.StdEncoding.EncodeToString(c.secret("stint-cluster-key")["cluster.key"])
	c.apply(release{values: values, upgrade: true, there: map[string]any{"data": map[string]any{"cluster.key": key}}})
}

// apply puts objects in force: volumes change, pods come and go until their number is right, the others roll, and the
// hooks run.
func (c *cluster) apply(r release) {
	c.t.Helper()
	c.objects = r.objects(c.t)
	c.syncVolumes()
	set := c.objects["StatefulSet stint"].(*appsv1.StatefulSet)
	if set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		c.t.Fatal("pods that wait for each other do not found a cluster")
	}
	for len(c.pods) > int(*set.Spec.Replicas) {
		last := c.pods[len(c.pods)-1]
		c.pods = c.pods[:len(c.pods)-1]
		last.end()
	}
	whole := len(c.pods)
	for len(c.pods) < int(*set.Spec.Replicas) {
		c.pods = append(c.pods, c.newPod(len(c.pods)))
	}
	for _, p := range c.pods[whole:] {
		c.until(p.name+" is ready", p.isReady)
	}
	for ordinal := whole - 1; ordinal >= 0; ordinal-- {
		if textOf(c.t, c.pods[ordinal].template) != textOf(c.t, set.Spec.Template) {
			c.replace(ordinal)
		}
	}
	if job, ok := c.objects["Job stint-apply"].(*batchv1.Job); ok {
		c.runHook(job)
	}
}

// replace ends a pod and starts it anew.
func (c *cluster) replace(ordinal int) {
	c.t.Helper()
	if code := c.pods[ordinal].end(); code != "0" {
		c.t.Errorf("%s ended with %s", c.pods[ordinal].name, code)
	}
	c.pods[ordinal] = c.newPod(ordinal)
	c.until(c.pods[ordinal].name+" is ready", c.pods[ordinal].isReady)
}

// loseClaim deletes the claim of an ordinal. Its pod must have ended.
func (c *cluster) loseClaim(ordinal int) {
	c.t.Helper()
	if err := os.RemoveAll(c.claim(ordinal)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) claim(ordinal int) string {
	return filepath.Join(c.dir, fmt.Sprintf("data-stint-%d", ordinal))
}

// runHook runs a Job to its end, with as many tries as it has. The Service's name leads to a pod that is ready.
func (c *cluster) runHook(job *batchv1.Job) {
	c.t.Helper()
	var err error
	for range *job.Spec.BackoffLimit + 1 {
		p := &pod{c: c, name: job.Name, template: job.Spec.Template}
		p.syncVolumes()
		args := append([]string{"run", "--rm", "--add-host", "stint" + domain + ":" + c.ready()}, p.options()...)
		if _, err = docker(append(args, p.command()...)...); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	c.t.Fatalf("Job %s: %v", job.Name, err)
}

// secret is the content of a Secret, of the chart or of the operator.
func (c *cluster) secret(name string) map[string][]byte {
	if secret, ok := c.objects["Secret "+name].(*corev1.Secret); ok {
		return secret.Data
	}
	return c.given[name]
}

// syncVolumes gives all pods what their Secrets and ConfigMaps are now.
func (c *cluster) syncVolumes() {
	for _, p := range c.pods {
		p.syncVolumes()
	}
}

// ready is the address of one of the pods that are ready, as kube-proxy takes one; "": there is none.
func (c *cluster) ready() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, address := range c.endpoints { // in no order
		return address
	}
	return ""
}

// story is what each pod has at an address, how often its container was started again, and what it says last.
func (c *cluster) story() (text string) {
	for _, p := range c.pods {
		again, _ := docker("inspect", "-f", "{{.RestartCount}}", p.container())
		said, _ := exec.Command("docker", "logs", "--tail", "40", p.container()).CombinedOutput() // shows what there is
		text += fmt.Sprintf("\n%s: %s, started again %s times\n%s", p.name, p.address(), again, said)
	}
	return text
}

// setReady adds a pod to the endpoints of the Service, or removes it, if address is "".
func (c *cluster) setReady(name, address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.endpoints, name)
	if address != "" {
		c.endpoints[name] = address
	}
}

// stint runs a command in the first pod, as `kubectl exec` does.
func (c *cluster) stint(args ...string) (string, error) {
	return docker(append([]string{"exec", c.pods[0].container(), "/stint"}, args...)...)
}

// isHealthy reports whether `stint status` finds no problem.
func (c *cluster) isHealthy() bool {
	_, err := c.stint("status")
	return err == nil
}

// patience is how long the test waits for an event: only a stalled machine needs longer.
const patience = 3 * time.Minute

// until waits for a condition. If it does not come, the containers' logs are shown.
func (c *cluster) until(what string, condition func() bool) {
	c.t.Helper()
	for began := time.Now(); !condition(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > patience {
			status, err := c.stint("status")
			c.t.Fatalf("waited in vain: %s\n%s%v%s", what, status, err, c.story())
		}
	}
}
