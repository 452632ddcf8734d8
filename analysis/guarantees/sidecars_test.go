package guarantees

import "github.com/podfall/podfall/internal/history"

// Of the pod of most histories with two sidecars: what it commits, and the containers beside main.
var (
	meshSpec      = history.PodSpec{Sidecars: []string{"first", "second"}, Regular: []string{"main"}}
	main          = history.ContainerRef{Pod: name, UID: uid, Container: "m", ContainerName: "main"}
	firstSidecar  = history.ContainerRef{Pod: name, UID: uid, Container: "s1", ContainerName: "first"}
	secondSidecar = history.ContainerRef{Pod: name, UID: uid, Container: "s2", ContainerName: "second"}
	ordinary      = history.ContainerRef{Pod: name, UID: uid, Container: "i", ContainerName: "init"}
)

// mesh is a pod that runs these containers, and a while later is deleted.
func mesh(containers ...history.ContainerRef) *forge {
	return meshed(containers...).wait(10).marksMesh()
}

func meshed(containers ...history.ContainerRef) *forge {
	f := newForge().create()
	f.ask("runs", by(node, "update"), 200, web(modified, its(history.Content{PodSpec: meshSpec})))
	for _, c := range containers {
		f.say(runtime, "", history.Create{ContainerRef: c}).say(runtime, "", history.Start{ContainerRef: c})
	}
	return f
}

// marksMesh is the delete of the pod, of which its kubelet hears.
func (f *forge) marksMesh() *forge {
	f.ask("mark", by(user, "delete", grace(30)), 200, web(modified, marked(30, f.clock+2+30), its(history.Content{PodSpec: meshSpec})))
	return f.terms(30)
}

// terms is a kubelet that begins to stop the pod.
func (f *forge) terms(grace int64) *forge {
	return f.say(kubelet, "", history.KubeletTerm{Pod: name, UID: uid, Grace: grace})
}

// stops is a container that gets its stop signal.
func (f *forge) stops(c history.ContainerRef) *forge {
	return f.say(runtime, "", history.Signaling{ContainerRef: c, Signal: "SIGTERM"}).say(runtime, "", history.Signal{ContainerRef: c, Signal: "SIGTERM"})
}

// heeds is one that gets it, and ends.
func (f *forge) heeds(c history.ContainerRef) *forge {
	return f.stops(c).say(runtime, "", history.Exit{ContainerRef: c})
}

func brokenSidecars() []forged {
	return []forged{
		{"K13", "a sidecar stopped beside its pod's container", mesh(firstSidecar, main).stops(main).heeds(firstSidecar).say(runtime, "", history.Exit{ContainerRef: main})},
		{"K13", "a sidecar stopped first", mesh(firstSidecar, main).heeds(firstSidecar).heeds(main)},
		{"K13", "sidecars stopped in the order of their definition", mesh(firstSidecar, secondSidecar, main).heeds(main).heeds(firstSidecar).heeds(secondSidecar)},
		{"K13", "a sidecar stopped at once by a kubelet that begins anew", mesh(firstSidecar, main).stops(main).restart(kubelet).terms(30).heeds(firstSidecar)},
	}
}

// sidecars are histories in which every sidecar is stopped when it may be.
func sidecars() map[string]*forge {
	return map[string]*forge{
		"K13: sidecars in reverse":                                    mesh(firstSidecar, secondSidecar, main).heeds(main).heeds(secondSidecar).heeds(firstSidecar),
		"K13: a sidecar whose grace period is used up":                mesh(firstSidecar, main).stops(main).wait(26).heeds(firstSidecar).say(runtime, "", history.Exit{ContainerRef: main}),
		"K13: one of a pod that is orphaned, which has a second":      meshed(firstSidecar, main).wait(10).terms(1).heeds(firstSidecar).heeds(main),
		"K13: a sidecar whose grace period is nearly used up":         meshed(firstSidecar, main).wait(10).terms(4).heeds(firstSidecar).heeds(main),
		"K13: one that an earlier attempt has waited long enough for": mesh(firstSidecar, main).stops(main).wait(26).restart(kubelet).terms(30).heeds(firstSidecar),
		"K13: a sidecar that is stopped while its pod goes on":        meshed(firstSidecar, main).heeds(firstSidecar).wait(10).marksMesh().heeds(main),
		"K13: a container that ended by itself":                       meshed(firstSidecar, main).say(runtime, "", history.Exit{ContainerRef: main}).wait(10).marksMesh().heeds(firstSidecar),
		"K13: an ordinary init container takes no part":               mesh(firstSidecar, ordinary).heeds(firstSidecar).heeds(ordinary),
		"K13: a container that had only just been started":            meshed(firstSidecar, main).terms(30).heeds(firstSidecar).heeds(main),
	}
}
