{{/* What cannot be meant. Each sentence names the value. Every template that makes objects of the cluster's own asks this first. */}}
{{- define "stint.check" -}}
{{- $secret := .Values.tls.secret -}}
{{- $issuer := .Values.tls.issuer.name -}}
{{- $token := .Values.adminToken.secret -}}
{{- if not .Values.image.repository }}{{ fail "image.repository: is needed: where the image of stint is" }}{{ end -}}
{{- if and .Values.tls.issuer (not $issuer) }}{{ fail "tls.issuer.name: is needed beside tls.issuer.kind" }}{{ end -}}
{{- if and $secret $issuer }}{{ fail "tls.issuer: is contradicted by tls.secret: give one of the two" }}{{ end -}}
{{- if .Values.insecure -}}
{{- if or $secret $issuer }}{{ fail "insecure: is contradicted by tls: give one of the two" }}{{ end -}}
{{- if $token }}{{ fail "adminToken.secret: is contradicted by insecure: a token is not sent in plaintext" }}{{ end -}}
{{- if .Values.backup.tokenSecret }}{{ fail "backup.tokenSecret: is contradicted by insecure: a token is not sent in plaintext" }}{{ end -}}
{{- if .Values.monitoring.tokenSecret }}{{ fail "monitoring.tokenSecret: is contradicted by insecure: a token is not sent in plaintext" }}{{ end -}}
{{- else -}}
{{- if not (or $secret $issuer) }}{{ fail "tls.secret: is needed, or tls.issuer, or insecure" }}{{ end -}}
{{- if not $token }}{{ fail "adminToken.secret: is needed: a Secret with the key admin.token, as stint token generate draws it" }}{{ end -}}
{{- if and .Values.monitoring.enabled (not .Values.monitoring.tokenSecret) }}{{ fail "monitoring.tokenSecret: is needed: a token with the operation observe" }}{{ end -}}
{{- end -}}
{{- if and .Release.IsInstall (lt (int .Values.replicas) (int .Values.founders)) -}}
{{- fail (printf "founders: %d nodes are to found the cluster, and replicas is %d" (int .Values.founders) (int .Values.replicas)) }}{{ end -}}
{{- end -}}

{{- define "stint.selector" -}}
app.kubernetes.io/name: stint
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stint.labels" -}}
{{ include "stint.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "stint.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The name by which clients in the cluster reach any node. */}}
{{- define "stint.host" -}}
{{ .Release.Name }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{/* The domain of the pods. */}}
{{- define "stint.peers" -}}
{{ .Release.Name }}-peers.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end -}}

{{- define "stint.url" -}}
{{ if .Values.insecure }}http{{ else }}https{{ end }}://{{ include "stint.host" . }}:7400
{{- end -}}

{{- define "stint.tlsSecret" -}}
{{ .Values.tls.secret | default (printf "%s-tls" .Release.Name) }}
{{- end -}}

{{/* What the pods of the Jobs share with those of the nodes. */}}
{{- define "stint.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "stint.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* How a command reaches the cluster: its variables. */}}
{{- define "stint.clientEnv" -}}
- {name: STINT_ADDR, value: {{ include "stint.url" . | quote }}}
{{- if not .Values.insecure }}
- {name: STINT_CA, value: /tls/ca.crt}
- {name: STINT_TOKEN_FILE, value: /token/token}
{{- end }}
{{- end -}}
