package policy

import (
	"net/netip"
	"reflect"

	"go.yaml.in/yaml/v4"

	"github.com/stint-io/stint/limit"
)

// file is the content of a policies file.
type file struct {
	Policies []*Policy `policy:"policies,required" text:"name" lines:"fields" about:"Sets of limits by their names."`
	Rules
}

// The kinds of a whole file and of its parts, and the types with a representation of their own in a file.
var (
	fileKind, sectionsKind, policiesKind, policyKind, limitKind, limitsKind, tierLimitKind kind

	ownKinds map[reflect.Type]kind
)

// init makes the kinds from the tags, inner ones first.
func init() {
	tierLimitKind = kindOf(reflect.TypeFor[TierLimit](), "")
	ownKinds = map[reflect.Type]kind{
		reflect.TypeFor[Threshold]():       thresholdKind,
		reflect.TypeFor[Percent]():         percentKind,
		reflect.TypeFor[map[string]Tier](): tiersKind(),
		reflect.TypeFor[Template]():        templateKind,
		reflect.TypeFor[netip.Prefix]():    networkKind,
		reflect.TypeFor[GateHeader]():      partKind(textKind(`text:"words"`), "Value"),
		reflect.TypeFor[EnvoyEntry]():      matchKind,
		reflect.TypeFor[*limit.Zone]():     zoneKind,
	}
	ownKinds[reflect.TypeFor[GateIdentity]()] = identityKind()
	ownKinds[reflect.TypeFor[GateCost]()] = costKind()
	ownKinds[reflect.TypeFor[limit.Cycle]()] = mappingKind(cycleFields(), finishCycle)
	limitKind = limitSchema(mappingKind(limitFields(), finishLimit))
	ownKinds[reflect.TypeFor[Limit]()] = limitKind
	limitsKind = kindOf(reflect.TypeFor[[]Limit](), `least:"1" most:"16"`)
	policyKind = policyOf(kindOf(reflect.TypeFor[Policy](), ""))
	ownKinds[reflect.TypeFor[Policy]()] = policyKind
	top := fieldsOf(reflect.TypeFor[file]())
	policiesKind = top[0].kind
	top[0].read = readPolicies
	fileKind = mappingKind(top, nil)
	sectionsKind = mappingKind(fieldsOf(reflect.TypeFor[Rules]()), nil)
}

// readPolicies reads the policies. The paths of their problems begin with their names.
func readPolicies(d *decoder, v value, into reflect.Value) {
	if v.node.Kind == yaml.MappingNode {
		v.path = ""
	}
	policiesKind.read(d, v, into)
}
