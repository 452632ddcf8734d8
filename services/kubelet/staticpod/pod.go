// Package staticpod runs the pods that a node has from its own files and not from the API (KBL-82):
// a directory of manifests, each a pod that runs while its file is there. In the API each has a
// mirror pod, so that users see it; the API cannot end it.
//
//	directory ─ source.go ─▶ podset ─▶ the kubelet's loop
//	                                    │ names.go    one pod of a name at a time
//	                                    │ decide.go   mirrors to create and to remove
//	                          API ◀─ mirrors.go
//
// pod.go, defaults.go, names.go and decide.go are pure.
package staticpod

import (
	"crypto/md5" //nolint:gosec // a name for a file's content, as upstream's, and no secret
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podfall/podfall/internal/aliases"
	"github.com/podfall/podfall/services/kubelet/podstate"
)

// Parse returns the pod that a file of the node describes. The node's name is part of its name, and
// its UID changes with the file.
func Parse(file string, data []byte, node string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := aliases.Check(data, maxManifest); err != nil {
		return nil, err
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err
	}
	strict, err := kjson.UnmarshalStrict(text, pod)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if err := check(pod); err != nil {
		return nil, err
	}
	sum := md5.New() //nolint:gosec // as above
	_, _ = fmt.Fprintf(sum, "host:%s\nfile:%s\n", node, file)
	_, _ = sum.Write(data)
	hash := hex.EncodeToString(sum.Sum(nil))
	if pod.UID == "" {
		pod.UID = types.UID(hash)
	}
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = nil, nil, nil
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[podstate.AnnotationHash] = string(pod.UID)
	pod.Annotations[podstate.AnnotationSource] = podstate.SourceFile
	pod.Spec.NodeName = node
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, // it is not evicted for the node's sake
	})
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	setDefaults(&pod.Spec)
	return pod, nil
}

// check refuses a file that is not a pod. The creation of the mirror reports other mistakes.
func check(pod *corev1.Pod) error {
	switch {
	case pod.APIVersion != "v1" || pod.Kind != "Pod":
		return fmt.Errorf("apiVersion %q, kind %q: want v1 and Pod", pod.APIVersion, pod.Kind)
	case len(validation.IsDNS1123Subdomain(pod.Name)) > 0:
		return fmt.Errorf("metadata.name %q: %s", pod.Name, validation.IsDNS1123Subdomain(pod.Name)[0])
	case pod.Namespace != "" && len(validation.IsDNS1123Label(pod.Namespace)) > 0:
		return fmt.Errorf("metadata.namespace %q: %s", pod.Namespace, validation.IsDNS1123Label(pod.Namespace)[0])
	case pod.UID != "" && len(validation.IsDNS1123Label(string(pod.UID))) > 0:
		return fmt.Errorf("metadata.uid %q: %s", pod.UID, validation.IsDNS1123Label(string(pod.UID))[0])
	case len(pod.Spec.Containers) == 0:
		return errors.New("spec.containers: want one or more")
	}
	names := map[string]bool{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if wrong := validation.IsDNS1123Label(c.Name); len(wrong) > 0 {
				return fmt.Errorf("container name %q: %s", c.Name, wrong[0])
			}
			if names[c.Name] {
				return fmt.Errorf("container name %q: is there twice", c.Name)
			}
			names[c.Name] = true
		}
	}
	return nil
}
