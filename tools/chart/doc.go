// Package chart tests the Helm chart in deploy/helm/stint as its users would break it: rendered by Helm's own engine,
// decoded strictly into the types of Kubernetes. With the build tag docker it also runs what is rendered, as
// containers on a Docker Engine: TestTheChartRuns is the controller of the StatefulSet, the kubelets, the DNS and
// kube-proxy. The package is a module of its own, because Helm is as large as everything else here together.
package chart
