package volumes

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/internal/podrefs"
)

// tokens are the valid tokens of the pods' service accounts.
type tokens struct {
	mu   *sync.Mutex
	kept map[tokenKey]token
}

type tokenKey struct {
	uid              types.UID
	volume, audience string
	path             string
}

type token struct {
	text string
	// renew is when to ask for another.
	renew time.Time
}

func newTokens() tokens { return tokens{mu: &sync.Mutex{}, kept: map[tokenKey]token{}} }

// maxTokenUse is the longest time that a token is used, however long it is valid.
const maxTokenUse = 24 * time.Hour

// token returns a token of the pod's service account, bound to the pod. It is renewed when four
// fifths of its time have passed.
func (m *Manager) token(ctx context.Context, pod *corev1.Pod, volume string, wanted *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{pod.UID, volume, wanted.Audience, wanted.Path}
	m.tokens.mu.Lock()
	kept, known := m.tokens.kept[key]
	m.tokens.mu.Unlock()
	now := m.Clock.Now()
	if known && now.Before(kept.renew) {
		return kept.text, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: wanted.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if wanted.Audience != "" {
		request.Spec.Audiences = []string{wanted.Audience}
	}
	obj, err := m.API.Create(ctx, podapi.Target{
		Kind: m.kinds.accounts, Namespace: pod.Namespace, Name: podrefs.ServiceAccount(pod), Subresource: "token",
	}, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	answer, is := obj.(*authenticationv1.TokenRequest)
	if !is {
		return "", fmt.Errorf("failed to fetch token: the API answered with a %T", obj)
	}
	lasts := answer.Status.ExpirationTimestamp.Sub(now)
	m.tokens.mu.Lock()
	defer m.tokens.mu.Unlock()
	m.tokens.kept[key] = token{answer.Status.Token, now.Add(min(lasts*4/5, maxTokenUse))}
	return answer.Status.Token, nil
}

// forget drops the tokens of a pod.
func (t tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.kept {
		if key.uid == uid {
			delete(t.kept, key)
		}
	}
}
