package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// choices are the switches of the chart. Each has values of which one is taken.
var choices = [][]map[string]any{
	{
		{"tls": map[string]any{"secret": "api"}, "adminToken": map[string]any{"secret": "admin"}},
		{"tls": map[string]any{"issuer": map[string]any{"name": "ours", "kind": "ClusterIssuer"}},
			"adminToken": map[string]any{"secret": "admin"}},
		{"insecure": true},
	},
	{{}, {"policies": "policies:\n  login: {limits: [{name: hour, quota: 5, fixed_window: {period: 1h}}]}\n"}},
	{{}, {"redis": true}},
	{{}, {"grpc": true}},
	{{}, {"clusterKey": map[string]any{"secret": "key"}}},
	{
		{},
		{"networkPolicy": map[string]any{"enabled": true}},
		{"networkPolicy": map[string]any{"enabled": true,
			"clients": []any{map[string]any{"namespaceSelector": map[string]any{}}}}},
	},
	{{}, {"backup": map[string]any{"enabled": true}}, {"backup": map[string]any{"enabled": true, "claim": "nfs"}}},
	{{}, {"monitoring": map[string]any{"enabled": true}},
		{"monitoring": map[string]any{"enabled": true, "rules": false}}},
	{
		{},
		{"storage": map[string]any{"class": "fast"}, "nodeSelector": map[string]any{"disk": "ssd"},
			"podAnnotations": map[string]any{"a": "b"}, "tolerations": []any{map[string]any{"operator": "Exists"}},
			"spread": "ScheduleAnyway", "image": map[string]any{"pullSecrets": []any{"registry"}, "tag": "edge"}},
	},
}

// valuesOf takes the choice of each switch that a number says, and what these need.
func valuesOf(number int) map[string]any {
	values := map[string]any{"image": map[string]any{"repository": "example.com/stint"}}
	for _, switched := range choices {
		for name, value := range switched[number%len(switched)] {
			if more, ok := value.(map[string]any); ok && name == "image" {
				more["repository"] = "example.com/stint"
			}
			values[name] = value
		}
		number /= len(switched)
	}
	if monitoring, ok := values["monitoring"].(map[string]any); ok {
		monitoring = map[string]any{"enabled": monitoring["enabled"], "rules": monitoring["rules"] == nil}
		if values["insecure"] == nil {
			monitoring["tokenSecret"] = "prometheus"
		}
		values["monitoring"] = monitoring
	}
	return values
}

// Every combination of switches renders objects that Kubernetes takes, with names of Secrets, ConfigMaps, claims and
// ports that fit together.
func TestEveryCombinationIsValid(t *testing.T) {
	all := 1
	for _, switched := range choices {
		all *= len(switched)
	}
	for number := range all {
		values := valuesOf(number)
		objects := release{values: values}.objects(t)
		for name, one := range objects {
			if pod := podOf(one); pod != nil {
				if problem := problemOf(&pod.Spec, objects); problem != "" {
					t.Fatalf("%v: %s: %s", values, name, problem)
				}
				rules, ok := objects["NetworkPolicy stint"].(*networkingv1.NetworkPolicy)
				if ok && !admits(rules, pod.Labels) {
					t.Fatalf("%v: %s: its pods may not use the port of the API", values, name)
				}
			}
		}
		if rules, ok := objects["PrometheusRule stint"].(*map[string]any); ok {
			if groups, _ := (*rules)["spec"].(map[string]any)["groups"].([]any); len(groups) == 0 {
				t.Fatalf("%v: there are no rules", values)
			}
		}
		set := objects["StatefulSet stint"].(*appsv1.StatefulSet)
		ports := map[string]bool{}
		for _, port := range set.Spec.Template.Spec.Containers[0].Ports {
			ports[port.Name] = true
		}
		for _, name := range []string{"Service stint", "Service stint-peers"} {
			for _, port := range objects[name].(*corev1.Service).Spec.Ports {
				if !ports[port.TargetPort.StrVal] {
					t.Fatalf("%v: %s: the pods have no port %s", values, name, port.TargetPort.StrVal)
				}
			}
		}
	}
	t.Logf("%d combinations", all)
}

// podOf is the pod that an object makes; nil: none.
func podOf(one any) *corev1.PodTemplateSpec {
	switch one := one.(type) {
	case *appsv1.StatefulSet:
		return &one.Spec.Template
	case *batchv1.Job:
		return &one.Spec.Template
	case *batchv1.CronJob:
		return &one.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// admits reports whether pods with labels may use the port of the API by the rules.
func admits(rules *networkingv1.NetworkPolicy, pod map[string]string) bool {
	for _, rule := range rules.Spec.Ingress {
		if !slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
			return p.Port.StrVal == "api"
		}) {
			continue
		}
		if len(rule.From) == 0 {
			return true
		}
		for _, peer := range rule.From {
			selector, err := metav1.LabelSelectorAsSelector(peer.PodSelector) // of none: it selects nothing
			if err == nil && selector.Matches(labels.Set(pod)) {
				return true
			}
		}
	}
	return false
}

// given are the Secrets and claims that the values name.
var given = map[string]bool{"api": true, "admin": true, "key": true, "prometheus": true, "nfs": true}

