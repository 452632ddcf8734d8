package stories

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// derived is a case that upstream's tests have by another name, or that follows from the
// rules alone: its story says from which.
const derived = "derived"

// TestIdentities names the story of each of upstream's cases about containers (TD-082 to TD-099)
// and about nodes and controllers (TD-110 to TD-118), and checks that the story names the case.
func TestIdentities(t *testing.T) {
	places := map[int]struct{ place, origin string }{
		82:  {"../../services/kubelet/podworker/grace_test.go", "TestKillContainerGracePeriod"},
		83:  {"../../services/kubelet/podworker/stop_test.go", "TestKillContainer"},
		84:  {"testdata/TD-084.txt", "TestLifeCycleHook"},
		85:  {"testdata/TD-085.txt", derived},
		86:  {"testdata/TD-086.txt", "valid prestop hook using sleep action"},
		87:  {"testdata/TD-087.txt", derived},
		88:  {"testdata/TD-088.txt", "ignore terminated container, zero duration"},
		89:  {"testdata/TD-089.txt", derived},
		90:  {"testdata/TD-090.txt", "mark readiness on pods to false while terminating"},
		91:  {"testdata/TD-091.txt", "override timeoutGracePeriodSeconds"},
		92:  {"testdata/TD-092.txt", "deleted_pods_test"},
		93:  {"testdata/TD-093.txt", "pods_lifecycle_termination_test"},
		94:  {"testdata/TD-094.txt", derived},
		95:  {"testdata/TD-095.txt", derived},
		96:  {"static_test.go", "mirror_pod_grace_period_test"},
		97:  {"../../services/kubelet/mounts_test.go", "terminate_pods_test"},
		98:  {"testdata/TD-098.txt", derived},
		99:  {"testdata/TD-099.txt", "ContainerStopSignals"},
		110: {"../../services/controllers/podgc/decide_test.go", "TestGCTerminated"},
		111: {"../../services/controllers/podgc/decide_test.go", derived},
		112: {"../../services/controllers/podgc/decide_test.go", "TestGCUnscheduledTerminating"},
		113: {"../../services/controllers/podgc/decide_test.go", derived},
		114: {"../../services/controllers/tainteviction/decide_test.go", "TestGetMinTolerationTime"},
		115: {"../../services/controllers/tainteviction/decide_test.go", derived},
		116: {"../../services/controllers/nodelifecycle/decide_test.go", "TestTaintsNodeByCondition"},
		117: {"../../services/controllers/tainteviction/decide_test.go", "taints.go"},
		118: {"../cluster/upstream_test.go", "non_graceful_node_shutdown.go"},
	}
	for _, span := range [][2]int{{82, 99}, {110, 118}} {
		for number := span[0]; number <= span[1]; number++ {
			where, known := places[number]
			if !known {
				t.Errorf("TD-%03d has no test", number)
				continue
			}
			text, err := os.ReadFile(where.place)
			if err != nil {
				t.Error(err)
			}
			if !strings.Contains(string(text), fmt.Sprintf("TD-%03d", number)) && !strings.Contains(string(text), fmt.Sprintf("TestTD%d", number)) {
				t.Errorf("%s does not tell TD-%03d (%s)", where.place, number, where.origin)
			}
		}
	}
}
