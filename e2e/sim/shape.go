package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Shape describes the optional parts of pods. The zero value adds none.
type Shape struct {
	// Volumes, Init and Sidecars are how many of each.
	Volumes  int `json:"volumes,omitempty"`
	Init     int `json:"init,omitempty"`
	Sidecars int `json:"sidecars,omitempty"`
	// PreStop and PostStart are hooks, and Liveness, Readiness and Startup probes, of the
	// container main: "exec" or "http".
	PreStop   string `json:"preStop,omitempty"`
	PostStart string `json:"postStart,omitempty"`
	Liveness  string `json:"liveness,omitempty"`
	Readiness string `json:"readiness,omitempty"`
	Startup   string `json:"startup,omitempty"`
	// ProbeGrace is the liveness probe's own grace period, in seconds.
	ProbeGrace *int64 `json:"probeGrace,omitempty"`
	// Script is clauses of package simengine that are added to what the application does.
	Script string `json:"script,omitempty"`
	// Restarts has the containers of a user's pod be started again when they end.
	Restarts bool `json:"restarts,omitempty"`
	Purpose
}

// Purpose is what the pods are for.
type Purpose struct {
	// Disk is the claim of a user's pod, or what the claims of a set's pods are called.
	Disk string `json:"disk,omitempty"`
	// Job holds the options of a Job, and CronJob those of the CronJob that creates such Jobs.
	Job     JobOptions     `json:"task,omitzero"`
	CronJob CronJobOptions `json:"times,omitzero"`
	// Rollout holds the options of a Deployment.
	Rollout RolloutOptions `json:"rollout,omitzero"`
}

// String is the shape in a story; empty for none.
func (s Shape) String() string {
	if s == (Shape{}) {
		return ""
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic("sim: " + err.Error()) // plain values
	}
	return string(data)
}

// apply gives a pod the optional parts.
func (s Shape) apply(template *corev1.PodTemplateSpec, app App) {
	spec, main := &template.Spec, &template.Spec.Containers[0]
	spec.Volumes = volumesOf(s.Volumes)
	for i := range s.Init {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{
			Name: "init-" + strconv.Itoa(i), Image: "scripted", Args: App{Runs: time.Duration(1+2*i) * time.Second}.Args(),
		})
	}
	for i := range s.Sidecars {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{
			Name: "sidecar-" + strconv.Itoa(i), Image: "scripted", RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			Args: App{IgnoresTerm: i > 0, Stops: 500 * time.Millisecond}.Args(),
		})
	}
	if s.Script != "" {
		template.Annotations = map[string]string{scriptAnnotation + main.Name: fmt.Sprintf("%v, %s", app.script(), s.Script)}
	}
	if main.Lifecycle == nil && s.PreStop+s.PostStart != "" {
		main.Lifecycle = &corev1.Lifecycle{PreStop: hookOf(s.PreStop)}
	}
	if s.PostStart != "" {
		main.Lifecycle.PostStart = hookOf(s.PostStart)
	}
	main.LivenessProbe, main.ReadinessProbe, main.StartupProbe = probeOf(s.Liveness), probeOf(s.Readiness), probeOf(s.Startup)
	if main.LivenessProbe != nil {
		main.LivenessProbe.TerminationGracePeriodSeconds, main.LivenessProbe.FailureThreshold = s.ProbeGrace, 2
	}
}