// problemOf says what is wrong with a pod; "": nothing.
func problemOf(pod *corev1.PodSpec, objects map[string]any) string {
	if security := pod.SecurityContext; security == nil || security.RunAsNonRoot == nil || !*security.RunAsNonRoot {
		return "it may run as root"
	}
	volumes := map[string]bool{"data": true}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		var needs []string
		switch {
		case v.ConfigMap != nil:
			needs = append(needs, "ConfigMap "+v.ConfigMap.Name)
		case v.PersistentVolumeClaim != nil:
			needs = append(needs, "PersistentVolumeClaim "+v.PersistentVolumeClaim.ClaimName)
		case v.Secret != nil:
			needs = append(needs, "Secret "+v.Secret.SecretName)
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				needs = append(needs, "Secret "+source.Secret.Name)
			}
		}
		for _, name := range needs {
			_, short, _ := strings.Cut(name, " ")
			made := objects[name] != nil || name == "Secret stint-tls" && objects["Certificate stint"] != nil
			if !made && !given[short] {
				return fmt.Sprintf("volume %s: there is no %s", v.Name, name)
			}
		}
	}
	for _, c := range pod.Containers {
		if c.Image != "example.com/stint:0.2.0" && c.Image != "example.com/stint:edge" {
			return "the image is " + c.Image
		}
		for _, mount := range c.VolumeMounts {
			if !volumes[mount.Name] {
				return "there is no volume " + mount.Name
			}
		}
		for _, env := range c.Env {
			for _, dir := range []string{"/tls/", "/token/", "/secrets/", "/policies/"} {
				if strings.HasPrefix(env.Value, dir) && !hasMount(c, strings.TrimSuffix(dir, "/")) {
					return fmt.Sprintf("%s is in %s, which is not mounted", env.Name, dir)
				}
			}
		}
	}
	return ""
}

func hasMount(c corev1.Container, path string) bool {
	for _, mount := range c.VolumeMounts {
		if mount.MountPath == path {
			return true
		}
	}
	return false
}

// What is missing or contradicts itself is refused when the chart is rendered, by the value's name.
func TestWhatCannotBeMeantIsNamed(t *testing.T) {
	secure := map[string]any{"secret": "api"}
	admin := map[string]any{"secret": "admin"}
	image := map[string]any{"repository": "example.com/stint"}
	for _, c := range []struct {
		want   string
		values map[string]any
	}{
		{"image.repository", map[string]any{"insecure": true}},
		{"tls.secret", map[string]any{"image": image}},
		{"adminToken.secret", map[string]any{"image": image, "tls": secure}},
		{"tls.issuer", map[string]any{"image": image, "adminToken": admin,
			"tls": map[string]any{"secret": "api", "issuer": map[string]any{"name": "x"}}}},
		{"tls.issuer.name", map[string]any{"image": image, "adminToken": admin,
			"tls": map[string]any{"issuer": map[string]any{"kind": "Issuer"}}}},
		{"insecure", map[string]any{"image": image, "insecure": true, "tls": secure}},
		{"adminToken.secret", map[string]any{"image": image, "insecure": true, "adminToken": admin}},
		{"backup.tokenSecret", map[string]any{"image": image, "insecure": true,
			"backup": map[string]any{"tokenSecret": "x"}}},
		{"monitoring.tokenSecret", map[string]any{"image": image, "tls": secure, "adminToken": admin,
			"monitoring": map[string]any{"enabled": true}}},
		{"founders", map[string]any{"image": image, "insecure": true, "replicas": 1}},
		{"replicas", map[string]any{"image": image, "insecure": true, "replicas": 0}},
		{"copies", map[string]any{"image": image, "insecure": true, "copies": 2}},
		{"keep", map[string]any{"image": image, "insecure": true, "backup": map[string]any{"keep": "14 days"}}},
		{"replica", map[string]any{"image": image, "insecure": true, "replica": 3}},
		{"spread", map[string]any{"image": image, "insecure": true, "spread": "never"}},
	} {
		_, err := release{values: c.values}.render()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want it to name %s", c.values, err, c.want)
		}
	}
}

// The cluster key is made once. An upgrade keeps the one that is there, and the removal of the release keeps it too.
func TestTheClusterKeyIsKept(t *testing.T) {
	values := map[string]any{"image": map[string]any{"repository": "example.com/stint"}, "insecure": true}
	keyIn := func(r release) string {
		secret := r.objects(t)["Secret stint-cluster-key"].(*corev1.Secret)
		if secret.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Error("it goes with the release")
		}
		return string(secret.Data["cluster.key"])
	}
	first, second := keyIn(release{values: values}), keyIn(release{values: values})
	if len(first) != 44 || first == second {
		t.Errorf("it is %q, and then %q", first, second)
	}
	there := map[string]any{"data": map[string]any{"cluster.key": "b3Vycw=="}}
	if kept := keyIn(release{values: values, upgrade: true, there: there}); kept != "ours" {
		t.Errorf("an upgrade makes it %q", kept)
	}
}

// What a StatefulSet may not change in place stays the same, whatever values an upgrade brings; and a change of the
// number of pods restarts none of them.
func TestAnUpgradeChangesWhatMayChange(t *testing.T) {
	all := 1
	for _, switched := range choices {
		all *= len(switched)
	}
	fixed := func(number int) string {
		values := valuesOf(number)
		delete(values, "storage")
		spec := release{values: values, upgrade: true}.objects(t)["StatefulSet stint"].(*appsv1.StatefulSet).Spec
		return textOf(t, spec.ServiceName, spec.PodManagementPolicy, spec.Selector, spec.VolumeClaimTemplates)
	}
	before := fixed(0)
	for number := 0; number < all; number += 97 {
		if now := fixed(number); now != before {
			t.Fatalf("%v: %s, and before %s", valuesOf(number), now, before)
		}
	}
	pods := func(replicas int) string {
		values := valuesOf(0)
		values["replicas"] = replicas
		return textOf(t, release{values: values, upgrade: true}.objects(t)["StatefulSet stint"].(*appsv1.StatefulSet).
			Spec.Template)
	}
	if pods(3) != pods(5) || pods(3) != pods(1) {
		t.Error("another number of pods restarts them")
	}
}

func textOf(t *testing.T, parts ...any) string {
	t.Helper()
	text, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
