//go:build docker

package chart

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// pod is a container with all that the template of a pod says, and the kubelet that cares for it.
type pod struct {
	c        *cluster
	name     string
	ordinal  int // its claim's; a Job's has none
	template corev1.PodTemplateSpec
	stop     context.CancelFunc // of probe
	done     chan struct{}      // closed when probe has ended
	synced   int                // times that its volumes have changed
}

// newPod starts a pod of the StatefulSet, and probes it until it is ended.
func (c *cluster) newPod(ordinal int) *pod {
	c.t.Helper()
	set := c.objects["StatefulSet stint"].(*appsv1.StatefulSet)
	ctx, stop := context.WithCancel(context.Background())
	p := &pod{c: c, name: fmt.Sprintf("%s-%d", set.Name, ordinal), ordinal: ordinal,
		template: *set.Spec.Template.DeepCopy(), stop: stop, done: make(chan struct{})}
	p.makeClaim()
	p.syncVolumes()
	peers := set.Spec.ServiceName + domain
	args := []string{"run", "-d", "--name", p.container(), "--hostname", p.name, "--network-alias",
		p.name + "." + peers, "--network-alias", peers, "--restart", "always", "-v", c.claim(ordinal) + ":/data"}
	c.docker(append(append(args, p.options()...), p.command()...)...)
	c.t.Cleanup(p.remove)
	go p.probe(ctx)
	return p
}

// container is the container's name on the engine.
func (p *pod) container() string { return p.c.name + "-" + p.name }

// address is where the container is now; "": nowhere.
func (p *pod) address() string {
	address, _ := docker("inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", p.container())
	return address
}

// makeClaim makes the volume of the claim, if it is not there, as a storage driver does: root's, and the group may
// write.
func (p *pod) makeClaim() {
	p.c.t.Helper()
	dir := p.c.claim(p.ordinal)
	if _, err := os.Stat(dir); err == nil {
		return
	}
	lost := filepath.Join(dir, "lost+found")
	for _, err := range []error{os.MkdirAll(lost, 0o700), os.Chown(dir, 0, p.group()),
		os.Chmod(dir, 0o775|os.ModeSetgid)} {
		if err != nil {
			p.c.t.Fatal(err)
		}
	}
}

// group is what the files of volumes belong to.
func (p *pod) group() int { return int(*p.template.Spec.SecurityContext.FSGroup) }

// reference is a variable in the value of another.
var reference = regexp.MustCompile(`\$\(\w+\)`)

// options are the engine's for a pod and its container.
func (p *pod) options() (args []string) {
	all, one := p.template.Spec.SecurityContext, p.template.Spec.Containers[0]
	args = append(args, "--network", p.c.name, "--no-healthcheck", "--group-add", strconv.Itoa(p.group()),
		"--user", fmt.Sprintf("%d:%d", *all.RunAsUser, *all.RunAsGroup))
	if *one.SecurityContext.ReadOnlyRootFilesystem {
		args = append(args, "--read-only")
	}
	if !*one.SecurityContext.AllowPrivilegeEscalation {
		args = append(args, "--security-opt", "no-new-privileges")
	}
	for _, capability := range one.SecurityContext.Capabilities.Drop {
		args = append(args, "--cap-drop", string(capability))
	}
	if memory := one.Resources.Limits.Memory().Value(); memory > 0 {
		args = append(args, "--memory", strconv.FormatInt(memory, 10), "--memory-swap", strconv.FormatInt(memory, 10))
	}
	for _, mount := range one.VolumeMounts {
		if mount.Name != "data" {
			args = append(args, "-v", p.volume(mount.Name)+":"+mount.MountPath+":ro")
		}
	}
	known := map[string]string{}
	for _, env := range one.Env {
		value := reference.ReplaceAllStringFunc(env.Value, func(name string) string {
			return known[name[2:len(name)-1]]
		})
		if env.ValueFrom != nil {
			value = map[string]string{"metadata.name": p.name,
				"metadata.namespace": namespace}[env.ValueFrom.FieldRef.FieldPath]
		}
		known[env.Name] = value
		args = append(args, "-e", env.Name+"="+value)
	}
	return args
}

// command is the image with what it is to run.
func (p *pod) command() []string {
	one := p.template.Spec.Containers[0]
	return append([]string{one.Image}, one.Args...)
}

func (p *pod) volume(name string) string { return filepath.Join(p.c.dir, "volumes", p.name, name) }