// volumesOf are n volumes of a pod.
func volumesOf(n int) []corev1.Volume {
	var all []corev1.Volume
	for i := range n {
		all = append(all, corev1.Volume{Name: "data-" + strconv.Itoa(i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	}
	return all
}

// The ways of hooks and probes, and what they ask.
const (
	byExec = "exec"
	byHTTP = "http"
)

func execOf() *corev1.ExecAction { return &corev1.ExecAction{Command: []string{"look"}} }

func httpOf() *corev1.HTTPGetAction {
	return &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)}
}

func hookOf(way string) *corev1.LifecycleHandler {
	switch way {
	case byExec:
		return &corev1.LifecycleHandler{Exec: execOf()}
	case byHTTP:
		return &corev1.LifecycleHandler{HTTPGet: httpOf()}
	}
	return nil
}

func probeOf(way string) *corev1.Probe {
	probe := &corev1.Probe{PeriodSeconds: 10, TimeoutSeconds: 2, FailureThreshold: 6}
	switch way {
	case byExec:
		probe.Exec = execOf()
	case byHTTP:
		probe.HTTPGet = httpOf()
	default:
		return nil
	}
	return probe
}

// retried is how much later than its action a pod exists at most, if the user's requests were not
// answered.
const retried = 3 * defaultLimit

// drawShapes gives the pods of a run optional parts, and breaks volumes of nodes in a run with
// faults. It uses its own dice: all else that is drawn stays the same.
func drawShapes(s *Script, until time.Duration) {
	if hasFaults(s.Actions) {
		s.Actions = append(append(s.Actions, drawPointFaults(s.Seed, s.NodeNames(), until)...), drawTwins(s.Seed, s.NodeNames(), until)...)
	}
	for i := range s.Actions {
		action, d := &s.Actions[i], newDice(s.Seed, "shape", i)
		if action.Kind == CreatePod {
			action.Shape = drawPodShape(d, *action)
			if late := newDice(s.Seed, "start", i); action.Shape.Script == "" && late.oneIn(6) {
				action.Shape.Script = "starts after " + pick(late, late.between(time.Second, 40*time.Second), longStart).String()
			}
		}
		if action.Kind == CreateReplicas || action.Kind == CreateStateful {
			action.Shape = drawSetShape(d)
		}
	}
	if s.FaultsEnd == 0 {
		return
	}
	for _, name := range podNames() { // one that never does well would never be calm
		s.Actions = append(s.Actions, Action{At: until, Kind: DeletePod, Name: name})
		late := func(action Action) bool {
			return action.Kind == CreatePod && action.Name == name && action.Shape.Restarts && action.At > until-retried
		}
		if slices.ContainsFunc(s.Actions, late) { // it may come after that, when its user was not answered
			s.Actions = append(s.Actions, Action{At: until + retried, Kind: DeletePod, Name: name})
		}
	}
}

// longStart is one that a kubelet does not wait for to the end.
const longStart = runtimeTimeout + 30*time.Second

// drawPodShape draws the shape of a user's pod.
func drawPodShape(d *dice, action Action) Shape {
	if d.oneIn(2) {
		return Shape{}
	}
	s := Shape{Volumes: pick(d, 0, 1, 1, 2), Init: pick(d, 0, 0, 1, 2), Sidecars: pick(d, 0, 0, 0, 1, 2)}
	if action.PreStop == 0 {
		s.PreStop = pick(d, "", "", byExec, byHTTP)
	}
	s.PostStart = pick(d, "", "", "", byExec, byHTTP)
	switch {
	case d.oneIn(3):
		s.Liveness, s.Restarts, s.ProbeGrace = byHTTP, d.oneIn(2), pick(d, nil, drawGrace(d))
		s.Script = "stops answering after " + d.between(20*time.Second, 90*time.Second).String()
	case d.oneIn(4):
		s.Readiness, s.Startup = byHTTP, pick(d, "", byHTTP)
		s.Script = "answers after " + d.between(5*time.Second, 40*time.Second).String()
	case s.PreStop == byExec || s.PostStart == byExec:
		s.Script = pick(d, "exec exits 0 after 3s", "exec exits 1 after 1s", "exec exits 0 after 12s", "exec hangs")
		if s.PostStart == byExec && s.Script == "exec hangs" {
			s.PostStart = ""
		}
	}
	if s.ProbeGrace != nil {
		s.ProbeGrace = new(max(*s.ProbeGrace, 1)) // the API wants at least that
	}
	return s
}

// drawSetShape draws the shape of a set's pods: nothing that keeps a pod from being healthy.
func drawSetShape(d *dice) Shape {
	if d.oneIn(2) {
		return Shape{}
	}
	s := Shape{Volumes: pick(d, 0, 1), Init: pick(d, 0, 0, 1), Sidecars: pick(d, 0, 0, 1), PreStop: pick(d, "", byExec, byHTTP)}
	if s.PreStop == byExec {
		s.Script = pick(d, "exec exits 0 after 2s", "exec exits 1 after 1s", "exec hangs")
	}
	if d.oneIn(3) {
		s.Readiness = byHTTP
	}
	return s
}
