package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refresh writes the files of a volume made of objects, if they differ.
func (m *Manager) refresh(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	if !isMadeOfObjects(v) {
		return nil
	}
	files, err := m.currentFiles(ctx, pod, v)
	if err == nil {
		err = files.check()
	}
	if err != nil {
		return err
	}
	dir, err := m.Root.OpenRoot(volumeDir(pod.UID, pluginName(v), v.Name))
	if err != nil {
		return err
	}
	return errors.Join(replaceFiles(dir, files, m.Clock.Now()), dir.Close())
}

// currentFiles returns the files that a volume should have now.
func (m *Manager) currentFiles(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (payload, error) {
	switch {
	case v.ConfigMap != nil:
		source := v.ConfigMap
		return m.configMap(ctx, pod, selection{source.Name, source.Items, modeOrDefault(source.DefaultMode), source.Optional})
	case v.Secret != nil:
		source := v.Secret
		return m.secret(ctx, pod, selection{source.SecretName, source.Items, modeOrDefault(source.DefaultMode), source.Optional})
	case v.DownwardAPI != nil:
		return downwardFiles(pod, v.DownwardAPI.Items, modeOrDefault(v.DownwardAPI.DefaultMode), m.Allocatable)
	}
	return m.projected(ctx, pod, v)
}

func isTrue(b *bool) bool { return b != nil && *b }

func (m *Manager) configMap(ctx context.Context, pod *corev1.Pod, wanted selection) (payload, error) {
	config, err := m.Objects.ConfigMap(ctx, pod.Namespace, wanted.name)
	if isTrue(wanted.optional) && apierrors.IsNotFound(err) {
		return payload{}, nil
	}
	if err != nil {
		return nil, err
	}
	return wanted.selectFiles(configMapValues(config), "configmap references non-existent config key")
}

func (m *Manager) secret(ctx context.Context, pod *corev1.Pod, wanted selection) (payload, error) {
	secret, err := m.Objects.Secret(ctx, pod.Namespace, wanted.name)
	if isTrue(wanted.optional) && apierrors.IsNotFound(err) {
		return payload{}, nil
	}
	if err != nil {
		return nil, err
	}
	return wanted.selectFiles(secret.Data, "references non-existent secret key")
}

// projected returns the files of all sources of a projected volume, or all their errors.
func (m *Manager) projected(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (payload, error) {
	files, mode := payload{}, modeOrDefault(v.Projected.DefaultMode)
	var wrong []string
	for i := range v.Projected.Sources {
		part, err := m.source(ctx, pod, v, i, mode)
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		maps.Copy(files, part) // a later source wins
	}
	switch slices.Sort(wrong); len(wrong) {
	case 0:
		return files, nil
	case 1:
		return nil, errors.New(wrong[0])
	}
	return nil, errors.New("[" + strings.Join(slices.Compact(wrong), ", ") + "]")
}

func (m *Manager) source(ctx context.Context, pod *corev1.Pod, v *corev1.Volume, index int, mode int32) (payload, error) {
	source := &v.Projected.Sources[index]
	switch {
	case source.Secret != nil:
		return m.secret(ctx, pod, selection{source.Secret.Name, source.Secret.Items, mode, source.Secret.Optional})
	case source.ConfigMap != nil:
		return m.configMap(ctx, pod, selection{source.ConfigMap.Name, source.ConfigMap.Items, mode, source.ConfigMap.Optional})
	case source.DownwardAPI != nil:
		return downwardFiles(pod, source.DownwardAPI.Items, mode, m.Allocatable)
	case source.ServiceAccountToken != nil:
		token, err := m.token(ctx, pod, v.Name, source.ServiceAccountToken)
		if err != nil {
			return nil, err
		}
		return payload{source.ServiceAccountToken.Path: {[]byte(token), modeOf(nil, mode)}}, nil
	}
	return nil, fmt.Errorf("projected.sources[%d]: podfall projects no such source: "+
		"want secret, configMap, downwardAPI or serviceAccountToken", index)
}

// equal reports whether two payloads have the same files.
func (p payload) equal(other payload) bool {
	return maps.EqualFunc(p, other, func(a, b file) bool { return a.mode == b.mode && string(a.data) == string(b.data) })
}
