package sim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/analysis/guarantees"
)

// TestCascades has a user delete sets in each way, and a namespace in which a pod is held, and
// make them again: in the end everything is right, and nothing was forced.
func TestCascades(t *testing.T) {
	second := new(int64(1))
	for _, policy := range propagationPolicies() {
		t.Run(string(policy), func(t *testing.T) {
			result := runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 6 * time.Minute, FaultsEnd: 4 * time.Minute, Actions: []Action{
				{At: 8 * time.Second, Kind: CreateReplicas, Name: replicaName, Count: 2, Grace: second},
				{At: 9 * time.Second, Kind: CreateStateful, Name: statefulName, Count: 2, Grace: second},
				{At: 40 * time.Second, Kind: CreateNamespace, Name: shop},
				{At: 41 * time.Second, Kind: CreateReplicas, Name: "shop/web", Count: 1, Grace: second},
				{At: 42 * time.Second, Kind: CreatePod, Name: "shop/ant", Grace: second, Finalizer: true},
				{At: time.Minute, Kind: DeleteReplicas, Name: replicaName, Policy: policy},
				{At: time.Minute, Kind: DeleteStateful, Name: statefulName, Policy: policy},
				{At: 61 * time.Second, Kind: CreateReplicas, Name: replicaName, Count: 1, Grace: second},
				{At: 61 * time.Second, Kind: CreateStateful, Name: statefulName, Count: 1, Grace: second},
				{At: 70 * time.Second, Kind: DeleteNamespace, Name: shop},
				{At: 90 * time.Second, Kind: CreatePod, Name: "shop/bee"},
				{At: 2 * time.Minute, Kind: RemoveFinalizer, Name: "shop/ant"},
			}})
			results, err := Judge(result)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results {
				if result.ID == "D10" && (result.Verdict != guarantees.Held || result.Cases == 0) {
					t.Errorf("D10 is %v of %d cases", result.Verdict, result.Cases)
				}
			}
			wanted := []string{"deletecollection pods", "deletecollection replicasets.apps", "update namespaces"}
			switch policy {
			case metav1.DeletePropagationForeground:
				wanted = append(wanted, "delete pods", "patch replicasets.apps", "patch statefulsets.apps")
			case metav1.DeletePropagationOrphan:
				wanted = append(wanted, "patch pods", "patch replicasets.apps", "patch statefulsets.apps")
			case metav1.DeletePropagationBackground:
				wanted = append(wanted, "delete pods")
			}
			for _, what := range wanted {
				if result.Coverage["cascades: "+what] == 0 {
					t.Errorf("no cascade has carried out %s: %v", what, result.Coverage)
				}
			}
		})
	}
}

// TestMadeAgain deletes a set whose pods are still being made, and makes it again at once: the
// new one does not wait for what was expected for the old.
func TestMadeAgain(t *testing.T) {
	at := 10 * time.Second
	result := runInBubble(t, Script{Recorded: true, Nodes: 1, Duration: 4 * time.Minute, FaultsEnd: 2 * time.Minute, Actions: []Action{
		{At: at - time.Second, Kind: SlowDisk, Name: APIServer, For: 400 * time.Millisecond},
		{At: at, Kind: CreateReplicas, Name: replicaName, Count: 3, Grace: new(int64(1))},
		{At: at + 200*time.Millisecond, Kind: DeleteReplicas, Name: replicaName, Policy: metav1.DeletePropagationBackground},
		{At: at + 210*time.Millisecond, Kind: CreateReplicas, Name: replicaName, Count: 2, Grace: new(int64(1))},
	}})
	if _, err := Judge(result); err != nil {
		t.Error(err)
	}
}
