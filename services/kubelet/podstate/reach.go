package podstate

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podfall/podfall/proto"
)

// IsSidecar reports whether an init container is a sidecar (KEP-753), which keeps running beside
// the others.
func IsSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// HTTPRequest returns the request of a container's HTTP hook or probe.
func HTTPRequest(spec *corev1.Container, id string, get *corev1.HTTPGetAction) (*proto.ReachRequest, error) {
	port, err := Port(spec, get.Port)
	if err != nil {
		return nil, err
	}
	request := &proto.ReachRequest{ContainerId: id, Scheme: "http", Host: get.Host, Port: port, Path: get.Path}
	if get.Scheme == corev1.URISchemeHTTPS {
		request.Scheme = "https"
	}
	for _, header := range get.HTTPHeaders {
		request.Headers = append(request.Headers, &proto.Header{Name: header.Name, Value: header.Value})
	}
	return request, nil
}

// Port returns a port by its number, or by the name that the container gives it.
func Port(spec *corev1.Container, port intstr.IntOrString) (int32, error) {
	if port.Type == intstr.Int {
		return port.IntVal, nil
	}
	named := slices.IndexFunc(spec.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })
	if named < 0 {
		return 0, fmt.Errorf("couldn't find port: %s in container %q", port.StrVal, spec.Name)
	}
	return spec.Ports[named].ContainerPort, nil
}

// Ports returns the TCP ports that the containers of a pod declare.
func Ports(pod *corev1.Pod) []int32 {
	var ports []int32
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, port := range container.Ports {
			if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
				ports = append(ports, port.ContainerPort)
			}
		}
	}
	return ports
}