// syncVolumes writes the volumes of Secrets and ConfigMaps as the kubelet does: a directory of each state, and a link
// to the newest one that is replaced in one step. The engine mounts the directory above both.
func (p *pod) syncVolumes() {
	p.c.t.Helper()
	p.synced++
	must := func(err error) {
		if err != nil {
			p.c.t.Fatal(err)
		}
	}
	for _, volume := range p.template.Spec.Volumes {
		dir, state := p.volume(volume.Name), fmt.Sprintf("..%d", p.synced)
		files, mode := p.content(volume)
		must(os.MkdirAll(filepath.Join(dir, state), 0o755))
		for name, content := range files {
			file := filepath.Join(dir, state, name)
			must(os.WriteFile(file, content, mode))
			must(os.Chown(file, 0, p.group()))
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				must(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
			}
		}
		must(os.Symlink(state, filepath.Join(dir, "..next")))
		must(os.Rename(filepath.Join(dir, "..next"), filepath.Join(dir, "..data")))
	}
}

// content is what the files of a volume hold, and their mode.
func (p *pod) content(volume corev1.Volume) (map[string][]byte, os.FileMode) {
	files := map[string][]byte{}
	from := func(name string, items []corev1.KeyToPath) {
		all := p.c.secret(name)
		if all == nil {
			p.c.t.Fatalf("%s: volume %s: there is no Secret %s", p.name, volume.Name, name)
		}
		for key, content := range all {
			if len(items) == 0 {
				files[key] = content
			}
		}
		for _, item := range items {
			files[item.Path] = all[item.Key]
		}
	}
	switch {
	case volume.Secret != nil:
		from(volume.Secret.SecretName, volume.Secret.Items)
		return files, os.FileMode(*volume.Secret.DefaultMode)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			from(source.Secret.Name, source.Secret.Items)
		}
		return files, os.FileMode(*volume.Projected.DefaultMode)
	}
	for name, text := range p.c.objects["ConfigMap "+volume.ConfigMap.Name].(*corev1.ConfigMap).Data {
		files[name] = []byte(text)
	}
	return files, 0o644
}

// probe asks what the probes ask, for as long as the pod lives. A pod that is ready becomes one of the Service's.
func (p *pod) probe(ctx context.Context) {
	defer close(p.done)
	one := p.template.Spec.Containers[0]
	failed, address := one.ReadinessProbe.FailureThreshold, ""
	silent := -one.LivenessProbe.InitialDelaySeconds // seconds
	most := one.LivenessProbe.FailureThreshold * one.LivenessProbe.PeriodSeconds
	for {
		if address == "" {
			address = p.address()
		}
		if p.answers(ctx, one.ReadinessProbe, address) {
			failed = 0
			p.c.setReady(p.name, address)
		} else if failed++; failed >= one.ReadinessProbe.FailureThreshold || !p.isRunning() {
			p.c.setReady(p.name, "")
			address = "" // another one, if it was started again
		}
		if p.answers(ctx, one.LivenessProbe, address) {
			silent = min(silent, 0)
		} else if silent += one.ReadinessProbe.PeriodSeconds; silent > most && p.isRunning() {
			p.c.t.Errorf("%s would be killed: its liveness probe has failed for %d s", p.name, silent)
			silent = 0
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(one.ReadinessProbe.PeriodSeconds) * time.Second):
		}
	}
}

// answers reports whether a probe succeeds. Like the kubelet, it takes any certificate and a connection of its own.
func (p *pod) answers(ctx context.Context, probe *corev1.Probe, address string) bool {
	if address == "" {
		return false
	}
	var port int32
	for _, each := range p.template.Spec.Containers[0].Ports {
		if each.Name == probe.HTTPGet.Port.StrVal {
			port = each.ContainerPort
		}
	}
	url := fmt.Sprintf("%s://%s:%d%s", strings.ToLower(string(probe.HTTPGet.Scheme)), address, port, probe.HTTPGet.Path)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Timeout: time.Duration(probe.TimeoutSeconds) * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(r)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode >= 200 && response.StatusCode < 400
}

func (p *pod) isRunning() bool {
	state, err := docker("inspect", "-f", "{{.State.Running}} {{.State.Restarting}}", p.container())
	return err == nil && state == "true false"
}

func (p *pod) isReady() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.c.endpoints[p.name] != ""
}

// end deletes the pod as Kubernetes does, and returns the status with which it ended. kube-proxy hears of it half way
// through preStop.
func (p *pod) end() string {
	p.c.t.Helper()
	preStop := time.Duration(p.template.Spec.Containers[0].Lifecycle.PreStop.Sleep.Seconds) * time.Second
	grace := time.Duration(*p.template.Spec.TerminationGracePeriodSeconds) * time.Second
	time.Sleep(preStop / 2)
	p.stop()
	<-p.done
	p.c.setReady(p.name, "")
	time.Sleep(preStop / 2)
	p.c.docker("stop", "-t", fmt.Sprint(int((grace - preStop).Seconds())), p.container())
	code := p.c.docker("inspect", "-f", "{{.State.ExitCode}}", p.container())
	p.remove()
	return code
}

// remove takes the container away, if it is there. At the end of the test the probe may still run.
func (p *pod) remove() {
	p.stop()
	<-p.done
	if _, err := docker("inspect", p.container()); err == nil {
		p.c.docker("rm", "-f", p.container())
	}
}
