package podworker

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// serviceVariables returns the variables by which the pod's programs find Services (upstream's
// envvars.FromServices): those of its namespace unless enableServiceLinks is false, and always
// those of the API's Service.
func serviceVariables(services []*corev1.Service, pod *corev1.Pod) map[string]string {
	links := pod.Spec.EnableServiceLinks == nil || *pod.Spec.EnableServiceLinks
	variables := map[string]string{}
	for _, service := range services {
		if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone || len(service.Spec.Ports) == 0 {
			continue
		}
		if links || service.Namespace == metav1.NamespaceDefault && service.Name == "kubernetes" {
			maps.Copy(variables, variablesFor(service))
		}
	}
	return variables
}

func variablesFor(service *corev1.Service) map[string]string {
	name := variableName(service.Name)
	first, ip := service.Spec.Ports[0], service.Spec.ClusterIP
	variables := map[string]string{
		name + "_SERVICE_HOST": ip,
		name + "_SERVICE_PORT": portNumber(first.Port),
		name + "_PORT":         portURL(first, ip),
	}
	for _, port := range service.Spec.Ports {
		if port.Name != "" {
			variables[name+"_SERVICE_PORT_"+variableName(port.Name)] = portNumber(port.Port)
		}
		prefix := fmt.Sprintf("%s_PORT_%d_%s", name, port.Port, strings.ToUpper(string(protocolOf(port))))
		variables[prefix] = portURL(port, ip)
		variables[prefix+"_PROTO"] = strings.ToLower(string(protocolOf(port)))
		variables[prefix+"_PORT"] = portNumber(port.Port)
		variables[prefix+"_ADDR"] = ip
	}
	return variables
}

func variableName(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

func portNumber(port int32) string { return strconv.Itoa(int(port)) }

func portURL(port corev1.ServicePort, ip string) string {
	return strings.ToLower(string(protocolOf(port))) + "://" + net.JoinHostPort(ip, portNumber(port.Port))
}

func protocolOf(port corev1.ServicePort) corev1.Protocol {
	if port.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return port.Protocol
}
