package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podfall/podfall/internal/storage"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// The plugins that complete what is written, by the names that upstream's
// --disable-admission-plugins knows.
const (
	// LimitRanger gives pods the default requests and limits of their namespace, and refuses pods and
	// claims outside the minimum and maximum (API-91).
	LimitRanger = "LimitRanger"
	// DefaultTolerationSeconds has pods stay for five minutes on a node that is not ready
	// (CTL-04).
	DefaultTolerationSeconds = "DefaultTolerationSeconds"
	// Priority gives pods the number that their PriorityClass stands for.
	Priority = "Priority"
	// DefaultStorageClass gives claims a class when they name none.
	DefaultStorageClass = "DefaultStorageClass"
	// StorageObjectInUseProtection gives claims and volumes the finalizers that keep them
	// while they are used.
	StorageObjectInUseProtection = "StorageObjectInUseProtection"
	// ServiceAccount refuses pods of an account that is not there, and gives pods the pull secrets of
	// their account. It mounts no token.
	ServiceAccount = "ServiceAccount"
	// RuntimeClass refuses pods of an unknown class, and gives pods what their class says of overhead
	// and scheduling.
	RuntimeClass = "RuntimeClass"
)

// Plugins returns the plugins in the order in which they run.
func Plugins() []string {
	return []string{
		LimitRanger, ServiceAccount, Priority, DefaultTolerationSeconds, DefaultStorageClass, StorageObjectInUseProtection, RuntimeClass,
	}
}

// Classes returns the objects that plugins look up.
type Classes interface {
	PriorityClasses() []*schedulingv1.PriorityClass
	StorageClasses() []*storagev1.StorageClass
	RuntimeClasses() []*nodev1.RuntimeClass
	// ServiceAccount is nil when there is none of the name.
	ServiceAccount(namespace, name string) *corev1.ServiceAccount
	// LimitRanges returns those of a namespace, by name.
	LimitRanges(namespace string) []*corev1.LimitRange
}

// SetDefaults runs the enabled plugins on obj, which is about to replace old; they change obj. A new
// object has a nil old. The error is a 403.
func SetDefaults(enabled []string, a Attributes, obj, old kinds.Object, classes Classes) error {
	on := func(plugin string) bool { return slices.Contains(enabled, plugin) }
	if pod, is := obj.(*corev1.Pod); is && on(LimitRanger) && enforcesLimits(a, obj, old) {
		applyLimitRanges(pod, classes.LimitRanges(a.Namespace))
	}
	if a.Subresource != "" || a.Verb == proto.VerbDelete {
		return nil
	}
	create := a.Verb == proto.VerbCreate
	switch obj := obj.(type) {
	case *corev1.Pod:
		if create {
			if err := setPodDefaults(on, a, obj, classes); err != nil {
				return forbid(a, err)
			}
		} else if on(DefaultTolerationSeconds) {
			addDefaultTolerations(obj)
		}
	case *corev1.PersistentVolumeClaim:
		if on(DefaultStorageClass) && create {
			setStorageClass(obj, classes.StorageClasses())
		}
		if on(StorageObjectInUseProtection) && create {
			obj.Finalizers = addFinalizer(obj.Finalizers, "kubernetes.io/pvc-protection")
		}
	case *corev1.PersistentVolume:
		if on(StorageObjectInUseProtection) && create {
			obj.Finalizers = addFinalizer(obj.Finalizers, "kubernetes.io/pv-protection")
		}
	}
	return nil
}

// setPodDefaults runs the enabled plugins on a new pod, in the order of Plugins.
func setPodDefaults(on func(plugin string) bool, a Attributes, pod *corev1.Pod, classes Classes) error {
	if on(ServiceAccount) {
		if err := applyServiceAccount(a.Namespace, pod, classes); err != nil {
			return err
		}
	}
	if on(Priority) {
		if err := setPriority(pod, classes.PriorityClasses()); err != nil {
			return err
		}
	}
	if on(DefaultTolerationSeconds) {
		addDefaultTolerations(pod)
	}
	if on(RuntimeClass) {
		return applyRuntimeClass(pod, classes.RuntimeClasses())
	}
	return nil
}

// Check refuses what the enabled plugins do not allow, after webhooks have changed obj. The error is a 403.
func Check(enabled []string, a Attributes, obj, old kinds.Object, classes Classes) error {
	if slices.Contains(enabled, LimitRanger) && enforcesLimits(a, obj, old) {
		if err := checkLimitRanges(obj, classes.LimitRanges(a.Namespace)); err != nil {
			return forbid(a, err)
		}
	}
	pod, is := obj.(*corev1.Pod)
	if !is || a.Verb != proto.VerbCreate || a.Subresource != "" || !slices.Contains(enabled, ServiceAccount) {
		return nil
	}
	if err := checkServiceAccount(a.Namespace, pod, classes); err != nil {
		return forbid(a, err)
	}
	return nil
}

func addFinalizer(finalizers []string, one string) []string {
	if slices.Contains(finalizers, one) {
		return finalizers
	}
	return append(finalizers, one)
}

// defaultTolerationSeconds is how long a pod stays on a node that is not ready or unreachable.
const defaultTolerationSeconds = 300

func addDefaultTolerations(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		matches := func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}
		if !slices.ContainsFunc(pod.Spec.Tolerations, matches) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(defaultTolerationSeconds)),
			})
		}
	}
}

// systemClasses returns the priorities of the classes that exist in every cluster.
func systemClasses() map[string]int32 {
	return map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
}

// setPriority resolves the pod's class. Without one the default class applies, and without that the
// priority is 0.
func setPriority(pod *corev1.Pod, classes []*schedulingv1.PriorityClass) error {
	value, policy := int32(0), corev1.PreemptLowerPriority
	class := classOf(pod.Spec.PriorityClassName, classes)
	system, isSystem := systemClasses()[pod.Spec.PriorityClassName]
	switch {
	case class != nil:
		pod.Spec.PriorityClassName, value = class.Name, class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	case isSystem:
		value = system
	case pod.Spec.PriorityClassName != "":
		return fmt.Errorf("no PriorityClass with name %v was found", pod.Spec.PriorityClassName)
	}
	if given := pod.Spec.Priority; given != nil && *given != value {
		return fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
			"priority admission controller computed %d from the given PriorityClass name", *given, value)
	}
	if given := pod.Spec.PreemptionPolicy; given != nil && *given != policy {
		return fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
			"priority admission controller computed %s from the given PriorityClass name", *given, policy)
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &value, &policy
	return nil
}

// classOf returns a class by its name, or the lowest default one if name is empty.
func classOf(name string, classes []*schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, class := range classes {
		if name == class.Name && name != "" {
			return class
		}
		if name == "" && class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found
}

// setStorageClass gives a claim that names no class the default one.
func setStorageClass(claim *corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass) {
	if !storage.HasNoClass(claim) {
		return
	}
	if found := storage.DefaultClass(classes); found != nil {
		claim.Spec.StorageClassName = &found.Name
	}
}
