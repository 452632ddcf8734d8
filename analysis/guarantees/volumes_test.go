package guarantees

import "github.com/podfall/podfall/internal/history"

// device is what nodes call the volume v.
const device = "kubernetes.io/csi/disk.example.com^v"

func volumeV(op string) history.Commit {
	return history.Commit{Resource: volumeResource, Key: "v", UID: "uid of v", Op: op, Content: history.Content{Attachments: history.Attachments{Device: device}}}
}

// attachmentTo is an attachment of v to a node.
func attachmentTo(host, op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: attachmentResource, Key: "v-" + host, UID: "uid of v-" + host, Op: op}
	c.Volume, c.Host = "v", host
	for _, f := range change {
		f(&c)
	}
	return c
}

func attached(c *history.Commit)    { c.Attached = true }
func outService(c *history.Commit)  { c.OutOfService = true }
func notReady(c *history.Commit)    { c.Ready = false }
func sharedByAll(c *history.Commit) { c.Shared = true }

// nodeAs is the node n1, which is well unless a change says otherwise.
func nodeAs(op string, change ...func(*history.Commit)) history.Commit {
	c := history.Commit{Resource: nodeResource, Key: "n1", UID: "uid of n1", Op: op}
	c.Ready = true
	for _, f := range change {
		f(&c)
	}
	return c
}

// requestFor is a request about any object.
func requestFor(who, verb string, c history.Commit) history.OpCall {
	return history.OpCall{Identity: who, Verb: verb, Resource: c.Resource, Key: c.Key}
}

// attach has the controllers attach v to a node.
func (b *builder) attach(host string) *builder {
	made, there := attachmentTo(host, added), attachmentTo(host, modified, attached)
	b.request("attach "+host, requestFor(controllers, "create", made), 201, made)
	return b.request("attached "+host, requestFor(controllers, "update", there), 200, there)
}

// detach has a client detach v from n1.
func (b *builder) detach(who string) *builder {
	const host = "n1"
	going := attachmentTo(host, modified, attached, marked(0, b.clock+2))
	b.request("detach "+host, requestFor(who, "delete", going), 200, going)
	gone := attachmentTo(host, deleted, marked(0, b.clock+2))
	return b.request("detached "+host, requestFor(controllers, "update", gone), 200, gone)
}

// mount records that a pod on a node mounts v.
func (b *builder) mount(uid, host string) *builder {
	return b.record("kubelet/"+host, "", history.Mount{UID: uid, Volume: "data", Device: device})
}

// attachedVolume is a pod that runs on n1, with the volume v attached there.
func attachedVolume() *builder {
	b := newBuilder()
	b.request("node", requestFor(node, "create", nodeAs(added)), 201, nodeAs(added))
	b.runPod().request("volume", requestFor(user, "create", volumeV(added)), 201, volumeV(added))
	return b.attach("n1")
}

// changeNode commits a new state of n1.
func (b *builder) changeNode(op string, change ...func(*history.Commit)) *builder {
	return b.request("n1 at "+formatRevision(b.clock), requestFor(controllers, "update", nodeAs(op)), 200, nodeAs(op, change...))
}

// lostVolume has v mounted on n1 when its pod is force-deleted.
func lostVolume() *builder {
	b := attachedVolume().mount(uid, "n1")
	return b.request("force", by(user, "delete", grace(0)), 200, web(modified, marked(0, b.clock+2)), web(deleted, marked(0, b.clock+2)))
}

// moveVolume attaches v to n2 and mounts it in a pod there.
func (b *builder) moveVolume() *builder {
	other := called("default/other", "u2")
	b.request("create other", by(user, "create", func(o *history.OpCall) { o.Key = "default/other" }), 201, web(added, pending, other))
	b.request("bind other", by(controllers, "create"), 201, web(modified, other, func(c *history.Commit) { c.Node, c.Phase = "n2", "Pending" }))
	return b.attach("n2").mount("u2", "n2")
}

// validVolumes returns histories that keep K16.
func validVolumes() map[string]*builder {
	orderly := attachedVolume().mount(uid, "n1").markPod().signalPod("SIGTERM").exitPod()
	orderly.record(kubelet, "", history.Unmount{UID: uid, Volume: "data"}).reportEnd().confirmPod().detach(controllers).moveVolume()
	shared := attachedVolume()
	shared.request("share", requestFor(user, "update", volumeV(modified)), 200, func() history.Commit { c := volumeV(modified); sharedByAll(&c); return c }())
	return map[string]*builder{
		"attached disk": orderly, "shared disk": shared.mount(uid, "n1").moveVolume(),
		"disk of a silent node":       lostVolume().changeNode(modified, notReady).wait(360).detach(controllers).moveVolume(),
		"disk of one that came back":  lostVolume().changeNode(modified, notReady).wait(360).changeNode(modified).detach(controllers).moveVolume(),
		"disk of one out of service":  lostVolume().changeNode(modified, outService).detach(controllers).moveVolume(),
		"disk of a node that is gone": lostVolume().changeNode(deleted).detach(controllers).moveVolume(),
		"disk of before the history":  newBuilder().runPod().mount(uid, "n1").idle(30),
		"disk detached by hand":       attachedVolume().mount(uid, "n1").detach(user),
	}
}

func volumeViolations() []violation {
	unattached := newBuilder().runPod().request("volume", requestFor(user, "create", volumeV(added)), 201, volumeV(added))
	asked := attachmentTo("n1", added)
	unattached.request("attach", requestFor(controllers, "create", asked), 201, asked).mount(uid, "n1")
	inUse := attachedVolume().mount(uid, "n1").changeNode(modified, notReady).wait(400)
	return []violation{
		{"K16", "a volume on two nodes", attachedVolume().attach("n2")},
		{"K16", "a volume that is taken from a node that is well", lostVolume().wait(400).detach(controllers)},
		{"K16", "a volume that is taken from a silent node too early", lostVolume().changeNode(modified, notReady).wait(300).detach(controllers)},
		{"K16", "a volume that is taken from a silent node whose pod is there", inUse.detach(controllers)},
		{"K16", "a volume that is taken from a node that was out of service long ago", lostVolume().changeNode(modified, outService).changeNode(modified).wait(150).detach(controllers)},
		{"K16", "a mount of what is not attached yet", unattached},
		{"K16", "a mount of what is attached elsewhere", attachedVolume().mount(uid, "n1").detach(user).moveVolume()},
	}
}
