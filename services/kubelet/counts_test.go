package kubelet

import "testing"

func TestOperationTypes(t *testing.T) {
	for method, want := range map[string]string{
		"ListPodSandbox": "list_podsandbox", "StopContainer": "stop_container", "ExecSync": "exec_sync", "PodSandboxStatus": "podsandbox_status",
	} {
		if got := operationType(method); got != want {
			t.Errorf("%s is counted as %q, want %q", method, got, want)
		}
	}
}
