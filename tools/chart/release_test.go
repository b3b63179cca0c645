package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/template"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	v2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	yamlreader "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// release is the chart with values, as helm install and helm upgrade render it.
type release struct {
	values  map[string]any
	upgrade bool
	there   map[string]any // the Secret that the cluster has under any name; nil: none
}

// object is what every object has.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// kinds are the types of Kubernetes' own objects. Those of others are decoded loosely.
var kinds = map[string]reflect.Type{
	"apps/v1 StatefulSet":                     reflect.TypeFor[appsv1.StatefulSet](),
	"batch/v1 CronJob":                        reflect.TypeFor[batchv1.CronJob](),
	"batch/v1 Job":                            reflect.TypeFor[batchv1.Job](),
	"networking.k8s.io/v1 NetworkPolicy":      reflect.TypeFor[networkingv1.NetworkPolicy](),
	"policy/v1 PodDisruptionBudget":           reflect.TypeFor[policyv1.PodDisruptionBudget](),
	"v1 ConfigMap":                            reflect.TypeFor[corev1.ConfigMap](),
	"v1 PersistentVolumeClaim":                reflect.TypeFor[corev1.PersistentVolumeClaim](),
	"v1 Secret":                               reflect.TypeFor[corev1.Secret](),
	"v1 Service":                              reflect.TypeFor[corev1.Service](),
	"v1 ServiceAccount":                       reflect.TypeFor[corev1.ServiceAccount](),
	"cert-manager.io/v1 Certificate":          reflect.TypeFor[map[string]any](),
	"monitoring.coreos.com/v1 ServiceMonitor": reflect.TypeFor[map[string]any](),
	"monitoring.coreos.com/v1 PrometheusRule": reflect.TypeFor[map[string]any](),
}

// loaded is the chart. To render it does not change it.
var loaded = sync.OnceValues(func() (*v2.Chart, error) { return loader.LoadDir("../../deploy/helm/stint") })

// render returns the texts of the objects, by template.
func (r release) render() (map[string]string, error) {
	chart, err := loaded()
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "stint", Namespace: "limits", Revision: 1, IsInstall: !r.upgrade,
		IsUpgrade: r.upgrade}
	values, err := util.ToRenderValues(chart, r.values, options, nil)
	if err != nil {
		return nil, err
	}
	lookup := func(string, string, string, string) (map[string]any, error) { return r.there, nil }
	return engine.Engine{CustomTemplateFuncs: template.FuncMap{"lookup": lookup}}.Render(chart, values)
}

// objects decodes what is rendered, by kind and name. A field that Kubernetes does not know, or that is there twice, is
// an error.
func (r release) objects(t *testing.T) map[string]any {
	t.Helper()
	texts, err := r.render()
	if err != nil {
		t.Fatalf("%v: %v", r.values, err)
	}
	found := map[string]any{}
	for _, file := range slices.Sorted(maps.Keys(texts)) {
		if !strings.HasSuffix(file, ".yaml") {
			continue // the notes
		}
		documents := yamlreader.NewYAMLReader(bufio.NewReader(strings.NewReader(texts[file])))
		for {
			text, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			var head object
			if err := yaml.Unmarshal(text, &head); err != nil {
				t.Fatalf("%s: %v\n%s", file, err, text)
			}
			if len(bytes.TrimSpace(text)) == 0 {
				continue
			}
			of := kinds[head.APIVersion+" "+head.Kind]
			if of == nil {
				t.Fatalf("%s: no kind %s %s", file, head.APIVersion, head.Kind)
			}
			decoded := reflect.New(of)
			if err := yaml.UnmarshalStrict(text, decoded.Interface()); err != nil {
				t.Fatalf("%s: %s %s: %v\n%s", file, head.Kind, head.Metadata.Name, err, text)
			}
			name := head.Kind + " " + head.Metadata.Name
			if found[name] != nil {
				t.Fatalf("%s is there twice", name)
			}
			found[name] = decoded.Interface()
		}
	}
	return found
}
