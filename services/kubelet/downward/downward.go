// Package downward is the downward API: what of a pod and of its containers' resources is
// shown to their programs, in variables and in files. It is pure.
package downward

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Addresses are the addresses of a pod, which only the node knows.
type Addresses struct{ Pod, Host string }

// Field returns a field of the pod (upstream's fieldpath.ExtractFieldPathAsString, and the fields
// that a kubelet fills in).
func Field(pod *corev1.Pod, path string, at Addresses) (string, error) {
	if base, rest, subscript := strings.Cut(path, "['"); subscript {
		key, closed := strings.CutSuffix(rest, "']")
		switch {
		case closed && base == "metadata.labels":
			return pod.Labels[key], nil
		case closed && base == "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", fmt.Errorf("fieldPath %q: want metadata.labels['<key>'] or metadata.annotations['<key>']", path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return formatMap(pod.Labels), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return at.Pod, nil
	case "status.hostIP", "status.hostIPs":
		return at.Host, nil
	}
	return "", fmt.Errorf("fieldPath %q is none that a container is shown", path)
}

// formatMap formats a map as files show it: a quoted value for each key, by key.
func formatMap(values map[string]string) string {
	texts := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, key+"="+strconv.Quote(values[key]))
	}
	return strings.Join(texts, "\n")
}

// Resource returns a request or a limit of a container, in units of the selector's divisor, rounded
// up. Own is the container that asks; a selector may name another one. A missing limit is what the
// node can give.
func Resource(pod *corev1.Pod, own *corev1.Container, selector *corev1.ResourceFieldSelector, allocatable corev1.ResourceList) (string, error) {
	if selector.ContainerName != "" {
		own = podstate.Container(pod, selector.ContainerName)
	}
	if own == nil {
		return "", fmt.Errorf("container %q not found in pod %q", selector.ContainerName, pod.Name)
	}
	kind, name, _ := strings.Cut(selector.Resource, ".")
	amount, err := amountOf(own, kind, corev1.ResourceName(name), allocatable)
	if err != nil {
		return "", fmt.Errorf("unsupported container resource: %q: want limits or requests of cpu, memory, ephemeral-storage or hugepages-<size>", selector.Resource)
	}
	divisor := selector.Divisor
	if divisor.IsZero() {
		divisor = *resource.NewQuantity(1, resource.DecimalSI)
	}
	if corev1.ResourceName(name) == corev1.ResourceCPU {
		return divideUp(milliValue(amount), milliValue(divisor)), nil
	}
	return divideUp(amount.Value(), divisor.Value()), nil
}

var errUnsupported = errors.New("no such resource")

func amountOf(own *corev1.Container, kind string, name corev1.ResourceName, allocatable corev1.ResourceList) (resource.Quantity, error) {
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	if !slices.Contains(known, name) && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return resource.Quantity{}, errUnsupported
	}
	switch kind {
	case "requests":
		return own.Resources.Requests[name], nil
	case "limits":
		if limit, limited := own.Resources.Limits[name]; limited && !limit.IsZero() {
			return limit, nil
		}
		return allocatable[name], nil
	}
	return resource.Quantity{}, errUnsupported
}

// milliValue returns a quantity in thousandths, or the largest number.
func milliValue(quantity resource.Quantity) int64 {
	const most = math.MaxInt64 / 1000
	if quantity.CmpInt64(most) > 0 {
		return math.MaxInt64
	}
	return quantity.MilliValue()
}

// divideUp divides and rounds up.
func divideUp(amount, divisor int64) string {
	if divisor <= 0 {
		divisor = 1
	}
	quotient := amount / divisor
	if amount%divisor > 0 {
		quotient++
	}
	return strconv.FormatInt(quotient, 10)
}
