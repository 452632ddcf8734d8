package podworker

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/services/kubelet/downward"
)

// environment makes what a container's program is to find in its environment (upstream's
// makeEnvironmentVariables). Its errors are upstream's.
type environment struct {
	pod     *corev1.Pod
	spec    *corev1.Container
	at      downward.Addresses
	cfg     *Config
	values  map[string]string
	service map[string]string
	left    *budget
}

// variables are all that the container's program is given; left is what the command line may have.
func (w *worker) variables(
	ctx context.Context, pod *corev1.Pod, spec *corev1.Container, podIP string, left *budget,
) (map[string]string, error) {
	services, err := w.cfg.Objects.Services(ctx, pod.Namespace)
	if err != nil {
		return nil, err
	}
	e := environment{
		pod: pod, spec: spec, at: downward.Addresses{Pod: podIP, Host: w.cfg.IP}, cfg: &w.cfg,
		values: map[string]string{}, service: serviceVariables(services, pod), left: left,
	}
	for i := range spec.EnvFrom {
		if err := e.from(ctx, &spec.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range spec.Env {
		if err := e.variable(ctx, &spec.Env[i]); err != nil {
			return nil, err
		}
	}
	all := e.service
	maps.Copy(all, e.values)
	return all, nil
}

// from takes all values of an object.
func (e *environment) from(ctx context.Context, source *corev1.EnvFromSource) error {
	switch {
	case source.ConfigMapRef != nil:
		config, err := e.cfg.Objects.ConfigMap(ctx, e.pod.Namespace, source.ConfigMapRef.Name)
		if err != nil {
			return unless(source.ConfigMapRef.Optional, err)
		}
		for key, value := range config.Data {
			e.values[source.Prefix+key] = value
		}
	case source.SecretRef != nil:
		secret, err := e.cfg.Objects.Secret(ctx, e.pod.Namespace, source.SecretRef.Name)
		if err != nil {
			return unless(source.SecretRef.Optional, err)
		}
		for key, value := range secret.Data {
			e.values[source.Prefix+key] = string(value)
		}
	}
	return nil
}

// unless passes over an object that is missing and may be.
func unless(optional *bool, err error) error {
	if optional != nil && *optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// variable takes one variable: its value, with those before it put in, or what it is taken
// from. One that is optional and cannot be found is left out.
func (e *environment) variable(ctx context.Context, v *corev1.EnvVar) error {
	if v.Value != "" || v.ValueFrom == nil {
		value, err := expand(fmt.Sprintf("environment variable %q", v.Name), v.Value, e.lookup)
		if err == nil {
			e.values[v.Name], err = value, e.left.take(fmt.Sprintf("environment variable %q", v.Name), value)
		}
		return err
	}
	value, found, err := e.source(ctx, v.ValueFrom)
	if err != nil || !found {
		return err
	}
	e.values[v.Name] = value
	return nil
}

// lookup is a variable that others may name.
func (e *environment) lookup(name string) (string, bool) {
	if value, known := e.values[name]; known {
		return value, true
	}
	value, known := e.service[name]
	return value, known
}

func (e *environment) source(ctx context.Context, from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = downward.Field(e.pod, from.FieldRef.FieldPath, e.at)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = downward.Resource(e.pod, e.spec, from.ResourceFieldRef, e.cfg.Allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return e.configMapKey(ctx, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return e.secretKey(ctx, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return e.fileKey(from.FileKeyRef)
	}
	return "", true, nil
}

func (e *environment) configMapKey(ctx context.Context, ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	config, err := e.cfg.Objects.ConfigMap(ctx, e.pod.Namespace, ref.Name)
	if err != nil {
		return "", false, unless(ref.Optional, err)
	}
	value, found := config.Data[ref.Key]
	if !found && (ref.Optional == nil || !*ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, e.pod.Namespace, ref.Name)
	}
	return value, found, nil
}

func (e *environment) secretKey(ctx context.Context, ref *corev1.SecretKeySelector) (string, bool, error) {
	secret, err := e.cfg.Objects.Secret(ctx, e.pod.Namespace, ref.Name)
	if err != nil {
		return "", false, unless(ref.Optional, err)
	}
	value, found := secret.Data[ref.Key]
	if !found && (ref.Optional == nil || !*ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, e.pod.Namespace, ref.Name)
	}
	return string(value), found, nil
}

func (e *environment) fileKey(ref *corev1.FileKeySelector) (string, bool, error) {
	value, err := e.cfg.Volumes.EnvFile(e.pod, ref)
	switch {
	case err != nil:
		return "", false, err
	case value == "" && (ref.Optional == nil || !*ref.Optional):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, value != "", nil
}
