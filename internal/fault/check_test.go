package fault

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCheckNamesTheField(t *testing.T) {
	long := metav1.Duration{Duration: time.Second}
	for want, c := range map[string]struct {
		name string
		spec Spec
	}{
		`metadata.name: Required value`:                                {"", Spec{Point: VolumeMount, Effect: Effect{Kind: Error}}},
		`metadata.name: Invalid value: "A"`:                            {"A", Spec{Point: VolumeMount, Effect: Effect{Kind: Error}}},
		`spec.point: Unsupported value: "volume.mounted"`:              {"f", Spec{Point: "volume.mounted", Effect: Effect{Kind: Error}}},
		`spec.point: Unsupported value: ""`:                            {"f", Spec{}},
		`spec.point: Unsupported value: "volume.mount,volume.unmount"`: {"f", Spec{Point: "volume.mount,volume.unmount", Effect: Effect{Kind: Error}}},
		`spec.where.client: Invalid value: "x": volume.mount is selected by process, node, namespace, pod, volume`: {
			"f", Spec{Point: VolumeMount, Where: Attributes{Client: "x", Node: "n"}, Effect: Effect{Kind: Error}},
		},
		`spec.effect.type: Unsupported value: "lie": supported values: "error", "hang", "delay", "crash"`: {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Lie}}},
		`spec.effect.delay: Invalid value: "0s": must be more than 0`:                                     {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Delay}}},
		`spec.effect.delay: Invalid value: "1s": is for the effect delay alone`:                           {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Error, Delay: long}}},
		`spec.effect.code: Invalid value: "500": want one of Canceled`:                                    {"f", Spec{Point: CRI("StopContainer"), Effect: Effect{Kind: Error, Code: "500"}}},
		`spec.effect.code: Invalid value: "200": want an HTTP status from 400 to 599`:                     {"f", Spec{Point: APIRequest, Effect: Effect{Kind: Error, Code: "200"}}},
		`spec.effect.code: Invalid value: "500": the errors of this point have no code`:                   {"f", Spec{Point: StoreCommit, Effect: Effect{Kind: Error, Code: "500"}}},
		`spec.effect.code: Invalid value: "500": is for the effect error alone`:                           {"f", Spec{Point: APIRequest, Effect: Effect{Kind: Hang, Code: "500"}}},
		`spec.effect.message: Invalid value: "m": is for the effect error alone`:                          {"f", Spec{Point: APIRequest, Effect: Effect{Kind: Hang, Message: "m"}}},
		`spec.effect.value: Invalid value: "cold": want one of memory, disk, pid`:                         {"f", Spec{Point: NodePressure, Effect: Effect{Kind: Value, Value: "cold"}}},
		`spec.effect.value: Invalid value: "soon": want a duration`:                                       {"f", Spec{Point: ClockSkew, Effect: Effect{Kind: Value, Value: "soon"}}},
		`spec.effect.value: Invalid value: "200%": want a duration`:                                       {"f", Spec{Point: ClockSkew, Effect: Effect{Kind: Value, Value: "200%"}}},
		`spec.effect.value: Invalid value: "NaN%": want a duration`:                                       {"f", Spec{Point: ClockSkew, Effect: Effect{Kind: Value, Value: "NaN%"}}},
		`spec.effect.value: Invalid value: "nofile=0": want nofile=`:                                      {"f", Spec{Point: ProcessLimit, Effect: Effect{Kind: Value, Value: "nofile=0"}}},
		`spec.effect.value: Invalid value: "memory=1k": want nofile=`:                                     {"f", Spec{Point: ProcessLimit, Effect: Effect{Kind: Value, Value: "memory=1k"}}},
		`spec.effect.value: Invalid value: "pids=1": want nofile=`:                                        {"f", Spec{Point: ProcessLimit, Effect: Effect{Kind: Value, Value: "pids=1"}}},
		`spec.effect.value: Invalid value: "disk": is for the effect value alone`:                         {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Error, Value: "disk"}}},
		`spec.probability: Invalid value: -0.5`:                                                           {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Error}, Probability: -0.5}},
		`spec.probability: Invalid value: NaN`:                                                            {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Error}, Probability: math.NaN()}},
		`spec.duration: Invalid value: "-1s": must not be negative`:                                       {"f", Spec{Point: VolumeMount, Effect: Effect{Kind: Error}, Duration: metav1.Duration{Duration: -time.Second}}},
	} {
		_, err := New(c.name, c.spec, time.Time{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%q, %+v): %v\nwant %s", c.name, c.spec, err, want)
		}
	}
	good := Spec{
		Point: "cri.*", Where: Attributes{Process: "runtime/node-1", Pod: "web-*"},
		Effect: Effect{Kind: Error, Code: "Unavailable", Message: "gone"}, Probability: 0.5, Duration: long,
	}
	if f, err := New("cri-down", good, time.Unix(5, 0)); err != nil || !f.Until.Equal(time.Unix(6, 0)) {
		t.Errorf("New: until %s, %v", f.Until, err)
	}
}
