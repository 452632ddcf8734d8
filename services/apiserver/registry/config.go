package registry

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/proto/kinds"
)

// maxConfigSize is the largest total size of the values of a ConfigMap or a Secret, in bytes.
const maxConfigSize = 1 << 20

// fixedWhenImmutable is upstream's message for a changed field of an immutable object.
const fixedWhenImmutable = "field is immutable when `immutable` is set"

// configMapRules returns the rules of ConfigMaps.
func configMapRules() rules[*corev1.ConfigMap] {
	return rules[*corev1.ConfigMap]{
		validate: func(m *corev1.ConfigMap) field.ErrorList {
			f := &findings{}
			size := 0
			for _, key := range slices.Sorted(maps.Keys(m.Data)) {
				f.invalid(field.NewPath("data").Key(key), key, validation.IsConfigMapKey(key)...)
				if _, twice := m.BinaryData[key]; twice {
					f.invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData")
				}
				size += len(m.Data[key])
			}
			for _, key := range slices.Sorted(maps.Keys(m.BinaryData)) {
				f.invalid(field.NewPath("binaryData").Key(key), key, validation.IsConfigMapKey(key)...)
				size += len(m.BinaryData[key])
			}
			if size > maxConfigSize {
				f.add(field.TooLong(field.NewPath(""), "" /*unused*/, maxConfigSize))
			}
			return f.errs
		},
		validateUpdate: func(m, old *corev1.ConfigMap) field.ErrorList {
			f := &findings{}
			if old.Immutable == nil || !*old.Immutable {
				return nil
			}
			f.checkStaysImmutable(m.Immutable)
			f.checkUnchanged("data", m.Data, old.Data)
			f.checkUnchanged("binaryData", m.BinaryData, old.BinaryData)
			return f.errs
		},
	}
}

func (f *findings) checkStaysImmutable(immutable *bool) {
	if immutable == nil || !*immutable {
		f.forbidden(field.NewPath("immutable"), fixedWhenImmutable)
	}
}

func (f *findings) checkUnchanged(name string, now, was any) {
	if !kinds.Equal(now, was) {
		f.forbidden(field.NewPath(name), fixedWhenImmutable)
	}
}

// secretRules returns the rules of Secrets.
func secretRules() rules[*corev1.Secret] {
	return rules[*corev1.Secret]{
		defaults: func(s *corev1.Secret) {
			for key, value := range s.StringData { // for writers only
				if s.Data == nil {
					s.Data = map[string][]byte{}
				}
				s.Data[key] = []byte(value)
			}
			s.StringData = nil
			fill(&s.Type, corev1.SecretTypeOpaque)
		},
		keep:     func(s, old *corev1.Secret) { fill(&s.Type, old.Type) },
		validate: validateSecret,
		validateUpdate: func(s, old *corev1.Secret) field.ErrorList {
			f := &findings{}
			f.checkImmutable(s.Type, old.Type, field.NewPath("type"))
			if old.Immutable != nil && *old.Immutable {
				f.checkStaysImmutable(s.Immutable)
				f.checkUnchanged("data", s.Data, old.Data)
			}
			return f.errs
		},
	}
}

// validateSecret requires the keys that belong to a Secret's type.
func validateSecret(s *corev1.Secret) field.ErrorList {
	f := &findings{}
	at := field.NewPath("data")
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		f.invalid(at.Key(key), key, validation.IsConfigMapKey(key)...)
		size += len(s.Data[key])
	}
	if size > maxConfigSize {
		f.add(field.TooLong(at, "" /*unused*/, maxConfigSize))
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			f.required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), "")
		}
	case corev1.SecretTypeDockercfg:
		f.checkJSONKey(s, corev1.DockerConfigKey)
	case corev1.SecretTypeDockerConfigJson:
		f.checkJSONKey(s, corev1.DockerConfigJsonKey)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		_, password := s.Data[corev1.BasicAuthPasswordKey]
		if !user && !password {
			f.required(at.Key(corev1.BasicAuthUsernameKey), "")
			f.required(at.Key(corev1.BasicAuthPasswordKey), "")
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			f.required(at.Key(corev1.SSHAuthPrivateKey), "")
		}
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if _, there := s.Data[key]; !there {
				f.required(at.Key(key), "")
			}
		}
	case corev1.SecretTypeOpaque, corev1.SecretTypeBootstrapToken:
	}
	return f.errs
}

// checkJSONKey requires a key with a JSON value.
func (f *findings) checkJSONKey(s *corev1.Secret, key string) {
	at := field.NewPath("data").Key(key)
	data, there := s.Data[key]
	if !there {
		f.required(at, "")
		return
	}
	if err := json.Unmarshal(data, &map[string]any{}); err != nil {
		f.invalid(at, "<secret contents redacted>", err.Error())
	}
}

// The priorities that users may give, and the names that they may not.
const (
	maxUserPriority = 1_000_000_000
	clusterCritical = "system-cluster-critical"
	nodeCritical    = "system-node-critical"
)

// SystemPriorityClasses returns the priority classes that every cluster has.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	cluster, node := &schedulingv1.PriorityClass{}, &schedulingv1.PriorityClass{}
	cluster.Name, cluster.Value = clusterCritical, 2*maxUserPriority
	cluster.Description = "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
	node.Name, node.Value = nodeCritical, 2*maxUserPriority+1000
	node.Description = "Used for system critical pods that must not be moved from their current node."
	return []*schedulingv1.PriorityClass{cluster, node}
}

// priorityClassRules returns the rules of PriorityClasses.
func priorityClassRules() rules[*schedulingv1.PriorityClass] {
	return rules[*schedulingv1.PriorityClass]{
		defaults: func(c *schedulingv1.PriorityClass) { fillPointer(&c.PreemptionPolicy, corev1.PreemptLowerPriority) },
		validate: validatePriorityClass,
		validateUpdate: func(c, old *schedulingv1.PriorityClass) field.ErrorList {
			f := &findings{}
			if c.Value != old.Value {
				f.forbidden(field.NewPath("value"), "may not be changed in an update.")
			}
			f.checkImmutable(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))
			return f.errs
		},
	}
}

// validatePriorityClass reserves the names and the priorities of the system's classes.
func validatePriorityClass(c *schedulingv1.PriorityClass) field.ErrorList {
	f := &findings{}
	name := field.NewPath("metadata", "name")
	const prefix = "system-"
	if len(c.Name) >= len(prefix) && c.Name[:len(prefix)] == prefix {
		if wrong := systemClassDiff(c); wrong != "" {
			f.forbidden(name, fmt.Sprintf(
				"priority class names with 'system-' prefix are reserved for system use only. error: %s", wrong))
		}
	} else if c.Value > maxUserPriority {
		f.forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %d", maxUserPriority))
	}
	if policy := c.PreemptionPolicy; policy != nil {
		checkOneOf(f, field.NewPath("preemptionPolicy"), *policy, corev1.PreemptLowerPriority, corev1.PreemptNever)
	}
	return f.errs
}

// systemClassDiff says how a class differs from the system class of that name; "" if it does not.
func systemClassDiff(c *schedulingv1.PriorityClass) string {
	for _, known := range SystemPriorityClasses() {
		switch {
		case c.Name != known.Name:
			continue
		case c.Value != known.Value:
			return fmt.Sprintf("value of %s PriorityClass must be %d", c.Name, known.Value)
		case c.GlobalDefault:
			return fmt.Sprintf("globalDefault of %s PriorityClass must be false", c.Name)
		}
		return ""
	}
	return c.Name + " is not a known system priority class"
}
