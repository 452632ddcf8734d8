package guarantees

import "github.com/podfall/podfall/internal/history"

// The pod of most histories with two sidecars, and its containers.
var (
	meshSpec      = history.PodSpec{Sidecars: []string{"first", "second"}, Regular: []string{"main"}}
	main          = history.ContainerRef{Pod: name, UID: uid, Container: "m", ContainerName: "main"}
	firstSidecar  = history.ContainerRef{Pod: name, UID: uid, Container: "s1", ContainerName: "first"}
	secondSidecar = history.ContainerRef{Pod: name, UID: uid, Container: "s2", ContainerName: "second"}
	ordinary      = history.ContainerRef{Pod: name, UID: uid, Container: "i", ContainerName: "init"}
)

// mesh is a pod that runs these containers and is deleted a while later.
func mesh(containers ...history.ContainerRef) *builder {
	return runningMesh(containers...).wait(10).markMesh()
}

func runningMesh(containers ...history.ContainerRef) *builder {
	b := newBuilder().createPod()
	b.request("runs", by(node, "update"), 200, web(modified, withContent(history.Content{PodSpec: meshSpec})))
	for _, c := range containers {
		b.record(runtime, "", history.Create{ContainerRef: c}).record(runtime, "", history.Start{ContainerRef: c})
	}
	return b
}

// markMesh deletes the pod, and its kubelet hears of it.
func (b *builder) markMesh() *builder {
	b.request("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, b.clock+2+30), withContent(history.Content{PodSpec: meshSpec})))
	return b.beginStop(30)
}

// beginStop has the kubelet begin to stop the pod.
func (b *builder) beginStop(grace int64) *builder {
	return b.record(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: grace})
}

// stopContainer sends a container its stop signal.
func (b *builder) stopContainer(c history.ContainerRef) *builder {
	return b.record(runtime, "", history.Signaling{ContainerRef: c, Signal: "SIGTERM"}).record(runtime, "", history.Signal{ContainerRef: c, Signal: "SIGTERM"})
}

// endContainer sends a container its stop signal, and the container exits.
func (b *builder) endContainer(c history.ContainerRef) *builder {
	return b.stopContainer(c).record(runtime, "", history.Exit{ContainerRef: c})
}

func sidecarViolations() []violation {
	return []violation{
		{"K13", "a sidecar stopped beside its pod's container", mesh(firstSidecar, main).stopContainer(main).endContainer(firstSidecar).record(runtime, "", history.Exit{ContainerRef: main})},
		{"K13", "a sidecar stopped first", mesh(firstSidecar, main).endContainer(firstSidecar).endContainer(main)},
		{"K13", "sidecars stopped in the order of their definition", mesh(firstSidecar, secondSidecar, main).endContainer(main).endContainer(firstSidecar).endContainer(secondSidecar)},
		{"K13", "a sidecar stopped at once by a kubelet that restarts", mesh(firstSidecar, main).stopContainer(main).restart(kubelet).beginStop(30).endContainer(firstSidecar)},
	}
}

// validSidecars returns histories in which every sidecar is stopped when it may be.
func validSidecars() map[string]*builder {
	return map[string]*builder{
		"K13: sidecars in reverse":                                    mesh(firstSidecar, secondSidecar, main).endContainer(main).endContainer(secondSidecar).endContainer(firstSidecar),
		"K13: a sidecar whose grace period is used up":                mesh(firstSidecar, main).stopContainer(main).wait(26).endContainer(firstSidecar).record(runtime, "", history.Exit{ContainerRef: main}),
		"K13: one of a pod that is orphaned, which has a second":      runningMesh(firstSidecar, main).wait(10).beginStop(1).endContainer(firstSidecar).endContainer(main),
		"K13: a sidecar whose grace period is nearly used up":         runningMesh(firstSidecar, main).wait(10).beginStop(4).endContainer(firstSidecar).endContainer(main),
		"K13: one that an earlier attempt has waited long enough for": mesh(firstSidecar, main).stopContainer(main).wait(26).restart(kubelet).beginStop(30).endContainer(firstSidecar),
		"K13: a sidecar that is stopped while its pod goes on":        runningMesh(firstSidecar, main).endContainer(firstSidecar).wait(10).markMesh().endContainer(main),
		"K13: a container that ended by itself":                       runningMesh(firstSidecar, main).record(runtime, "", history.Exit{ContainerRef: main}).wait(10).markMesh().endContainer(firstSidecar),
		"K13: an ordinary init container takes no part":               mesh(firstSidecar, ordinary).endContainer(firstSidecar).endContainer(ordinary),
		"K13: a container that had only just been started":            runningMesh(firstSidecar, main).beginStop(30).endContainer(firstSidecar).endContainer(main),
	}
}
